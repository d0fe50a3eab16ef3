"""What the README and docs name exists: files, make targets, settings, links, figures; and limits,
bodies and tables in them are those of the code."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from machine.settings.loading import every_name
from machine.settings.names import RETIRED, likely_names
from tests.test_env_example import HOUSE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks/record.md")
)
COMMIT = r"`[0-9a-f]{8}`"
# Created by a run, or by the reader.
NOT_COMMITTED = (
    "train/output",
    "train/runs",
    "train/cache",
    "train/queue",
    "train/xtts_v2",
    "voices",
    ".venv",
    ".env",
)
# LASTWER, JOINED: words, alone or next to a figure, to be replaced by the result of a run.
PLACEHOLDER = re.compile(
    r"\b(TODO|TBD|FIXME|XXX)\b|\?\?\?|± ?\**[A-Z]{3,}|\b[A-Z]{4,}\** ?(?:±|%)"
    r"|(?:^|.\| *)\**[A-Z][A-Z0-9_]{2,}\**(?: ?(?:%|s|ms|MB|GB|dB|points?))? *(?:$|\|)"
)


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.M))


def tree() -> list[str]:
    """The paths of CONTRIBUTING's layout: each line begins with one or more of them."""
    block = next(part for part in text_of("CONTRIBUTING.md").split("```") if "\nxtts/" in part)
    lines = [line.split() for line in block.strip("\n").splitlines()]
    return [word for words in lines for word in itertools.takewhile(is_a_path, words)]


def is_a_path(word: str) -> bool:
    return word == "Makefile" or word == "Dockerfile" or re.search(r"[a-z]/$|\.[a-z]", word) is not None


def test_it_is_short():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("shelf", ["docs", "docs/develop"])
def test_the_index_of_a_shelf_lists_every_page_of_it(shelf):
    pages = {path.name for path in (ROOT / shelf).glob("*.md")} - {"index.md"}
    index = text_of(f"{shelf}/index.md")
    assert {page for page in pages if f"]({page})" not in index} == set()


def test_the_shelf_for_users_is_short():
    """Without the page of benchmarks, which is a table to look things up in."""
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name != "benchmarks.md"]
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in pages)
    assert len(pages) <= 22 and words <= 22_000


def test_every_line_of_the_tree_is_there():
    found = tree()
    assert len(found) > 15
    assert [path for path in found if not (ROOT / path).exists()] == []


def test_the_tree_leaves_no_file_of_the_top_out():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: what belongs to it and what is the reader's cannot be told apart")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tops = {line.split("/")[0] for line in listed.splitlines()}
    told = {path.split("/")[0] for path in tree()}
    assert tops - told <= {"CONTRIBUTING.md", "LICENSE", ".gitignore", ".dockerignore"}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_in_a_sentence_is_there(document):
    # A line with a commit names a file of another repository.
    lines = [line for line in text_of(document).splitlines() if not re.search(COMMIT, line)]
    quoted = re.findall(r"`([^`\s]+/[^`\s]*|[^`\s]+\.(?:py|md|yml|toml|lock|example))`", "\n".join(lines))
    tops = {path.name for path in ROOT.iterdir()}
    ours = {path for path in quoted if path.split("/")[0] in tops}
    missing = {path for path in ours if not (ROOT / path).exists()}
    assert {path for path in missing if not path.startswith(NOT_COMMITTED)} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document):
    links = re.findall(r"\]\(([^)]+)\)", text_of(document))
    inside = [link.split("#")[0] for link in links if "://" not in link]
    here = (ROOT / document).parent
    assert [link for link in inside if not (here / link).exists()] == []


