"""Reads a dataset: checks every clip before the first step and splits training from validation.

The trainer, `check` and `prepare` share `read`. One file caches the results for each recording and
text, so a second start decodes nothing.
Features (`train.dataset.features`) need a second decoding and take by far the longest, so they are
computed only after every check that can refuse a run.
"""

import contextlib
import gc
import hashlib
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from machine import commands
from machine.storage.checksums import sha256_of
from machine.storage.facts import Facts
from train.concurrency import in_threads
from train.dataset.entries import (
    MAX_CLIP_SECONDS,
    MIN_CLIP_SECONDS,
    DatasetError,
    TranscriptEntry,
    files_named_like,
)
from train.dataset.metadata import read_transcript
from train.progress import with_progress
from train.settings import TrainSettings
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, AudioError, declared_bytes, measure
from xtts.model.shapes import GPTShape
from xtts.sound_endings import how_to_convert
from xtts.text.errors import TextError
from xtts.text.languages import ENGLISH_NAMES, other_language, short_code
from xtts.text.tokenizer import Tokenizer

# A lower peak (60 dB below full scale) counts as silence.
SILENT_PEAK = 1e-3
# Float files may exceed 1.0 a little; a file in units of 16-bit integers peaks at thousands.
MAX_PEAK = 8.0
# Decoders may round the end of a file. A file with less than this share of its length was cut off.
MIN_PRESENT_SHARE = 0.95
# FAT stores times in steps of 2 s, ext4 in steps of 4 to 10 ms.
RACY_SECONDS = 2.0
# Part of the cache's namespace. Increase it when the checks of clips change.
VERSION = 4
READABLE = "a readable WAV, FLAC, OGG or MP3 file"
VALIDATION_SHARE = 0.05
MAX_VALIDATION_CLIPS = 64
MIN_CLIPS_TO_SPLIT = 8
# The loss over fewer clips is mostly noise.
MIN_VALIDATION_CLIPS = 5
_MAX_REFUSALS_SHOWN = 20
# XTTS-v2 speaks 17 languages; a misread column may hold a different one for each clip.
_MAX_LANGUAGES_NAMED = 17
# The number of clips listed by name for each identical reason.
_MAX_SHOWN_PER_REASON = 5
# Clips per thread task: passing a cached clip to a thread costs more than checking it.
_CLIPS_PER_TASK = 16


@dataclass(frozen=True)
class Clip:
    """One row of the dataset. seconds: its length; tokens: its text ids, without START and STOP."""

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
        """A hash of audio and transcript, independent of the clip's name."""
        content = "\0".join((self.audio_sha256, self.text, self.speaker, self.language))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class RejectedClip:
    """A clip that is left out: the value seen and the allowed one."""

    name: str
    seen: str
    allowed: str


