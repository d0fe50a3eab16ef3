"""The clips that a run learns from: every one looked at before step 1, every refusal with a reason.

`read` is what the trainer, `check` and `prepare` share. What a file or a text turned out to be is
remembered in the cache folder, so that a second start decodes nothing.
"""

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from train.metadata import DatasetError, Entry, read_entries
from train.remembered import Remembered
from train.settings import TrainSettings
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, AudioError, facts
from xtts.audio import read as read_audio
from xtts.sizes import GPTShape
from xtts.text import TextError

SHORTEST_SECONDS = 0.5
# Coqui's max_wav_length: 255,995 samples.
LONGEST_SECONDS = 11.6
# -60 dB below full scale: nothing that anybody recorded on purpose.
SILENT_PEAK = 1e-3
VALIDATION_SHARE = 0.05
MOST_VALIDATION_CLIPS = 64
FEWEST_CLIPS_TO_SPLIT = 8


class Tokenizer(Protocol):
    """What a dataset asks of `xtts.text.Tokenizer`."""

    max_tokens: int
    fingerprint: str

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
        """What is heard and what is read in it, whatever it is called."""
        content = "\0".join((self.audio_sha256, self.text, self.speaker, self.language))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class Refused:
    """A clip that is not used: what was seen, and what is allowed."""

    name: str
    seen: str
    allowed: str


@dataclass(frozen=True)
class Dataset:
    """clips: what is used; train and validation: indices into it; refused: what is not, and why."""

    clips: tuple[Clip, ...]
    refused: tuple[Refused, ...]
    train: tuple[int, ...]
    validation: tuple[int, ...]

    @property
    def sha256(self) -> str:
        """The same for the same clips with the same texts, whatever their order and names."""
        contents = sorted(clip.sha256 for clip in self.clips)
        return hashlib.sha256("".join(contents).encode()).hexdigest()

    def minutes(self, indices: Iterable[int]) -> float:
        """Length of these clips together."""
        return sum(self.clips[index].seconds for index in indices) / 60

    def report(self) -> str:
        """The table of refused clips and the totals, for a person."""
        lines = list(_table(self.refused))
        lines.append(
            f"Dataset: {len(self.train)} clips, {self.minutes(self.train):.1f} min to learn from; "
            f"{len(self.validation)} clips, {self.minutes(self.validation):.1f} min to validate; "
            f"{len(self.refused)} refused."
        )
        return "\n".join(lines)


def read(settings: TrainSettings, tokenizer: Tokenizer, shape: GPTShape) -> Dataset:
    """Reads the transcript, judges every clip and splits.

    Raises DatasetError for a transcript of the wrong form, and when no clip is left.
    """
    entries = read_entries(settings.dataset_dir, settings.dataset_format, settings.language)
    longest = min(LONGEST_SECONDS, shape.max_codes * SAMPLES_PER_CODE / CODE_RATE)
    sounds = Remembered(settings.cache_dir / "sounds.json")
    texts = Remembered(settings.cache_dir / f"texts-{tokenizer.fingerprint[:16]}.json")
    with ThreadPoolExecutor() as pool:  # decoding leaves the interpreter's lock
        heard = list(pool.map(lambda entry: _heard(entry, sounds, longest), entries))
    judged = [
        _judged(entry, sound, texts, tokenizer) for entry, sound in zip(entries, heard, strict=True)
    ]
    sounds.save()
    texts.save()
    refused = tuple(one for one in judged if isinstance(one, Refused))
    used = {entry.name: one for entry, one in zip(entries, judged, strict=True)
            if isinstance(one, Clip)}  # fmt: skip
    if not used:
        table = "\n".join(_table(refused))
        raise DatasetError(f"{table}\nNo clip of {settings.dataset_dir} can be used.")
    told = {entry.name for entry in entries if entry.validation}
    return split(list(used.values()), refused, told, settings.max_train_samples)


def split(
    clips: Sequence[Clip],
    refused: tuple[Refused, ...],
    told: set[str],
    max_train_samples: int | None,
) -> Dataset:
    """Which clips validate: those the dataset names (`told`), else 5 % by their content.

    The order of rows decides nothing; a speaker keeps at least one clip to learn from. Then the
    first `max_train_samples` of the others, in the order of the transcript.
    """
    held_out = told or _by_content(clips)
    train = [clip for clip in clips if clip.name not in held_out][:max_train_samples]
    validation = [clip for clip in clips if clip.name in held_out]
    if not train:
        raise DatasetError("Every usable clip is a validation clip; add clips to learn from.")
    count = len(train)
    return Dataset(
        clips=(*train, *validation),
        refused=refused,
        train=tuple(range(count)),
        validation=tuple(range(count, count + len(validation))),
    )


