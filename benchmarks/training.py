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
from benchmarks.synthetic import LEARNING_RATE, coqui_recipe
from machine.process import JsonLineProcess, module_command, reserve_stdout, write_json_line
from train.step import Learner, StepResult, train_step
from xtts.model.loading import load_gpt, read_tensors

SIDES = ("coqui", "ours")
CLIPS_PER_BATCH = 4
MAX_PASS_SECONDS = 3600.0
Figures = dict[str, float]
Pass = Callable[[], Figures]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser, rounds=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Medians of each variant."""
    torch.set_num_threads(arguments.threads)
    figures_of: dict[str, list[Figures]] = {}
    with synthetic.base_model(arguments) as (base, folder):
        synthetic.write_dataset(folder / "data")
        for variant, figures in run_passes(base, folder, arguments):
            figures_of.setdefault(variant, []).append(figures)
    rows = {variant: summarize(figures) for variant, figures in figures_of.items()}
    coqui_speed = rows["coqui as it stands"]["audio_seconds_per_second"]
    for row in rows.values():
        row["times_coqui"] = round(row["audio_seconds_per_second"] / coqui_speed, 2)
    return {"threads": arguments.threads, "rounds": arguments.rounds, "variants": rows}


def run_passes(base: Path, folder: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """Yields each variant and its figures, once per round. At full size, a side is loaded again when
    its turn comes; otherwise both stay loaded."""
    settings = (base, folder / "data", folder / "cache", arguments.threads)
    loaded_sides = [] if arguments.full else [Side(side, *settings) for side in SIDES]
    for _ in range(arguments.rounds):
        for side in loaded_sides or (Side(name, *settings) for name in SIDES):
            for variant in side.variants:
                yield variant, side.run_pass(variant)
            if not loaded_sides:
                side.close()
    for side in loaded_sides:
        side.close()


class Side:
    """One side in a separate process. Each variant makes a first pass, which is not counted."""

    def __init__(self, *arguments: object) -> None:
        command = module_command("benchmarks.training", *map(str, arguments))
        self._process = JsonLineProcess(command)
        self.variants: list[str] = self._receive()["variants"]
        for variant in self.variants:
            self.run_pass(variant)

    def run_pass(self, variant: str) -> Figures:
        """The figures of one pass over the clips."""
        self._process.send({"variant": variant})
        return self._receive()

    def close(self) -> None:
        """Ends the process."""
        self._process.end()

    def _receive(self) -> dict[str, Any]:
        try:
            return self._process.receive(MAX_PASS_SECONDS)
        except EOFError as error:
            raise ChildFailed(
                f"A side of the benchmark ended; it said last: {self._process.errors.last_line()}"
            ) from error


def summarize(passes: Sequence[Figures]) -> Figures:
    """Medians over the passes of a variant, named as in a run's TensorBoard; and the last loss."""
    medians = {name: statistics.median(figures[name] for figures in passes) for name in passes[0]}
    seconds = medians["seconds"]
    summary = {
        "audio_seconds_per_second": medians["audio_seconds"] / seconds,
        "clips_per_second": medians["clips"] / seconds,
        "seconds": seconds,
        "least_seconds": min(figures["seconds"] for figures in passes),
        "most_seconds": max(figures["seconds"] for figures in passes),
        "data_wait_share": medians["data_seconds"] / seconds,
        "busy_share": medians["busy_share"],
        "peak_gb": medians["peak_gb"],
        "loss": passes[-1]["loss"],
    }
    return {name: round(value, 4) for name, value in summary.items()}


# ---- the child: one side, a pass for each line of JSON that names a variant ----


def serve(side: str, base: Path, data: Path, cache: Path, threads: int) -> None:
    """Answers until stdin is closed."""
    answers = reserve_stdout()  # Coqui prints as well
    passes = (our_passes if side == "ours" else coqui_passes)(base, data, cache)
    torch.set_num_threads(threads)  # after Coqui's import, which sets it to one
    write_json_line(answers, {"variants": list(passes)})
    for line in sys.stdin:
        write_json_line(answers, measure(passes[json.loads(line)["variant"]], threads))


