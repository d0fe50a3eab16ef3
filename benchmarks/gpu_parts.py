"""Parts of `benchmarks gpu`: each measures one thing on one device and returns its figures.

On a GPU the sizes are XTTS-v2's, with random weights; a rehearsal uses small ones. Times are measured
by events on a GPU, by a clock on a CPU. A package that a machine may lack is imported inside its
part, so that the other parts run.
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
    """A part of an operation of the check, with its largest distances from the CPU and between two
    runs."""

    operation: str
    part: str
    tolerance: float
    largest: float
    between_runs: float


RUNS_PER_OPERATION = 50
# How many times the largest distance a tolerance should be, at least and at most.
MIN_HEADROOM, MAX_HEADROOM = 4.0, 1000
CODE_SECONDS = 1024 / 22_050


@dataclass(frozen=True)
class Setup:
    """The device and the sizes. rounds: of each measurement; clips: in a batch; slots: rows that speak
    together; folder: for a base model."""

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


def choose_setup(device: str, folder: str, *, rehearse: bool) -> Setup:
    """Full size, or for a rehearsal a size that takes a CPU some seconds."""
    if rehearse:
        shape = GPTShape(text_ids=200, text_start=198, layers=2, width=64, heads=4)
        return Setup(device, shape, 1, 6, (2,), (1, 2), folder)
    return Setup(device, synthetic.FULL_SHAPE, 20, 150, (4, 16, 48), (1, 4, 16), folder)


def _median(milliseconds: Sequence[float]) -> float:
    return round(statistics.median(milliseconds), 4)


def measure_check(setup: Setup) -> Figures:
    """The seconds of a GPU's check, cold and cached; and the distance and limit of each of its
    operations, with other numbers in each run."""
    figures: Figures = {}
    if setup.on_gpu:
        from machine.devices.probe import probe

        with tempfile.TemporaryDirectory() as name:
            for start in ("cold", "cached"):
                seconds = measuring.seconds_of(lambda: probe(folder=Path(name)))
                figures[f"{start}_seconds"] = round(seconds, 2)
    for row in measure_distances(setup.device, RUNS_PER_OPERATION if setup.on_gpu else 1):
        figures[f"{row['operation']}, {row['part']}"] = {
            "largest": row["largest"],
            "allowed": row["tolerance"],
            "fits": judge_tolerance(row),
        }
    return figures


def measure_distances(device: str, num_runs: int) -> list[OperationDistance]:
    """The largest distances of every part of every operation of the check."""
    from machine.devices.probe_child import TOLERANCES, ProbePlace, distance, operations

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    rows: list[OperationDistance] = []
    for name, parts in operations().items():
        for part_name, part in parts.items():
            from_cpu, between_runs = [], []
            for number in range(num_runs):
                reference = part(ProbePlace("cpu", exact=True, seed=number))
                first, second = (part(ProbePlace(device, seed=number)).cpu() for _ in range(2))
                from_cpu.append(distance(first, reference))
                between_runs.append(distance(first, second))
            rows.append(
                {
                    "operation": name,
                    "part": part_name,
                    "tolerance": TOLERANCES[name],
                    "largest": max(from_cpu),
                    "between_runs": max(between_runs),
                }
            )
    return rows


def judge_tolerance(row: OperationDistance) -> str:
    """Whether a tolerance fits the measured distances."""
    largest, tolerance = max(row["largest"], row["between_runs"]), row["tolerance"]
    if not largest <= tolerance:
        return "FAILS"
    if tolerance == 0 or largest * MIN_HEADROOM <= tolerance <= largest * MAX_HEADROOM + 1e-12:
        return "fits"
    return "too tight" if largest * MIN_HEADROOM > tolerance else "could be tighter"


def compare_graph(setup: Setup) -> Figures:
    """Milliseconds per code with and without a captured step, by precision and rows; and whether both
    speak the same likeliest codes. In 16 bits they may differ where two codes are almost as likely."""
    from extras.graphs.speech import CudaGraphStep, rows_of
    from xtts.inference.torch_backend import DecodeStep

    figures = Figures()
    gpts = {precision: _new_gpt(setup, precision) for precision in _precisions(setup)}
    for (precision, gpt), slots in itertools.product(gpts.items(), setup.slots):
        # A CPU takes the same path, with a capture that computes each time.
        captured = rows_of(gpt, slots, (), setup) if setup.on_gpu else CudaGraphStep(gpt, slots, _recompute)
        cache = CudaGraphStep(gpt, slots, _recompute).caches
        eager = partial(DecodeStep(gpt), cache=cache)
        _fill_caches(gpt, slots, (captured.caches, cache), setup)
        codes, milliseconds = _speak_codes(setup, slots, captured)
        eager_codes, eager_milliseconds = _speak_codes(setup, slots, eager)
        figures[f"{slots} rows, {precision}"] = {
            "graph": milliseconds,
            "eager": eager_milliseconds,
            "same": codes == eager_codes,
            "reason": captured.reason,
            "rtf_a_stream": round(milliseconds / 1e3 / CODE_SECONDS, 4),
        }
        captured.release()
    return figures


def _precisions(setup: Setup) -> list[str]:
    """The precision of the service on this device, and float32."""
    return list(dict.fromkeys((setup.precision, "fp32")))


def _new_gpt(setup: Setup, precision: str) -> "GPT":
    from demo_voice.new_gpt import new_gpt

    gpt = new_gpt(setup.shape, seed=0).to(setup.device).eval().requires_grad_(False)
    if precision == "bf16":
        gpt.gpt.to(torch.bfloat16)
        gpt.gpt.cache_type = torch.bfloat16
    return gpt


@torch.inference_mode()
def _speak_codes(
    setup: Setup, slots: int, step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> tuple[list[list[int]], float]:
    """The likeliest codes of every row, and the median milliseconds per code."""
    last = torch.full((slots,), 5, device=setup.device)
    codes, milliseconds = [], []
    for position in range(1, setup.codes + 1):
        positions, next_codes = torch.full_like(last, position), list[Tensor]()
        milliseconds.append(
            timed(setup, lambda: next_codes.append(step(last, positions)[1].argmax(-1)))  # noqa: B023
        )
        last = next_codes[0]
        codes.append(last.tolist())
    return codes, _median(milliseconds)


@torch.inference_mode()
def _fill_caches(gpt: "GPT", slots: int, caches: "Sequence[StaticCaches]", setup: Setup) -> None:
    """Fills every row of the caches with thirty positions of noise."""
    from xtts.inference.torch_backend import DecodeStep

    prefilled = gpt.gpt.new_cache(1, 64)
    DecodeStep(gpt).prefill(torch.randn(1, 30, setup.shape.width, device=setup.device), prefilled)
    for cache in caches:
        for slot in range(slots):
            cache.enter(slot, prefilled)


def _recompute(compute: Callable[[], tuple[Tensor, ...]]) -> tuple[tuple[Tensor, ...], Callable[[], object]]:
    """A recorder for a CPU: the "replay" computes the outputs again."""
    outputs = compute()

    def replay() -> None:
        for output, new in zip(outputs, compute(), strict=True):
            output.copy_(new)

    return outputs, replay


def measure_training(setup: Setup) -> Figures:
    """Milliseconds, MFU and the allocator's peak of our training step, by clips in a batch, with
    fixed and with changing shapes."""
    from extras.doctor import flops

    learner, figures = _new_learner(setup), Figures()
    peak_flops = flops.peak_of_gpu(torch.cuda.get_device_name(setup.device)) if setup.on_gpu else None
    for clips in setup.clips:
        for shapes in ("fixed", "changing"):
            batches = [_new_batch(setup, clips, turn if shapes == "changing" else 0) for turn in range(4)]
            if setup.on_gpu:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats(setup.device)
            milliseconds = [
                timed(setup, lambda batch=batches[turn % 4]: _train_step(learner, batch))  # type: ignore[misc]
                for turn in range(setup.rounds + 4)
            ][3:]
            peak_bytes = torch.cuda.max_memory_allocated(setup.device) if setup.on_gpu else None
            median = statistics.median(milliseconds)
            step_flops = flops.step_flops(batches[0].rows, setup.shape)
            figures[f"{clips} clips, {shapes}"] = {
                "milliseconds": round(median, 3),
                "positions": batches[0].rows.length,
                "mfu": round(step_flops / (median / 1e3) / peak_flops, 4) if peak_flops else None,
                "peak_gb": None if peak_bytes is None else round(peak_bytes / 1e9, 3),
            }
    return figures


def compare_with_coqui(setup: Setup) -> Figures:
    """Our training step and that of Coqui's unchanged recipe, in turns on the same clips. Raises
    ImportError without Coqui's package."""
    import TTS  # noqa: F401  # before anything is written

    from benchmarks import coqui_training
    from extras.graphs.captured_step import CapturedSteps, CudaRecorder

    with tempfile.TemporaryDirectory() as name:
        base = synthetic.write_base(Path(setup.folder or name) / "base", full=setup.shape.width == 1024)
        synthetic.write_dataset(Path(name) / "data")
        recipe = coqui_training.CoquiTrainingRecipe(base, Path(name) / "data", synthetic.LEARNING_RATE)
        recipe.model.to(setup.device)
        learner, batch = _new_learner(setup), _new_batch(setup, 4, 0)
        graphs = None
        if setup.on_gpu:
            graphs = CapturedSteps(learner, CudaRecorder(learner.device))
            graphs.capture_after, graphs.gpu_bound = 0, float("inf")
        for _ in range(3):  # captured before it is measured
            _train_step(learner, batch, graphs)

        def time_coqui() -> float:
            loaded = recipe.load((0, 2, 4, 6))
            moved = {k: v.to(setup.device) if hasattr(v, "to") else v for k, v in loaded.items()}
            return timed(setup, lambda: recipe.step(recipe.features(moved)))

        def time_ours() -> float:
            return timed(setup, lambda: _train_step(learner, batch, graphs))

        sides = {"coqui": time_coqui, "ours": time_ours}
        milliseconds_of = measuring.in_turns(sides, min(setup.rounds, 5))
    medians = {side: statistics.median(milliseconds) for side, milliseconds in milliseconds_of.items()}
    return {
        **{f"{side}_milliseconds": round(median, 3) for side, median in medians.items()},
        "times": round(medians["coqui"] / medians["ours"], 2),
    }


