"""docs/develop/modules.md lists the first line of each module.

`python -m tests.test_modules_page` writes it again.
"""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

from tests.installed import is_deleted

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "develop" / "modules.md"
PACKAGES = ("machine", "xtts", "train", "api", "extras", "demo_voice", "benchmarks")

# Folders of files other than Python.
DATA = {
    "xtts/assets/demo/": "The embedded voice: weights, config, vocabulary, reference, model card.",
    "train/data/demo/": "The demo dataset: 200 short clips with their transcripts.",
    "train/data/evaluation/": "Evaluation sentences in each language, and other voices to compare.",
    "extras/cut/report.html": "The template of the report on a cut recording.",
    "extras/studio/datasets/sentences/": "Sentences to read aloud in each language, one a line.",
    "api/page/": "The web page: its scripts and styles above, and its HTML.",
    "extras/accent/page/": "The accent's part of the page.",
    "extras/books/page/": "The books' part of the page.",
    "extras/studio/page/": "The studio's part of the page.",
    "benchmarks/": "Texts that the benchmarks speak, and values of the published config.json.",
    "benchmarks/results/": "The results of the benchmarks as JSON, from which pages are generated.",
}
SCRIPTS = ("api/page", "extras/studio/page", "extras/books/page", "extras/accent/page")
HEAD = """# Modules

Every module with the first line of its docstring, the scripts and styles of the page, and the
folders of data. Generated:
`.venv/bin/python -m tests.test_modules_page`.
"""


@cache
def first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n")[0]


def modules(package: str) -> list[Path]:
    """The package's modules that git knows; a folder's modules come before its subfolders."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"{package}/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    paths = {Path(line) for line in listed if (ROOT / line).exists()}
    return sorted(paths, key=lambda path: [(part[-3:] != ".py", part) for part in path.parts])


def block(package: str) -> str:
    rows = []
    for path in modules(package):
        depth = len(path.parts) - 1
        if path.name == "__init__.py":
            name, depth = path.parent.name + "/", depth - 1
        else:
            name = path.name
        rows.append((depth, "  " * depth + name, first_line(ROOT / path)))
    width = max(len(name) for _, name, _ in rows) + 2
    lines = (f"{name:<{width}}{line}".rstrip() for _, name, line in rows)
    summary = first_line(ROOT / package / "__init__.py")
    return "\n".join([f"## {package}", "", summary, "", "```", *lines, "```", ""])


def scripts() -> str:
    """The scripts and styles of the page with the first sentence of their comments."""
    lines = ["## The page", "", "The scripts and styles that the service serves.", ""]
    for folder in SCRIPTS:
        if not is_deleted(folder):
            paths = sorted(ROOT.joinpath(folder).glob("*.[jc]s*"))
            width = max(len(path.name) for path in paths) + 2
            rows = (f"  {path.name:<{width}}{first_sentence(path)}" for path in paths)
            lines += ["```", f"{folder}/", *rows, "```", ""]
    return "\n".join(lines)


def first_sentence(path: Path) -> str:
    """The first sentence of the comment at the top of a script or style sheet."""
    text = path.read_text(encoding="utf-8")
    found = re.match(r"/\*(.*?)\*/|((?://.*\n)+)", text, re.DOTALL)
    words = " ".join(re.sub(r"^//|^ +", "", found[1] or found[2], flags=re.MULTILINE).split())
    return words.partition(". ")[0].rstrip(".") + "."


def data() -> str:
    there = {place: words for place, words in DATA.items() if not is_deleted(place)}
    rows = (f"| `{place}` | {words} |" for place, words in there.items())
    return "\n".join(["## Data", "", "| Place | What it holds |", "|---|---|", *rows, ""])


def page() -> str:
    return "\n".join([HEAD, *(block(package) for package in PACKAGES), scripts(), data()])


def test_the_tree_is_what_the_modules_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.test_modules_page"


def test_a_module_begins_with_one_whole_sentence():
    """Its first line, which the page shows, is a single sentence with a full stop."""
    listed = [path for package in PACKAGES for path in modules(package)]
    lines = {str(path): first_line(ROOT / path) for path in listed}
    assert {name: line for name, line in lines.items() if not one_sentence(line)} == {}


def one_sentence(line: str) -> bool:
    return line.endswith(".") and not line.endswith("..") and ". " not in line


def test_every_file_of_data_is_at_a_place_that_the_page_names():
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    others = [name for name in listed if not name.endswith((".py", ".md", "/py.typed"))]
    assert [name for name in others if not name.startswith(tuple(DATA))] == []
    assert all((ROOT / place).exists() or is_deleted(place) for place in DATA)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
