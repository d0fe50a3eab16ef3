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
# Where a voice may breathe, best first: sentence ends, clause ends, any space.
_BREAKS = (r"(?<=[.!?…؟।])\s+|(?<=[。！？])", r"(?<=[,;:،])\s+|(?<=[、，；：])", r"\s+")


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
        # Coqui warns above a number of characters; we count tokens, which is what matters.
        self._coqui.char_limits = dict.fromkeys(self._coqui.char_limits, 1_000_000)

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
        """Text -> pieces that each fit the token budget, cut where a voice may breathe."""
        pieces = [cleaned(text)]
        for pattern in _BREAKS:
            pieces = [part for piece in pieces for part in self._fitted(piece, language, pattern)]
        return [part for piece in pieces for part in self._halved(piece, language) if part.strip()]

    def _fitted(self, piece: str, language: str, pattern: str) -> list[str]:
        if self._fits(piece, language):
            return [piece]
        joined: list[str] = []
        for part in filter(None, re.split(pattern, piece)):
            longer = f"{joined[-1]} {part}" if joined else part
            if joined and self._fits(longer, language):
                joined[-1] = longer
            else:
                joined.append(part)
        return joined

    def _halved(self, piece: str, language: str) -> list[str]:
        """The last resort, for a single word longer than the budget."""
        if self._fits(piece, language):
            return [piece]
        middle = len(piece) // 2
        return self._halved(piece[:middle], language) + self._halved(piece[middle:], language)

    def _fits(self, piece: str, language: str) -> bool:
        return len(self.encode(piece, language)) <= self.max_tokens

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
    if not any(unicodedata.category(character)[0] in "LN" for character in found):
        seen = text if len(text) <= 40 else text[:40] + "…"
        raise TextError(f"There is nothing to speak in {seen!r}: it has no letter and no digit.")
    return found
