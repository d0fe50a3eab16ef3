"""Decodes an uploaded recording in a child process with limits on memory and time.

250 kB of FLAC can hold an hour of silence, and decoders have had overflows: so the child has
little memory, little time, and nothing to lose (`api.voices.recordings_child`).
"""

import asyncio
import io
import logging
import os
import signal
import sys
import wave
from dataclasses import dataclass

from api.errors import APIError
from api.voices.recordings_child import NO_MEMORY, NOT_STARTED, REFUSED
from machine.process import kill_group

log = logging.getLogger("api")

MOST_BYTES = 20 << 20
MOST_SECONDS = 60.0
LEAST_SECONDS = 1.0
WALL_SECONDS = 10.0
COMMAND = (sys.executable, "-m", "api.voices.recordings_child", str(MOST_SECONDS))
_KINDS = {b"RIFF": "WAV", b"fLaC": "FLAC", b"OggS": "OGG"}
# Each thread of a linear-algebra library reserves tens of MB when numpy is imported: 2.7 GB of
# address space on 64 cores. Nothing here multiplies matrices.
_THREAD_SETTINGS = ("OPENBLAS", "OMP", "MKL", "BLIS")
_ONE_THREAD = dict.fromkeys((f"{library}_NUM_THREADS" for library in _THREAD_SETTINGS), "1")
_RETRY_SECONDS = 5


@dataclass(frozen=True)
class DecodedRecording:
    """wav: 16-bit PCM, mono, whole."""

    wav: bytes
    seconds: float


async def decoded(data: bytes) -> DecodedRecording:
    """Raises APIError: 422 says what is wrong with it, 503 that this machine is short of memory."""
    if data[:4] not in _KINDS:
        text = "This is no WAV, FLAC or OGG file. Convert it to one of them."
        raise APIError(422, "not_a_recording", text, param="file")
    code, out, errors = await _decode(data)
    if code != 0:
        raise _refusal(code, errors.decode(errors="replace"))
    with wave.open(io.BytesIO(out)) as file:
        return DecodedRecording(out, file.getnframes() / file.getframerate())


async def _decode(data: bytes) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of a child, which is gone afterwards with all it started."""
    try:
        child = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
            env={**os.environ, **_ONE_THREAD},
        )  # fmt: skip
    except OSError as error:
        log.error("The decoder of recordings cannot be started: %s", error)
        raise _refusal(NOT_STARTED, "") from error
    try:
        out, errors = await asyncio.wait_for(child.communicate(data), WALL_SECONDS)
    except TimeoutError:
        raise _refusal(-signal.SIGXCPU, "") from None
    finally:
        kill_group(child.pid)
        await child.wait()
    assert child.returncode is not None
    return child.returncode, out, errors


def _refusal(code: int, said: str) -> APIError:
    """What the end of a decoder means to whoever uploaded. code: its exit code, or minus a signal.

    Pure but for the log, which gets what is no fault of the recording.
    """
    if code == REFUSED:
        return APIError(422, "not_a_recording", said, param="file")
    if code == NO_MEMORY:
        text = (
            "Decoding it takes more memory than a recording may. Send one channel at 48,000 "
            "samples a second or fewer."
        )
        return APIError(422, "not_a_recording", text, param="file")
    if code == -signal.SIGXCPU:
        text = "It could not be decoded in time."
        return APIError(422, "not_a_recording", text, param="file")
    if code in (NOT_STARTED, -signal.SIGKILL):
        log.error("The decoder of recordings ended with %d. %s", code, said.strip()[-500:])
        text = (
            "The decoder of recordings could not run: most likely the service's machine is short "
            "of memory. The recording was not judged; send it again later."
        )
        return APIError(503, "no_decoder", text, retry_after=_RETRY_SECONDS)
    text = "Its decoder failed at it: it is damaged, or made to do harm."
    return APIError(422, "not_a_recording", text, param="file")
