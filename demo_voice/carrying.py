"""Carries snapshots from one machine to the next, in small files.

They hold the weights in half precision, without the state of the optimizers.
"""

import io
from pathlib import Path

import torch
from torch import Tensor

from machine.errors import SotaqueError

PART_BYTES = 15_000_000
STAGES = ("codec", "listener", "pretraining", "vocoder")
# The state of optimizers is twice as large as the weights and recovers in some hundred steps.
LEFT_OUT = ("optimizer", "muon", "own", "theirs")


def pack(work: Path, to: Path) -> None:
    """Writes the snapshots in `work` to `to/carried.N`, each at most 15 MB."""
    to.mkdir(parents=True, exist_ok=True)
    snapshots: dict[str, object] = {}
    for name in STAGES:
        path = work / f"{name}.pt"
        if path.is_file():
            content = torch.load(path, map_location="cpu", weights_only=True)
            snapshots[name] = {key: _halved(part) for key, part in content.items() if key not in LEFT_OUT}
    file = io.BytesIO()
    torch.save(snapshots, file)
    content_bytes = file.getbuffer()
    for number, start in enumerate(range(0, len(content_bytes), PART_BYTES)):
        (to / f"carried.{number}").write_bytes(content_bytes[start : start + PART_BYTES])


def unpack(work: Path) -> None:
    """Writes the snapshots of `work/carried.N`, unless they exist. Raises SotaqueError without
    such files."""
    parts = sorted(work.glob("carried.*"), key=lambda path: int(path.suffix[1:]))
    if not parts:
        raise SotaqueError(
            f"{work} lacks carried.0, from which --resume starts. Copy the files of --carry there."
        )
    file = io.BytesIO(b"".join(path.read_bytes() for path in parts))
    for name, content in torch.load(file, map_location="cpu", weights_only=True).items():
        if not (work / f"{name}.pt").is_file():
            torch.save(_widened(content), work / f"{name}.pt")


def _halved(part: object) -> object:
    """Loses nothing that counts: a packaged voice has half precision too."""
    return _converted(part, torch.float32, torch.float16)


def _widened(part: object) -> object:
    return _converted(part, torch.float16, torch.float32)


def _converted(part: object, source: torch.dtype, target: torch.dtype) -> object:
    if isinstance(part, Tensor):
        return part.to(target) if part.dtype == source else part
    if isinstance(part, dict):
        return {key: _converted(value, source, target) for key, value in part.items()}
    return part
