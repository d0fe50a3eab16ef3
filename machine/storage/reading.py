"""Reads small files; a file that is missing, damaged or not readable reads as empty.

Also decodes the texts that people write.
"""

import codecs
import json
from pathlib import Path
from typing import Any

# A parsed JSON object, whose reader knows the types of its fields.
JsonObject = dict[str, Any]
_MOST_CHARACTERS = 1 << 20
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decoded_text(content: bytes) -> str:
    """A text in UTF-8, or in UTF-16 with a byte-order mark, which Windows writes; without the mark.

    Raises UnicodeDecodeError, which names the encoding.
    """
    return content.decode("utf-16" if content.startswith(_UTF16_MARKS) else "utf-8-sig")


def read_text(path: Path) -> str:
    """At most a million characters of a text file; "" if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS)
    except (OSError, ValueError):
        return ""


def read_json(path: Path) -> JsonObject:
    """The JSON object in a file; {} if there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
