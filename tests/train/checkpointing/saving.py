"""Runs with tiny checkpoints, in this process or in a child that the tests kill."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.forked import in_child
from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint
from xtts.voices.run_folder import RunFolder, VerifiedCheckpoint
from xtts.voices.run_lock import lock

FINGERPRINT = Fingerprint("b" * 64, "d" * 64, "v" * 64, {"layers": 2, "width": 64})
LOSSES = {1: 3.0, 2: 1.0, 3: 2.0}


def model(value: float) -> dict[str, Tensor]:
    return {"gpt.a": torch.full((5_000,), float(value)), "gpt.b": torch.arange(3.0)}


def trainer(value: float) -> dict[str, Any]:
    optimizer = {"state": {0: {"step": torch.tensor(value), "exp_avg": torch.full((9,), value)}}}
    return {"optimizer": optimizer, "batch_seconds": 12.5, "seen": [1, 2], "scaler": {}}


def provenance(fingerprint: Fingerprint = FINGERPRINT, rate: float = 1e-3) -> dict[str, Any]:
    return {
        "base": {"name": "demo", "sha256": fingerprint.base_sha256},
        "fingerprint": fingerprint.as_dict(),
        "learning_rate": rate,
    }


def save(checkpoints: Checkpoints, epoch: int, loss: float | None = None) -> VerifiedCheckpoint:
    """Saves an epoch of ten steps; its weights equal its number."""
    checkpoints.provenance = provenance()
    loss = LOSSES.get(epoch, 9.0) if loss is None else loss
    return checkpoints.save_epoch(
        epoch, 10 * epoch, model(epoch), trainer(epoch), {"validation_audio_loss": loss}
    )


def interrupt(checkpoints: Checkpoints, epoch: int, batch: int) -> VerifiedCheckpoint:
    step = 10 * (epoch - 1) + batch
    checkpoints.provenance = provenance()
    return checkpoints.save_interrupted(epoch, step, batch, model(epoch - 0.5), trainer(epoch - 0.5))


def train(output_dir: Path, last_epoch: int, keep: int | None = 1) -> None:
    """Resumes and saves epochs up to `last_epoch`, as a trainer does."""
    run = RunFolder(output_dir)
    with lock(run):
        checkpoints = Checkpoints(run, keep)
        resumed = checkpoints.resume("auto", FINGERPRINT)
        for epoch in range(resumed.epoch + 1 if resumed else 1, last_epoch + 1):
            save(checkpoints, epoch)


def train_in_child(output_dir: Path, last_epoch: int, keep: int | None = 1, crash_at: str = "") -> int:
    """`train` in a separate process; returns its exit code, -9 if it was killed."""
    return in_child(lambda: train(output_dir, last_epoch, keep), crash_at)


def stop_in_child(output_dir: Path, epoch: int, crash_at: str) -> int:
    """Saves a stop inside `epoch` in a separate process; returns its exit code."""
    return in_child(lambda: interrupt(Checkpoints(RunFolder(output_dir), 1), epoch, batch=4), crash_at)


def names(run: RunFolder) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(9_000)
        file.write(bytes(512))
