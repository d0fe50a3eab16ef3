"""The README's tree of modules is what the modules' first lines say.

`python -m tests.test_readme_tree` writes it again.
"""

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PACKAGES = ("machine", "xtts", "train", "api", "demo_voice")
BEGIN, END = "<!-- modules: python -m tests.test_readme_tree -->", "<!-- end of modules -->"


def first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n")[0]


def modules(package: str) -> list[Path]:
    """The package's modules as git knows them; a folder's own modules before its folders."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"{package}/*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
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
    head = f"<details><summary><code>{package}/</code> {summary}</summary>"
    return "\n".join([head, "", "```", *lines, "```", "", "</details>"])


def tree() -> str:
    return "\n\n".join([BEGIN, *(block(package) for package in PACKAGES), END])


def written(readme: str) -> str:
    """The README with its tree written again."""
    before, rest = readme.split(BEGIN)
    return before + tree() + rest.split(END)[1]


def test_the_tree_is_what_the_modules_say() -> None:
    readme = README.read_text(encoding="utf-8")
    assert written(readme) == readme, "run: python -m tests.test_readme_tree"


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path)
        for package in PACKAGES
        for path in modules(package)
        if not first_line(ROOT / path)
    ]
    assert silent == []


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
