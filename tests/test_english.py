"""Phrases of another language's grammar must not come back where the prose was corrected.

The list is short on purpose. A hit shows a sentence to rewrite; a text without hits may still be
hard to read.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKED = ("machine", "xtts", "train", "api", "extras", "docs", "README.md")
# Remove a line when its prose was corrected.
NOT_YET = (
    # A record: its sentences come from the results of benchmarks.
    "docs/benchmarks.md",
)
# A regular expression, a sentence with it, and the same in plain English.
BANNED = (
    (
        r'(?:^[\s#"]*|[.:;]\s+)Of (?!course\b)[a-z]+',
        "Of a folder, all files are read.",
        "All files in a folder are read.",
    ),
    (
        r"(?<!here.)\b(?:is|are|was|were) no (?!longer\b|more\b|other\b|way\b|need\b|reason\b)[a-z]+",
        "It is no sound file.",
        "It is not a sound file.",
    ),
    (
        r"\b(?:stands?|stood) (?:there|here|beside|behind|below|above)\b",
        "What stands there is read.",
        "The existing file is read.",
    ),
    (r"\b(?:is|are|was|were|be|been) told\b", "The user is told.", "A message says so."),
    (r"\bgo(?:es)? on\b|\bwent on\b", "The run goes on.", "The run resumes."),
    (r"\bof (?:its|their|his|her|our|one's) own\b(?! [a-z])", "A process of its own.", "A separate process."),
    (
        r"\bwhat (?:is|was|are|were) (?:said|heard|spoken|served|asked|there|left|kept|written)\b",
        "It shows what is served.",
        "It shows the served voice.",
    ),
    (r"\b(?:is|are|was|were) (?:heard|said)\b", "Each word is heard.", "Each word is recognised."),
    (r"\bwhoever\b|\bwho (?:asks|waits|hears)\b", "It ends whoever speaks.", "It ends speech in progress."),
    (
        r"\bwhere (?:there (?:is|are)|it (?:is|has) (?:no|not|one)|none|nothing)\b",
        '"" where there is none.',
        '"" if it is missing.',
    ),
    (r"\bso (?:many|much) (?!as\b|that\b)[a-z]+", "It waits so many seconds.", "It waits `seconds` seconds."),
    (r"\b(?:anew|astray|thereby|wherein)\b", "The run begins anew.", "The run starts again."),
    (r"\b(?:is|are|was|be|been|the) mended\b|\bto mend\b", "The file is mended.", "The file is repaired."),
    (r"\bsmall letters\b|\btruth value", "In small letters.", "In lower case."),
    (r"\bfor want of\b|\bfor good\b|\bby now\b", "It ended for good.", "It ended permanently."),
)
# A sentence may span lines of comments, docstrings and strings.
_GAP = r'(?:\s|#|f?")+'


def compiled(pattern: str) -> re.Pattern[str]:
    """A phrase that may be broken over several lines of source."""
    return re.compile(pattern.replace(" ", _GAP), re.MULTILINE)


PATTERNS = [compiled(pattern) for pattern, _, _ in BANNED]


def without_code(text: str) -> str:
    """Markdown with empty lines in place of code blocks and without code spans."""
    blocks = re.compile(r"^[ ]*(```|~~~).*?^[ ]*\1", re.MULTILINE | re.DOTALL)
    text = blocks.sub(lambda block: "\n" * block[0].count("\n"), text)
    return re.sub(r"`[^`\n]*`", "``", text)


def found_in(name: str, text: str) -> Iterator[str]:
    """The place, the phrase and an example of a better sentence, for each banned phrase."""
    prose = without_code(text) if name.endswith(".md") else text
    for pattern, (_, _, better) in zip(PATTERNS, BANNED, strict=True):
        for match in pattern.finditer(prose):
            phrase = re.sub(_GAP, " ", match[0]).lstrip(" .:;")
            start = prose.index(phrase[:2], match.start())
            line = prose.count("\n", 0, start) + 1
            yield f"{name}:{line}: {phrase!r} is not plain English; write as in {better!r}"


def files_of(place: str) -> list[Path]:
    path = ROOT / place
    found = path.rglob("*.md" if place == "docs" else "*.py")
    left_out = [ROOT / one for one in NOT_YET]
    return [
        one for one in sorted(found) or [path] if not any(one.is_relative_to(other) for other in left_out)
    ]


@pytest.mark.parametrize("place", CHECKED)
def test_prose_has_no_banned_phrase(place):
    hits = [
        hit
        for path in files_of(place)
        for hit in found_in(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]
    assert not hits, "\n" + "\n".join(hits)


@pytest.mark.parametrize(("pattern", "bad", "good"), BANNED)
def test_each_phrase_is_found_and_its_correction_is_not(pattern, bad, good):
    head = '"""The first line.\n\n'
    assert any(hit.startswith("a.py:3: ") for hit in found_in("a.py", f'{head}{bad}\n"""\n'))
    assert not list(found_in("a.py", f'{head}{good}\n"""\n'))
    assert compiled(pattern).search(bad.replace(" ", "\n    # "))


def test_code_in_a_page_is_not_prose():
    page = "Text.\n\n```\nthe run goes on\n```\n\nThe run `goes on`. It goes on.\n"
    (hit,) = found_in("page.md", page)
    assert hit.startswith("page.md:7: 'goes on'")
