"""Parts of `benchmarks gpu`: each measures one thing on one device and returns plain values.

On a GPU the sizes are XTTS-v2's, with random weights; a rehearsal uses small ones. Times are the
device's: events on a GPU, a clock on a CPU. A package that a machine may lack is imported inside
its part, so that the other parts run.
"""

import copy
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks import measuring, synthetic
from xtts.model.shapes import GPTShape

if TYPE_CHECKING:
    from train.captured_step import CapturedSteps, Measured
    from train.dataset.batches import Batch
    from train.learner import Learner
    from xtts.model.gpt import GPT

Figures = dict[str, Any]
CODE_SECONDS = 1024 / 22_050


@dataclass(frozen=True)
class Setup:
    """Where and how large. rounds: of each measurement; folder: where a base model is written."""

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


def attention(at: Setup) -> Figures:
    """Every backend in both directions, milliseconds: the same shape again and again, and another
    one each time, for which cuDNN makes a plan."""
    kind = torch.bfloat16 if at.precision == "bf16" else torch.float32
    heads, width = at.shape.heads, at.shape.width // at.shape.heads
    found: Figures = {}
    for name, attend in _backends(at).items():
        rows = found[name] = Figures()

        def both_ways(length: int, attend: Any = attend) -> float:
            shape = (4, length, heads, width)
            leaves = [
                torch.randn(shape, device=at.device, dtype=kind).requires_grad_() for _ in range(3)
            ]
            return timed(at, lambda: attend(*leaves).sum().backward())

        try:
            for shapes, growth in (("fixed", 0), ("changing", 3)):
                lengths = [240 + growth * turn for turn in range(at.rounds + 1)]
                rows[shapes] = _median([both_ways(length) for length in lengths][1:])
        except (RuntimeError, NotImplementedError) as error:
            rows["not_run"] = str(error).splitlines()[0][:100]
    return found


def _median(milliseconds: Sequence[float]) -> float:
    return round(statistics.median(milliseconds), 4)


