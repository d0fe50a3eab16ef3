"""Cuts text that is still being written into the parts that are spoken.

The first part may be a clause, so that speech begins early; the later ones are whole sentences,
because a voice reads those best.
"""

import asyncio
import re

from api.errors import APIError
from api.schemas import MAX_CHARACTERS
from xtts.text.normalization.registry import sentence_ends

# The maximum number of characters that may wait to be spoken.
MAX_WAITING_CHARACTERS = 16 * MAX_CHARACTERS
# A first clause has at least four words, or as many characters as four words of Chinese have: a
# shorter one is spoken badly, and its sound ends before the next part begins.
_MIN_CLAUSE_WORDS = 4
_MIN_CLAUSE_CHARACTERS = 8
_CLAUSE_END = re.compile(r"[,;:،–—](?=\s)|[、，；：]")
_WORD = re.compile(r"\w[\w'’-]*")
# Scripts without spaces between words, such as Chinese, Japanese and Thai.
_UNSPACED_CHARACTER = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)
_TAG = re.compile(r"<(/?)[a-zA-Z][^<>]*?(/?)>")
_UNCLOSED = re.compile(r"<[/a-zA-Z][^<>]*$|\[[^\[\]]*$")


class TextStream:
    """The text of one request, iterated once, in parts.

    A part is the whole sentences that have arrived; the first may be a clause of four words or
    more. After `flush`, the text so far is a part, however it ends, and a clause may follow it.
    """

    def __init__(self) -> None:
        self._unspoken = ""
        self._num_flushed = 0
        self._has_begun = False
        self._has_ended = False
        self._changed = asyncio.Event()

    @property
    def waiting(self) -> str:
        """The text that is not part of any part yet."""
        return self._unspoken

    def add(self, text: str) -> None:
        """Adds text. Raises APIError if too much text waits to be spoken."""
        if len(self._unspoken) + len(text) > MAX_WAITING_CHARACTERS:
            message = f"{MAX_WAITING_CHARACTERS:,} characters are already waiting. Send more later."
            raise APIError(413, "too_large", message, param="text")
        self._unspoken += text
        self._changed.set()

    def flush(self) -> None:
        """Ends the part that has arrived so far."""
        self._num_flushed = len(self._unspoken)
        self._changed.set()

    def end(self) -> None:
        """Ends the text."""
        self._has_ended = True
        self.flush()

    def __aiter__(self) -> "TextStream":
        return self

    async def __anext__(self) -> str:
        while True:
            if part := self._take_part():
                return part
            if self._has_ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()

    def _take_part(self) -> str:
        """The next part, up to the limit of a request; signs without a letter wait for the next
        sentence, or are left out."""
        while self._unspoken:
            cut = self._num_flushed or last_sentence_end(self._unspoken)
            if not cut and not self._has_begun:
                cut = last_clause_end(self._unspoken)
            if cut > MAX_CHARACTERS:
                cut = last_sentence_end(self._unspoken[:MAX_CHARACTERS]) or MAX_CHARACTERS
            part = self._unspoken[:cut]
            is_silent = not any(sign.isalnum() for sign in part)
            if is_silent and not self._num_flushed:
                return ""
            self._unspoken = self._unspoken[cut:]
            self._has_begun = cut != self._num_flushed
            self._num_flushed = max(0, self._num_flushed - cut)
            if not is_silent:
                return part.strip()
        return ""


def last_sentence_end(text: str) -> int:
    """The position where the last complete sentence or line of `text` ends; 0 if there is none."""
    lines = (line.end() for line in re.finditer("\n", text))
    places = {*lines, *sentence_ends("").places(text, is_complete=False)}
    return _last_outside_tags(text, places)


def last_clause_end(text: str) -> int:
    """The position where the last clause of `text` ends, if it can be spoken alone; else 0."""
    ends = {sign.end() for sign in _CLAUSE_END.finditer(text)}
    cut = _last_outside_tags(text, ends)
    clause = text[:cut]
    is_long = (
        len(_WORD.findall(clause)) >= _MIN_CLAUSE_WORDS
        or len(_UNSPACED_CHARACTER.findall(clause)) >= _MIN_CLAUSE_CHARACTERS
    )
    return cut if is_long else 0


def _last_outside_tags(text: str, places: set[int]) -> int:
    return next((cut for cut in sorted(places, reverse=True) if not _is_inside_a_tag(text[:cut])), 0)


def _is_inside_a_tag(head: str) -> bool:
    """Whether a cut after `head` would split an SSML tag or its content."""
    depth = sum(0 if alone else -1 if closes else 1 for closes, alone in _TAG.findall(head))
    return depth > 0 or bool(_UNCLOSED.search(head))
