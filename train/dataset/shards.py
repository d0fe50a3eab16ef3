"""Shards of the feature cache on disk, and their index.

    <shard>.bin    records behind each other
    <shard>.json   audio SHA-256 -> [offset, codes, frames, SHA-256]

What a record holds, and how it is made, is `train.dataset.features`.
"""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine.storage.atomic import write_json
from xtts.audio import MEL_BANDS

log = logging.getLogger("train")


@dataclass(frozen=True)
class Record:
    """Where the features of one recording stand. offset in bytes; codes and frames in numbers."""

    shard: Path
    offset: int
    codes: int
    frames: int
    sha256: str

    @property
    def bytes(self) -> int:
        """Length of the record: int16 codes and float16 mel."""
        return 2 * self.codes + 2 * MEL_BANDS * self.frames


def read_records(folder: Path) -> dict[str, Record]:
    """Every record of a cache folder; a shard whose index cannot be read does not count."""
    found: dict[str, Record] = {}
    for index in sorted(folder.glob("*.json")):
        shard = index.with_suffix(".bin")
        try:
            size = shard.stat().st_size
            for sha, entry in read_index(index).items():
                record = Record(shard, *entry)
                if record.offset + record.bytes > size:
                    raise ValueError(f"{shard.name} holds only {size} bytes")
                found[sha] = record
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s is damaged; its clips are computed again (%s).", index, error)
    return found


def read_index(path: Path) -> dict[str, list[Any]]:
    """The content of a shard's JSON. Raises OSError or ValueError."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entries, dict):
        raise ValueError(f"{type(entries).__name__} instead of an object")
    return entries


def forget(index: Path, bad: set[str]) -> None:
    """Takes records out of a shard's index; sets an index aside that cannot be read."""
    try:
        entries = read_index(index)
    except (OSError, ValueError):
        os.replace(index, index.with_suffix(".corrupt"))
        return
    kept = {sha: entry for sha, entry in entries.items() if sha not in bad}
    if len(kept) != len(entries):
        write_json(index, kept)