def _backends(at: Setup) -> dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]:
    """By name: `[clips, longest, heads, head_width]`, three times, to the same shape."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.varlen import varlen_attn

    def by(kernel: SDPBackend) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        def attend(*parts: Tensor) -> Tensor:
            with sdpa_kernel(kernel):
                queries, keys, values = (part.transpose(1, 2) for part in parts)
                return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)

        return attend

    def varlen(*parts: Tensor) -> Tensor:
        clips, longest = parts[0].shape[:2]
        starts = torch.arange(clips + 1, device=at.device, dtype=torch.int32) * longest
        queries, keys, values = (part.flatten(0, 1) for part in parts)
        found = varlen_attn(
            queries, keys, values, starts, starts, longest, longest, window_size=(-1, 0)
        )
        assert isinstance(found, Tensor)
        return found

    kernels = {
        "cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH,
    }  # fmt: skip
    return {name: by(kernel) for name, kernel in kernels.items()} | {"varlen": varlen}


def probe(at: Setup) -> Figures:
    """Every operation of the check with other numbers each time: its distance beside its limit."""
    from benchmarks import probe as probing

    rows = probing.distances(at.device, at.rounds if not at.on_gpu else probing.TIMES)
    return {
        f"{row['operation']}, {row['part']}": {
            "largest": row["largest"], "allowed": row["tolerance"], "fits": probing.advice(row),
        }
        for row in rows
    }  # fmt: skip


def graph(at: Setup) -> Figures:
    """Milliseconds a code with and without a captured step, by precision and rows; whether they say
    the same likeliest codes. In 16 bits the two may part where two codes are almost as likely."""
    from xtts.inference.decode_step import CudaGraphStep, DecodeStep, graphed_step

    found = Figures()
    gpts = {precision: _speaking_gpt(at, precision) for precision in _spoken_in(at)}
    for (precision, gpt), slots in itertools.product(gpts.items(), at.slots):
        # A CPU takes the same path, with a capture that computes each time.
        captured = graphed_step(gpt, slots) or CudaGraphStep(gpt, slots, _recomputed)
        cache = CudaGraphStep(gpt, slots, _recomputed).caches
        plain = partial(DecodeStep(gpt), cache=cache)
        _enter_all(gpt, slots, (captured.caches, cache), at)
        codes, milliseconds = _spoken(at, slots, captured)
        eager_codes, eager = _spoken(at, slots, plain)
        found[f"{slots} rows, {precision}"] = {
            "graph": milliseconds, "eager": eager,
            "same": codes == eager_codes, "reason": captured.reason,
            "rtf_a_stream": round(milliseconds / 1e3 / CODE_SECONDS, 4),
        }  # fmt: skip
        captured.release()
    return found


def _spoken_in(at: Setup) -> list[str]:
    """The precisions of speaking: that of the service on this device, and float32."""
    return list(dict.fromkeys((at.precision, "fp32")))


def _speaking_gpt(at: Setup, precision: str) -> "GPT":
    from xtts.model.gpt import new_gpt

    gpt = new_gpt(at.shape, seed=0).to(at.device).eval().requires_grad_(False)
    if precision == "bf16":
        gpt.gpt.to(torch.bfloat16)
        gpt.gpt.cache_type = torch.bfloat16
    return gpt


@torch.inference_mode()
def _spoken(
    at: Setup, slots: int, step: Callable[[Tensor, Tensor], Any]
) -> tuple[list[list[int]], float]:
    """The likeliest codes of every row, and the median of milliseconds a code."""
    taken = torch.full((slots,), 5, device=at.device)
    codes, milliseconds = [], []
    for turn in range(1, at.codes + 1):
        place, said = torch.full_like(taken, turn), list[Tensor]()
        milliseconds.append(timed(at, lambda: said.append(step(taken, place)[1].argmax(-1))))  # noqa: B023
        taken = said[0]
        codes.append(taken.tolist())
    return codes, _median(milliseconds)


@torch.inference_mode()
def _enter_all(gpt: Any, slots: int, caches: Sequence[Any], at: Setup) -> None:
    """Fills every row with thirty positions of noise."""
    filled = gpt.gpt.new_cache(1, 64)
    gpt.prefill(torch.randn(1, 30, at.shape.width, device=at.device), filled)
    for cache in caches:
        for slot in range(slots):
            cache.enter(slot, filled)


def _recomputed(
    compute: Callable[[], tuple[Tensor, ...]],
) -> tuple[tuple[Tensor, ...], Callable[[], object]]:
    found = compute()

    def replay() -> None:
        for there, new in zip(found, compute(), strict=True):
            there.copy_(new)

    return found, replay


def training(at: Setup) -> Figures:
    """Milliseconds a step of ours by clips in a batch, the same shapes and changing ones; MFU, peak
    of the allocator."""
    from train.metrics import flops

    learner, found = _learner(at), {}
    peak = flops.peak_flops(torch.cuda.get_device_name(at.device)) if at.on_gpu else None
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
            found[f"{clips} clips, {shapes}"] = {
                "milliseconds": round(middle, 3), "positions": batches[0].rows.length,
                "mfu": round(counted / (middle / 1e3) / peak, 4) if peak else None,
                "peak_gb": peak_gb,
            }  # fmt: skip
    return found


def captured(at: Setup) -> Figures:
    """Steps on changing batches with CUDA graphs and without: milliseconds when they follow each
    other, the share of it in which the GPU computes, MFU; and how far the losses of 50 steps are
    apart, on the same padded batches with dropout and on batches without padding without it."""
    first = _learner(at)
    second = _twin(first)
    graphs = _graphs(second)
    found = Figures()
    with _as_on_a_gpu(at):
        for clips in at.clips:
            _keep(found, f"{clips} clips, eager", _in_a_row(at, first, None, clips))
            _keep(found, f"{clips} clips, graph", _in_a_row(at, second, graphs, clips))
        _keep(found, "graphs", {"number": len(graphs), "reason": graphs.reason})
        _keep(found, "losses, padded", _apart(at, first, second, padded=True))
        for learner in (first, second):
            _without_dropout(learner)
        _keep(found, "losses, without padding", _apart(at, first, second, padded=False))
    return found


def compiled(at: Setup) -> Figures:
    """`captured` with COMPILE=on; milliseconds and MFU alone."""
    found = Figures()
    learner = synthetic.new_learner(at.shape, at.precision, at.device, compiled=at.on_gpu)
    graphs = _graphs(learner)
    with _as_on_a_gpu(at):
        for clips, (name, steps) in itertools.product(
            (at.clips[0], at.clips[-1]), {"eager": None, "graph": graphs}.items()
        ):
            _keep(found, f"{clips} clips, {name}", _in_a_row(at, learner, steps, clips))
    _keep(found, "graphs", {"number": len(graphs), "reason": graphs.reason})
    return found


def _keep(found: Figures, name: str, row: dict[str, Any]) -> None:
    """Adds a row and shows it, for a part that is ended by a time limit."""
    found[name] = row
    print(json.dumps({name: row}), file=sys.stderr, flush=True)


def _in_a_row(
    at: Setup, learner: "Learner", graphs: "CapturedSteps | None", clips: int
) -> dict[str, Any]:
    """The mean over steps that nobody waits for; the GPU's part by the profiler, in steps of their
    own, because it slows the host."""
    from train.metrics import flops

    batches = [_batch(at, clips, turn) for turn in range(4)]
    turns = itertools.cycle(batches)

    def taken(steps: int) -> float:
        _wait(at)
        began = time.perf_counter()
        for _ in range(steps):
            _step(learner, next(turns), graphs)
        _wait(at)
        return time.perf_counter() - began

    if at.on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(at.device)
    taken(8 if at.on_gpu else 1)
    milliseconds = 1e3 * taken(at.rounds) / at.rounds
    busy = _busy_milliseconds(at, lambda: taken(at.rounds)) / at.rounds
    peak = flops.peak_flops(torch.cuda.get_device_name(at.device)) if at.on_gpu else None
    counted = statistics.mean(flops.step_flops(one.rows, at.shape) for one in batches)
    return {
        "milliseconds": round(milliseconds, 2), "busy_milliseconds": round(busy, 2),
        "busy_share": round(busy / milliseconds, 3),
        "mfu": round(counted / (milliseconds / 1e3) / peak, 4) if peak else None,
        "positions": batches[0].rows.length,
        "reserved_gb": round(torch.cuda.memory_reserved(at.device) / 1e9, 2) if at.on_gpu else None,
    }  # fmt: skip


def _busy_milliseconds(at: Setup, work: Callable[[], object]) -> float:
    """What the device computes of some work."""
    from torch.profiler import ProfilerActivity

    kind = ProfilerActivity.CUDA if at.on_gpu else ProfilerActivity.CPU
    cost = "self_device_time_total" if at.on_gpu else "self_cpu_time_total"
    with torch.profiler.profile(activities=[kind], acc_events=True) as seen:
        work()
    return float(sum(getattr(one, cost) for one in seen.key_averages())) / 1e3


def _apart(at: Setup, one: "Learner", other: "Learner", *, padded: bool) -> dict[str, Any]:
    """The largest distance of the losses of 50 steps, in nats: of `one` without graphs, on the same
    padded batches or on plain ones, and of `other`, which begins with the same state, with them."""
    from train.learner import DeferredStepResult
    from train.trainer import train_step

    batches = [_batch(at, at.clips[0], turn) for turn in range(8)]
    other.gpt.load_state_dict(one.gpt.state_dict())
    other.optimizer.load_state_dict(copy.deepcopy(one.optimizer.state_dict()))
    losses = []
    for learner, graphs in (
        (one, _graphs(one, recomputed=True) if padded else None), (other, _graphs(other)),
    ):  # fmt: skip
        learner.step = 0
        taken = [
            train_step(learner, batches[turn % len(batches)], deferred=True, graphs=graphs)
            for turn in range(max(3, at.rounds * 5 // 2))
        ]
        deferred = [step for step in taken if isinstance(step, DeferredStepResult)]
        losses.append([{**row.losses, "loss": row.loss} for row in learner.read_deferred(deferred)])
    away = [abs(a[name] - b[name]) for a, b in zip(*losses, strict=True) for name in a]
    return {
        "steps": len(losses[0]), "largest": max(away), "mean": sum(away) / len(away),
        "first": losses[0][0]["loss"], "last": losses[0][-1]["loss"],
        "reason": graphs.reason if graphs else "",
    }  # fmt: skip


def _twin(learner: "Learner") -> "Learner":
    from train.learner import Learner

    return Learner(copy.deepcopy(learner.gpt), learner.config, learner.device)


def _without_dropout(learner: "Learner") -> None:
    for module in learner.gpt.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


def _graphs(learner: "Learner", *, recomputed: bool = False) -> "CapturedSteps":
    """Graphs of a learner's steps that are captured at once; recomputed: the same padded batches
    without a graph, as on a CPU."""
    from train.captured_step import CapturedSteps, CudaRecorder

    plain = recomputed or learner.device.type != "cuda"
    found = CapturedSteps(learner, RecomputingRecorder() if plain else CudaRecorder(learner.device))
    found.capture_after, found.gpu_bound = 0, float("inf")
    return found


class RecomputingRecorder:
    """A recorder of `train.captured_step` whose replay computes again, for a CPU and to compare."""

    def measured(self, compute: Callable[[], object]) -> "Measured":
        from train.captured_step import Measured

        compute()
        return Measured(1.0, 1.0, 0)

    def captured(self, compute: Callable[[], object]) -> Callable[[], object]:
        return compute

    def free_bytes(self) -> int:
        return 1


def _as_on_a_gpu(at: Setup) -> AbstractContextManager[None]:
    """On a CPU, the code that a GPU runs."""
    from benchmarks.operations import as_on_a_gpu

    return nullcontext() if at.on_gpu else as_on_a_gpu()


def against_coqui(at: Setup) -> Figures:
    """A training step of the two in turns, on the same clips; Coqui's is its recipe as it stands.
    Raises ImportError where there is no TTS."""
    import tempfile
    from pathlib import Path

    import TTS  # noqa: F401  # asked for before anything is written

    from benchmarks import coqui_training

    with tempfile.TemporaryDirectory() as name:
        base = synthetic.write_base(Path(at.folder or name) / "base", full=at.shape.width == 1024)
        synthetic.write_dataset(Path(name) / "data")
        theirs = coqui_training.CoquiTrainingRecipe(
            base, Path(name) / "data", synthetic.LEARNING_RATE
        )
        theirs.model.to(at.device)
        learner, batch = _learner(at), _batch(at, 4, 0)
        graphs = _graphs(learner) if at.on_gpu else None
        for _ in range(3):  # captured before it is measured
            _step(learner, batch, graphs)

        def coquis() -> float:
            loaded = theirs.load((0, 2, 4, 6))
            moved = {k: v.to(at.device) if hasattr(v, "to") else v for k, v in loaded.items()}
            return timed(at, lambda: theirs.step(theirs.features(moved)))

        sides = {"coqui": coquis, "ours": lambda: timed(at, lambda: _step(learner, batch, graphs))}
        seen = measuring.in_turns(sides, min(at.rounds, 5))
    middle = {side: statistics.median(times) for side, times in seen.items()}
    return {
        **{f"{side}_milliseconds": round(one, 3) for side, one in middle.items()},
        "times": round(middle["coqui"] / middle["ours"], 2),
        "same_size": at.shape.width == 1024,
    }


def speaking(at: Setup) -> Figures:
    """Codes a second with everything round a step, by precision and rows, the first cold. No guard:
    there is no text that it could judge."""
    from xtts.inference.defaults import SamplingParams
    from xtts.inference.torch_backend import DecodingSlots, TorchUtterance
    from xtts.model.shapes import NUM_LATENTS

    text = torch.arange(2, 40, device=at.device)
    found: Figures = {"guard": "off"}
    latents = torch.zeros(1, NUM_LATENTS, at.shape.width, device=at.device)
    gpts = {precision: _speaking_gpt(at, precision) for precision in _spoken_in(at)}
    for (precision, gpt), slots in itertools.product(gpts.items(), at.slots):
        gpt.mel_head.bias[at.shape.audio_stop] = -1e4
        began = time.perf_counter()
        decoding_slots, first = DecodingSlots(gpt, slots), 0.0
        for slot in range(slots):
            draw = torch.Generator(at.device).manual_seed(slot)
            decoding_slots.enter(
                latents, text, TorchUtterance(gpt, SamplingParams(), draw, at.codes)
            )
        started = time.perf_counter()
        while decoding_slots.step():
            first = first or time.perf_counter() - began
        seconds = time.perf_counter() - started
        codes = slots * (at.codes - 1)
        found[f"{slots} rows, {precision}"] = {
            "codes_a_second": round(codes / seconds, 1), "first_step_seconds": round(first, 4),
            "rtf_of_all": round(seconds / (codes * CODE_SECONDS), 5),
        }  # fmt: skip
    return found


def vocoder(at: Setup) -> Figures:
    """Milliseconds by width: the first time, when plans are made, and after; then the windows in
    which it speaks, recorded. Raises ImportError where there is no TTS."""
    from xtts.model.shapes import VocoderShape
    from xtts.model.vocoder import Vocoder

    made = Vocoder(at.shape.width, 512, VocoderShape()).to(at.device).eval()
    speaker, found = torch.zeros(1, 512, 1, device=at.device), {}
    widths = (64, 96, 128, 192)[: 1 + 3 * at.on_gpu]
    for name, steps in itertools.product(("", ", recorded"), widths):
        if name and at.on_gpu:
            made.warm_up()
        sound = torch.zeros(1, at.shape.width, steps, device=at.device)

        def speak(sound: Tensor = sound) -> Tensor:
            with torch.inference_mode():
                return made.sound(sound, speaker)

        times = [timed(at, speak) for _ in range(at.rounds + 1)]
        first, after = round(times[0], 3), round(statistics.median(times[1:]), 3)
        found[f"{steps} steps{name}"] = {"first": first, "after": after}
    return found


def features(at: Setup) -> Figures:
    """Milliseconds for codes and mels of a clip, each of another length: through cuDNN, which makes
    plans, without it, as a dataset is computed, and on the CPU. Raises ImportError where there is
    no TTS."""
    from train.dataset.features import features_of
    from xtts.model.shapes import CODE_RATE, DVAEShape
    from xtts.model.vocoder import new_dvae

    small = DVAEShape(num_codes=32, codebook_dim=16, hidden_dim=16, num_resnet_blocks=1)
    dvae = new_dvae(DVAEShape() if at.on_gpu else small).eval().requires_grad_(False)
    stats, found = torch.ones(80), Figures()
    ways = {"through cuDNN": (at.device, True), "without": (at.device, False), "cpu": ("cpu", True)}
    for name, (device, cudnn) in ways.items():
        dvae, stats, milliseconds = dvae.to(device), stats.to(device), []
        for turn in range(at.rounds + 1):
            sound = 0.1 * torch.randn(2 * CODE_RATE + 2500 * turn)
            with torch.backends.cudnn.flags(enabled=cudnn):
                took = timed(at, lambda sound=sound: features_of(sound.to(device), dvae, stats))  # type: ignore[misc] # noqa: B023
            milliseconds += [took] if turn else []
        found[name] = {"milliseconds": round(statistics.median(milliseconds), 3)}
    return found


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
        kept, arrived = staging.copied(state)
        stalls.append(round(time.perf_counter() - began, 3))
        arrived()
        there = time.perf_counter() - began
    return {
        "first_stall_seconds": stalls[0], "stall_seconds": stalls[1],
        "arrived_seconds": round(there, 3), "tensors": len(kept["model"]),
    }  # fmt: skip


def memory(at: Setup) -> Figures:
    """The allocator's peak of each way of training, in GB, on the longest clip."""
    from benchmarks import memory as cards

    found = {}
    shape = synthetic.FULL_SHAPE if at.on_gpu else cards.SMALL
    for mode in [*cards.MODES][: None if at.on_gpu else 1]:
        one = cards.measure(shape, mode, at.precision)
        found[mode] = {"peak_gb": round(one.peak_bytes / 1e9, 3)}
    return found


