"""`python -m benchmarks data`: a batch from the cache against Coqui's dataset with its
`format_batch_on_device`, on the same four clips with as many threads, in turns; what two starts do
for the same data; with `--starts`, two whole starts of a run, from the imports to the first step;
with `--scale`, what 100 to 100,000 clips cost.

The two mels and the DVAE have their full size at every model size, so the small one says it all but
for `--starts`, which also reads the model.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import bases, coqui_training, memory, scale
from train.dataset import dataset, features
from train.dataset.batches import Batches, ConditioningChoice
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer

CLIPS_IN_A_BATCH = 4


def main(argv: Sequence[str]) -> int:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks data", description=__doc__)
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size, for --starts")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, help="where the base model is kept")
    parser.add_argument("--starts", action="store_true", help="two whole starts of a run")
    parser.add_argument("--scale", action="store_true", help="100 to 100,000 synthetic clips")
    parser.add_argument("--clips", type=int, nargs="*", default=list(scale.COUNTS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    if arguments.scale:
        rows = [scale.started(count) for count in arguments.clips]
        print(json.dumps(rows, indent=1) if arguments.json else scale.told(rows))
        return 0
    with tempfile.TemporaryDirectory() as name:
        base = bases.write(arguments.folder or Path(name) / "base", full=arguments.full)
        if arguments.starts:
            seconds = started(base, Path(name))
            told = "ready to learn after {:.1f} s, the second time after {:.1f} s".format(*seconds)
            print(json.dumps({"ready_seconds": seconds}) if arguments.json else told)
            return 0
        found = compared(base, Path(name), arguments.rounds, arguments.threads)
    print(json.dumps(found, indent=1) if arguments.json else _told(found))
    return 0


def compared(base: Path, folder: Path, rounds: int, threads: int) -> dict[str, Any]:
    """Milliseconds for a batch of each side, and seconds of two starts on the same dataset."""
    memory.dataset(folder / "data")
    recipe = coqui_training.CoquiTrainingRecipe(base, folder / "data", 5e-6)
    torch.set_num_threads(threads)  # behind Coqui's import, which sets it to one
    starts = []
    for _ in range(2):
        began = time.perf_counter()
        batches = ready(base, folder)
        starts.append(time.perf_counter() - began)
    group = tuple(range(CLIPS_IN_A_BATCH))
    sides: dict[str, Callable[[int], Any]] = {
        "coqui": lambda _: recipe.features(recipe.load(group)),
        "ours": lambda number: batches.batch(number, group),
    }
    seen: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, made in sides.items():
            began = time.perf_counter()
            made(number)
            if number:
                seen[side].append(time.perf_counter() - began)
    milliseconds = {side: round(1e3 * statistics.median(seen[side]), 3) for side in sides}
    return {
        "threads": threads, "rounds": rounds, "milliseconds": milliseconds,
        "times": round(milliseconds["coqui"] / milliseconds["ours"], 1),
        "first_start_seconds": round(starts[0], 2), "second_start_seconds": round(starts[1], 2),
    }  # fmt: skip


def started(base: Path, folder: Path) -> list[float]:
    """Seconds from the imports to the first step, as two runs on the same data tell them."""
    memory.dataset(folder / "data")
    settings = {
        "base-model": base, "dataset-dir": folder / "data", "output-dir": folder / "output",
        "runs-dir": folder / "runs", "cache-dir": folder / "cache", "num-epochs": 1,
        "tensorboard": "off", "sample-device": "off", "resume": "never", "batch-seconds": 40,
    }  # fmt: skip
    words = [f"--{name}={value}" for name, value in settings.items()]
    found = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-m", "train", *words], stdout=subprocess.PIPE, text=True, check=True
        )
        told = re.search(r"Ready to learn after ([\d.]+) s", run.stdout)
        assert told, run.stdout
        found.append(float(told[1]))
    return found


def ready(base: Path, folder: Path) -> Batches:
    """What a start does for its data: judge every clip, build or find the cache, plan an epoch."""
    config = ModelConfig.read(base)
    settings = TrainSettings(dataset_dir=folder / "data", cache_dir=folder / "cache")
    data = dataset.read(settings, Tokenizer(config, base), config.gpt)
    found = features.build(data, base, config, settings.cache_dir)
    everything = tuple(range(len(data.clips)))
    batches = Batches(
        data.clips, everything, found, config.gpt, seed=0, batch_seconds=40.0, stop_input=False,
        conditions=ConditioningChoice("other_clip", everything),
    )  # fmt: skip
    batches.plan(1)
    return batches


def _told(found: dict[str, Any]) -> str:
    times = found["milliseconds"]
    return (
        f"a batch of {CLIPS_IN_A_BATCH} clips, {found['threads']} threads, median of "
        f"{found['rounds']}: coqui {times['coqui']:.1f} ms, ours {times['ours']:.2f} ms: "
        f"{found['times']:g} times\ndata of a start: first {found['first_start_seconds']:.2f} s, "
        f"second {found['second_start_seconds']:.2f} s"
    )
