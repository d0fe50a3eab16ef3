"""Every promise of the pages has a test; docs/develop/faults.md row by row."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/develop/faults.md").read_text(encoding="utf-8")
TABLES = PAGE[PAGE.index("## When something fails") :]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TABLES.splitlines()
    if line.startswith("| ") and not line.startswith("| Fault")
]

# Modules and functions.
TEST_NAMES = {path.stem for path in (ROOT / "tests").rglob("test_*.py")} | {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
}


def source(name: str) -> str:
    """The text of `tests/**/name.py`; if two files share the name, put the folder before it.

    Benchmarks are left out: they measure and promise nothing.
    """
    found = [path for path in (ROOT / "tests").rglob(f"{name}.py") if "benchmarks" not in path.parts]
    assert len(found) < 2, f"{name} may be any of {found}"
    return found[0].read_text(encoding="utf-8") if found else ""


def test_there_are_rows():
    assert len(ROWS) > 50
    assert all(len(row) == 3 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_promise_has_its_tests(row):
    fault, promise, tests = row
    assert fault and promise
    module = ""
    found = 0
    for name in re.findall(r"`((?:[a-z]+/)?test_[a-z0-9_]+)(?:\[[^`]*\])?`", tests):
        if there := source(name):
            module = there
        else:
            assert re.search(rf"^def {name}\(", module, re.MULTILINE), f"{fault}: no {name}"
            found += 1
    assert found


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_every_test_that_a_page_names_exists(page):
    """Except in the history, which names former tests."""
    named = re.findall(r"`(?:[a-z]+/)?(test_[a-z0-9_]+)(?:\[[^`]*\])?`", page.read_text("utf-8"))
    assert not [name for name in named if name not in TEST_NAMES]