def measure(run_pass: Pass, threads: int) -> Figures:
    """One pass: seconds, the share of the cores that was busy, the peak of memory in GB."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    started_at, cpu_seconds_before = time.perf_counter(), time.process_time()
    figures = run_pass()
    figures["seconds"] = time.perf_counter() - started_at
    cpu_seconds = time.process_time() - cpu_seconds_before
    figures["busy_share"] = cpu_seconds / figures["seconds"] / threads
    return figures | {"peak_gb": memory_bytes("VmHWM") / 1e9, "load": os.getloadavg()[0]}


def our_passes(base: Path, data: Path, cache: Path) -> dict[str, Pass]:
    """Passes in Coqui's batches, and with all clips in one batch."""
    config, batches = synthetic.open_batches(base, data, cache)
    all_clips = tuple(range(len(batches.clips)))
    has_bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    learner = Learner(
        load_gpt(read_tensors(base / "model.pth"), config, 0.1), coqui_recipe("bf16" if has_bf16 else "fp32")
    )

    def run_pass(batch_size: int) -> Figures:
        data_seconds, losses = 0.0, []
        for group in mixed_groups(all_clips, batch_size):
            started_at = time.perf_counter()
            batch = batches.batch(learner.step, group)
            data_seconds += time.perf_counter() - started_at
            result = train_step(learner, batch)
            assert isinstance(result, StepResult)
            losses.append(result.losses["audio_loss"])
        return {
            "audio_seconds": sum(clip.seconds for clip in batches.clips),
            "clips": len(all_clips),
            "data_seconds": data_seconds,
            "loss": sum(losses) / len(losses),
        }

    return {
        f"ours, {CLIPS_PER_BATCH} clips a batch": lambda: run_pass(CLIPS_PER_BATCH),
        "ours, all clips in a batch": lambda: run_pass(len(all_clips)),
    }


def coqui_passes(base: Path, data: Path, cache: Path) -> dict[str, Pass]:
    """Passes of the unchanged recipe, and under bf16 autocast with features computed beforehand."""
    trainer = coqui_training.CoquiTrainingRecipe(base, data, LEARNING_RATE)
    all_clips = tuple(range(len(trainer.samples)))
    groups = mixed_groups(all_clips, CLIPS_PER_BATCH)
    features: dict[tuple[int, ...], dict[str, object]] = {}

    def run_pass(*, is_accelerated: bool) -> Figures:
        data_seconds, losses = 0.0, []
        for group in groups:
            started_at = time.perf_counter()
            batch = features.get(group) if is_accelerated else None
            if batch is None:
                batch = trainer.features(trainer.load(group))
            if is_accelerated:
                features[group] = batch
            data_seconds += time.perf_counter() - started_at
            with torch.autocast("cpu", torch.bfloat16) if is_accelerated else nullcontext():
                losses.append(trainer.step(dict(batch)))
        return {
            "audio_seconds": trainer.audio_seconds,
            "clips": len(all_clips),
            "data_seconds": data_seconds,
            "loss": sum(losses) / len(losses),
        }

    return {
        "coqui as it stands": lambda: run_pass(is_accelerated=False),
        "coqui, bf16 and kept features": lambda: run_pass(is_accelerated=True),
    }


def mixed_groups(clips: tuple[int, ...], size: int) -> list[tuple[int, ...]]:
    """Groups of short and long clips, as a random draw would mix them: every n-th clip."""
    count = -(-len(clips) // size)
    return [clips[start::count] for start in range(count)]


if __name__ == "__main__":
    side, base, data, cache, threads = sys.argv[1:]
    serve(side, Path(base), Path(data), Path(cache), int(threads))