@dataclass(frozen=True)
class Dataset:
    """The usable clips and their split.

    train, validation: indices into `clips`; notes: how the transcript was read, if not obvious.
    """

    clips: tuple[Clip, ...]
    refused: tuple[RejectedClip, ...]
    train: tuple[int, ...]
    validation: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        train: Sequence[Clip],
        validation: Sequence[Clip],
        refused: Sequence[RejectedClip],
        notes: Sequence[str] = (),
    ) -> "Dataset":
        """A dataset of the training clips followed by the validation clips."""
        count, total = len(train), len(train) + len(validation)
        return cls(
            (*train, *validation),
            tuple(refused),
            tuple(range(count)),
            tuple(range(count, total)),
            tuple(notes),
        )

    @property
    def sha256(self) -> str:
        """A hash of all clips and texts, independent of their order and names."""
        contents = sorted(clip.sha256 for clip in self.clips)
        return hashlib.sha256("".join(contents).encode()).hexdigest()

    def training_clips(self, speaker: str) -> list[Clip]:
        """The training clips of a speaker."""
        clips = [self.clips[index] for index in self.train]
        return [clip for clip in clips if clip.speaker == speaker]

    def minutes(self, indices: Iterable[int]) -> float:
        """The total length of these clips."""
        return sum(self.clips[index].seconds for index in indices) / 60

    def without(self, rejected: Sequence[RejectedClip]) -> "Dataset":
        """The same split without these clips. Raises DatasetError if no training clip remains."""
        names = {clip.name for clip in rejected}
        train, validation = (
            [self.clips[index] for index in indices if self.clips[index].name not in names]
            for indices in (self.train, self.validation)
        )
        if not train:
            raise DatasetError(
                f"All {len(self.train)} training clips are suspect. Listen to some of them, or "
                "train on them with SUSPECT_CLIPS=keep."
            )
        return Dataset.of(train, validation, (*self.refused, *rejected), self.notes)

    def report(self) -> str:
        """The printed report: how the transcript was read, the refused clips and the totals."""
        lines = [*self.notes, *_table(self.refused)]
        lines += _language_doubts(self.clips)
        lines.append(
            f"Dataset: {self._amount(self.train)} for training; "
            f"{self._amount(self.validation)} for validation; {len(self.refused)} refused."
            f"{self._few_clips_warning()}"
        )
        return "\n".join(lines)

    def _amount(self, indices: Sequence[int]) -> str:
        """The number of clips and their length: 15 clips, 1.7 min."""
        count, minutes = len(indices), self.minutes(indices)
        length = f"{minutes:.1f} min" if not count or minutes >= 0.1 else f"{60 * minutes:.0f} s"
        return f"{count} clip{'s' if count != 1 else ''}, {length}"

    def _few_clips_warning(self) -> str:
        """A warning about too few validation clips, with advice; "" if there are enough."""
        count = len(self.validation)
        if count >= MIN_VALIDATION_CLIPS:
            return ""
        if not count:
            problem = (
                "No clip is left for validation: no epoch has a validation loss, and the evaluation "
                "compares the voice with training clips, which flatters it"
            )
        else:
            clips = "1 clip is" if count == 1 else f"{count} clips are"
            problem = f"{clips} too few for validation: the loss says little about an epoch"
        enough = round(MIN_VALIDATION_CLIPS / VALIDATION_SHARE)
        return (
            f" {problem}. Training still works. From {enough} clips on, {MIN_VALIDATION_CLIPS} or "
            "more are used for validation; or list validation clips in a metadata_val.csv "
            "(docs/datasets.md)."
        )


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disables the garbage collector. While many permanent objects are created, it would examine
    all of them again and again, which takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@without_garbage_collection()
def read(settings: TrainSettings, tokenizer: Tokenizer, shape: GPTShape) -> Dataset:
    """Reads the transcript, checks every clip and splits the dataset.

    Raises DatasetError for a malformed transcript, for a language that the base model does not
    speak, and if no clip is usable; TextError for a language whose extra package is not installed.
    """
    max_seconds = min(MAX_CLIP_SECONDS, shape.max_codes * SAMPLES_PER_CODE / CODE_RATE)
    # Versions of coqui-tts differ in how they spell out numbers and abbreviations.
    reader = f"{tokenizer.fingerprint[:16]}-{version('coqui-tts')}"
    transcript = read_transcript(settings.dataset_dir, settings.dataset_format, settings.language)
    entries = transcript.entries
    _refuse_language(entries, tokenizer.languages, settings)
    facts = Facts(settings.cache_dir, f"clips {VERSION}")
    try:  # the cache is saved even if the run is stopped
        # Decoding releases the GIL.
        decoded = in_threads(lambda entry: decode_clip(entry, facts, max_seconds), entries, _CLIPS_PER_TASK)
        sounds = list(with_progress(decoded, len(entries), "Checking clips"))
        results = [
            check_clip(entry, sound, facts, tokenizer, reader)
            for entry, sound in zip(entries, sounds, strict=True)
        ]
    finally:
        facts.save()
    clips: dict[str, Clip] = {}  # by the hash of their recording
    refused = [result for result in results if isinstance(result, RejectedClip)]
    for clip in (result for result in results if isinstance(result, Clip)):
        # Copies would count twice in training and could leak validation clips into it.
        if (first := clips.setdefault(clip.audio_sha256, clip)) is not clip:
            seen = f"the same recording as {first.name}"
            refused.append(RejectedClip(clip.name, seen, "each recording once"))
    if not clips:
        table = list(_table(refused))
        lines = table[: _MAX_REFUSALS_SHOWN + 1]
        if len(table) > len(lines):
            lines.append(f"… and {len(table) - len(lines)} more lines")
        lines.append(f"No clip of {settings.dataset_dir} can be used.")
        raise DatasetError("\n".join(lines))
    validation_names = {entry.name for entry in entries if entry.validation}
    dataset = split(list(clips.values()), refused, validation_names, settings.max_train_samples)
    return replace(dataset, notes=tuple(transcript.notes))


