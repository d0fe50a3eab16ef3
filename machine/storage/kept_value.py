"""One JSON value in a file, kept under a key that says what it was computed from.

Meant for what is large and taken whole: the file is hashed as it is, without being written again as
`machine.storage.file_cache` has to. It ends in `.kept`, since as a whole it is no JSON. A damaged
or unwritable file costs only time.

    <SHA-256 of everything behind this line>
    <key>
    <JSON>
"""

import hashlib
import json
import logging
from functools import cache
from pathlib import Path
from typing import Any

from machine.storage.atomic import WriteError, replace_file

log = logging.getLogger(__name__)


def load(path: Path, key: str) -> Any | None:
    """The value that was kept under `key`; None if there is none, or another one."""
    try:
        digest, content = path.read_bytes().split(b"\n", 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("%s cannot be read and is computed again (%s).", path, error)
        return None
    if hashlib.sha256(content).hexdigest().encode() != digest:
        log.warning("%s is damaged and is computed again.", path)
        return None
    kept_under, text = content.split(b"\n", 1)
    return json.loads(text) if kept_under == key.encode() else None


def save(path: Path, key: str, value: Any) -> None:
    """Keeps the value, in the place of an older one; a failure is only logged. The key is one
    line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    content = f"{key}\n{text}".encode()
    digest = hashlib.sha256(content).hexdigest().encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lambda file: file.write(digest + b"\n" + content))
    except (OSError, WriteError) as error:
        log.warning("%s cannot be written; the next start computes it again. %s", path, error)


@cache
def code_sha256(package: Path) -> str:
    """The hash of a package's own modules, for a key: other code may compute another value."""
    sources = sorted(package.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
