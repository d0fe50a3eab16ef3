"""Run folders as the trainer leaves them, with a few bytes for each checkpoint."""

import json
from pathlib import Path

import numpy as np
import soundfile

from machine.storage.atomic import replace_file
from machine.storage.checksums import Manifest, write_manifest
from xtts.hub.run_folder import RunFolder


def write_epoch(folder: Path, epoch: int, *, loss: float = 2.0, content: bytes = b"") -> None:
    """A whole epoch: checkpoint, manifest, sample, reference, and two rows of metrics."""
    run = RunFolder(folder)
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    run.samples.mkdir(parents=True, exist_ok=True)
    path = run.checkpoint_path(epoch)
    written = replace_file(path, lambda file: file.write(content or f"epoch {epoch}".encode()))
    losses = {"validation_audio_loss": loss}
    write_manifest(run.manifest_path(epoch), Manifest(epoch, epoch * 10, {path.name: written},
                                                      losses))  # fmt: skip
    for what, hertz in (("output", 220), ("reference", 330)):
        wave = np.sin(np.arange(24_000) / 24_000 * 2 * np.pi * hertz).astype("float32")
        soundfile.write(run.samples / f"epoch_{epoch}_{what}.wav", wave, 24_000)
    sidecar = {
        "epoch": epoch, "checkpoint_sha256": written.sha256, "text": "Hello.", "device": "cpu",
        "mode": "in_process", "reason": "no GPU", "seconds": 1.0, "audio_seconds": 1.0,
        "sample_rate": 24_000, "similarity": 0.5,
    }  # fmt: skip
    (run.samples / f"epoch_{epoch}_output.json").write_text(json.dumps(sidecar))
    with run.metrics.open("a") as file:
        for step in (epoch * 10 - 1, epoch * 10):
            row = {"kind": "train", "epoch": epoch, "step": step, "loss": float(step)}
            file.write(json.dumps(row) + "\n")
