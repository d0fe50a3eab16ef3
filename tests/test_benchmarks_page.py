"""docs/benchmarks.md and benchmarks/record.md match the results and goals, and pages quote them.

`python -m benchmarks.page` writes both again.
"""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from benchmarks import goals, page, result_files
from benchmarks.__main__ import names, parser_of
from benchmarks.result_files import Result, ResultError
from tests.benchmarks.test_every_benchmark import SMALLEST

ROOT = Path(__file__).parents[1]
LOG = ROOT / "docs/develop/log.md"
RESULTS = result_files.read_all()
GOALS = goals.read()
COMMANDS = sorted(
    {result.command for result in RESULTS.values() if not result.runs_at}
    | {goal.command for goal in GOALS} - {""}
)
EMPTY = re.compile(r"\|\s*\|")


def fault_of(command: str) -> str:
    """Why a command cannot be run; "" if it can."""
    words = shlex.split(command)
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        del words[0]
    if words[:1] == ["make"]:
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        known = re.search(rf"^{re.escape(words[1])}:", makefile, re.MULTILINE)
        return "" if known else f"make has no target {words[1]}"
    if words[:2] != [".venv/bin/python", "-m"] or len(words) < 3:
        return "it is neither make nor .venv/bin/python -m"
    module, arguments = words[2], words[3:]
    if module == "benchmarks":
        return fault_of_benchmark(arguments)
    if module == "pytest":
        return fault_of_tests(arguments)
    script = (ROOT / module.replace(".", "/")).with_suffix(".py")
    if script.is_file() and not arguments and "__main__" in script.read_text(encoding="utf-8"):
        return ""
    return "" if module in ("train", "xtts") else f"{module} is no program of ours"


def fault_of_benchmark(words: list[str]) -> str:
    if words[0] not in names():
        return f"there is no benchmark {words[0]}"
    if words[0] not in SMALLEST:
        return f"no test starts the benchmark {words[0]}"
    try:
        parser_of(words[0])[1].parse_args(words[1:])
    except SystemExit:
        return f"the benchmark {words[0]} does not take {words[1:]}"
    return ""


