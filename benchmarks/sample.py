"""`python -m benchmarks sample` measures an epoch's sample on the CPU as the warm worker speaks it.

The worker compares new weights with their manifest, reads and rounds them, computes the voice of
the reference, speaks 151 codes (7 s) and takes the similarity. The guard is on and judges once
(`benchmarks.synthetic`). `--full` is XTTS-v2's size. The reference is ten seconds of the demo
dataset.
"""

import argparse
import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from benchmarks import measuring, synthetic
from machine.storage import atomic
from machine.storage.checksums import Manifest, write_manifest
from machine.storage.hashes import remember_hash
from xtts import audio
from xtts.inference.alignment.guarded_piece import Guard
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.voice import Voice
from xtts.model import loading as model
from xtts.voices.base_models import DEMO
from xtts.workers.file_synthesis import FileSpeaker
from xtts.workers.requests import SpeakRequest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser, rounds=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--codes", type=int, default=151)


def run(arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds of a sample."""
    with synthetic.base_model(arguments) as (base, folder):
        seconds = spoken(base, folder, arguments)
    median = round(statistics.median(seconds), 2)
    return {"median": median, "least": round(min(seconds), 2), "most": round(max(seconds), 2)}


def spoken(base: Path, folder: Path, arguments: argparse.Namespace) -> list[float]:
    """Seconds of each round; the first, unmeasured, warms up."""
    saved = checkpoint(base, folder / "checkpoint.pt")
    waveform = audio.read(DEMO / "reference.wav", audio.CODE_RATE)
    audio.write_wav(
        folder / "reference.wav", waveform.repeat(9)[: 10 * audio.CODE_RATE], audio.CODE_RATE
    )
    compute = ComputeConfig(threads=arguments.threads)
    compute.apply()
    speaker = _JudgedOnce(base, compute, keep_weights=False)
    text = SynthesisRequest(synthetic.TEXT, "en", max_codes=arguments.codes)
    asked = SpeakRequest(text, folder / "reference.wav", folder / "out.wav", saved)
    rounds = range(arguments.rounds + 1)
    return [measuring.seconds_of(lambda: speaker.ask(asked)) for _ in rounds][1:]


class _JudgedOnce(FileSpeaker):
    """Judges once, since a text whose stop code is suppressed does not improve."""

    def guard(self, whose: Voice, seed: int) -> Guard | None:
        found = super().guard(whose, seed)
        return found and replace(found, retries=0)


def checkpoint(base: Path, path: Path) -> Path:
    """The base's learning part as an epoch writes it with its manifest, STOP suppressed."""
    weights = {
        name: tensor
        for name, tensor in model.read_tensors(base / "model.pth").items()
        if name.startswith("gpt.")
    }
    bias = weights["gpt.mel_head.bias"].clone()
    bias[-1] = -1e4
    content = {"model": {**weights, "gpt.mel_head.bias": bias}, "provenance": {}}
    written = atomic.replace_file(path, partial(torch.save, content))
    remember_hash(path, written.sha256)  # the trainer tells its worker what it wrote
    write_manifest(path.with_suffix(".json"), Manifest(1, 1, {path.name: written}))
    return path
