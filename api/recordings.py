"""An upload -> a recording that can be trusted: decoded in a child with limits, never here.

250 kB of FLAC can hold an hour of silence, and decoders have had overflows: so the child has
little memory, little time, and nothing to lose (`api.recordings_child`).
"""

import asyncio
import contextlib
import io
import os
import signal
import sys
import wave
from dataclasses import dataclass

from api.errors import Refusal

MOST_BYTES = 20 << 20
MOST_SECONDS = 60.0
LEAST_SECONDS = 1.0
WALL_SECONDS = 10.0
_KINDS = {b"RIFF": "WAV", b"fLaC": "FLAC", b"OggS": "OGG"}


@dataclass(frozen=True)
class Recording:
    """wav: 16-bit PCM, mono, whole."""

    wav: bytes
    seconds: float


async def decoded(data: bytes) -> Recording:
    """Raises Refusal (422, 413) saying what is wrong with it."""
    if data[:4] not in _KINDS:
        text = "This is no WAV, FLAC or OGG file. Convert it to one of them."
        raise Refusal(422, "not_a_recording", text, param="file")
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "api.recordings_child", str(MOST_SECONDS),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = await asyncio.wait_for(child.communicate(data), WALL_SECONDS)
    except TimeoutError:
        text = "It could not be decoded in time."
        raise Refusal(422, "not_a_recording", text, param="file") from None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()
    if child.returncode == 3:
        raise Refusal(422, "not_a_recording", errors.decode(errors="replace"), param="file")
    if child.returncode != 0:
        text = "Its decoder failed at it: it is damaged, or made to do harm."
        raise Refusal(422, "not_a_recording", text, param="file")
    with wave.open(io.BytesIO(out)) as file:
        return Recording(out, file.getnframes() / file.getframerate())