def profile(at: Setup) -> Figures:
    """The operations that a training step spends most of the device's time in, and its idle
    share."""
    from torch.profiler import ProfilerActivity

    learner, batch = _learner(at), _batch(at, at.clips[0], 0)
    for _ in range(2):
        _step(learner, batch)
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if at.on_gpu else [])]
    began = time.perf_counter()
    with torch.profiler.profile(activities=kinds, acc_events=True) as seen:
        _step(learner, batch)
        _wait(at)
    seconds = time.perf_counter() - began
    cost = "self_device_time_total" if at.on_gpu else "self_cpu_time_total"
    rows = sorted(seen.key_averages(), key=lambda one: -getattr(one, cost))
    busy = sum(getattr(one, cost) for one in rows) / 1e6
    return {
        "milliseconds_under_the_profiler": round(1e3 * seconds, 2),
        "idle_share": round(max(0.0, 1 - busy / seconds), 3),
        "most": {
            one.key: {"milliseconds": round(getattr(one, cost) / 1e3, 3), "calls": one.count}
            for one in rows[:30]
        },
    }


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
    found = synthetic.noise_batch(at.shape, sizes, sum(codes) * CODE_SECONDS)
    return replace(found, rows=found.rows.to(at.device))


def _step(learner: "Learner", batch: "Batch", graphs: "CapturedSteps | None" = None) -> Any:
    from train.trainer import train_step

    deferred = learner.can_defer or graphs is not None
    return train_step(learner, batch, deferred=deferred, graphs=graphs)


def _wait(at: Setup) -> None:
    if at.on_gpu:
        torch.cuda.synchronize(at.device)


PARTS: dict[str, Callable[[Setup], Figures]] = {
    "attention": attention, "probe": probe, "graph": graph, "training": training,
    "captured": captured, "compiled": compiled, "against_coqui": against_coqui,
    "speaking": speaking, "vocoder": vocoder, "features": features, "profile": profile,
    "saving": saving, "memory": memory,
}  # fmt: skip
