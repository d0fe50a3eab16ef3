"""Adapters with random numbers, in place of learned ones."""

from pathlib import Path

import numpy as np
import soundfile

from machine.storage.checksums import sha256_of
from machine.storage.files import Written
from tests.models import random_adapter
from xtts.model.config import ModelConfig
from xtts.voices import adapter_file, bundle

RANK = 4


def exported_adapter(folder: Path, base: Path, seed: int, *, base_sha256: str = "") -> Path:
    """An adapter of `base` in the folder that `train export --adapter` writes."""
    folder.mkdir(parents=True)
    wave = np.random.default_rng(seed).normal(0, 0.1, 22_050).astype("float32")
    soundfile.write(folder / "reference.wav", wave, 22_050)
    sha256 = base_sha256 or sha256_of(base / "model.pth")
    of = {"name": "demo" if base.name == "demo" else str(base), "sha256": sha256}
    tensors = random_adapter(ModelConfig.read(base).gpt, seed, RANK)
    header = adapter_file.AdapterHeader(RANK, 8.0, of, adapter_file.matrix_kinds(tensors))
    adapter_file.write(folder / adapter_file.FILE_NAME, tensors, header)
    files = {
        name: Written(sha256_of(folder / name), (folder / name).stat().st_size)
        for name in (adapter_file.FILE_NAME, "reference.wav")
    }
    told = bundle.Bundle(
        files=files,
        base=of,
        data_sha256="d" * 64,
        epoch=1,
        licence="free",
        made_at="2026-11-25T12:00:00+00:00",
        speaks_in_coqui=False,
        kind=bundle.ADAPTER,
    )
    bundle.write(folder, told)
    return folder


def adapter_of(base: str, folder: Path) -> Path:
    """An adapter of a base model that this machine lacks; its weights are never read."""
    folder.mkdir()
    names = ("adapter.safetensors", "reference.wav")
    for name in names:
        (folder / name).write_bytes(b"not read")
    files = {name: Written(sha256_of(folder / name), 8) for name in names}
    named = {"name": base, "sha256": "a" * 64}
    bundle.write(
        folder, bundle.Bundle(files, named, "d", 1, "free", "", speaks_in_coqui=False, kind=bundle.ADAPTER)
    )
    return folder
