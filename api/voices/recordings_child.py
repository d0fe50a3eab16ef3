"""The decoding child: reads a recording from stdin and writes a mono WAV to stdout, under rlimits.

The last line of stderr is the recording's quality as JSON.
Arguments: the maximum number of seconds, and the container if FFmpeg reads it
(`api.voices.decoding`).
Exit code 3: the recording is not usable; the last line of stderr says why. Exit code 4: it needs
more memory than the limit. Exit code 5: this process could not start. It imports no torch.
"""

import json
import resource
import sys
from collections.abc import Callable

from machine.memory import address_space_bytes
from machine.storage.files import JsonObject

REFUSED, NO_MEMORY, NOT_STARTED = 3, 4, 5
# In addition to the process before it reads, whose libraries differ in size between machines. The
# largest allowed recording, a minute of 8 channels at 192 kHz, decodes into 370 MB.
MEMORY_BYTES = 1 << 30
_CPU_SECONDS = 5


def main() -> int:
    """Decodes stdin to stdout; returns the exit code."""
    max_seconds, container = float(sys.argv[1]), sys.argv[2:3]

    def decode_stdin(data: bytes) -> tuple[bytes, JsonObject]:
        from api.voices.decoding import decode

        return decode(data, max_seconds, *container)

    return run_limited(lambda: import_all(bool(container)), decode_stdin, _CPU_SECONDS)


def run_limited(
    prepare: Callable[[], None], convert: Callable[[bytes], tuple[bytes, JsonObject]], cpu_seconds: int
) -> int:
    """Converts stdin to a WAV file and JSON about it, under limits; returns the exit code.

    Args:
        prepare: Imports and opens, before the limits apply, everything that `convert` uses.
        convert: Raises ValueError, with a message for the user, to refuse the recording.
    """
    try:
        prepare()
    except (ImportError, OSError, MemoryError) as error:
        sys.stderr.write(str(error))
        return NOT_STARTED
    _apply_limits(cpu_seconds)
    try:
        wav, description = convert(sys.stdin.buffer.read())
    except ValueError as error:
        _write_last_line(str(error))
        return REFUSED
    except (MemoryError, ImportError):
        # ImportError too: without address space no library can be mapped. None was missing before.
        return NO_MEMORY
    sys.stdout.buffer.write(wav)
    _write_last_line(json.dumps(description))
    return 0


def _write_last_line(line: str) -> None:
    """Writes the last line of stderr, below any warnings of libmpg123."""
    sys.stderr.write(f"\n{' '.join(line.splitlines())}\n")


def import_all(with_av: bool) -> None:
    """Imports everything that decoding uses, including lazy imports, so that the limits apply only
    to the recording."""
    import numpy.fft
    import numpy.ma  # noqa: F401

    from api.voices import decoding  # noqa: F401

    if with_av:
        import av.subtitles.stream  # noqa: F401


def _apply_limits(cpu_seconds: int) -> None:
    max_bytes = address_space_bytes() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    # The hard limit is a second later: it sends SIGKILL, which can have other causes.
    used_seconds = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used_seconds + cpu_seconds, used_seconds + cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # It writes to its pipes only.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
