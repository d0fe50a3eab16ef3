"""The decoding child: reads a recording from stdin and writes a mono WAV to stdout, under rlimits.

The last line of stderr is the recording's quality as JSON.
Arguments: the maximum number of seconds, and the container for what FFmpeg reads
(`api.voices.decoding`).
Exit code 3: the recording is not usable; the last line of stderr says why. Exit code 4: it needs
more memory than the limit. Exit code 5: this process could not start. It imports no torch.
"""

import json
import resource
import sys
from collections.abc import Callable
from typing import Any

from machine.memory import address_space_bytes

REFUSED, NO_MEMORY, NOT_STARTED = 3, 4, 5
# Beyond what the process has before it reads: its libraries take what the machine makes them take.
# A minute of 8 channels at 192 kHz, the largest that is read, decodes into 370 MB.
MEMORY_BYTES = 1 << 30
_CPU_SECONDS = 5


def main() -> int:
    """Reads, judges, writes."""
    most_seconds, by_av = float(sys.argv[1]), sys.argv[2:3]

    def make(data: bytes) -> tuple[bytes, dict[str, Any]]:
        from api.voices.decoding import decoded

        return decoded(data, most_seconds, *by_av)  # type: ignore[arg-type]

    return limited(lambda: import_all(bool(by_av)), make, _CPU_SECONDS)


def limited(
    prepare: Callable[[], None],
    make: Callable[[bytes], tuple[bytes, dict[str, Any]]],
    cpu_seconds: int,
) -> int:
    """Makes a WAV and figures of stdin, under limits; returns the exit code.

    Args:
        prepare: Imports and opens, before the limits, what `make` uses.
        make: Raises ValueError with a sentence for what is refused.
    """
    try:
        prepare()
    except (ImportError, OSError, MemoryError) as error:
        sys.stderr.write(str(error))
        return NOT_STARTED
    _limit(cpu_seconds)
    try:
        wav, measured = make(sys.stdin.buffer.read())
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


def import_all(by_av: bool) -> None:
    """Before the limits, so that only the recording is measured by them: also what these import by
    themselves once they are used."""
    import numpy.fft
    import numpy.ma  # noqa: F401

    from api.voices import decoding  # noqa: F401

    if by_av:
        import av.subtitles.stream  # noqa: F401


def _limit(cpu_seconds: int) -> None:
    most = address_space_bytes() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # The hard limit is a second later: at it comes SIGKILL, which could be anybody's.
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + cpu_seconds, used + cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # It writes to its pipes only.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