def fault_of_tests(words: list[str]) -> str:
    paths = [word for word in words if word.startswith("tests")]
    missing = [path for path in paths if not (ROOT / path).exists()]
    if missing or not paths:
        return f"no such tests: {missing}"
    if "-k" in words:
        wanted = words[words.index("-k") + 1]
        text = "".join((ROOT / path).read_text(encoding="utf-8") for path in paths)
        if not re.search(rf"def test_\w*{wanted}", text):
            return f"no test has {wanted} in its name"
    return ""


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, without headings."""
    lines = re.findall(r"(?m)^\|.*\|$", re.sub(r"(?m)^\|.*\|\n(?=\| ---)", "", text))
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if not line.startswith("| ---")
    ]


def test_the_page_is_what_the_results_say():
    judged = [goals.judged(goal, RESULTS) for goal in GOALS]
    written = page.PAGE.read_text(encoding="utf-8")
    assert written == page.page(RESULTS, judged), "run: python -m benchmarks.page"
    record = page.RECORD.read_text(encoding="utf-8")
    assert record == page.record(RESULTS, judged), "run: python -m benchmarks.page"


def test_the_pages_can_be_read_at_once():
    lines = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in (page.PAGE, page.RECORD, LOG)
    }
    assert lines[page.PAGE] <= 300 and lines[page.RECORD] <= 400 and lines[LOG] <= 600
    assert len(GOALS) <= 40


def test_every_result_is_a_goals_or_is_quoted_or_linked_to():
    """A figure that no page uses belongs into the log."""
    judged = [goals.judged(goal, RESULTS) for goal in GOALS]
    text = "".join(path.read_text(encoding="utf-8") for path in page.pages() if path != page.PAGE)
    used = {name for one in judged for name in one.results}
    used |= {path.partition(".")[0] for path, _, _ in page.quoted(text)}
    used |= set(re.findall(r"benchmarks/record\.md#([\w-]+)", text))
    assert set(RESULTS) <= used, set(RESULTS) - used


def test_no_cell_is_empty():
    found = rows(page.PAGE.read_text("utf-8") + page.RECORD.read_text("utf-8"))
    assert len(found) >= len(GOALS) + len(RESULTS)
    assert [row for row in found if not all(row)] == []


def test_an_empty_cell_is_seen():
    table = "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 |  |\n"
    assert [row for row in rows(table) if not all(row)] == [["3", ""]]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_can_be_run(command):
    assert fault_of(command) == ""


@pytest.mark.parametrize(
    "command",
    [
        "make nothing",
        "python -m benchmarks text",
        ".venv/bin/python -m benchmarks rounding",
        ".venv/bin/python -m benchmarks text --ears 2",
        ".venv/bin/python -m pytest tests/peers/test_nothing.py",
        ".venv/bin/python -m pytest -m slow",
        ".venv/bin/python -m pytest tests/api/test_load.py -k four_times",
        ".venv/bin/python -m seaborn",
    ],
)
def test_a_command_that_cannot_be_run_is_seen(command):
    assert fault_of(command)


def test_every_row_of_goals_links_to_its_details():
    text = page.PAGE.read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(\.\./benchmarks/record\.md#([^)]+)\)", text))
    named = re.findall(r'<a id="([^"]+)">', page.RECORD.read_text(encoding="utf-8"))
    assert linked and linked <= set(named)
    assert len(named) == len(set(named)) == len(RESULTS)


# ---- figures that other pages quote ----


@pytest.mark.parametrize("path", page.pages(), ids=lambda path: path.name)
def test_every_quoted_figure_is_the_results(path):
    text = path.read_text(encoding="utf-8")
    assert page.filled(text, RESULTS) == text, "run: python -m benchmarks.page"
    assert text.count("<!-- figure:") == len(list(page.quoted(text))), "a mark is not closed"


def test_a_wrong_figure_is_corrected_and_an_unknown_one_refused():
    figures = {"awb": {"source": 0.1134, "texts": 60}}
    results = {"voice": RESULTS["text"].model_copy(update={"figures": figures})}
    mark = "<!-- figure: voice.awb.source{} -->{}<!-- /figure -->"
    assert page.filled(mark.format("", "0.10"), results) == mark.format("", "0.11")
    assert page.filled(mark.format(" %", "12"), results) == mark.format(" %", "11")
    spaced = {"a": RESULTS["text"].model_copy(update={"figures": {"a step, full": 1936.0}})}
    assert "-->1936<" in page.filled(
        mark.format("", "1").replace("voice.awb.source", "a.a step, full"), spaced
    )
    assert page.filled("None is quoted.", results) == "None is quoted."
    for path in ("voice.awb.sources", "voices.awb.source", "voice.awb"):
        with pytest.raises(ResultError, match=re.escape(path)):
            page.filled(f"<!-- figure: {path} -->1<!-- /figure -->", results)


# ---- how figures are shown ----


def test_figures_are_shown_with_the_decimals_that_count():
    shown = {0.16: "0.16", 9.84: "9.84", 1234.56: "1,234.6", 5521: "5,521", True: "yes", "a|b": "a\\|b"}
    assert {value: page.cell(value) for value in shown} == shown
    assert page.amount(0.0004, "%") == "0.04 %" and page.amount(0.139, "%") == "13.9 %"
    assert page.amount(7.62, "min") == "7.62 min"


def test_a_goal_is_shown_with_its_limit_and_what_it_is_compared_with():
    goal = goals.Goal(
        subject="Speaking",
        goal="Fast: at most {limit}",
        figure=["a.ours"],
        at_most=2.0,
        unit="s",
        beside={"Coqui": "a.coqui"},
    )
    result = RESULTS["data-scale"].model_copy(update={"figures": {"ours": 1.5, "coqui": 6.0}})
    row = page._goal_row(goals.judged(goal, {"a": result}), {"a": result})
    assert row == (
        "Fast: at most 2 s",
        "**1.5 s** (Coqui: 6 s)",
        "reached",
        "[`benchmarks data`](../benchmarks/record.md#a)",
    )


def test_a_result_of_a_removed_benchmark_names_the_commit_that_repeats_it():
    result = RESULTS["data-scale"].model_copy(update={"runs_at": "0a1b2c3d"})
    assert page._linked("data", result).endswith("record.md#data) at `0a1b2c3d`")
    assert page._record_row("data", result)[1].endswith("` at `0a1b2c3d`")


def test_every_benchmark_has_its_subject():
    assert set(result_files.SUBJECT_OF) == set(names())
    assert {type(result) for result in RESULTS.values()} == {Result}
    assert all(importlib.import_module(f"benchmarks.{name}").__doc__ for name in names())
