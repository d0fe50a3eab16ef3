"""Parts of `benchmarks gpu`: each measures one thing on one device and returns plain values.

On a GPU the sizes are XTTS-v2's, with random weights; a rehearsal uses small ones. Times are the
device's: events on a GPU, a clock on a CPU. A package that a machine may lack is imported inside
its part, so that the other parts run.
"""

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Tensor

from benchmarks import measuring, synthetic
from xtts.model.shapes import GPTShape

if TYPE_CHECKING:
    from extras.graphs.captured_step import CapturedSteps
    from extras.graphs.static_caches import StaticCaches
    from train.dataset.batches import Batch
    from train.step import Learner
    from xtts.model.gpt import GPT

Figures = dict[str, object]


class OperationDistance(TypedDict):
    """A part of an operation of the check, with its largest distances to the CPU and between two
    runs."""

    operation: str
    part: str
    tolerance: float
    largest: float
    between_runs: float


# Runs of each operation of the check, and how far a limit should be above the largest distance.
TIMES, HEADROOM = 50, 4.0
CODE_SECONDS = 1024 / 22_050


@dataclass(frozen=True)
class Setup:
    """The device and the sizes. rounds: of each measurement; folder: for a base model."""

    device: str
    shape: GPTShape
    rounds: int
    codes: int
    clips: Sequence[int]
    slots: Sequence[int]
    folder: str

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def precision(self) -> str:
        return "bf16" if self.on_gpu and torch.cuda.is_bf16_supported() else "fp32"


def setup(device: str, folder: str, *, rehearse: bool) -> Setup:
    """Full size, or a size that takes a CPU some seconds."""
    if rehearse:
        shape = GPTShape(text_ids=200, text_start=198, layers=2, width=64, heads=4)
        return Setup(device, shape, 1, 6, (2,), (1, 2), folder)
    return Setup(device, synthetic.FULL_SHAPE, 20, 150, (4, 16, 48), (1, 4, 16), folder)


def _median(milliseconds: Sequence[float]) -> float:
    return round(statistics.median(milliseconds), 4)


def probe(at: Setup) -> Figures:
    """The check of a GPU, cold and cached, in seconds; then every operation of it with other
    numbers each time: its distance beside its limit."""
    figures: Figures = {}
    if at.on_gpu:
        from machine.devices.probe import probe as check

        with tempfile.TemporaryDirectory() as name:
            for start in ("cold", "cached"):
                seconds = measuring.seconds_of(lambda: check(folder=Path(name)))
                figures[f"{start}_seconds"] = round(seconds, 2)
    for row in distances(at.device, TIMES if at.on_gpu else 1):
        figures[f"{row['operation']}, {row['part']}"] = {
            "largest": row["largest"],
            "allowed": row["tolerance"],
            "fits": advice(row),
        }
    return figures


def distances(device: str, times: int) -> list[OperationDistance]:
    """Every part of every operation of the check, computed so many times."""
    from machine.devices.probe_child import TOLERANCES, ProbePlace, distance, operations

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    rows: list[OperationDistance] = []
    for name, parts in operations().items():
        for part_name, part in parts.items():
            seen, between = [], []
            for number in range(times):
                reference = part(ProbePlace("cpu", exact=True, seed=number))
                first, second = (part(ProbePlace(device, seed=number)).cpu() for _ in range(2))
                seen.append(distance(first, reference))
                between.append(distance(first, second))
            rows.append(
                {
                    "operation": name,
                    "part": part_name,
                    "tolerance": TOLERANCES[name],
                    "largest": max(seen),
                    "between_runs": max(between),
                }
            )
    return rows


def advice(row: OperationDistance) -> str:
    """Whether a tolerance fits the measured distance."""
    worst, limit = max(row["largest"], row["between_runs"]), row["tolerance"]
    if not worst <= limit:
        return "FAILS"
    if limit == 0 or worst * HEADROOM <= limit <= worst * 1000 + 1e-12:
        return "fits"
    return "too tight" if worst * HEADROOM > limit else "could be tighter"


