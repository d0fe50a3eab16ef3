"""`python -m benchmarks training`: a training step of ours against Coqui's, on the same clips and
weights with as many threads, in turns.

Each side is a process of its own, so that memory is told apart: Coqui's `GPTTrainer` as its recipe
puts it together, once as it stands and once quickened (bf16 autocast, features kept), ours in
batches of the same four clips and with all eight in one. A pass learns from every clip once; the
first of each in a process is not counted. `--full` is XTTS-v2's size: there every round loads its
sides anew, one at a time, since both together would want 22 GB (Coqui alone 16).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import bases, memory
from train.metrics import flops

SIDES = ("coqui", "ours")
Measured = dict[str, float]


def main(argv: Sequence[str]) -> int:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks training", description=__doc__)
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size instead of 4 x 256")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, help="where the base model is kept")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = bases.write(arguments.folder or folder / "base", full=arguments.full)
        memory.dataset(folder / "data")
        found = compared(base, folder, arguments.rounds, arguments.threads, apart=arguments.full)
    print(json.dumps(found, indent=1) if arguments.json else _told(found))
    return 0


def compared(base: Path, folder: Path, rounds: int, threads: int, *, apart: bool) -> dict[str, Any]:
    """Medians of each variant, with the peak of this machine's products for MFU."""
    torch.set_num_threads(threads)
    bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    peak = flops.reached_flops(torch.bfloat16 if bf16 else torch.float32, size=2048, tries=8)
    turns = one_at_a_time if apart else side_by_side
    seen: dict[str, list[Measured]] = {}
    for variant, found in turns(base, folder, rounds, threads):
        seen.setdefault(variant, []).append(found)
    rows = {variant: summary(passes, peak) for variant, passes in seen.items()}
    return {"threads": threads, "rounds": rounds, "peak_flops": peak, "variants": rows}


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
    """One side, loaded and waiting."""

    def __init__(self, side: str, base: Path, folder: Path, threads: int) -> None:
        command = [
            sys.executable, "-m", "benchmarks.training_child", side, str(base),
            str(folder / "data"), str(folder / "cache"), str(threads),
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.variants: list[str] = self._answer()["variants"]

    def passed(self, variant: str) -> Measured:
        """One pass over the clips."""
        assert self.process.stdin is not None
        self.process.stdin.write(variant + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Lets it end."""
        self.process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):  # Coqui prints as well
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError(f"a side of the benchmark ended with {self.process.wait()}")


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


def _told(found: dict[str, Any]) -> str:
    rows: dict[str, dict[str, float]] = found["variants"]
    base = rows["coqui as it stands"]["audio_seconds_per_second"]
    lines = [
        f"{'':30} {'audio-s/s':>9} {'times':>6} {'a pass (least to most)':>26} {'data':>6} "
        f"{'busy':>5} {'MFU':>5} {'memory':>8} {'loss':>6}"
    ]
    for variant, row in rows.items():
        speed = row["audio_seconds_per_second"]
        span = f"{row['seconds']:.2f} s ({row['least_seconds']:.2f} to {row['most_seconds']:.2f})"
        mfu = f"{row['mfu']:.0%}" if "mfu" in row else "-"
        lines.append(
            f"{variant:30} {speed:9.2f} {speed / base:6.2f} {span:>26} "
            f"{row['data_wait_share']:6.1%} {row['busy_share']:5.0%} {mfu:>5} "
            f"{row['peak_gb']:5.2f} GB {row['loss']:6.3f}"
        )
    lines.append(
        f"{found['threads']} threads, {found['rounds']} rounds; a product reaches "
        f"{found['peak_flops'] / 1e12:.2f} TFLOP/s here."
    )
    return "\n".join(lines)
