"""Decodes an uploaded recording in a child, and joins several into one reference.

250 kB of FLAC can hold an hour of silence, and decoders have had overflows, so the child has
little memory and little time, and may crash (`api.voices.recordings_child`). Its WAV files are
joined in the service process, without torch; the reference switches between them
(`xtts.joined_reference`).
"""

import asyncio
import io
import json
import logging
import math
import os
import signal
import sys
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from api.errors import APIError
from api.voices.recordings_child import MEMORY_BYTES, NO_MEMORY, NOT_STARTED, REFUSED
from api.voices.samples import GOOD_LEVEL_DB, Array, measure, read_wav, remarks_of, resampled, wav_of
from machine import commands
from machine.process import kill_group
from machine.storage.files import JsonObject
from machine.threads import ONE_THREAD
from xtts.joined_reference import join, turn_seconds
from xtts.sound_endings import av_is_installed

log = logging.getLogger("api")

MAX_BYTES = 20 << 20
MAX_SECONDS = 60.0
# The time limit of the child.
WALL_SECONDS = 10.0
COMMAND = (sys.executable, "-m", "api.voices.recordings_child", str(MAX_SECONDS))
# The first bytes of WAV, RF64, FLAC, OGG, MP3, AIFF, CAF, AU and Wave64.
_MAGIC_BYTES = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"ID3", b"FORM", b"caff", b".snd", b"riff")
_RETRY_SECONDS = 5
# The model is not known at upload time. 2 s divide the conditioning chunks of all known models (4 s
# in XTTS-v2's config, 6 s in Coqui's defaults, 2 s in the demo voice's), so each chunk holds whole
# turns.
CHUNK_SECONDS = 2.0
# The demo voice uses the first 10 s, less than the others: with more than five recordings a turn is
# 1 s, so that these 10 s include each of them.
HEARD_SECONDS = 10.0
# Models use 22,050 Hz. Ten minutes at 48 kHz take 115 MB of memory.
_MAX_RATE = 48_000


def missing_decoder_message() -> str:
    """The refusal of m4a, aac and webm without FFmpeg's decoder."""
    return (
        "m4a, aac and webm are read by FFmpeg's decoder, which is not installed here. Install it "
        f"with `{commands.install_extra('aac')}` and start the service again, or convert the file "
        "to WAV, FLAC, OGG or MP3."
    )


@dataclass(frozen=True)
class DecodedRecording:
    """A recording as voices store it.

    Attributes:
        wav: A WAV file of 16-bit mono PCM.
        quality: The fields of `api.schemas.VoiceQuality`.
    """

    wav: bytes
    seconds: float
    quality: JsonObject


async def decode(data: bytes) -> DecodedRecording:
    """Decodes a recording. Raises APIError: 422 if it is unusable, 503 if memory is short."""
    wav, quality = await decode_in_child(data, COMMAND, WALL_SECONDS)
    with wave.open(io.BytesIO(wav)) as file:
        return DecodedRecording(wav, file.getnframes() / file.getframerate(), json.loads(quality))


async def decode_in_child(data: bytes, command: Sequence[str], wall_seconds: float) -> tuple[bytes, str]:
    """Runs a child on a recording; returns its stdout, and the last line of its stderr.

    Args:
        data: The file, which is sent to the child's stdin.
        command: As `recordings_child` describes it, without the container.

    Raises:
        APIError: As `decode`.
    """
    container = container_of(data)
    if container is None and not data.startswith(_MAGIC_BYTES) and not _is_mp3(data):
        text = (
            "This is not a WAV, FLAC, OGG, MP3, AIFF, CAF, M4A, AAC or WebM file. Convert it to one of them."
        )
        raise APIError(422, "not_a_recording", text, param="file")
    if container and not av_is_installed():
        raise APIError(422, "unsupported", missing_decoder_message(), param="file")
    result = await _run(data, (*command, *([container] if container else [])), wall_seconds)
    stderr = result.stderr.decode(errors="replace").strip()
    if result.code != 0:
        raise _refusal(result.code, stderr)
    return result.stdout, _last_line(stderr)


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


class _ChildResult(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes


async def _run(data: bytes, command: Sequence[str], wall_seconds: float) -> _ChildResult:
    """Runs a child and ends its process group."""
    try:
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **ONE_THREAD},
        )
    except OSError as error:
        log.error("The decoder of recordings cannot start: %s", error)
        raise _refusal(NOT_STARTED, "") from error
    try:
        stdout, stderr = await asyncio.wait_for(child.communicate(data), wall_seconds)
    except TimeoutError:
        raise _refusal(-signal.SIGXCPU, "") from None
    finally:
        kill_group(child.pid)
        await child.wait()
    assert child.returncode is not None
    return _ChildResult(child.returncode, stdout, stderr)


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
    limit = f"{MEMORY_BYTES >> 20:,} MB of memory"
    reasons = {
        REFUSED: _last_line(stderr),
        NO_MEMORY: f"It could not be decoded within the limit of {limit}. "
        "Send one channel at 48 kHz or less.",
        -signal.SIGXCPU: "It could not be decoded within the time limit.",
    }
    if code not in reasons:
        # The cause of a crash is unknown. A decoder that is short of memory ends with NO_MEMORY,
        # unless its library overlooks a failed allocation.
        log.warning("The decoder of recordings ended with %d. %s", code, stderr[-500:])
    crashed = (
        "The decoder crashed: the file is damaged, or malicious, or needs far more than "
        f"{limit}. Convert it to a WAV file with one channel."
    )
    return APIError(422, "not_a_recording", reasons.get(code, crashed), param="file")


def join_recordings(recordings: Sequence[bytes]) -> DecodedRecording:
    """Joins several 16-bit mono WAV files into one of at most a minute, at their highest rate up to
    48 kHz. Remarks name a recording by its number.

    Raises APIError (422) if the result contains no speech.
    """
    decoded = [read_wav(recording) for recording in recordings]
    rate = min(max(rate for _, rate in decoded), _MAX_RATE)
    same_rate = [resampled(samples, own_rate, rate) for samples, own_rate in decoded]
    turn = turn_seconds(len(same_rate), CHUNK_SECONDS, HEARD_SECONDS)
    joined = join(same_rate, rate, turn, MAX_SECONDS)
    try:
        quality = measure(joined, rate)
    except ValueError as error:
        raise APIError(422, "not_a_recording", f"Joined: {error}", param="file") from error
    return DecodedRecording(wav_of(joined, rate), len(joined) / rate, _with_remarks(quality, same_rate, rate))


def _with_remarks(quality: JsonObject, recordings: Sequence[Array], rate: int) -> JsonObject:
    """The quality of the joined recording, with remarks on single ones; only their total length
    counts."""
    remarks = [
        f"Recording {number}: {remark}"
        for number, samples in enumerate(recordings, start=1)
        for remark in _remarks(samples, rate)
    ]
    if not remarks:
        return quality
    length_remarks = remarks_of(quality["speech_seconds"], math.inf, GOOD_LEVEL_DB, 0.0)
    word = "usable" if quality["word"] == "good" else quality["word"]
    return quality | {"word": word, "remarks": [*length_remarks, *remarks]}


def _remarks(samples: Array, rate: int) -> list[str]:
    try:
        quality = measure(samples, rate)
    except ValueError as error:  # stored by an earlier, less strict version
        return [str(error)]
    return remarks_of(math.inf, quality["snr_db"], quality["level_db"], quality["clipped_share"])