def graph(at: Setup) -> Figures:
    """Milliseconds a code with and without a captured step, by precision and rows; whether they say
    the same likeliest codes. In 16 bits the two may part where two codes are almost as likely."""
    from extras.graphs.speech import CudaGraphStep, rows_of
    from xtts.inference.torch_backend import DecodeStep

    figures = Figures()
    gpts = {precision: _speaking_gpt(at, precision) for precision in _spoken_in(at)}
    for (precision, gpt), slots in itertools.product(gpts.items(), at.slots):
        # A CPU takes the same path, with a capture that computes each time.
        captured = rows_of(gpt, slots, (), at) if at.on_gpu else CudaGraphStep(gpt, slots, _recomputed)
        cache = CudaGraphStep(gpt, slots, _recomputed).caches
        plain = partial(DecodeStep(gpt), cache=cache)
        _enter_all(gpt, slots, (captured.caches, cache), at)
        codes, milliseconds = _spoken(at, slots, captured)
        eager_codes, eager = _spoken(at, slots, plain)
        figures[f"{slots} rows, {precision}"] = {
            "graph": milliseconds,
            "eager": eager,
            "same": codes == eager_codes,
            "reason": captured.reason,
            "rtf_a_stream": round(milliseconds / 1e3 / CODE_SECONDS, 4),
        }
        captured.release()
    return figures


def _spoken_in(at: Setup) -> list[str]:
    """The precisions of speaking: that of the service on this device, and float32."""
    return list(dict.fromkeys((at.precision, "fp32")))


def _speaking_gpt(at: Setup, precision: str) -> "GPT":
    from demo_voice.new_gpt import new_gpt

    gpt = new_gpt(at.shape, seed=0).to(at.device).eval().requires_grad_(False)
    if precision == "bf16":
        gpt.gpt.to(torch.bfloat16)
        gpt.gpt.cache_type = torch.bfloat16
    return gpt


