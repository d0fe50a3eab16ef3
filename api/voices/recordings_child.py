"""The decoding child: a recording from stdin, a mono WAV to stdout, its quality as JSON to the last
line of stderr, under rlimits.

Arguments: the most seconds, and for what FFmpeg reads its container (`api.voices.recordings_av`).
Exit 3 with a sentence there for what is no usable recording, 4 for one that takes more memory
than it may, 5 where this process could not even begin. It imports no torch.
"""

import io
import json
import resource
import sys
import wave
from typing import TYPE_CHECKING, Any

from machine.memory import address_space_bytes

if TYPE_CHECKING:
    from api.voices.recordings_av import Container

REFUSED, NO_MEMORY, NOT_STARTED = 3, 4, 5
# Beyond what the process has before it reads: its libraries take what the machine makes them take.
# A minute of 8 channels at 192 kHz, the largest that is read, decodes into 370 MB.
MEMORY_BYTES = 1 << 30
_CPU_SECONDS = 5
_RATES = range(8_000, 192_001, 25)
_LEAST_SECONDS = 1.0
_SILENT = 1e-3


def main() -> int:
    """Reads, judges, writes."""
    most_seconds, by_av = float(sys.argv[1]), sys.argv[2:3]
    try:
        _import_all(bool(by_av))
    except (ImportError, OSError, MemoryError) as error:
        sys.stderr.write(str(error))
        return NOT_STARTED
    _limit()
    try:
        wav, measured = decoded(sys.stdin.buffer.read(), most_seconds, *by_av)  # type: ignore[arg-type]
    except ValueError as error:
        _tell(str(error))
        return REFUSED
    except (MemoryError, ImportError):
        # No library is mapped where the address space is used up, and none was missing before.
        return NO_MEMORY
    sys.stdout.buffer.write(wav)
    _tell(json.dumps(measured))
    return 0


def _tell(line: str) -> None:
    """The last line of stderr: libmpg123 has written warnings there by now."""
    sys.stderr.write(f"\n{' '.join(line.splitlines())}\n")


def _import_all(by_av: bool) -> None:
    """Before the limits, so that only the recording is measured by them: also what these import by
    themselves once they are used."""
    import numpy.fft
    import numpy.ma  # noqa: F401
    import soundfile  # noqa: F401

    from api.voices import quality  # noqa: F401

    if by_av:
        import av.subtitles.stream  # noqa: F401

        from api.voices import recordings_av  # noqa: F401


def decoded(
    data: bytes, most_seconds: float, container: "Container | None" = None
) -> tuple[bytes, dict[str, Any]]:
    """The recording as a WAV, and its quality. container: FFmpeg's name of it, for what `av` reads.
    Raises ValueError with a sentence."""
    import numpy as np

    from api.voices.quality import measure

    if container:
        from api.voices.recordings_av import read_mono

        mono, rate = read_mono(data, container, most_seconds)
        _check(rate, len(mono), 1, most_seconds)
    else:
        mono, rate = _by_soundfile(data, most_seconds)
    if not np.isfinite(mono).all():
        raise ValueError("It holds non-finite values (NaN or infinite).")
    if len(mono) < _LEAST_SECONDS * rate:
        raise ValueError(
            f"It is {len(mono) / rate:.2f} s long; a voice needs at least {_LEAST_SECONDS:g} s, "
            "and 6 to 30 s are better."
        )
    if np.abs(mono).max() < _SILENT:
        raise ValueError("It is silent: no sample is above -60 dB.")
    quality = measure(mono, rate).as_dict()
    return _wav((mono.clip(-1.0, 1.0) * 32767).round().astype("<i2").tobytes(), rate), quality


def _by_soundfile(data: bytes, most_seconds: float) -> tuple[Any, int]:
    """Samples `[n]`, float32, -1..1, and how many make a second."""
    import numpy as np
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            rate, frames, channels = file.samplerate, file.frames, file.channels
            _check(rate, frames, channels, most_seconds)
            # One more than may be: a header may say less than there is.
            most = int(most_seconds * rate)
            sound = file.read(most + 1, dtype="float32", always_2d=True)
    except (RuntimeError, OSError, TypeError) as error:
        words = str(getattr(error, "error_string", error)).splitlines()[0:1]
        raise ValueError(f"It cannot be decoded ({' '.join(words).rstrip('.')}).") from error
    if len(sound) > most:
        raise ValueError(f"It is longer than {most_seconds:g} s. Cut 6 to 30 s of clear speech.")
    return sound.mean(axis=1, dtype=np.float32), rate


def _check(rate: int, frames: int, channels: int, most_seconds: float) -> None:
    """What the header says, before anything is decoded; or what was found, where it says none."""
    if rate not in _RATES:
        raise ValueError(
            f"It has {rate} samples a second. Allowed are {_RATES[0]} to {_RATES[-1]} in steps of "
            f"{_RATES.step}, such as 22050."
        )
    if channels > 8:
        raise ValueError(f"It has {channels} channels; at most 8 are read.")
    if frames > most_seconds * rate:
        raise ValueError(
            f"It is {frames / rate:,.0f} s long; at most {most_seconds:g} s are read. Cut 6 to "
            "30 s of clear speech."
        )


def _wav(pcm: bytes, rate: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm)
    return out.getvalue()


def _limit() -> None:
    most = address_space_bytes() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # The hard limit is a second later: at it comes SIGKILL, which could be anybody's.
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + _CPU_SECONDS, used + _CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # It writes to its pipes only.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
