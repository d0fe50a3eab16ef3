"""Reads a dataset: every clip checked before step 1; train and validation split.

`read` is what the trainer, `check` and `prepare` share. What a file or a text turned out to be is
remembered in the cache folder, so that a second start decodes nothing.
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version

from machine.storage.file_cache import FileCache
from train.dataset.clips import (
    SOUNDS_VERSION,
    Clip,
    ClipTokenizer,
    DecodedClip,
    RejectedClip,
    check_clip,
    decode_clip,
)
from train.dataset.entries import LONGEST_SECONDS, DatasetError, TranscriptEntry
from train.dataset.metadata import read_entries
from train.progress import with_progress
from train.settings import TrainSettings
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.model.shapes import GPTShape
from xtts.text.languages import NAMES, other_language

__all__ = ["Clip", "ClipTokenizer", "Dataset", "DatasetError", "RejectedClip", "read", "split"]

VALIDATION_SHARE = 0.05
MOST_VALIDATION_CLIPS = 64
FEWEST_CLIPS_TO_SPLIT = 8
_MOST_REFUSALS_SHOWN = 20
# Of clips that are refused for exactly the same reason, so many by name.
_MOST_ALIKE = 5
# Clips for a thread at once: handing over one that is known costs more than checking it.
_PORTION = 16


@dataclass(frozen=True)
class Dataset:
    """clips: what is used; train and validation: indices into it; refused: what is not, and why."""

    clips: tuple[Clip, ...]
    refused: tuple[RejectedClip, ...]
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

    def without(self, rejected: Sequence[RejectedClip]) -> "Dataset":
        """The same split, with these clips among the refused. Raises DatasetError when nothing is
        left to learn from."""
        names = {one.name for one in rejected}
        train, validation = (
            [self.clips[index] for index in side if self.clips[index].name not in names]
            for side in (self.train, self.validation)
        )
        if not train:
            raise DatasetError(
                f"All {len(self.train)} clips to learn from are suspect. Hear some of them, or "
                "train on them with SUSPECT_CLIPS=keep."
            )
        return _laid_out(train, validation, (*self.refused, *rejected))

    def report(self) -> str:
        """The table of refused clips and the totals, for a person."""
        lines = list(_table(self.refused))
        lines += _language_doubts(self.clips)
        lines.append(
            f"Dataset: {len(self.train)} clips, {self.minutes(self.train):.1f} min to learn from; "
            f"{len(self.validation)} clips, {self.minutes(self.validation):.1f} min to validate; "
            f"{len(self.refused)} refused."
        )
        return "\n".join(lines)


def read(settings: TrainSettings, tokenizer: ClipTokenizer, shape: GPTShape) -> Dataset:
    """Reads the transcript, judges every clip and splits.

    Raises DatasetError for a transcript of the wrong form, for a language that the base model does
    not speak, and when no clip is left; TextError for a language whose extra package is not
    installed.
    """
    entries = read_entries(settings.dataset_dir, settings.dataset_format, settings.language)
    _refuse_language(entries, tokenizer.languages, settings)
    longest = min(LONGEST_SECONDS, shape.max_codes * SAMPLES_PER_CODE / CODE_RATE)
    sounds = FileCache(settings.cache_dir / f"sounds-{SOUNDS_VERSION}.json")
    # coqui-tts writes numbers and abbreviations out, each version in its own way.
    reader = f"{tokenizer.fingerprint[:16]}-{version('coqui-tts')}"
    texts = FileCache(settings.cache_dir / f"texts-{reader}.json")
    found = _all_heard(entries, sounds, longest)
    results = [
        check_clip(entry, sound, texts, tokenizer)
        for entry, sound in zip(entries, found, strict=True)
    ]
    texts.save()
    clips, twins = _without_twins([one for one in results if isinstance(one, Clip)])
    refused = (*(one for one in results if isinstance(one, RejectedClip)), *twins)
    if not clips:
        table = list(_table(refused))
        lines = table[: _MOST_REFUSALS_SHOWN + 1]
        if len(table) > len(lines):
            lines.append(f"… and {len(table) - len(lines)} more lines")
        lines.append(f"No clip of {settings.dataset_dir} can be used.")
        raise DatasetError("\n".join(lines))
    told = {entry.name for entry in entries if entry.validation}
    return split(clips, refused, told, settings.max_train_samples)


def _refuse_language(
    entries: Sequence[TranscriptEntry], spoken: Sequence[str], settings: TrainSettings
) -> None:
    """Before a recording is decoded, where the base model speaks the language of no row; what is
    wrong with a few rows is in the table of refused clips."""
    known = {one.split("-")[0] for one in spoken}
    short = [entry.language.lower().split("-")[0] for entry in entries]
    if not known.isdisjoint(short):
        return
    asked = sorted(set(short))
    model = "xtts_v2, or another model" if set(asked) <= NAMES.keys() else "a model"
    raise DatasetError(
        f"Language {' and '.join(map(repr, asked))} is not one of this model's: "
        f"{', '.join(spoken)}. All {len(entries)} clips of {settings.dataset_dir} are in it "
        f"(LANGUAGE={settings.language}). Set BASE_MODEL to {model} that speaks it, or LANGUAGE "
        "to what is spoken in the clips."
    )


def _language_doubts(clips: Sequence[Clip]) -> Iterator[str]:
    """A line for each language under which texts of another one stand."""
    for language in sorted({clip.language for clip in clips}):
        texts = [clip.text for clip in clips if clip.language == language]
        if (found := other_language(texts, language)) is not None:
            yield (
                f"The {len(texts)} transcripts under language {language!r} look like "
                f"{NAMES[found]} by their commonest words, and would be read as "
                f"{NAMES[language.lower().split('-')[0]]}. If they are, set LANGUAGE={found} and a "
                "BASE_MODEL that speaks it."
            )


def _all_heard(
    entries: Sequence[TranscriptEntry], sounds: FileCache, longest: float
) -> list[DecodedClip]:
    """The recording of every row; what was found out is kept even when the run is stopped."""
    portions = (entries[start : start + _PORTION] for start in range(0, len(entries), _PORTION))
    try:
        with ThreadPoolExecutor() as pool:  # decoding leaves the interpreter's lock
            lists = pool.map(
                lambda some: [decode_clip(one, sounds, longest) for one in some], portions
            )
            found = itertools.chain.from_iterable(lists)
            return list(
                with_progress(found, len(entries), "Looking at clips", patience_seconds=2.0)
            )
    finally:
        sounds.save()


def _without_twins(clips: Sequence[Clip]) -> tuple[list[Clip], list[RejectedClip]]:
    """Each recording once: copies would be learned twice, and some from validation clips."""
    first: dict[str, Clip] = {}
    twins = []
    for clip in clips:
        if (known := first.setdefault(clip.audio_sha256, clip)) is not clip:
            seen = f"the same recording as {known.name}"
            twins.append(RejectedClip(clip.name, seen, "each recording once"))
    return list(first.values()), twins


def split(
    clips: Sequence[Clip],
    refused: tuple[RejectedClip, ...],
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
    return _laid_out(train, validation, refused)


def _laid_out(
    train: Sequence[Clip], validation: Sequence[Clip], refused: tuple[RejectedClip, ...]
) -> Dataset:
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


def _table(refused: Sequence[RejectedClip]) -> Iterator[str]:
    if not refused:
        return
    alike = Counter((one.seen, one.allowed) for one in refused)
    width = max(len("refused clip"), *(len(one.name) for one in refused))
    seen = min(60, max(len("seen"), *(len(one.seen) for one in refused)))
    yield f"{'refused clip':{width}}  {'seen':{seen}}  allowed"
    told = Counter[tuple[str, str]]()
    for one in refused:
        kind = (one.seen, one.allowed)
        told[kind] += 1
        if told[kind] <= _MOST_ALIKE:
            yield f"{one.name:{width}}  {one.seen:{seen}}  {one.allowed}"
        elif told[kind] == alike[kind]:
            more = f"… and {alike[kind] - _MOST_ALIKE} more"
            yield f"{more:{width}}  {one.seen:{seen}}  {one.allowed}"
