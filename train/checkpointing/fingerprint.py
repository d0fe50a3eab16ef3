"""The fingerprint of a run: base, data, vocabulary and shapes, which must not change on resume.

A changed NUM_EPOCHS, device, sampling or logging is no part of it; a changed learning rate is
logged and used. Called by the loop at the start; compared by `train.checkpointing.resume`.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine.storage.hashes import sha256_of
from xtts.model.shapes import GPTShape

SCHEMA = 1
_MEANING = {
    "base_sha256": "the base model (BASE_MODEL)",
    "data_sha256": (
        "the clips or transcripts (DATASET_DIR, LANGUAGE, MAX_TRAIN_SAMPLES, SUSPECT_CLIPS)"
    ),
    "vocabulary_sha256": "the vocabulary (vocab.json)",
    "schema": "the format of the run",
}


@dataclass(frozen=True)
class Fingerprint:
    """Hashes in hex; shape: the sizes of the part that learns."""

    base_sha256: str
    data_sha256: str
    vocabulary_sha256: str
    shape: dict[str, int]
    schema: int = SCHEMA

    @staticmethod
    def of(base_folder: Path, data_sha256: str, shape: GPTShape, cache_dir: Path) -> "Fingerprint":
        """The fingerprint of a run on this base and data. Raises OSError for a missing file."""
        return Fingerprint(
            base_sha256=sha256_of(base_folder / "model.pth", kept_in=cache_dir / "base_sha256"),
            data_sha256=data_sha256,
            vocabulary_sha256=sha256_of(base_folder / "vocab.json"),
            shape=asdict(shape),
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def differences(saved: dict[str, Any], now: Fingerprint) -> dict[str, str]:
    """What differs between a saved fingerprint and this start's: name -> sentence part."""
    different = {}
    for name, value in now.as_dict().items():
        old = saved.get(name)
        if old != value and name == "shape":
            different[name] = _shape_difference(old if isinstance(old, dict) else {}, value)
        elif old != value:
            different[name] = f"{_MEANING[name]}: was {_short(old)}, is {_short(value)}"
    return different


def _shape_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    names = [name for name in new if old.get(name) != new[name]]
    parts = [f"{name} was {old.get(name)}, is {new[name]}" for name in names]
    return f"the model's sizes: {'; '.join(parts)}"


def _short(value: object) -> str:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) > 16 else str(value)
