"""Small files in place of the published ones, with their sizes and hashes."""

import hashlib
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from machine.storage.checksums import sha256_of
from machine.storage.files import Written
from xtts.download import xtts_v2

CONTENTS: Mapping[str, bytes] = {
    name: random.Random(name).randbytes(5_000 if name == "model.pth" else 700) for name in xtts_v2.XTTS_V2
}


def publish(monkeypatch: pytest.MonkeyPatch, contents: Mapping[str, bytes] = CONTENTS) -> None:
    """Makes `contents` the published files."""
    written = {
        name: Written(hashlib.sha256(content).hexdigest(), len(content)) for name, content in contents.items()
    }
    monkeypatch.setattr(xtts_v2, "XTTS_V2", written)


def publish_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Makes the files of a base folder the published ones."""
    written = {
        name: Written(sha256_of(folder / name), (folder / name).stat().st_size)
        for name in xtts_v2.XTTS_V2
        if (folder / name).is_file()
    }
    monkeypatch.setattr(xtts_v2, "XTTS_V2", written)
