"""Reads small files that may be missing, damaged or closed to us: such a one reads as empty."""

import json
from pathlib import Path
from typing import Any

_MOST_CHARACTERS = 1 << 20


def read_text(path: Path) -> str:
    """At most a million characters of a text; "" where it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS)
    except (OSError, ValueError):
        return ""


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; {} where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
