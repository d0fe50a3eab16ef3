"""No page has a hole where a figure belongs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
# LASTWER, JOINED: a word that was to be replaced by what a run says.
CAPITALS = re.compile(r"\**[A-Z][A-Z0-9_]{2,}\**(?: ?(?:%|s|ms|MB|GB|dB|points?))?")
TO_DO = re.compile(r"\b(TODO|TBD|FIXME|XXX)\b|\?\?\?")
BESIDE_A_FIGURE = re.compile(r"± ?\**[A-Z]{3,}|\b[A-Z]{4,}\** ?(?:±|%)")
RULE = re.compile(r"\|[-| :]+\|")


def holes(page: str, *, whole: bool = False) -> list[str]:
    """Lines with a placeholder; whole: also table rows with an empty cell."""
    found, lines, code = [], page.splitlines(), False
    for number, line in enumerate(lines):
        code ^= line.startswith("```")
        if code:
            continue
        cells = [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") else []
        if RULE.fullmatch("".join(lines[number + 1 : number + 2])):
            continue  # a heading
        plain = re.sub(r"`[^`]*`", "", line)
        hole = any(map(CAPITALS.fullmatch, cells[1:] or [line.strip()]))
        hole = hole or TO_DO.search(plain) or BESIDE_A_FIGURE.search(plain)
        if hole or (whole and "" in cells):
            found.append(line)
    return found


@pytest.mark.parametrize("page", PAGES, ids=[path.name for path in PAGES])
def test_no_page_has_a_placeholder(page: Path) -> None:
    found = holes(page.read_text(encoding="utf-8"), whole=page.name == "benchmarks.md")
    assert not found, "Put the figure of a run there, or 'not measured'."


def test_placeholders_are_seen() -> None:
    table = "| | words |\n|---|---|\n"
    for line in (
        "JOINED", "| base | LASTWER |", "| base | **LASTWER** |", "| base | LASTD dB |",
        "| base | |", "LASTWER % of the words", "0.15 ± LASTM", "| base | TBD |", "Measured: ???",
    ):  # fmt: skip
        assert holes(f"{table}{line}", whole=True) == [line], line
    for line in (
        "| base | 0.15 |", "| base | not measured |", "| `BLEND` | on |", "On a CPU with AMX.",
        "`TODO` is a word.", "```\nTODO\n```",
    ):  # fmt: skip
        assert holes(f"{table}{line}", whole=True) == [], line
