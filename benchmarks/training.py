"""`python -m benchmarks training` compares a training step with Coqui's.

Both sides have the same clips, weights and number of threads, and run in turns. Each side is a
separate process, so that its memory is counted separately. Coqui is its `GPTTrainer` as its recipe
assembles it, once unchanged and once under bf16 autocast with cached features. Sotaque trains in
batches of the same four clips, and with all eight in one. A pass learns from every clip once; the
first pass of each in a process is not counted. `--full` is XTTS-v2's size: there every round loads
its sides again, one at a time, since both together would need 22 GB (Coqui alone 16).
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from benchmarks import coqui_training, synthetic
from benchmarks.measuring import ChildFailed, memory_bytes
from benchmarks.synthetic import LEARNING_RATE, recipe
from machine.process import JsonLineProcess, module_command, reserve_stdout, write_json_line
from train.step import Learner, StepResult, train_step
from xtts.model.loading import load_gpt, read_tensors

SIDES = ("coqui", "ours")
CLIPS_IN_A_BATCH = 4
PASS_SECONDS = 3600.0
Measured = dict[str, float]
Pass = Callable[[], Measured]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser, rounds=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Medians of each variant."""
    torch.set_num_threads(arguments.threads)
    seen: dict[str, list[Measured]] = {}
    with synthetic.base_model(arguments) as (base, folder):
        synthetic.write_dataset(folder / "data")
        for variant, figures in passes(base, folder, arguments):
            seen.setdefault(variant, []).append(figures)
    rows = {variant: summary(measurements) for variant, measurements in seen.items()}
    base_speed = rows["coqui as it stands"]["audio_seconds_per_second"]
    for row in rows.values():
        row["times_coqui"] = round(row["audio_seconds_per_second"] / base_speed, 2)
    return {"threads": arguments.threads, "rounds": arguments.rounds, "variants": rows}


def passes(base: Path, folder: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, Measured]]:
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
    """One side in a separate process, loaded and waiting; every variant has run once."""

    def __init__(self, *words: object) -> None:
        command = module_command("benchmarks.training", *map(str, words))
        self._process = JsonLineProcess(command)
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
                f"A side of the benchmark ended; it said last: {self._process.errors.last_line()}"
            ) from error


def summary(taken: Sequence[Measured]) -> Measured:
    """Medians of one variant; figures of the same names as in a run's TensorBoard."""
    middle = {name: statistics.median(figures[name] for figures in taken) for name in taken[0]}
    seconds = middle["seconds"]
    rates = {
        "audio_seconds_per_second": middle["audio_seconds"] / seconds,
        "clips_per_second": middle["clips"] / seconds,
        "seconds": seconds,
        "least_seconds": min(figures["seconds"] for figures in taken),
        "most_seconds": max(figures["seconds"] for figures in taken),
        "data_wait_share": middle["data_seconds"] / seconds,
        "busy_share": middle["busy_share"],
        "peak_gb": middle["peak_gb"],
        "loss": taken[-1]["loss"],
    }
    return {name: round(value, 4) for name, value in rates.items()}


# ---- the child: one side, a pass for each line of JSON that names a variant ----


def answer(side: str, base: Path, data: Path, cache: Path, threads: int) -> None:
    """Answers until its standard input ends."""
    answers = reserve_stdout()  # Coqui prints as well
    passes = (ours if side == "ours" else coqui)(base, data, cache)
    torch.set_num_threads(threads)  # behind Coqui's import, which sets it to one
    write_json_line(answers, {"variants": list(passes)})
    for line in sys.stdin:
        write_json_line(answers, measured(passes[json.loads(line)["variant"]], threads))


def measured(taken: Pass, threads: int) -> Measured:
    """One pass: seconds, the share of the cores that was busy, the peak of memory in GB."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts over
    began, used = time.perf_counter(), time.process_time()
    figures = taken()
    figures["seconds"] = time.perf_counter() - began
    figures["busy_share"] = (time.process_time() - used) / figures["seconds"] / threads
    return figures | {"peak_gb": memory_bytes("VmHWM") / 1e9, "load": os.getloadavg()[0]}


def ours(base: Path, data: Path, cache: Path) -> dict[str, Pass]:
    """Passes in Coqui's batches, and with all clips in one."""
    config, batches = synthetic.batches(base, data, cache)
    everything = tuple(range(len(batches.clips)))
    bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    learner = Learner(
        load_gpt(read_tensors(base / "model.pth"), config, 0.1), recipe("bf16" if bf16 else "fp32")
    )

    def taken(size: int) -> Measured:
        waited, losses = 0.0, []
        for group in grouped(everything, size):
            clock = time.perf_counter()
            batch = batches.batch(learner.step, group)
            waited += time.perf_counter() - clock
            result = train_step(learner, batch)
            assert isinstance(result, StepResult)
            losses.append(result.losses["audio_loss"])
        seconds = sum(clip.seconds for clip in batches.clips)
        return {
            "audio_seconds": seconds,
            "clips": len(everything),
            "data_seconds": waited,
            "loss": sum(losses) / len(losses),
        }

    return {
        f"ours, {CLIPS_IN_A_BATCH} clips a batch": lambda: taken(CLIPS_IN_A_BATCH),
        "ours, all clips in a batch": lambda: taken(len(everything)),
    }


def coqui(base: Path, data: Path, cache: Path) -> dict[str, Pass]:
    """Passes as it stands, and under bf16 autocast with the features computed beforehand."""
    trainer = coqui_training.CoquiTrainingRecipe(base, data, LEARNING_RATE)
    everything = tuple(range(len(trainer.samples)))
    groups = grouped(everything, CLIPS_IN_A_BATCH)
    features: dict[tuple[int, ...], dict[str, object]] = {}

    def taken(quickened: bool) -> Measured:
        waited, losses = 0.0, []
        for group in groups:
            clock = time.perf_counter()
            batch = features.get(group) if quickened else None
            if batch is None:
                batch = trainer.features(trainer.load(group))
            if quickened:
                features[group] = batch
            waited += time.perf_counter() - clock
            with torch.autocast("cpu", torch.bfloat16) if quickened else nullcontext():
                losses.append(trainer.step(dict(batch)))
        return {
            "audio_seconds": trainer.audio_seconds,
            "clips": len(everything),
            "data_seconds": waited,
            "loss": sum(losses) / len(losses),
        }

    return {"coqui as it stands": lambda: taken(False), "coqui, bf16 and kept features": lambda: taken(True)}


def grouped(clips: tuple[int, ...], size: int) -> list[tuple[int, ...]]:
    """Short and long clips together, as a random draw would have them: every n-th clip."""
    count = -(-len(clips) // size)
    return [clips[start::count] for start in range(count)]


if __name__ == "__main__":
    side, base, data, cache, threads = sys.argv[1:]
    answer(side, Path(base), Path(data), Path(cache), int(threads))
