"""`python -m benchmarks training`: a training step of ours against Coqui's, on the same clips and
weights with as many threads, in turns.

Each side is a process of its own, so that its memory is its own: Coqui's `GPTTrainer` as its recipe
puts it together, once as it stands and once quickened (bf16 autocast, features kept), ours in
batches of the same four clips and with all eight in one. A pass learns from every clip once; the
first of each in a process is not counted. `--full` is XTTS-v2's size: there every round loads its
sides anew, one at a time, since both together would want 22 GB (Coqui alone 16).
"""

import argparse
import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import synthetic
from benchmarks.measuring import ChildFailed
from machine.process import JsonLineProcess, module_command
from train.metrics import flops

SIDES = ("coqui", "ours")
PASS_SECONDS = 3600.0
Measured = dict[str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians of each variant, with the peak of this machine's products for MFU."""
    torch.set_num_threads(arguments.threads)
    bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    peak = flops.reached_flops(torch.bfloat16 if bf16 else torch.float32, size=2048, tries=8)
    turns = one_at_a_time if arguments.full else side_by_side
    seen: dict[str, list[Measured]] = {}
    with synthetic.base_model(arguments) as (base, folder):
        synthetic.write_dataset(folder / "data")
        for variant, found in turns(base, folder, arguments.rounds, arguments.threads):
            seen.setdefault(variant, []).append(found)
    rows = {variant: summary(passes, peak) for variant, passes in seen.items()}
    base_speed = rows["coqui as it stands"]["audio_seconds_per_second"]
    for row in rows.values():
        row["times_coqui"] = round(row["audio_seconds_per_second"] / base_speed, 2)
    return {
        "threads": arguments.threads, "rounds": arguments.rounds, "peak_flops": peak,
        "variants": rows,
    }  # fmt: skip


def side_by_side(
    base: Path, folder: Path, rounds: int, threads: int
) -> Iterator[tuple[str, Measured]]:
    """Both sides stay loaded; the first round is not counted."""
    children = [BenchmarkChild(side, base, folder, threads) for side in SIDES]
    for number in range(rounds + 1):
        for child in children:
            for variant in child.variants:
                found = child.passed(variant)
                if number:
                    yield variant, found
    for child in children:
        child.close()


def one_at_a_time(
    base: Path, folder: Path, rounds: int, threads: int
) -> Iterator[tuple[str, Measured]]:
    """A side is loaded when its turn comes; every variant's first pass in it is not counted."""
    for _ in range(rounds):
        for side in SIDES:
            child = BenchmarkChild(side, base, folder, threads)
            for variant in child.variants:
                child.passed(variant)
                yield variant, child.passed(variant)
            child.close()


class BenchmarkChild:
    """One side (`benchmarks.training_child`), loaded and waiting."""

    def __init__(self, side: str, base: Path, folder: Path, threads: int) -> None:
        words = (side, base, folder / "data", folder / "cache", threads)
        self._process = JsonLineProcess(
            module_command("benchmarks.training_child", *map(str, words)), keep_stderr=True
        )
        self.variants: list[str] = self._answer()["variants"]

    def passed(self, variant: str) -> Measured:
        """One pass over the clips."""
        self._process.send({"variant": variant})
        return self._answer()

    def close(self) -> None:
        """Ends it."""
        self._process.end()

    def _answer(self) -> dict[str, Any]:
        try:
            return self._process.receive(PASS_SECONDS)
        except EOFError as error:
            raise ChildFailed(
                f"A side of the benchmark ended; it said last: {self._process.last_error()}"
            ) from error


def summary(passes: Sequence[Measured], peak: float) -> dict[str, float]:
    """Medians of one variant; figures of the same names as in a run's TensorBoard."""
    middle = {name: statistics.median(one[name] for one in passes) for name in passes[0]}
    seconds = middle["seconds"]
    found = {
        "audio_seconds_per_second": middle["audio_seconds"] / seconds,
        "clips_per_second": middle["clips"] / seconds,
        "seconds": seconds,
        "least_seconds": min(one["seconds"] for one in passes),
        "most_seconds": max(one["seconds"] for one in passes),
        "data_wait_share": middle["data_seconds"] / seconds,
        "busy_share": middle["busy_share"],
        "peak_gb": middle["peak_gb"],
        "loss": passes[-1]["loss"],
    }
    if "flops" in middle:
        found["mfu"] = middle["flops"] / seconds / peak
    return {name: round(value, 4) for name, value in found.items()}
