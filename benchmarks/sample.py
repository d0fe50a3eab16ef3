"""`python -m benchmarks sample`: one epoch's sample on the CPU as the warm worker speaks it: new
weights held against their manifest, read and rounded, the reference heard, 151 codes spoken (7 s),
the similarity taken. The guard is on, and judges once (`benchmarks.fixed_length`).

`--full` is XTTS-v2's size. The reference is ten seconds of the demo dataset.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import torch

from benchmarks import bases
from benchmarks.fixed_length import TEXT
from machine.storage import atomic
from machine.storage.checksums import Manifest, write_manifest
from machine.storage.hashes import remember_hash
from xtts import audio
from xtts.inference import synthesis_request
from xtts.inference.alignment.guarded_piece import Guard
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.voice import Voice
from xtts.model import loading as model
from xtts.voices.base_models import DEMO
from xtts.workers.file_synthesis import FileSpeaker, SpeakRequest


def main(argv: Sequence[str]) -> int:
    """Prints one line, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sample", description=__doc__)
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size")
    parser.add_argument("--codes", type=int, default=151)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--folder", type=Path, help="where the base model is kept")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        base = bases.write(arguments.folder or Path(name) / "base", full=arguments.full)
        seconds = spoken(base, Path(name), arguments)
    median = round(statistics.median(seconds), 2)
    found = {"median": median, "least": round(min(seconds), 2), "most": round(max(seconds), 2)}
    print(json.dumps(found) if arguments.json else f"a sample: {found}")
    return 0


def spoken(base: Path, folder: Path, arguments: argparse.Namespace) -> list[float]:
    """Seconds of each round; the first, unmeasured, warms up."""
    saved = checkpoint(base, folder / "checkpoint.pt")
    waveform = audio.read(DEMO / "reference.wav", audio.CODE_RATE)
    audio.write_wav(
        folder / "reference.wav", waveform.repeat(9)[: 10 * audio.CODE_RATE], audio.CODE_RATE
    )
    speaker = _JudgedOnce(base, "cpu", arguments.threads, keep_weights=False)
    asked = SpeakRequest(TEXT, "en", folder / "reference.wav", folder / "out.wav", saved)
    limited = partial(SynthesisRequest, max_codes=arguments.codes)
    seconds = []
    with mock.patch.object(synthesis_request, "SynthesisRequest", limited):
        for _ in range(arguments.rounds + 1):
            started = time.perf_counter()
            speaker.speak(asked)
            seconds.append(time.perf_counter() - started)
    return seconds[1:]


class _JudgedOnce(FileSpeaker):
    """A text whose STOP is suppressed is no better the next time."""

    def _guard(self, whose: Voice, seed: int) -> Guard | None:
        found = super()._guard(whose, seed)
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