def _by_content(clips: Sequence[Clip]) -> set[str]:
    if len(clips) < FEWEST_CLIPS_TO_SPLIT:
        return set()
    wanted = min(MOST_VALIDATION_CLIPS, max(1, round(len(clips) * VALIDATION_SHARE)))
    left: dict[str, int] = {}
    for clip in clips:
        left[clip.speaker] = left.get(clip.speaker, 0) + 1
    chosen: set[str] = set()
    for clip in sorted(clips, key=lambda clip: clip.sha256):
        if len(chosen) < wanted and left[clip.speaker] > 1:
            chosen.add(clip.name)
            left[clip.speaker] -= 1
    return chosen


@dataclass(frozen=True)
class _Sound:
    """A file as it was found: its length and hash, or what is wrong with it."""

    seconds: float = 0.0
    sha256: str = ""
    seen: str = ""
    allowed: str = ""


def _heard(entry: Entry, sounds: Remembered, longest: float) -> _Sound:
    try:
        status = entry.path.stat()
    except OSError:
        return _Sound(seen=f"no file {entry.path}", allowed="a WAV, FLAC, OGG or MP3 file")
    key = f"{entry.path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
    known = sounds.get(key)
    if known is None:
        known = _listened(entry.path)
        sounds.put(key, known)
    sound = _Sound(*known)
    length = f"{sound.seconds:.2f} s"
    if not sound.seen and not SHORTEST_SECONDS <= sound.seconds <= longest:
        return _Sound(seen=length, allowed=f"{SHORTEST_SECONDS} to {longest:.1f} s")
    return sound


def _listened(path: Path) -> list[str | float]:
    """Decodes one file: [seconds, SHA-256, what was seen, what is allowed]."""
    readable = "a readable WAV, FLAC, OGG or MP3 file"
    try:
        header = facts(path)
        # Only as much as could be allowed: a header may promise hours.
        waveform = read_audio(path, header.rate, max_seconds=2 * LONGEST_SECONDS)
    except AudioError as error:
        return [0.0, "", str(error), readable]
    decoded = len(waveform) / header.rate
    # What is in the file counts, not what its header promises, except where we stopped reading.
    seconds = decoded if decoded < 2 * LONGEST_SECONDS - 0.1 else header.seconds
    peak = float(waveform.abs().max())
    if peak < SILENT_PEAK:
        return [seconds, "", f"silence (peak {peak:.1e})", f"a peak above {SILENT_PEAK:g}"]
    return [seconds, hashlib.sha256(path.read_bytes()).hexdigest(), "", ""]


def _judged(entry: Entry, sound: _Sound, texts: Remembered, tokenizer: Tokenizer) -> Clip | Refused:
    if sound.seen:
        return Refused(entry.name, sound.seen, sound.allowed)
    key = f"{entry.language}|{entry.text}"
    known = texts.get(key)
    if known is None:
        known = _tokenised(entry, tokenizer)
        texts.put(key, known)
    if known[1]:
        return Refused(entry.name, known[1], known[2])
    return Clip(
        entry.name, entry.path, entry.text, entry.speaker, entry.language, sound.seconds,
        sound.sha256, tuple(known[0]),
    )  # fmt: skip


def _tokenised(entry: Entry, tokenizer: Tokenizer) -> list[list[int] | str]:
    """[ids, what was seen, what is allowed]. A language that cannot be read at all is raised."""
    if not entry.text.strip():
        return [[], "an empty text", "what is spoken in the clip"]
    try:
        unknown = tokenizer.unknown(entry.text, entry.language)
        tokens = tokenizer.encode(entry.text, entry.language)
    except TextError as error:
        if isinstance(error.__cause__, ImportError):
            raise
        return [[], str(error), "text that the model can read"]
    if unknown:
        seen = "unknown characters " + " ".join(repr(piece) for piece in unknown[:8])
        return [[], seen, "characters of the vocabulary"]
    if len(tokens) > tokenizer.max_tokens:
        return [[], f"{len(tokens)} tokens of text", f"at most {tokenizer.max_tokens}"]
    return [tokens, "", ""]


def _table(refused: Sequence[Refused]) -> Iterable[str]:
    if not refused:
        return
    width = max(len("refused clip"), *(len(one.name) for one in refused))
    seen = min(60, max(len("seen"), *(len(one.seen) for one in refused)))
    yield f"{'refused clip':{width}}  {'seen':{seen}}  allowed"
    for one in refused:
        yield f"{one.name:{width}}  {one.seen:{seen}}  {one.allowed}"
