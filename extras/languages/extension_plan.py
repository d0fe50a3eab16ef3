"""Plans the extension of a base model by a language: the missing characters and the changes."""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from extras.languages.nearest import nearest_language
from extras.languages.spelling import OldSpelling
from extras.languages.table import TABLE_FILE, Pairs, read_table
from extras.languages.vocabulary import MAX_PIECES, ExtendedVocabulary, can_be_added, extend, lacking, tag_of
from machine.errors import SotaqueError
from train import base_model
from train.dataset.entries import DatasetError, TranscriptEntry
from train.dataset.metadata import read_entries
from train.settings import TrainSettings
from xtts.audio import AudioError, facts
from xtts.model.config import Extension, ModelConfig
from xtts.text.errors import TextError
from xtts.text.languages import ENGLISH_NAMES, short_code
from xtts.text.normalization.registry import LANGUAGES, rules_of
from xtts.text.tokenizer import Tokenizer

log = logging.getLogger("train")

_MAX_CHARACTERS_SHOWN = 40
_MAX_PIECES_SHOWN = 12
_EXAMPLE_CHARACTERS = 60


class ExtensionError(SotaqueError):
    """A language cannot be added to a base model; the message says why, and what to do."""


@dataclass(frozen=True)
class ExtensionPlan:
    """The plan for adding a language to a base model.

    Attributes:
        base: The folder of the base model.
        config: Its configuration.
        language: The code of the new language.
        like: The language of the base whose tag initialises the new one.
        texts: The transcripts in the new language, normalised.
        unreadable: (Clip, reason) of transcripts that cannot be read.
        seconds: The total length of the clips.
        vocabulary: The new vocabulary.
        sources: For each new id, the old ids whose mean initialises its row.
        replacements: The dataset's normalization.txt, for signs and abbreviations.
    """

    base: Path
    config: ModelConfig
    language: str
    like: str
    texts: Sequence[str]
    unreadable: Sequence[tuple[str, str]]
    seconds: float
    vocabulary: ExtendedVocabulary
    sources: Sequence[Sequence[int]]
    replacements: Pairs = ()

    @property
    def extension(self) -> Extension:
        """The language's entry in config.json."""
        vocabulary = self.vocabulary
        return Extension(
            self.language, self.like, vocabulary.first_id, len(vocabulary.tokens), self.replacements
        )

    @cached_property
    def missing(self) -> Counter[str]:
        """The characters that the base's vocabulary lacks, with their counts."""
        tokens = {
            token
            for token, id_ in self.vocabulary.content["model"]["vocab"].items()
            if id_ < self.vocabulary.first_id
        }
        return lacking(tokens, self.texts)

    def report(self) -> str:
        """The missing characters, the amount of data and the changes, as text for a terminal."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield (f"Language {self.language!r} is not one of this model's: {', '.join(self.config.languages)}.")
        yield self._data_line()
        added = Counter({character: n for character, n in self.missing.items() if can_be_added(character)})
        yield from self._character_lines(added, "Characters to be added to the vocabulary")
        yield from self._character_lines(
            self.missing - added, "Signs that are not added; clips with them are refused"
        )
        yield self._piece_line()
        yield from self._reading_lines()
        if self.unreadable:
            name, reason = self.unreadable[0]
            yield f"{len(self.unreadable)} transcripts cannot be read, such as {name}: {reason}"

    def _data_line(self) -> str:
        return (
            f"Data: {len(self.texts)} readable transcripts, {self.seconds / 3600:.1f} h of sound. "
            "Others needed about 100 h for a language that is new to XTTS; 5 h were not enough in "
            "the one report that we know (docs/languages.md)."
        )

    def _character_lines(self, counts: Counter[str], title: str) -> Iterator[str]:
        if not counts:
            return
        yield f"{title}: {len(counts)}."
        for character, count in counts.most_common(_MAX_CHARACTERS_SHOWN):
            example = next(text for text in self.texts if character in text)
            start = max(0, example.index(character) - _EXAMPLE_CHARACTERS // 2)
            yield f"  {character}  {count} times: {example[start : start + _EXAMPLE_CHARACTERS]}"
        if len(counts) > _MAX_CHARACTERS_SHOWN:
            yield f"  … and {len(counts) - _MAX_CHARACTERS_SHOWN} more"

    def _piece_line(self) -> str:
        vocabulary = self.vocabulary
        pieces = vocabulary.tokens[1 + vocabulary.num_characters :]
        examples = ", ".join(pieces[:_MAX_PIECES_SHOWN])
        named = f" ({examples}{', …' if len(pieces) > _MAX_PIECES_SHOWN else ''})" if pieces else ""
        return (
            f"{len(vocabulary.tokens)} ids are added to the vocabulary from {vocabulary.first_id} on: "
            f"{tag_of(self.language)}, initialised from {tag_of(self.like)}, "
            f"{vocabulary.num_characters} characters and {len(pieces)} longer pieces{named}. "
            "Old ids and merges are unchanged."
        )

    def _reading_lines(self) -> Iterator[str]:
        if self.replacements:
            yield f"{TABLE_FILE} reads {len(self.replacements)} signs and abbreviations."
        if self.language in LANGUAGES:
            return
        if rules_of(self.language) is None:
            yield (
                f"Numbers: ICU lacks numerals for {self.language!r}, so transcripts with digits "
                "are refused. Write numbers in words."
            )
        else:
            yield (
                f"Numbers are read by ICU's rules for {self.language!r}, which lack words for "
                "currencies, units, percentages and months. Write these in words."
            )


def language_to_add(settings: TrainSettings, config: ModelConfig) -> str | None:
    """LANGUAGE, if the base speaks neither it nor the language of any clip."""
    languages = set(map(short_code, config.languages))
    if short_code(settings.language) in languages:
        return None
    with suppress(DatasetError):
        entries = read_entries(settings.dataset_dir, settings.dataset_format, settings.language)
        if languages.isdisjoint(short_code(entry.language) for entry in entries):
            return short_code(settings.language)
    return None


def report_lacking(settings: TrainSettings) -> None:
    """Logs the plan if neither the base nor XTTS-v2 speaks LANGUAGE. Raises as `plan_of`."""
    if short_code(settings.language) in ENGLISH_NAMES:
        return
    base = base_model.chosen_base(settings)
    if language_to_add(settings, ModelConfig.read(base)) is not None:
        log.info(plan_of(settings, base).report())


def plan_of(
    settings: TrainSettings, base: Path, *, like: str | None = None, max_pieces: int = MAX_PIECES
) -> ExtensionPlan:
    """Plans the extension of `base` by LANGUAGE from the transcripts in DATASET_DIR. Reads only
    texts and the headers of recordings.

    like: the language whose tag initialises the new one; None finds the most similar one.

    Raises ExtensionError if the base speaks the language, lacks the tag of `like`, or if no
    transcript is readable; DatasetError; ConfigError.
    """
    config = ModelConfig.read(base)
    language = short_code(settings.language)
    if language in map(short_code, config.languages):
        raise ExtensionError(
            f"BASE_MODEL={settings.base_model} already speaks {language!r}; train it without extending it."
        )
    entries = [
        entry
        for entry in read_entries(settings.dataset_dir, settings.dataset_format, language)
        if short_code(entry.language) == language
    ]
    table = read_table(settings.dataset_dir / TABLE_FILE, language)
    texts, unreadable = _read_texts(entries, _config_with_language(config, language, table), base)
    if not texts:
        raise ExtensionError(
            f"No transcript in {settings.dataset_dir} can be read in {language!r}"
            + (f": {unreadable[0][0]}: {unreadable[0][1]}" if unreadable else ".")
        )
    content: dict[str, Any] = json.loads((base / "vocab.json").read_text(encoding="utf-8"))
    vocabulary = extend(content, language, texts, max_pieces=max_pieces)
    like = _find_like(like, texts, config, content)
    seconds = sum(map(_seconds_of, entries))
    sources = _source_ids(content, vocabulary, like, phones=config.text_frontend == "cmu_phones")
    return ExtensionPlan(base, config, language, like, texts, unreadable, seconds, vocabulary, sources, table)


def _config_with_language(config: ModelConfig, language: str, table: Pairs) -> ModelConfig:
    """The configuration as if the language had been added."""
    added = (*config.extensions, Extension(language, language, 1 << 30, 0, table))
    return replace(config, languages=(*config.languages, language), extensions=added)


def _read_texts(
    entries: Sequence[TranscriptEntry], config: ModelConfig, base: Path
) -> tuple[list[str], list[tuple[str, str]]]:
    """The normalised texts, and (clip, reason) of those that cannot be read."""
    tokenizer = Tokenizer(config, base)
    texts, unreadable = list[str](), list[tuple[str, str]]()
    for entry in entries:
        try:
            texts.append(tokenizer.read(entry.text, entry.language).normal)
        except TextError as error:
            if isinstance(error.__cause__, ImportError):
                raise
            unreadable.append((entry.name, str(error)))
    return texts, unreadable


def _find_like(
    language: str | None, texts: Sequence[str], config: ModelConfig, content: Mapping[str, Any]
) -> str:
    """The language whose tag is copied, by its short code or the text of its tag."""
    tags = {token["content"] for token in content.get("added_tokens") or []}
    candidates = [candidate for candidate in config.languages if tag_of(candidate) in tags]
    if not candidates:
        raise ExtensionError(
            "The base's vocab.json lacks tags such as [en] for its languages "
            f"({', '.join(config.languages)}). Use the vocab.json of the model."
        )
    if language is None:
        return nearest_language(texts, candidates)
    matches = [candidate for candidate in candidates if language in (candidate, short_code(candidate))]
    if not matches:
        raise ExtensionError(
            f"--like {language}: the base has tags for {', '.join(candidates)}; name one of these."
        )
    return matches[0]


def _source_ids(
    content: Mapping[str, Any], vocabulary: ExtendedVocabulary, like: str, *, phones: bool
) -> list[list[int]]:
    from tokenizers import Tokenizer as BpeTokenizer

    spelling = OldSpelling(BpeTokenizer.from_str(json.dumps(content)), phones=phones)
    _, *characters_and_pieces = vocabulary.tokens
    tag = int(vocabulary.content["model"]["vocab"][tag_of(like)])
    return [[tag], *map(spelling.ids, characters_and_pieces)]


def _seconds_of(entry: TranscriptEntry) -> float:
    with suppress(AudioError, OSError):
        return facts(entry.path).seconds
    return 0.0
