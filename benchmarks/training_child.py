"""One side of `benchmarks training`, in a process of its own.

It loads, then waits for lines of JSON on its standard input. For each it takes a pass over the
clips in the variant that the line names, and answers with another line.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from benchmarks import coqui_training, synthetic
from benchmarks.measuring import memory_bytes
from benchmarks.synthetic import LEARNING_RATE, recipe
from machine.process import reserve_stdout, write_json_line
from train.learner import Learner
from train.metrics import flops
from train.trainer import train_step
from xtts.model.loading import load_gpt, read_tensors

CLIPS_IN_A_BATCH = 4
Pass = Callable[[], dict[str, float]]


def main(side: str, base: Path, data: Path, cache: Path, threads: int) -> None:
    """Answers until its standard input ends."""
    answers = reserve_stdout()  # Coqui prints as well
    passes = (ours if side == "ours" else coqui)(base, data, cache)
    torch.set_num_threads(threads)  # behind Coqui's import, which sets it to one
    write_json_line(answers, {"variants": list(passes)})
    for line in sys.stdin:
        write_json_line(answers, measured(passes[json.loads(line)["variant"]], threads))


def measured(taken: Pass, threads: int) -> dict[str, float]:
    """One pass: seconds, the share of the cores that was busy, the peak of memory in GB."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts over
    began, used = time.perf_counter(), time.process_time()
    found = taken()
    found["seconds"] = time.perf_counter() - began
    found["busy_share"] = (time.process_time() - used) / found["seconds"] / threads
    return found | {"peak_gb": memory_bytes("VmHWM") / 1e9, "load": os.getloadavg()[0]}


def ours(base: Path, data: Path, cache: Path) -> dict[str, Pass]:
    """Passes in Coqui's batches, and with all clips in one."""
    config, batches = synthetic.batches(base, data, cache, "same_clip")
    everything = tuple(range(len(batches.clips)))
    bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    learner = Learner(
        load_gpt(read_tensors(base / "model.pth"), config, 0.1), recipe("bf16" if bf16 else "fp32")
    )

    def taken(size: int) -> dict[str, float]:
        waited, counted, losses = 0.0, 0.0, []
        for group in grouped(everything, size):
            clock = time.perf_counter()
            batch = batches.batch(learner.step, group)
            waited += time.perf_counter() - clock
            losses.append(train_step(learner, batch).losses["audio_loss"])
            counted += flops.step_flops(batch.rows, config.gpt)
        seconds = sum(clip.seconds for clip in batches.clips)
        return {
            "audio_seconds": seconds, "clips": len(everything), "data_seconds": waited,
            "loss": sum(losses) / len(losses), "flops": counted,
        }  # fmt: skip

    return {
        f"ours, {CLIPS_IN_A_BATCH} clips a batch": lambda: taken(CLIPS_IN_A_BATCH),
        "ours, all clips in a batch": lambda: taken(len(everything)),
    }


def coqui(base: Path, data: Path, cache: Path) -> dict[str, Pass]:
    """Passes as it stands, and under bf16 autocast with the features computed beforehand."""
    trainer = coqui_training.CoquiTrainingRecipe(base, data, LEARNING_RATE)
    everything = tuple(range(len(trainer.samples)))
    groups = grouped(everything, CLIPS_IN_A_BATCH)
    kept: dict[tuple[int, ...], Any] = {}

    def taken(quickened: bool) -> dict[str, float]:
        waited, losses = 0.0, []
        for group in groups:
            clock = time.perf_counter()
            batch = kept.get(group) if quickened else None
            if batch is None:
                batch = trainer.features(trainer.load(group))
            if quickened:
                kept[group] = batch
            waited += time.perf_counter() - clock
            with torch.autocast("cpu", torch.bfloat16) if quickened else nullcontext():
                losses.append(trainer.step(dict(batch)))
        return {
            "audio_seconds": trainer.audio_seconds, "clips": len(everything),
            "data_seconds": waited, "loss": sum(losses) / len(losses),
        }  # fmt: skip

    return {
        "coqui as it stands": lambda: taken(False),
        "coqui, bf16 and kept features": lambda: taken(True),
    }


def grouped(clips: tuple[int, ...], size: int) -> list[tuple[int, ...]]:
    """Short and long clips together, as a random draw would have them: every n-th clip."""
    count = -(-len(clips) // size)
    return [clips[start::count] for start in range(count)]


if __name__ == "__main__":
    side, base, data, cache, threads = sys.argv[1:]
    main(side, Path(base), Path(data), Path(cache), int(threads))
