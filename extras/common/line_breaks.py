"""Joins the lines of a printed text, and the words that are divided at the ends of lines.

A hyphen at the end of a line divides a word ("nega-⏎tive") or belongs to it ("well-⏎known"). The
text itself decides if it has the word inside a line, then CMU's dictionary for English, and
otherwise the hyphen divides.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache

from xtts.text.languages import other_language, short_code
from xtts.text.pronunciations import is_known

# Signs at the end of a divided line. The last is a soft hyphen; OCR writes `¬`.
_HYPHENS = "-‐¬\u00ad"
_FIRST_PART = re.compile(rf"(?P<first>[^\W_]+(?:['’][^\W_]+)?)[{_HYPHENS}]\s*$")
_SECOND_PART = re.compile(r"\s*(?P<rest>[^\W_]+(?:['’][^\W_]+)?)")
_WORD = re.compile(r"[^\W\d_]+(?:[-‐'’][^\W\d_]+)*")
# Words after a hyphen that stands for a part of a later word: "two- and three-year-olds".
_CONJUNCTIONS = frozenset("and or und oder bzw".split())
# Prefixes that keep their hyphen in English.
_HYPHENATED_PREFIXES = frozenset("all ex great half quasi self vice well".split())
# The dictionary has names and letter groups of this length for nearly every syllable.
_MIN_PART = 3
# Characters at the end of a line that may hold a divided word.
_TAIL_LENGTH = 80


def joiner(text: str, language: str) -> Callable[[Sequence[str]], str]:
    """A function that joins lines of this text into one. An unknown language, "", means English
    unless the text looks like another language."""
    code = short_code(language) if language else ""

    @cache  # most texts divide no word
    def words_and_is_english() -> tuple[frozenset[str], bool]:
        words = frozenset(word.casefold() for word in _WORD.findall(text))
        is_english = code == "en" or (not code and other_language([text], "en") is None)
        return words, is_english

    def join(lines: Sequence[str]) -> str:
        parts, last = list[str](), lines[0] if lines else ""
        for line in lines[1:]:
            first, rest = _FIRST_PART.search(last[-_TAIL_LENGTH:]), _SECOND_PART.match(line)
            if first is None or rest is None:
                parts += (last, " ")
                last = line
                continue
            head = last[: max(len(last) - _TAIL_LENGTH, 0) + first.start()]
            separator = _separator(head, first, rest["rest"], *words_and_is_english())
            parts += (head, first["first"], separator)
            last = line[rest.start("rest") :]
        return "".join([*parts, last])

    return join


def _separator(before: str, divided: re.Match[str], rest: str, words: frozenset[str], english: bool) -> str:
    """The text between the two parts of a divided word: "", a hyphen, or a hyphen and a space.

    Args:
        before: The line up to the first part.
        divided: The match of `_FIRST_PART`.
        rest: The second part.
        words: The words inside of lines.
        english: Whether the text is English.
    """
    first = divided["first"]
    if divided[0].rstrip()[-1] in "¬\u00ad":
        return ""
    one_word = f"{first}{rest}".casefold() in words or (english and is_known((first + rest).lower()))
    if rest in _CONJUNCTIONS and not one_word:
        return "- "
    # Words are not divided after a figure or a single letter, before a capital, or at a second hyphen.
    is_compound = before.endswith(tuple(_HYPHENS)) and not before.endswith(f" {before[-1:]}")
    if len(first) == 1 or first[-1].isdigit() or not rest[0].islower() or is_compound:
        is_upper = first.isupper() and rest.isupper() and len(first) > 1
        return "" if is_upper and not is_compound else "-"
    if f"{first}-{rest}".casefold() in words:
        return "-"
    return "-" if english and not one_word and _are_words(first.lower(), rest.lower()) else ""


def _are_words(first: str, rest: str) -> bool:
    """Whether both parts are English words by themselves."""
    if first in _HYPHENATED_PREFIXES:
        return True
    parts = (first, rest)
    return all(len(part) >= _MIN_PART and is_known(part) for part in parts)
