"""What the README and docs name exists: files, make targets, settings, links, figures."""

import itertools
import re
import subprocess
from pathlib import Path

import pytest

from machine.settings.loading import every_name
from machine.settings.names import RETIRED, meant
from tests.test_env_example import HOUSE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks/record.md")
)
COMMIT = r"`[0-9a-f]{8}`"
# Created by a run, or by the reader.
NOT_COMMITTED = ("train/output", "train/runs", "train/cache", "train/queue", "train/xtts_v2",
                 "voices", ".venv", ".env")  # fmt: skip
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
    return (
        word == "Makefile"
        or word == "Dockerfile"
        or re.search(r"[a-z]/$|\.[a-z]", word) is not None
    )


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
    assert len(pages) <= 20 and words <= 20_000


def test_every_line_of_the_tree_is_there():
    found = tree()
    assert len(found) > 15
    assert [path for path in found if not (ROOT / path).exists()] == []


def test_the_tree_leaves_no_file_of_the_top_out():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: what belongs to it and what is the reader's cannot be told apart")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    tops = {line.split("/")[0] for line in listed.splitlines()}
    told = {path.split("/")[0] for path in tree()}
    assert tops - told <= {"CONTRIBUTING.md", "LICENSE", ".gitignore", ".dockerignore"}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_in_a_sentence_is_there(document):
    # A line with a commit names a file of another repository.
    lines = [line for line in text_of(document).splitlines() if not re.search(COMMIT, line)]
    quoted = re.findall(
        r"`([^`\s]+/[^`\s]*|[^`\s]+\.(?:py|md|yml|toml|lock|example))`", "\n".join(lines)
    )
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
    plain = [re.sub(r"[^\w\- ]", "", one.strip().lower()).replace(" ", "-") for one in headings]
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
    wrong = others if "benchmarks" not in document else {one for one in others if meant(one, names)}
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


def test_speaking_comes_before_training_and_a_voice_needs_four_settings():
    commands = [line for line in README.split("```")[1].splitlines() if line.startswith("make ")]
    assert [line.split()[1] for line in commands] == ["serve", "train", "studio", "test"]
    block = next(part for part in README.split("```") if part.startswith("\nDATASET_DIR="))
    assert len(block.strip().splitlines()) == 4


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
    seen = ["JOINED", "| base | LASTWER |", "| base | **LASTWER** |", "| base | LASTD dB |",
            "| base | |", "LASTWER % of the words", "0.15 ± LASTM", "| base | TBD |",
            "Measured: ???"]  # fmt: skip
    plain = ["| base | 0.15 |", "| base | not measured |", "| `BLEND` | on |", "`TODO` is a word.",
             "On a CPU with AMX.", "```\nTODO\n```"]  # fmt: skip
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