def measure_saving(setup: Setup) -> Figures:
    """The seconds that a step waits while an epoch is copied for the writer, the first time (when
    memory is pinned) and later; and the seconds until the copy has arrived."""
    from train.checkpointing.async_writer import PinnedStaging

    learner = _new_learner(setup)
    _train_step(learner, _new_batch(setup, setup.clips[0], 0))
    staging, stalls = PinnedStaging(), []
    for _ in range(2):
        _synchronize(setup)
        began = time.perf_counter()
        state = {"model": learner.weights.unsaved_state(), "trainer": learner.trainer_state()}
        _, wait_for_copy = staging.copy_to_cpu(state)
        stalls.append(round(time.perf_counter() - began, 3))
        wait_for_copy()
        arrived = round(time.perf_counter() - began, 3)
    return {"first_stall_seconds": stalls[0], "stall_seconds": stalls[1], "arrived_seconds": arrived}


def timed(setup: Setup, work: Callable[[], object]) -> float:
    """The milliseconds that the work takes on the device."""
    if not setup.on_gpu:
        began = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - began)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def _new_learner(setup: Setup) -> "Learner":
    return synthetic.new_learner(setup.shape, setup.precision, setup.device)


def _new_batch(setup: Setup, num_clips: int, turn: int) -> "Batch":
    """Clips of noise, 2 to 9 s long; another turn gives other lengths."""
    codes = [45 + (37 * clip + 11 * turn) % 140 for clip in range(num_clips)]
    frames = [300 + 5 * (clip + turn) % 200 for clip in range(num_clips)]
    text_ids = [num_codes // 3 for num_codes in codes]
    sizes = list(zip(text_ids, codes, frames, strict=True))
    batch = synthetic.noise_batch(setup.shape, sizes, sum(codes) * CODE_SECONDS)
    return replace(batch, rows=batch.rows.to(setup.device))


def _train_step(learner: "Learner", batch: "Batch", graphs: "CapturedSteps | None" = None) -> object:
    from train.step import train_step

    deferred = learner.can_defer or graphs is not None
    return train_step(learner, batch, deferred=deferred, graphs=graphs)


def _synchronize(setup: Setup) -> None:
    if setup.on_gpu:
        torch.cuda.synchronize(setup.device)


PARTS: dict[str, Callable[[Setup], Figures]] = {
    "probe": measure_check,
    "graph": compare_graph,
    "training": measure_training,
    "against_coqui": compare_with_coqui,
    "saving": measure_saving,
}
