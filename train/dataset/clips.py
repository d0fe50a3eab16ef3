"""Validates one clip: recording, length, transcript; why it is rejected.

Called by `train.dataset.dataset`. What decoding a file and reading a text gave is remembered, so
that a second start does neither.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from machine.storage.file_cache import FileCache
from machine.storage.hashes import stamp_of
from train.dataset.entries import LONGEST_SECONDS, TranscriptEntry
from xtts.audio import AudioError, declared_bytes, facts
from xtts.audio import read as read_audio
from xtts.text.errors import TextError

SHORTEST_SECONDS = 0.5
# -60 dB below full scale: nothing that anybody recorded on purpose.
SILENT_PEAK = 1e-3
# Float files may exceed 1.0 a little; a file in units of 16-bit integers peaks at thousands.
LOUDEST_PEAK = 8.0
# A decoder may round the end of a file; what is further from its header was cut off.
LEAST_PRESENT = 0.95
# In the name of the file that remembers sounds: another number where they are judged otherwise.
SOUNDS_VERSION = 1
READABLE = "a readable WAV, FLAC, OGG or MP3 file"


class ClipTokenizer(Protocol):
    """What a dataset asks of `xtts.text.tokenizer.Tokenizer`."""

    max_tokens: int
    fingerprint: str

    @property
    def languages(self) -> Sequence[str]: ...
    def encode(self, text: str, language: str) -> list[int]: ...
    def unknown(self, text: str, language: str) -> list[str]: ...


@dataclass(frozen=True)
class Clip:
    """One training row. seconds: its length; tokens: ids of its text, without START and STOP."""

    name: str
    path: Path
    text: str
    speaker: str
    language: str
    seconds: float
    audio_sha256: str
    tokens: tuple[int, ...]

    @property
    def sha256(self) -> str:
        """Its audio and its transcript, whatever the clip is called."""
        content = "\0".join((self.audio_sha256, self.text, self.speaker, self.language))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class RejectedClip:
    """A clip that is not used: what was seen, and what is allowed."""

    name: str
    seen: str
    allowed: str


@dataclass(frozen=True)
class DecodedClip:
    """A file as it was found: its length and hash, or what is wrong with it."""

    seconds: float = 0.0
    sha256: str = ""
    seen: str = ""
    allowed: str = ""


def decode_clip(entry: TranscriptEntry, sounds: FileCache, longest: float) -> DecodedClip:
    """What the recording of a row is; `longest` in seconds. Decodes it unless it is known."""
    try:
        stamp = stamp_of(entry.path)
    except OSError:
        return DecodedClip(seen=f"no file {entry.path}", allowed=READABLE)
    key = f"{stamp.path}|{stamp.bytes}|{stamp.mtime_ns}"
    known = sounds.get(key)
    if known is None:
        try:
            known = _listened(entry.path)
        except (AudioError, OSError) as error:
            # Not remembered: a disk that failed once may be well again.
            return DecodedClip(seen=str(error), allowed=READABLE)
        sounds.put(key, known)
    sound = DecodedClip(*known)
    if not sound.seen and not SHORTEST_SECONDS <= sound.seconds <= longest:
        return DecodedClip(
            seen=f"{sound.seconds:.2f} s", allowed=f"{SHORTEST_SECONDS} to {longest:.1f} s"
        )
    return sound


def _listened(path: Path) -> tuple[float, str, str, str]:
    """Decodes one file: (seconds, SHA-256, what was seen, what is allowed). Raises AudioError."""
    header = facts(path)
    # Only as much as could be allowed: a header may promise hours.
    most = 2 * LONGEST_SECONDS
    waveform = read_audio(path, header.rate, max_seconds=most)
    seconds = len(waveform) / header.rate
    promised = min(header.seconds, most)
    declared, size = declared_bytes(path), path.stat().st_size
    if seconds < LEAST_PRESENT * promised:
        return seconds, "", f"{seconds:.2f} s of the {promised:.2f} s promised", "a whole file"
    if declared is not None and size < LEAST_PRESENT * declared:
        return seconds, "", f"{size} of the {declared} bytes promised", "a whole file"
    peak = float(waveform.abs().max())
    if peak < SILENT_PEAK:
        return seconds, "", f"silence (peak {peak:.1e})", f"a peak above {SILENT_PEAK:g}"
    if peak > LOUDEST_PEAK:
        return seconds, "", f"a peak of {peak:.1e}", "samples from -1 to 1"
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return max(seconds, header.seconds), digest, "", ""


def check_clip(
    entry: TranscriptEntry, sound: DecodedClip, texts: FileCache, tokenizer: ClipTokenizer
) -> Clip | RejectedClip:
    """The clip of a row, or why it has none.

    Raises TextError for a language whose extra package is not installed: no row could be read.
    """
    if sound.seen:
        return RejectedClip(entry.name, sound.seen, sound.allowed)
    key = f"{entry.language}|{entry.text}"
    known = texts.get(key)
    if known is None:
        known = _tokenised(entry, tokenizer)
        texts.put(key, known)
    if known[1]:
        return RejectedClip(entry.name, known[1], known[2])
    return Clip(
        entry.name, entry.path, entry.text, entry.speaker, entry.language, sound.seconds,
        sound.sha256, tuple(known[0]),
    )  # fmt: skip


def _tokenised(entry: TranscriptEntry, tokenizer: ClipTokenizer) -> tuple[list[int], str, str]:
    """(ids, what was seen, what is allowed)."""
    if not entry.text.strip():
        return [], "an empty text", "what is spoken in the clip"
    try:
        unknown = tokenizer.unknown(entry.text, entry.language)
        tokens = [] if unknown else tokenizer.encode(entry.text, entry.language)
    except TextError as error:
        if isinstance(error.__cause__, ImportError):
            raise
        return [], str(error), "text that the model can read"
    if unknown:
        seen = "unknown characters " + " ".join(repr(piece) for piece in unknown[:8])
        return [], seen, "characters of the vocabulary"
    if len(tokens) > tokenizer.max_tokens:
        return [], f"{len(tokens)} tokens of text", f"at most {tokenizer.max_tokens}"
    return tokens, "", ""