@torch.inference_mode()
def _spoken(
    at: Setup, slots: int, step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> tuple[list[list[int]], float]:
    """The likeliest codes of every row, and the median of milliseconds a code."""
    taken = torch.full((slots,), 5, device=at.device)
    codes, milliseconds = [], []
    for turn in range(1, at.codes + 1):
        place, likeliest = torch.full_like(taken, turn), list[Tensor]()
        milliseconds.append(timed(at, lambda: likeliest.append(step(taken, place)[1].argmax(-1))))  # noqa: B023
        taken = likeliest[0]
        codes.append(taken.tolist())
    return codes, _median(milliseconds)


@torch.inference_mode()
def _enter_all(gpt: "GPT", slots: int, caches: "Sequence[StaticCaches]", at: Setup) -> None:
    """Fills every row with thirty positions of noise."""
    from xtts.inference.torch_backend import DecodeStep

    filled = gpt.gpt.new_cache(1, 64)
    DecodeStep(gpt).prefill(torch.randn(1, 30, at.shape.width, device=at.device), filled)
    for cache in caches:
        for slot in range(slots):
            cache.enter(slot, filled)


def _recomputed(compute: Callable[[], tuple[Tensor, ...]]) -> tuple[tuple[Tensor, ...], Callable[[], object]]:
    outputs = compute()

    def replay() -> None:
        for there, new in zip(outputs, compute(), strict=True):
            there.copy_(new)

    return outputs, replay


def training(at: Setup) -> Figures:
    """Milliseconds a step of ours by clips in a batch, the same shapes and changing ones; MFU, peak
    of the allocator."""
    from extras.doctor import flops

    learner, figures = _learner(at), Figures()
    peak = flops.peak_of_gpu(torch.cuda.get_device_name(at.device)) if at.on_gpu else None
    for clips in at.clips:
        for shapes in ("fixed", "changing"):
            batches = [_batch(at, clips, turn if shapes == "changing" else 0) for turn in range(4)]
            if at.on_gpu:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats(at.device)
            milliseconds = [
                timed(at, lambda batch=batches[turn % 4]: _step(learner, batch))  # type: ignore[misc]
                for turn in range(at.rounds + 4)
            ][3:]
            taken = torch.cuda.max_memory_allocated(at.device) if at.on_gpu else 0
            peak_gb = round(taken / 1e9, 3) if at.on_gpu else None
            middle = statistics.median(milliseconds)
            counted = flops.step_flops(batches[0].rows, at.shape)
            figures[f"{clips} clips, {shapes}"] = {
                "milliseconds": round(middle, 3),
                "positions": batches[0].rows.length,
                "mfu": round(counted / (middle / 1e3) / peak, 4) if peak else None,
                "peak_gb": peak_gb,
            }
    return figures


def against_coqui(at: Setup) -> Figures:
    """A training step of the two in turns, on the same clips; Coqui's is its recipe as it stands.
    Raises ImportError where there is no TTS."""
    import TTS  # noqa: F401  # asked for before anything is written

    from benchmarks import coqui_training
    from extras.graphs.captured_step import CapturedSteps, CudaRecorder

    with tempfile.TemporaryDirectory() as name:
        base = synthetic.write_base(Path(at.folder or name) / "base", full=at.shape.width == 1024)
        synthetic.write_dataset(Path(name) / "data")
        recipe = coqui_training.CoquiTrainingRecipe(base, Path(name) / "data", synthetic.LEARNING_RATE)
        recipe.model.to(at.device)
        learner, batch = _learner(at), _batch(at, 4, 0)
        graphs = None
        if at.on_gpu:
            graphs = CapturedSteps(learner, CudaRecorder(learner.device))
            graphs.capture_after, graphs.gpu_bound = 0, float("inf")
        for _ in range(3):  # captured before it is measured
            _step(learner, batch, graphs)

        def coquis() -> float:
            loaded = recipe.load((0, 2, 4, 6))
            moved = {k: v.to(at.device) if hasattr(v, "to") else v for k, v in loaded.items()}
            return timed(at, lambda: recipe.step(recipe.features(moved)))

        sides = {"coqui": coquis, "ours": lambda: timed(at, lambda: _step(learner, batch, graphs))}
        seen = measuring.in_turns(sides, min(at.rounds, 5))
    middle = {side: statistics.median(times) for side, times in seen.items()}
    return {
        **{f"{side}_milliseconds": round(milliseconds, 3) for side, milliseconds in middle.items()},
        "times": round(middle["coqui"] / middle["ours"], 2),
    }


def saving(at: Setup) -> Figures:
    """How long a step waits while an epoch is copied for the writer, in seconds: the first time,
    when memory is pinned, and after; and when the copy has arrived."""
    from train.checkpointing.async_writer import PinnedStaging

    learner = _learner(at)
    _step(learner, _batch(at, at.clips[0], 0))
    staging, stalls = PinnedStaging(), []
    for _ in range(2):
        _wait(at)
        began = time.perf_counter()
        state = {"model": learner.weights.unsaved_state(), "trainer": learner.trainer_state()}
        _, arrived = staging.copy_to_cpu(state)
        stalls.append(round(time.perf_counter() - began, 3))
        arrived()
        there = time.perf_counter() - began
    return {"first_stall_seconds": stalls[0], "stall_seconds": stalls[1], "arrived_seconds": round(there, 3)}


def timed(at: Setup, work: Callable[[], object]) -> float:
    """Milliseconds on the device."""
    if not at.on_gpu:
        began = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - began)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def _learner(at: Setup) -> "Learner":
    return synthetic.new_learner(at.shape, at.precision, at.device)


def _batch(at: Setup, clips: int, turn: int) -> "Batch":
    """So many clips of 2 to 9 s, of noise; turn: another one, other lengths."""
    codes = [45 + (37 * clip + 11 * turn) % 140 for clip in range(clips)]
    frames = [300 + 5 * (clip + turn) % 200 for clip in range(clips)]
    texts = [many // 3 for many in codes]
    sizes = list(zip(texts, codes, frames, strict=True))
    batch = synthetic.noise_batch(at.shape, sizes, sum(codes) * CODE_SECONDS)
    return replace(batch, rows=batch.rows.to(at.device))


def _step(learner: "Learner", batch: "Batch", graphs: "CapturedSteps | None" = None) -> object:
    from train.step import train_step

    deferred = learner.can_defer or graphs is not None
    return train_step(learner, batch, deferred=deferred, graphs=graphs)


def _wait(at: Setup) -> None:
    if at.on_gpu:
        torch.cuda.synchronize(at.device)


PARTS: dict[str, Callable[[Setup], Figures]] = {
    "probe": probe,
    "graph": graph,
    "training": training,
    "against_coqui": against_coqui,
    "saving": saving,
}
