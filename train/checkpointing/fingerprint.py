"""The fingerprint of a run: base, data, vocabulary and shapes, which must not change on resume.

NUM_EPOCHS, device, sampling and logging are not part of it and may change; a changed learning rate
is logged and used. `train.checkpointing.resume` compares fingerprints at the start of a run.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypedDict

from machine.storage.checksums import sha256_of
from machine.text import quantity
from train.dataset.dataset import Dataset
from train.settings import TrainSettings
from xtts.model.shapes import GPTShape

SCHEMA = 1
# Settings that decide which clips a dataset holds.
_DATA_SETTINGS = ("LANGUAGE", "MAX_TRAIN_SAMPLES", "SUSPECT_CLIPS")


class DataRecord(TypedDict, total=False):
    """The dataset in a provenance: its size, and the settings that select its clips."""

    clips: int
    minutes: float
    settings: dict[str, object]


class Provenance(TypedDict, total=False):
    """The plain values that a checkpoint records; an older one may lack some. `base` is
    {name, sha256}; `fingerprint` has the compared values of a `Fingerprint`."""

    base: Mapping[str, str]
    fingerprint: Mapping[str, Any]
    data: DataRecord
    language: str
    learning_rate: float
    licence: str
    normalizer: str
    epoch: int
    step: int
    batch: int
    started_from: dict[str, str]


@dataclass(frozen=True)
class Fingerprint:
    """Hashes in hex; shape: the sizes of the GPT.

    base, data: {name} and {clips, minutes, settings} as in a provenance. Messages describe a
    difference with them; they are not compared.
    """

    base_sha256: str
    data_sha256: str
    vocabulary_sha256: str
    shape: dict[str, int]
    schema: int = SCHEMA
    base: Mapping[str, str] = field(default_factory=dict, compare=False)
    data: DataRecord = field(default_factory=DataRecord, compare=False)

    @staticmethod
    def of(
        base_folder: Path,
        data_sha256: str,
        shape: GPTShape,
        cache_dir: Path,
        *,
        base: Mapping[str, str] | None = None,
        data: DataRecord | None = None,
    ) -> "Fingerprint":
        """The fingerprint of a run on this base and data. Raises OSError for a missing file."""
        return Fingerprint(
            base_sha256=sha256_of(base_folder / "model.pth", kept_in=cache_dir),
            data_sha256=data_sha256,
            vocabulary_sha256=sha256_of(base_folder / "vocab.json"),
            shape=asdict(shape),
            base=base or {},
            data=data or DataRecord(),
        )

    def as_dict(self) -> dict[str, object]:
        """The compared values, as a provenance records them."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.compare}


def data_of(settings: TrainSettings, data: Dataset) -> DataRecord:
    """The record of a dataset."""
    return {
        "clips": len(data.train),
        "minutes": round(data.minutes(data.train), 2),
        "settings": {name: getattr(settings, name.lower()) for name in _DATA_SETTINGS},
    }


def differences(saved: Provenance, now: Fingerprint) -> dict[str, str]:
    """The differences between a saved provenance and this start, as clauses of a sentence by the name of
    the value. In `saved`, the fingerprint, the base and the data may be missing."""
    old = saved.get("fingerprint") or {}
    clauses = {
        "base_sha256": _base_difference(saved.get("base") or {}, now.base),
        "data_sha256": _data_difference(saved.get("data") or DataRecord(), now.data),
        "vocabulary_sha256": "the vocabulary of the base model (vocab.json) has changed",
        "shape": _shape_difference(old.get("shape") or {}, now.shape),
        "schema": f"the format of the run was {old.get('schema')}, is {now.schema}",
    }
    return {name: clauses[name] for name, value in now.as_dict().items() if old.get(name) != value}


def _base_difference(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    was, now = old.get("name"), new.get("name")
    if was and now and was != now:
        return f"BASE_MODEL was {was}, is {now}"
    return "the weights of the base model (BASE_MODEL) have changed"


def _data_difference(old: DataRecord, new: DataRecord) -> str:
    """The settings and the sizes that differ; if none do, the possible causes."""
    if not (old and new):  # 0.2.0 did not record them
        causes = ", ".join(("DATASET_DIR", *_DATA_SETTINGS))
        return f"the clips or transcripts differ ({causes})"
    parts = [
        f"{name} was {was or 'all'}, is {now or 'all'}"
        for name, was in old["settings"].items()
        if was != (now := new["settings"].get(name))
    ]
    was, now = [f"{quantity(data['clips'], 'clip')}, {data['minutes']:g} minutes" for data in (old, new)]
    if was != now:
        parts.append(f"the run trains on {was}, this start on {now} (DATASET_DIR)")
    elif not parts:
        parts.append(
            f"the same number of clips ({now}), but a recording, a transcript, a speaker or a "
            "validation clip differs (DATASET_DIR)"
        )
    return "; ".join(parts)


def _shape_difference(old: Mapping[str, int], new: Mapping[str, int]) -> str:
    names = [name for name in new if old.get(name) != new[name]]
    parts = [f"{name} was {old.get(name)}, is {new[name]}" for name in names]
    return f"the model's sizes: {'; '.join(parts)}"
