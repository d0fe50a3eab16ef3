"""Splits text that arrives during speech into whole sentences."""

import asyncio
import re

from api.errors import APIError
from api.schemas import MOST_CHARACTERS
from xtts.text.normalization.registry import sentence_ends

# The most characters that may wait to be spoken.
MOST_WAITING = 16 * MOST_CHARACTERS
_TAG = re.compile(r"<(/?)[a-zA-Z][^<>]*?(/?)>")
_UNCLOSED = re.compile(r"<[/a-zA-Z][^<>]*$|\[[^\[\]]*$")


class TextStream:
    """The text of one request, iterated once, in parts of whole sentences."""

    def __init__(self) -> None:
        self._kept = ""
        self._ended = False
        self._changed = asyncio.Event()

    def add(self, text: str) -> None:
        """Adds text. Raises APIError if too much text waits to be spoken."""
        if len(self._kept) + len(text) > MOST_WAITING:
            message = f"{MOST_WAITING:,} characters are already waiting. Send more later."
            raise APIError(413, "too_large", message, param="text")
        self._kept += text
        self._changed.set()

    def end(self) -> None:
        """Ends the text."""
        self._ended = True
        self._changed.set()

    def __aiter__(self) -> "TextStream":
        return self

    async def __anext__(self) -> str:
        while True:
            if part := self._part():
                return part
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()

    def _part(self) -> str:
        """The complete sentences so far, up to the limit of a request; signs without a letter wait
        for the next sentence, or are left out."""
        while self._kept:
            place = len(self._kept) if self._ended else last_end(self._kept)
            if place > MOST_CHARACTERS:
                place = last_end(self._kept[:MOST_CHARACTERS]) or MOST_CHARACTERS
            part = self._kept[:place]
            is_silent = not any(sign.isalnum() for sign in part)
            if is_silent and not self._ended:
                return ""
            self._kept = self._kept[place:]
            if not is_silent:
                return part.strip()
        return ""


def last_end(text: str) -> int:
    """The position where the last complete sentence or line of `text` ends; 0 if there is none."""
    lines = (line.end() for line in re.finditer("\n", text))
    places = {*lines, *sentence_ends("").places(text, whole=False)}
    for place in sorted(places, reverse=True):
        if not _is_inside_a_tag(text[:place]):
            return place
    return 0


def _is_inside_a_tag(head: str) -> bool:
    """Whether a cut after `head` would split an SSML tag or its content."""
    depth = sum(0 if alone else -1 if closes else 1 for closes, alone in _TAG.findall(head))
    return depth > 0 or bool(_UNCLOSED.search(head))
