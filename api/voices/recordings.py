"""Decodes an uploaded recording in a child; how large and how long one recording may be.

250 kB of FLAC can hold an hour of silence, and decoders have had overflows, so the child has
little memory and little time, and may crash (`api.voices.recordings_child`).
"""

import asyncio
import io
import json
import logging
import os
import signal
import sys
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from api.errors import APIError
from api.voices.recordings_child import MEMORY_BYTES, NO_MEMORY, NOT_STARTED, REFUSED
from machine import commands
from machine.process import kill_group
from machine.threads import ONE_THREAD
from xtts import encoding

log = logging.getLogger("api")

MOST_BYTES = 20 << 20
MOST_SECONDS = 60.0
LEAST_SECONDS = 1.0
WALL_SECONDS = 10.0
COMMAND = (sys.executable, "-m", "api.voices.recordings_child", str(MOST_SECONDS))
_KINDS = (b"RIFF", b"fLaC", b"OggS", b"ID3")
_RETRY_SECONDS = 5


def missing_decoder() -> str:
    """The refusal of m4a, aac and webm without FFmpeg's decoder."""
    return (
        "m4a, aac and webm are read by FFmpeg's decoder, which is not installed here. Install it "
        f"with `{commands.install_extra('aac')}` and start the service again, or convert the file "
        "to WAV, FLAC, OGG or MP3."
    )


@dataclass(frozen=True)
class DecodedRecording:
    """wav: a file of 16-bit mono PCM; quality: as `api.schemas.VoiceQuality`."""

    wav: bytes
    seconds: float
    quality: Mapping[str, Any]


async def decoded(data: bytes) -> DecodedRecording:
    """Decodes a recording. Raises APIError: 422 if it is unusable, 503 if memory is short."""
    out, told = await in_child(data, COMMAND, WALL_SECONDS)
    with wave.open(io.BytesIO(out)) as file:
        return DecodedRecording(out, file.getnframes() / file.getframerate(), json.loads(told))


async def in_child(data: bytes, command: Sequence[str], wall_seconds: float) -> tuple[bytes, str]:
    """Runs a child on a recording; returns its stdout, and the last line of its stderr.

    Args:
        data: The file, which is sent to the child's stdin.
        command: As `recordings_child` describes it, without the container.

    Raises:
        APIError: As `decoded`.
    """
    by_av = container_of(data)
    if by_av is None and not data.startswith(_KINDS) and not _is_mp3(data):
        text = (
            "This is not a WAV, FLAC, OGG, MP3, M4A, AAC or WebM file. Convert it to one of them."
        )
        raise APIError(422, "not_a_recording", text, param="file")
    if by_av and not encoding.aac_is_installed():
        raise APIError(422, "unsupported", missing_decoder(), param="file")
    whole = (*command, *([by_av] if by_av else []))
    code, out, errors = await _ran(data, whole, wall_seconds)
    stderr = errors.decode(errors="replace").strip()
    if code != 0:
        raise _refusal(code, stderr)
    return out, _last_line(stderr)


def _last_line(stderr: str) -> str:
    """The child's own line; decoding libraries may write to stderr before it."""
    return stderr.rpartition("\n")[2]


def container_of(data: bytes) -> Literal["mov", "matroska", "aac"] | None:
    """FFmpeg's name for the container, by the file's first bytes; None for other formats.

    Sources: ISO 14496-12, 4.3 (ftyp); RFC 8794, 11.2.1 (EBML); ISO 13818-7, 6.2 (ADTS).
    """
    if data[4:8] == b"ftyp":
        return "mov"
    if data.startswith(b"\x1a\x45\xdf\xa3"):
        return "matroska"
    is_adts = len(data) > 2 and data[0] == 0xFF and data[1] & 0xF6 == 0xF0
    return "aac" if is_adts else None


def _is_mp3(data: bytes) -> bool:
    """Whether the file begins with a frame of MPEG Layer III, without a tag."""
    return len(data) > 2 and data[0] == 0xFF and data[1] & 0xE6 == 0xE2


async def _ran(
    data: bytes, command: Sequence[str], wall_seconds: float
) -> tuple[int, bytes, bytes]:
    """Runs a child and ends its process group; returns its exit code, stdout and stderr."""
    try:
        child = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
            env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
    except OSError as error:
        log.error("The decoder of recordings cannot start: %s", error)
        raise _refusal(NOT_STARTED, "") from error
    try:
        out, errors = await asyncio.wait_for(child.communicate(data), wall_seconds)
    except TimeoutError:
        raise _refusal(-signal.SIGXCPU, "") from None
    finally:
        kill_group(child.pid)
        await child.wait()
    assert child.returncode is not None
    return child.returncode, out, errors


def _refusal(code: int, stderr: str) -> APIError:
    """The refusal of an upload whose decoder failed. code: its exit code, or minus the signal.

    Pure, except that it logs failures that are not the recording's fault.
    """
    if code in (NOT_STARTED, -signal.SIGKILL):
        log.error("The decoder of recordings ended with %d. %s", code, stderr[-500:])
        text = (
            "The decoder of recordings could not run, probably because the service's machine is "
            "short of memory. Send the recording again later."
        )
        return APIError(503, "no_decoder", text, retry_after=_RETRY_SECONDS)
    most = f"{MEMORY_BYTES >> 20:,} MB of memory"
    known = {
        REFUSED: _last_line(stderr),
        NO_MEMORY: f"It could not be decoded within the limit of {most}. "
        "Send one channel at 48 kHz or less.",
        -signal.SIGXCPU: "It could not be decoded within the time limit.",
    }
    if code not in known:
        # The cause of a crash is unknown. A decoder that is short of memory ends with NO_MEMORY,
        # unless its library overlooks a failed allocation.
        log.warning("The decoder of recordings ended with %d. %s", code, stderr[-500:])
    crashed = (
        "The decoder crashed: the file is damaged, or malicious, or needs far more than "
        f"{most}. Convert it to a WAV file with one channel."
    )
    return APIError(422, "not_a_recording", known.get(code, crashed), param="file")
