"""`python -m benchmarks data` compares a batch from the cache with a batch of Coqui's dataset.

Coqui's side is its dataset with `format_batch_on_device`. Both sides load the same four clips with
as many threads, in turns. `--starts` measures two whole starts of a run, from the imports to the
first step. `--scale` measures a second start and a batch with 100 to 100,000 synthetic clips.

Both mel spectrograms and the DVAE have their full size whatever the size of the model, so the small
model is enough, except for `--starts`, which also reads the model.
"""

import argparse
import os
import re
import statistics
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import coqui_training, measuring, scale, synthetic

CLIPS_IN_A_BATCH = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser, rounds=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--starts", action="store_true", help="measure two whole starts of a run")
    parser.add_argument("--scale", action="store_true", help="measure datasets of --clips clips")
    parser.add_argument("--clips", type=int, nargs="*", default=scale.SIZES)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures a batch, two whole starts, or what more clips cost."""
    if arguments.scale:
        arguments.rounds = 1
        return {"clips": {f"{count:,}": scale.measured(count) for count in arguments.clips}}
    with synthetic.base_model(arguments) as (base, folder):
        if arguments.starts:
            return {"ready_seconds": started(base, folder)}
        return compared(base, folder, arguments.rounds, arguments.threads)


def compared(base: Path, folder: Path, rounds: int, threads: int) -> dict[str, Any]:
    """Milliseconds for a batch of each side."""
    synthetic.write_dataset(folder / "data")
    recipe = coqui_training.CoquiTrainingRecipe(base, folder / "data", synthetic.LEARNING_RATE)
    torch.set_num_threads(threads)  # behind Coqui's import, which sets it to one
    _, batches = synthetic.batches(base, folder / "data", folder / "cache")
    batches.plan(1)
    group = tuple(range(CLIPS_IN_A_BATCH))
    sides: dict[str, Callable[[], object]] = {
        "coqui": lambda: recipe.features(recipe.load(group)),
        "ours": lambda: batches.batch(1, group),
    }
    seen = measuring.in_turns(
        {side: partial(measuring.seconds_of, made) for side, made in sides.items()}, rounds
    )
    milliseconds, least, most = (
        {side: round(1e3 * of(seconds), 3) for side, seconds in seen.items()}
        for of in (statistics.median, min, max)
    )
    return {
        "threads": threads,
        "rounds": rounds,
        "milliseconds": milliseconds,
        "least_milliseconds": least,
        "most_milliseconds": most,
        "times": round(milliseconds["coqui"] / milliseconds["ours"], 1),
    }


def started(base: Path, folder: Path) -> list[float]:
    """Seconds from the imports to the first step, as two runs on the same data log them."""
    synthetic.write_dataset(folder / "data")
    command = measuring.training_command(
        folder,
        base_model=base,
        dataset_dir=folder / "data",
        num_epochs=1,
        sample_device="off",
        resume="never",
        batch_seconds=40,
    )
    found = []
    for _ in range(2):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        told = re.search(r"Ready to train after ([\d.]+) s", done.stdout)
        assert told, done.stdout
        found.append(float(told[1]))
    return found