def _refuse_language(
    entries: Sequence[TranscriptEntry], spoken: Sequence[str], settings: TrainSettings
) -> None:
    """Refuses a dataset, before decoding, if the base model speaks none of its languages.

    Single rows in other languages are rejected as clips instead.
    """
    languages = sorted({short_code(entry.language) for entry in entries})
    if not {short_code(language) for language in spoken}.isdisjoint(languages):
        return
    advice = "If that is not the language of the clips, correct LANGUAGE or the transcript."
    if not set(languages) <= ENGLISH_NAMES.keys():
        extend = commands.program(
            f"train extend --language {languages[0]} "
            f"--dataset {shlex.quote(str(settings.dataset_dir))} --to bases/{languages[0]}"
        )
        advice += (
            " If it is, name a BASE_MODEL that speaks it, or add the language to this one "
            f"(docs/languages.md): {extend}"
        )
    elif settings.base_model != "xtts_v2":
        advice = (
            f"XTTS-v2 speaks {'it' if len(languages) == 1 else 'them'}: set BASE_MODEL=xtts_v2, "
            f"after you have read its licence (docs/your-voice.md). {advice}"
        )
    raise DatasetError(
        f"BASE_MODEL={settings.base_model} speaks {_in_words(map(short_code, spoken))}, and all "
        f"{len(entries)} clips of {settings.dataset_dir} are in {_in_words(languages)} "
        f"(LANGUAGE={settings.language}). {advice}"
    )


def _in_words(languages: Iterable[str]) -> str:
    """The names of the languages; if there are many, only the first few."""
    codes = dict.fromkeys(languages)
    names = [ENGLISH_NAMES.get(code, repr(code)) for code in codes]
    first_names = names[:_MAX_LANGUAGES_NAMED]
    if len(names) > len(first_names):
        first_names = [*first_names, f"{len(names) - len(first_names)} other languages"]
    return " and ".join(filter(None, (", ".join(first_names[:-1]), first_names[-1])))


def _language_doubts(clips: Sequence[Clip]) -> Iterator[str]:
    """A line for each language whose texts look like another language."""
    for language in sorted({clip.language for clip in clips}):
        texts = [clip.text for clip in clips if clip.language == language]
        if (likely := other_language(texts, language)) is not None:
            yield (
                f"The {len(texts)} transcripts under language {language!r} look like "
                f"{ENGLISH_NAMES[likely]} by their most common words. They would be read as "
                f"{ENGLISH_NAMES[short_code(language)]}. If they are {ENGLISH_NAMES[likely]}, set "
                f"LANGUAGE={likely} and a BASE_MODEL that speaks it."
            )


def split(
    clips: Sequence[Clip],
    refused: Sequence[RejectedClip],
    validation_names: set[str],
    max_train_samples: int | None,
) -> Dataset:
    """Chooses the validation clips: those that the dataset names, else 5 % by content.

    The choice does not depend on the order of rows. Each speaker keeps at least one training clip.
    The first `max_train_samples` other clips, in the order of the transcript, are for training.
    """
    held_out = validation_names or _choose_by_content(clips)
    train = [clip for clip in clips if clip.name not in held_out][:max_train_samples]
    validation = [clip for clip in clips if clip.name in held_out]
    if not train:
        raise DatasetError("Every usable clip is a validation clip. Add training clips.")
    return Dataset.of(train, validation, refused)


def _choose_by_content(clips: Sequence[Clip]) -> set[str]:
    if len(clips) < MIN_CLIPS_TO_SPLIT:
        return set()
    count = min(MAX_VALIDATION_CLIPS, max(1, round(len(clips) * VALIDATION_SHARE)))
    clips_left = Counter(clip.speaker for clip in clips)
    chosen: set[str] = set()
    for clip in sorted(clips, key=lambda clip: clip.sha256):
        if len(chosen) < count and clips_left[clip.speaker] > 1:
            chosen.add(clip.name)
            clips_left[clip.speaker] -= 1
    return chosen


def _table(refused: Sequence[RejectedClip]) -> Iterator[str]:
    if not refused:
        return
    alike = Counter((clip.seen, clip.allowed) for clip in refused)
    width = max(len("refused clip"), *(len(clip.name) for clip in refused))
    seen = min(60, max(len("seen"), *(len(clip.seen) for clip in refused)))
    yield f"{'refused clip':{width}}  {'seen':{seen}}  allowed"
    shown = Counter[tuple[str, str]]()
    for clip in refused:
        kind = (clip.seen, clip.allowed)
        shown[kind] += 1
        if shown[kind] <= _MAX_SHOWN_PER_REASON:
            yield f"{clip.name:{width}}  {clip.seen:{seen}}  {clip.allowed}"
        elif shown[kind] == alike[kind]:
            more = f"… and {alike[kind] - _MAX_SHOWN_PER_REASON} more"
            yield f"{more:{width}}  {clip.seen:{seen}}  {clip.allowed}"


