"""Writes a voice file from its members.

The manifest is the first member, and no member is compressed: weights do not become smaller, and a
file without compression cannot unpack to more than its size. Importing this module does not import
torch.
"""

import hashlib
import json
import shutil
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from machine.storage.checksums import sha256_of
from machine.storage.files import Written, replacing
from xtts.voices.files import manifest as manifests
from xtts.voices.files.manifest import Manifest

# ZIP's first moment, so that the same voice is the same file.
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_CHUNK_BYTES = 1 << 20


def write(path: Path, manifest: Manifest, members: Mapping[str, Path | bytes]) -> Manifest:
    """Writes a voice file atomically; returns its manifest, with the members.

    Args:
        members: Name -> content or file.

    Raises DiskFull, WriteError.
    """
    written = {name: _digest(member) for name, member in members.items()}
    manifest = replace(manifest, members=written)
    # The version of the format is the first key of the first member.
    text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n"
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        _add(archive, manifests.MANIFEST_FILE, text.encode())
        for name, member in members.items():
            _add(archive, name, member)
    return manifest


def _digest(member: Path | bytes) -> Written:
    if isinstance(member, bytes):
        return Written(hashlib.sha256(member).hexdigest(), len(member))
    return Written(sha256_of(member), member.stat().st_size)


def _add(archive: zipfile.ZipFile, name: str, member: Path | bytes) -> None:
    entry = zipfile.ZipInfo(name, _FIXED_TIME)
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    if isinstance(member, bytes):
        archive.writestr(entry, member)
        return
    entry.file_size = member.stat().st_size
    with member.open("rb") as source, archive.open(entry, "w") as to:
        shutil.copyfileobj(source, to, _CHUNK_BYTES)
