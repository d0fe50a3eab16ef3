"""`python -m benchmarks training` compares a training step with Coqui's.

Both sides have the same clips and weights and as many threads, and run in turns. Each side is a
process of its own, so that its memory is its own. Coqui is its `GPTTrainer` as its recipe assembles
it, once as it stands and once under bf16 autocast with its features kept. Sotaque trains in batches
of the same four clips, and with all eight in one. A pass learns from every clip once; the first
pass of each in a process is not counted. `--full` is XTTS-v2's size: there every round loads its
sides again, one at a time, since both together would need 22 GB (Coqui alone 16).
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
    synthetic.add_base_arguments(parser, rounds=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians of each variant, with the peak of this machine's products for MFU."""
    torch.set_num_threads(arguments.threads)
    bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    peak = flops.reached_flops(torch.bfloat16 if bf16 else torch.float32, size=2048, tries=8)
    seen: dict[str, list[Measured]] = {}
    with synthetic.base_model(arguments) as (base, folder):
        synthetic.write_dataset(folder / "data")
        for variant, found in passes(base, folder, arguments):
            seen.setdefault(variant, []).append(found)
    rows = {variant: summary(found, peak) for variant, found in seen.items()}
    base_speed = rows["coqui as it stands"]["audio_seconds_per_second"]
    for row in rows.values():
        row["times_coqui"] = round(row["audio_seconds_per_second"] / base_speed, 2)
    return {
        "threads": arguments.threads, "rounds": arguments.rounds, "peak_flops": peak,
        "variants": rows,
    }  # fmt: skip


def passes(
    base: Path, folder: Path, arguments: argparse.Namespace
) -> Iterator[tuple[str, Measured]]:
    """A pass of each variant a round, in turns. At full size a side is loaded again when its turn
    comes; else both stay. The first pass of each variant in a process is not counted."""
    given = (base, folder / "data", folder / "cache", arguments.threads)
    staying = [] if arguments.full else [Side(side, *given) for side in SIDES]
    for _ in range(arguments.rounds):
        for child in staying or (Side(side, *given) for side in SIDES):
            for variant in child.variants:
                yield variant, child.passed(variant)
            if not staying:
                child.close()
    for child in staying:
        child.close()


class Side:
    """One side (`benchmarks.training_child`), loaded and waiting; every variant taken once."""

    def __init__(self, *words: object) -> None:
        command = module_command("benchmarks.training_child", *map(str, words))
        self._process = JsonLineProcess(command, keep_stderr=True)
        self.variants: list[str] = self._answer()["variants"]
        for variant in self.variants:
            self.passed(variant)

    def passed(self, variant: str) -> Measured:
        """One pass over the clips."""
        self._process.send({"variant": variant})
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self._process.end()

    def _answer(self) -> dict[str, Any]:
        try:
            return self._process.receive(PASS_SECONDS)
        except EOFError as error:
            raise ChildFailed(
                f"A side of the benchmark ended; it said last: {self._process.last_error()}"
            ) from error


def summary(taken: Sequence[Measured], peak: float) -> dict[str, float]:
    """Medians of one variant; figures of the same names as in a run's TensorBoard."""
    middle = {name: statistics.median(one[name] for one in taken) for name in taken[0]}
    seconds = middle["seconds"]
    found = {
        "audio_seconds_per_second": middle["audio_seconds"] / seconds,
        "clips_per_second": middle["clips"] / seconds,
        "seconds": seconds,
        "least_seconds": min(one["seconds"] for one in taken),
        "most_seconds": max(one["seconds"] for one in taken),
        "data_wait_share": middle["data_seconds"] / seconds,
        "busy_share": middle["busy_share"],
        "peak_gb": middle["peak_gb"],
        "loss": taken[-1]["loss"],
    }
    if "flops" in middle:
        found["mfu"] = middle["flops"] / seconds / peak
    return {name: round(value, 4) for name, value in found.items()}