def anchors(path: Path) -> set[str]:
    """The link targets on a page: its headings in GitHub's form, and its `id`s."""
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", re.sub(r"(?ms)^```.*?^```", "", text), re.M)
    plain = [re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings]
    return {*plain, *re.findall(r'id="([^"]+)"', text)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_into_a_page_leads_to_a_heading(document):
    links = re.findall(r"\]\(([^)\s]*)#([^)]+)\)", text_of(document))
    here = (ROOT / document).parent
    pages = [
        (here / page if page else ROOT / document, anchor)
        for page, anchor in links
        if "://" not in page and (page == "" or page.endswith(".md"))
    ]
    assert [str(page.name) for page, anchor in pages if anchor not in anchors(page)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_of_make_is_one(document):
    named = re.findall(r"(?:^|`|[A-Z0-9_]+=\S* )make ([a-z-]+)", text_of(document), re.M)
    assert set(named) <= targets()


def test_the_readme_or_the_start_names_every_command():
    said = README + text_of("docs/first-run.md") + text_of("CONTRIBUTING.md")
    assert {name for name in targets() - {"install"} if f"make {name}" not in said} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_setting_that_is_given_a_value_is_one(document):
    given = set(re.findall(r"(?:^|[` ])([A-Z][A-Z_]{3,})=", text_of(document), re.M))
    names = every_name() | (set(RETIRED) if document == "CHANGELOG.md" else set())
    others = given - names - {name for name, *_ in HOUSE}
    # The benchmarks page may mention another program's variables.
    wrong = (
        others if "benchmarks" not in document else {other for other in others if likely_names(other, names)}
    )
    assert wrong == set()


def test_the_settings_in_its_examples_are_accepted():
    from train import settings

    blocks = [part for part in README.split("```")[1::2] if re.match(r"\n[A-Z_]+=", part)]
    assert blocks
    for block in blocks:
        environ = dict(line.split("=", 1) for line in block.strip().splitlines())
        settings.load((), environ, None)


def test_the_verbs_it_shows_are_accepted():
    from train.__main__ import modules

    said = README + text_of("docs/your-voice.md") + text_of("docs/datasets.md")
    assert set(re.findall(r"python -m train ([a-z]+)", said)) <= set(modules())


def test_speaking_comes_before_training_and_a_voice_needs_one_path():
    """A newcomer records, trains and listens on the page; the command line is for those who have
    clips."""
    commands = [line for line in README.split("```")[1].splitlines() if line.startswith("make ")]
    assert [line.split()[1] for line in commands] == ["serve", "train", "studio", "test"]
    voice = README[README.index("## Your voice") : README.index("## What a run shows")]
    steps = re.findall(r"^[0-9]\. .*", voice, re.M)
    assert [one for one in ("`.env`", "make studio", "*Train*") if one in " ".join(steps)] == [
        "`.env`",
        "make studio",
        "*Train*",
    ]
    assert len(steps) == 3 and "DATASET_DIR" not in voice and "make train" not in " ".join(steps)
    block = next(part for part in voice.split("```") if part.startswith("\nBASE_MODEL="))
    assert len(block.strip().splitlines()) == 2


def test_the_first_screen_has_the_platform_a_picture_and_figures_against_coqui():
    first = README[: README.index("## Try it")]
    version = re.findall(r'^version = "(.+)"$', text_of("pyproject.toml"), re.M)[0]
    assert "Linux" in first and "Python 3.11" in first and f"version {version}" in first
    assert first.count("](docs/images/") == 1
    assert len(re.findall(r"^\|.*<!-- figure: .*<!-- figure: ", first, re.M)) == 4
    assert README.index("synthetic voice") < README.index("docs/audio/")


def test_it_says_what_the_weights_may_not_be_used_for():
    assert "CPML: non-commercial" in README
    assert "COQUI_TOS_AGREED=1" in README
    assert 'license = "MIT"' in text_of("pyproject.toml")
    assert text_of("LICENSE").startswith("MIT License")


def holes(page: str, *, whole: bool = False) -> list[str]:
    """Lines with a placeholder; whole: also table rows with an empty cell."""
    text = re.sub(r"(?ms)^```.*?^```|^[^\n]*\n(?=\|[-| :]+\|$)", "", page)  # code, headings
    empty = r"|^\|.*\|\s*\|" if whole else ""
    return [
        line
        for line in text.splitlines()
        if re.search(PLACEHOLDER.pattern + empty, re.sub(r"`[^`]*`", "x", line))
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_page_has_a_placeholder(document):
    found = holes(text_of(document), whole=document == "docs/benchmarks.md")
    assert not found, "Put the figure of a run there, or 'not measured'."


def test_placeholders_are_seen():
    table = "| | words |\n|---|---|\n"
    seen = [
        "JOINED",
        "| base | LASTWER |",
        "| base | **LASTWER** |",
        "| base | LASTD dB |",
        "| base | |",
        "LASTWER % of the words",
        "0.15 ± LASTM",
        "| base | TBD |",
        "Measured: ???",
    ]
    plain = [
        "| base | 0.15 |",
        "| base | not measured |",
        "| `BLEND` | on |",
        "`TODO` is a word.",
        "On a CPU with AMX.",
        "```\nTODO\n```",
    ]
    assert [line for line in seen if holes(table + line, whole=True) != [line]] == []
    assert [line for line in plain if holes(table + line, whole=True)] == []


def test_the_newest_version_of_the_changelog_is_the_projects():
    changelog = text_of("CHANGELOG.md")
    assert "## [Unreleased]" in changelog
    newest = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changelog, re.M)[0]
    assert f'version = "{newest}"' in text_of("pyproject.toml")
    parts = set(re.findall(r"^### (.+)$", changelog, re.M))
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert parts <= {"Upgrade notes", *kinds}


# The statements that a script can hold against the code or the results.


def paragraphs(document: str) -> list[str]:
    return re.split(r"\n\n", text_of(document))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_speed_in_larger_batches_stands_next_to_that_on_the_same_clips(document):
    larger = [
        paragraph for paragraph in paragraphs(document) if "figure: gpu.against Coqui.a clip" in paragraph
    ]
    assert [one for one in larger if "figure: gpu.against Coqui.the same four clips" not in one] == []


def test_a_run_of_xtts_v2_takes_the_disk_that_the_docs_say():
    from train.checkpointing.checkpoints import MAX_TRAINER_STATES
    from train.checkpointing.disk_space import max_checkpoints
    from train.optim.optimizer import STATE_BYTES
    from train.settings import TrainSettings

    millions = read_result("memory-full")["modes"]["GRADIENT_CHECKPOINTING=off"]["learning_millions"]
    settings = TrainSettings()
    copies = max_checkpoints(settings, 0, 10)
    states = MAX_TRAINER_STATES + 1
    needed = (4 * copies + STATE_BYTES[settings.optimizer] * states) * millions * 1e6
    for document in ("README.md", "docs/your-voice.md", "docs/hardware.md"):
        said = re.findall(r"about (\d+) GB", text_of(document))
        assert said and {int(one) for one in said} == {round(needed / 1e9)}, document


def test_a_voice_takes_the_hours_that_the_docs_say():
    """Half an hour of clips on two cores, without judging: epochs, then the decoder's steps."""
    from train.defaults import DEFAULT_EPOCHS
    from xtts.workers.decoder_schedule import steps_for

    speed = read_result("training-full")["variants"]["ours, all clips in a batch"]
    epochs = DEFAULT_EPOCHS * 30 / speed["audio_seconds_per_second"]
    told = re.findall(r"a step takes ([\d.]+) s of processor time", text_of("docs/develop/evaluation.md"))
    decoder = steps_for(30.0) * float(told[0]) / 2 / 60
    for document in ("README.md", "docs/your-voice.md", "docs/hardware.md"):
        assert "about two hours" in text_of(document)
    assert 1.75 <= (epochs + decoder) / 60 <= 2.25


def read_result(name: str) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(text_of(f"benchmarks/results/{name}.json"))["figures"]
    return figures


def test_a_sentence_is_repeated_as_often_as_the_docs_say():
    from xtts.inference.alignment.guarded_piece import MAX_RETRIES

    words = {1: "once", 2: "twice", 3: "three times"}
    assert f"again, up to {words[MAX_RETRIES]}," in " ".join(text_of("docs/text.md").split())


@pytest.mark.parametrize("document", ["README.md", "docs/evaluation.md"])
def test_a_table_of_candidates_has_the_columns_of_today(document):
    from train.evaluation.report import _COLUMNS, _head

    heads = re.findall(r"^ +(unfinished .*)$", text_of(document), re.M)
    assert heads and {tuple(re.split(r" {2,}", head)) for head in heads} == {_head(_COLUMNS.values())[1:-1]}


def test_the_bodies_of_the_api_are_those_of_its_schemas():
    from api.schemas import Status

    blocks = re.findall(r"^```\n(\{.*?)^```$", text_of("docs/api.md"), re.M | re.S)
    bodies = [json.loads(block) for block in blocks if "…" not in block]
    status = next(body for body in bodies if "uptime_seconds" in body)
    assert set(status) == set(Status.model_fields)


def test_the_glossary_names_the_module_that_defines_a_term():
    """A last cell is files, a colon, and names, each of which one of the files defines."""
    cells = re.findall(r"\| (`[^|]+\.py`): (`[^|]+`) \|$", text_of("GLOSSARY.md"), re.M)
    assert len(cells) > 20
    wrong = []
    for files, names in cells:
        text = "\n".join(map(text_of, re.findall(r"`([^`]+\.py)`", files)))
        for name in re.findall(r"`(\w+)", names):
            if not re.search(rf"^(?:def|class|async def) {name}\b|^ *{name}\b.*=", text, re.M):
                wrong.append(f"{files}: {name}")
    assert wrong == []


def test_pythons_without_the_recogniser_are_those_of_the_project():
    import tomllib

    project = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
    marker = next(one for one in project["cut"] if one.startswith("pocketsphinx"))
    without = {f"3.{minor}" for minor in range(11, 15)} - set(re.findall(r"'(3\.\d+)'", marker))
    for document in ("README.md", "docs/evaluation.md", "docs/cutting.md"):
        said = re.findall(r"Python (3\.\d+) and (3\.\d+)", text_of(document))
        assert said and {version for pair in said for version in pair} == without, document


def test_what_is_installed_without_make_has_the_parts_that_exist():
    import tomllib

    parts = set(tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"])
    said = re.findall(r"'\.\[([a-z,-]+)\]'", "".join(map(text_of, DOCUMENTS)))
    assert said and {part for one in said for part in one.split(",")} <= parts


@pytest.mark.slow
def test_the_times_of_words_are_those_of_todays_demo(tmp_path):
    """The three pages that show them quote one run."""
    times = tmp_path / "left.json"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "xtts",
            "speak",
            "--voice",
            "demo",
            "--text",
            "Turn left here.",
            "--out",
            str(tmp_path / "left.wav"),
            "--words",
            str(times),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    words = json.loads(times.read_text())
    said = re.findall(r'"start_time": ([\d.]+), "end_time": ([\d.]+)', text_of("docs/api.md"))
    assert [(float(a), float(b)) for a, b in said] == [
        (word["start_time"], word["end_time"]) for word in words
    ]
    ends = (words[0]["start_time"], words[-1]["end_time"])
    clock = " --> ".join(f"00:00:00,{1000 * end:03.0f}" for end in ends)
    assert clock in text_of("docs/text.md") and clock in text_of("docs/develop/guard.md")
