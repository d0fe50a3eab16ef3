"""Text to ids: normalise as Coqui does, tokenise, and split long text on the token budget.

The tokenizer is Coqui's `VoiceBpeTokenizer` (0.3 s to import, so only when one is made). A model
may name another front-end in config.json: `cmu_phones` turns English into phones, by the door
through which XTTS turns Chinese into pinyin.
"""

import hashlib
import re
import unicodedata
from pathlib import Path
from typing import Any

from xtts.config import ModelConfig
from xtts.coqui_tokenizer import tokenizer_class
from xtts.errors import SotaqueError

UNKNOWN = "[UNK]"
# START, STOP and the two that Coqui keeps free: its own check is `tokens < max_text_tokens`.
RESERVED_TOKENS = 2
EXTRAS = {"zh": "pypinyin, jieba, spacy", "ja": "cutlet, fugashi, unidic-lite"}
# Where a voice may breathe, best first: sentence ends, clause ends, any space. They match nothing,
# so that the parts joined are the text again, in languages without spaces too.
_BREAKS = (r"(?<=[.!?…؟।])(?=\s)|(?<=[。！？])", r"(?<=[,;:،])(?=\s)|(?<=[、，；：])", r"(?=\s)")
# Hours of speech; whoever wants more asks twice.
MOST_CHARACTERS = 90_000
# Where Coqui tells no limit for a language.
USUAL_CHARACTERS = 200


class TextError(SotaqueError):
    """Text that cannot be spoken or learned; the sentence names it and what is allowed."""


class Tokenizer:
    """`vocab.json` and the front-end of one model."""

    def __init__(self, config: ModelConfig, folder: Path) -> None:
        self.languages = config.languages
        self.max_tokens = config.gpt.max_text_tokens - RESERVED_TOKENS
        self._frontend = config.text_frontend
        # What the ids of a text depend on; caches of ids carry it.
        vocabulary = (folder / "vocab.json").read_bytes()
        self.fingerprint = hashlib.sha256(vocabulary + self._frontend.encode()).hexdigest()
        self._coqui: Any = tokenizer_class()(str(folder / "vocab.json"))
        # What fits into the model's most codes (28 s of XTTS-v2), as Coqui found it, who warns
        # above. We split there.
        self._characters = dict(self._coqui.char_limits)
        self._coqui.char_limits = dict.fromkeys(self._characters, 1_000_000)

    def encode(self, text: str, language: str) -> list[int]:
        """The ids of `text`, without START and STOP.

        Raises TextError for a language that the model does not speak, or one whose extra package
        is not installed.
        """
        return list(self._coqui.tokenizer.encode(self._prepared(text, language)).ids)

    def unknown(self, text: str, language: str) -> list[str]:
        """The pieces of `text`, as normalised, that the vocabulary does not know."""
        prepared = self._prepared(text, language)
        encoding = self._coqui.tokenizer.encode(prepared)
        unknown_id = self._coqui.tokenizer.token_to_id(UNKNOWN)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        found = [prepared[start:end] for id_, (start, end) in spans if id_ == unknown_id]
        return list(dict.fromkeys(found))

    def split(self, text: str, language: str) -> list[str]:
        """Text -> pieces that each fit the token budget and the language's number of characters,
        cut where a voice may breathe.

        Raises TextError as `encode`, and for more than 90,000 characters.
        """
        if len(text) > MOST_CHARACTERS:
            raise TextError(
                f"The text has {len(text):,} characters; at most {MOST_CHARACTERS:,} are spoken at "
                "once. Speak it in parts."
            )
        pieces = [cleaned(text)]
        for pattern in _BREAKS:
            pieces = [part for piece in pieces for part in self._fitted(piece, language, pattern)]
        halves = [half for piece in pieces for half in self._halved(piece, language)]
        return [half.strip() for half in halves if _speakable(half)]

    def _fitted(self, piece: str, language: str, pattern: str) -> list[str]:
        if self._fits(piece, language):
            return [piece]
        limit = self._limit(language)
        joined, tokens = list[str](), 0
        for part in filter(None, re.split(pattern, piece)):
            # Each part is encoded once; together they have no more tokens than apart.
            more = self._tokens(part, language)
            whole = joined[-1] + part if joined else ""
            if joined and len(whole.strip()) <= limit and tokens + more <= self.max_tokens:
                joined[-1], tokens = whole, tokens + more
            else:
                joined.append(part)
                tokens = more
        return joined

    def _halved(self, piece: str, language: str) -> list[str]:
        """The last resort, for a single word longer than the budget."""
        if self._fits(piece, language):
            return [piece]
        middle = len(piece) // 2
        return self._halved(piece[:middle], language) + self._halved(piece[middle:], language)

    def _fits(self, piece: str, language: str) -> bool:
        few = len(piece.strip()) <= self._limit(language)
        return few and self._tokens(piece, language) <= self.max_tokens

    def _limit(self, language: str) -> int:
        return self._characters.get(self._checked(language), USUAL_CHARACTERS)

    def _tokens(self, piece: str, language: str) -> int:
        # Dots alone say nothing, and `encode` refuses them.
        return len(self.encode(piece, language)) if _speakable(piece) else 0

    def _prepared(self, text: str, language: str) -> str:
        """What Coqui's `encode` hands to the BPE: `[en]the[SPACE]text`."""
        short = self._checked(language)
        try:
            normal = self._coqui.preprocess_text(cleaned(text).lower(), short)
        except ImportError as error:
            packages = EXTRAS.get(short, str(error))
            raise TextError(
                f"LANGUAGE={language} needs packages that are not installed ({packages}). "
                "Install them with: .venv/bin/python -m pip install -e '.[languages]'"
            ) from error
        if self._frontend == "cmu_phones":
            from xtts.phones import to_phones

            normal = to_phones(normal)
        marker = "zh-cn" if short == "zh" else short
        return f"[{marker}]{normal}".replace(" ", "[SPACE]")

    def _checked(self, language: str) -> str:
        short = language.lower().split("-")[0]
        if short not in {known.split("-")[0] for known in self.languages}:
            raise TextError(
                f"Language {language!r} is not one of this model's: {', '.join(self.languages)}."
            )
        return short


def cleaned(text: str) -> str:
    """NFC, without control and zero-width characters, spaces collapsed.

    Raises TextError when nothing that can be spoken is left.
    """
    kept = (
        " " if character.isspace() else character
        for character in unicodedata.normalize("NFC", text)
        if character.isspace() or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co")
    )
    found = re.sub(r" +", " ", "".join(kept)).strip()
    if not _speakable(found):
        seen = text if len(text) <= 40 else text[:40] + "…"
        raise TextError(f"There is nothing to speak in {seen!r}: it has no letter and no digit.")
    return found


def _speakable(text: str) -> bool:
    """Whether it has a letter or a digit."""
    return any(unicodedata.category(character)[0] in "LN" for character in text)
