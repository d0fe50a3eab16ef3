"""The data below train/data, found in the working folder or else in the package.

Defaults name it relative to a clone, where every program is started. A wheel contains it too.
"""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
FOLDER = Path("train/data")


def locate(path: Path) -> Path:
    """A path; one below train/data that the working folder does not have is the package's."""
    if not path.is_relative_to(FOLDER):
        return path
    inside = PACKAGE / path
    try:
        return inside if inside.exists() and not path.exists() else path
    except (OSError, ValueError):  # a name that is too long, a NUL byte
        return path
