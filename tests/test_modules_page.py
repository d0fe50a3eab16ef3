"""docs/modules.md is what the modules' first lines say.

`python -m tests.test_modules_page` writes it again.
"""

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "modules.md"
PACKAGES = ("machine", "xtts", "train", "api", "demo_voice")
HEAD = """# Modules

Every module with the first line of its docstring. Generated: `python -m tests.test_modules_page`.
"""


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
    return "\n".join([f"## {package}", "", summary, "", "```", *lines, "```", ""])


def page() -> str:
    return "\n".join([HEAD, *(block(package) for package in PACKAGES)])


def test_the_tree_is_what_the_modules_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.test_modules_page"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