# One clip


def decode_clip(entry: TranscriptEntry, facts: Facts, max_seconds: float) -> tuple[float, str] | RejectedClip:
    """Returns (seconds, SHA-256) of a row's recording, or why it is rejected.

    Cached recordings are not decoded. max_seconds: the length of the longest usable clip.
    """
    try:
        status = entry.path.stat()
    except OSError:
        return RejectedClip(entry.name, _missing(entry.path), READABLE)
    key = f"{entry.path.absolute()}|{status.st_size}|{status.st_mtime_ns}|{status.st_ctime_ns}"
    sound = facts.get(key)
    if sound is None:
        try:
            sound = _decode(entry.path)
        except (AudioError, OSError) as error:
            # Not cached: the disk error may be temporary.
            return RejectedClip(entry.name, str(error), READABLE)
        if not is_racy(status.st_ctime_ns):
            facts.put(key, sound)
    seconds, sha256, seen, allowed = sound
    if not seen and not MIN_CLIP_SECONDS <= seconds <= max_seconds:
        seen, allowed = f"{seconds:.2f} s", f"{MIN_CLIP_SECONDS} to {max_seconds:.1f} s"
    return RejectedClip(entry.name, seen, allowed) if seen else (seconds, sha256)


def is_racy(changed_ns: int) -> bool:
    """Whether a file changed so recently that another change may leave its timestamps the same
    ("racy git", https://git-scm.com/docs/racy-git)."""
    return changed_ns > time.time_ns() - RACY_SECONDS * 1e9


def _missing(path: Path) -> str:
    similar = files_named_like(path)
    if not similar:
        return f"no file {path}"
    if len(similar) > 1:
        names = ", ".join(file.name for file in similar)
        return f"no file {path}. The folder has {names}: keep one, under this name"
    return f"no file {path}. The folder has {similar[0].name}. Convert it: {how_to_convert(similar[0])}"


def _decode(path: Path) -> tuple[float, str, str, str]:
    """Decodes a file. Returns (seconds, SHA-256, fault, allowed value). Raises AudioError."""
    # A header may declare hours; decode no more than could be allowed.
    limit = 2 * MAX_CLIP_SECONDS
    mono, rate, length = measure(path, limit)
    seconds, promised = len(mono) / rate, min(length, limit)
    declared, size = declared_bytes(path), path.stat().st_size
    if seconds < MIN_PRESENT_SHARE * promised:
        return seconds, "", f"{seconds:.2f} s of the {promised:.2f} s promised", "a whole file"
    if declared is not None and size < MIN_PRESENT_SHARE * declared:
        return seconds, "", f"{size} of the {declared} bytes promised", "a whole file"
    peak = float(np.abs(mono).max())
    if peak < SILENT_PEAK:
        return seconds, "", f"silence (peak {peak:.1e})", f"a peak above {SILENT_PEAK:g}"
    if peak > MAX_PEAK:
        return seconds, "", f"a peak of {peak:.1e}", "samples from -1 to 1"
    return max(seconds, length), sha256_of(path, fresh=True), "", ""


def check_clip(
    entry: TranscriptEntry,
    sound: tuple[float, str] | RejectedClip,
    facts: Facts,
    tokenizer: Tokenizer,
    reader: str,
) -> Clip | RejectedClip:
    """Makes a clip of a row and its decoded recording `sound`, or rejects it.

    reader: identifies the tokenizer in the cache. Raises TextError for a language whose extra
    package is not installed, because no row of it could be read.
    """
    if isinstance(sound, RejectedClip):
        return sound
    key = f"{reader}|{entry.language}|{entry.text}"
    text = facts.get(key)
    if text is None:
        text = _tokenise(entry, tokenizer)
        facts.put(key, text)
    tokens, seen, allowed = text
    if seen:
        return RejectedClip(entry.name, seen, allowed)
    return Clip(entry.name, entry.path, entry.text, entry.speaker, entry.language, *sound, tuple(tokens))


def _tokenise(entry: TranscriptEntry, tokenizer: Tokenizer) -> tuple[list[int], str, str]:
    """Returns (ids, fault, allowed value)."""
    if not entry.text.strip():
        return [], "an empty text", "the words spoken in the clip"
    try:
        unknown = tokenizer.read(entry.text, entry.language).missing
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
