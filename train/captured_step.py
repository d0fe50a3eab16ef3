"""A training step as a CUDA graph: one launch in the place of two thousand.

On a fast GPU a small step waits for the host, which dispatches every operation: at XTTS-v2's size
four clips kept an H200 busy for 14 of 72 ms. A graph holds the whole step: forward, backward,
clipping and AdamW. It always uses the shapes and addresses of its capture, so a batch is copied
into static buffers that are a little larger (`StaticRows`). Dropout takes its seed from torch's
generator at each replay, as it does without a graph, and the numbers are read later.

A graph costs as much time as some steps, so one is captured only for shapes that would have used it
`CAPTURE_AFTER` times, and only if the host is slower than the GPU. Its first replay moves no weight
and is compared with the same step without a graph. All graphs share one pool of memory. If a
capture fails, a replay differs or memory is short, every step runs without graphs from there on and
the reason is logged.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from machine.devices.graph_capture import cuda_graph, difference
from train.dataset.batches import Batch
from train.learner import Learner
from train.losses import LOSS_TERMS
from xtts.model.packed_batch import PackedBatch
from xtts.model.shapes import NUM_LATENTS
from xtts.model.varlen import VarlenLayout

log = logging.getLogger("train")

MOST_GRAPHS = 16
# A capture takes about as long as eight steps without a graph: two of them, the recording, two
# replays.
CAPTURE_AFTER = 8
# The largest share of padding, of the positions of a batch.
MOST_PADDING = 0.25
# A graph does not speed up a step in which the GPU works this much longer than the host.
GPU_BOUND = 1.3
# The share of the free memory that a graph and a step without a graph may take together.
MEMORY_SHARE = 0.8
# What `torch.nn.functional.cross_entropy` leaves out.
IGNORED = -100


class Sizes(NamedTuple):
    """The sizes of a batch, or of the buffers of a graph.

    positions: of the packed row; longest: of the longest clip; frames: of conditioning.
    """

    clips: int
    positions: int
    longest: int
    text: int
    audio: int
    frames: int
    longest_frames: int

    @staticmethod
    def of(rows: PackedBatch) -> "Sizes | None":
        """The sizes of a packed batch; None for a padded one."""
        if rows.segments is None or rows.frames is None:
            return None
        return Sizes(
            len(rows.segments.lengths), rows.length, max(rows.segments.lengths), len(rows.text),
            len(rows.audio), sum(rows.frames.lengths), max(rows.frames.lengths),
        )  # fmt: skip

    def buffers(self) -> "Sizes":
        """Sizes of buffers for a batch of these sizes and for similar ones.

        They have room for a clip, a position and a place in attention's grid that stand for all
        padding, and for a frame for each clip that is padding.
        """
        clips = _rounded(self.clips + 1, 1, 4)
        return Sizes(
            clips, _rounded(self.positions + 1, 64, 8), _rounded(self.longest + 1, 64, 4),
            _rounded(self.text, 64, 2), _rounded(self.audio, 64, 2),
            _rounded(self.frames + clips, 256, 4), _rounded(self.longest_frames, 128, 4),
        )  # fmt: skip

    def hold(self, batch: "Sizes") -> bool:
        """Whether buffers of these sizes have room for a batch, and not much more."""
        return (
            batch.clips < self.clips
            and batch.positions < self.positions <= batch.positions * (1 + MOST_PADDING) + 64
            and batch.longest < self.longest
            and batch.text <= self.text
            and batch.audio <= self.audio
            and batch.frames + self.clips - batch.clips <= self.frames
            and batch.longest_frames <= self.longest_frames
        )


def _rounded(count: int, least: int, parts: int) -> int:
    """Up to a multiple of `least`, and of a part of the next smaller power of two."""
    unit = max(least, (1 << (count.bit_length() - 1)) // parts)
    return -(-count // unit) * unit


class StaticRows:
    """A packed batch at fixed addresses, padded so that padding changes neither losses nor
    gradients.

    Padding tokens are written to the last position, which belongs to no clip; their targets are
    ignored. In the attention's grid they share the last place, which no clip reads. Padding frames
    belong to padding clips, each with at least one frame, because the norm divides by the number of
    frames.
    """

    def __init__(self, sizes: Sizes, like: PackedBatch) -> None:
        self.sizes = sizes
        trash, place = sizes.positions - 1, sizes.clips * sizes.longest - 1
        flat = {
            "conditioning_slots": (sizes.clips * NUM_LATENTS, trash),
            "conditioning_lengths": (sizes.clips, 1),
        }
        for part, count in (("text", sizes.text), ("audio", sizes.audio)):
            flat |= {
                part: (count, 0), f"{part}_positions": (count, 0), f"{part}_slots": (count, trash),
                f"{part}_targets": (count, IGNORED), f"{part}_target_slots": (count, trash),
            }  # fmt: skip
        number = like.text
        self._flat = {
            name: (number.new_full((count,), padding), padding)
            for name, (count, padding) in flat.items()
        }
        self._conditioning = like.conditioning.new_zeros(
            sizes.clips, like.conditioning.shape[1], sizes.longest_frames
        )
        self._segments = _StaticLayout(sizes.clips, sizes.longest, sizes.positions, number)
        self._frames = _StaticLayout(sizes.clips, sizes.longest_frames, sizes.frames, number)
        self._padding = (
            number.new_zeros(sizes.positions),
            number.new_full((sizes.positions,), place),
        )
        # Clips of the frames that are padding: `clips - 1` for all but the first few.
        self._clips = torch.arange(sizes.frames + sizes.clips, device=number.device)
        self._clips.clamp_(max=sizes.clips - 1)
        self._places = self._clips * sizes.longest_frames

    def load(self, rows: PackedBatch) -> None:
        """Copies a batch on the same device, which `sizes` hold. The host does not wait."""
        assert rows.segments is not None and rows.frames is not None
        for name, (buffer, padding) in self._flat.items():
            value: Tensor = getattr(rows, name)
            buffer[: len(value)].copy_(value)
            buffer[len(value) :].fill_(padding)
        clips, _, frames = rows.conditioning.shape
        self._conditioning.zero_()
        self._conditioning[:clips, :, :frames].copy_(rows.conditioning)
        self._segments.load(rows.segments, *self._padding)
        self._frames.load(rows.frames, self._clips[clips:], self._places[clips:])

    def batch(self) -> PackedBatch:
        """The batch in the buffers, with layouts that keep no mask of an earlier one."""
        return PackedBatch(
            rows=1, length=self.sizes.positions, conditioning=self._conditioning,
            **{name: buffer for name, (buffer, _) in self._flat.items()},
            segments=self._segments.layout(), frames=self._frames.layout(),
        )  # fmt: skip

    def shares(self, rows: PackedBatch) -> list[float]:
        """What the mean of each loss term over the buffers' targets is multiplied with, to be the
        mean over the targets of `rows`."""
        padded = self.batch()
        return [term.num_targets(padded) / max(1, term.num_targets(rows)) for term in LOSS_TERMS]


class _StaticLayout:
    """A `VarlenLayout` at fixed addresses, whose every clip is said to be as long as the longest:
    only their number and the longest are read on a GPU."""

    def __init__(self, clips: int, longest: int, count: int, like: Tensor) -> None:
        self._clips, self._longest = clips, longest
        self._number, self._slots = like.new_zeros(count), like.new_zeros(count)
        self._sources = like.new_zeros(clips * longest)

    def load(self, layout: VarlenLayout, number: Tensor, slots: Tensor) -> None:
        """Copies a layout. The padding after it takes the first values of `number` and `slots`."""
        count, clips, longest = len(layout.number), len(layout.lengths), max(layout.lengths)
        self._number[:count].copy_(layout.number)
        self._number[count:].copy_(number[: len(self._number) - count])
        moved = torch.add(layout.slots, layout.number, alpha=self._longest - longest)
        self._slots[:count].copy_(moved)
        self._slots[count:].copy_(slots[: len(self._slots) - count])
        grid = self._sources.zero_().view(self._clips, self._longest)
        grid[:clips, :longest].copy_(layout.sources.view(clips, longest))

    def layout(self) -> VarlenLayout:
        lengths = (self._longest,) * self._clips
        return VarlenLayout(lengths, self._number, self._slots, self._sources)


class Measured(NamedTuple):
    """What some work took: of the host, of the GPU, and of memory beyond what was allocated."""

    host_seconds: float
    gpu_seconds: float
    bytes: int


class Recorder(Protocol):
    """Where steps are captured."""

    def measured(self, compute: Callable[[], object]) -> Measured:
        """Runs some work on the stream of the captures; waits for it."""
        ...

    def captured(self, compute: Callable[[], object]) -> Callable[[], object]:
        """Records some work without running it; returns what replays it."""
        ...

    def free_bytes(self) -> int: ...


class CudaRecorder:
    """Captures on a GPU; all graphs share a stream and a pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        with torch.cuda.device(device):
            self._pool, self._side = torch.cuda.graph_pool_handle(), torch.cuda.Stream()

    def measured(self, compute: Callable[[], object]) -> Measured:
        """See `Recorder`."""
        with torch.cuda.device(self.device):
            own = torch.cuda.current_stream()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated()
            with torch.cuda.stream(self._side):
                began = time.perf_counter()
                begin.record()
                compute()
                end.record()
                host = time.perf_counter() - began
            own.wait_stream(self._side)
            end.synchronize()
            taken = torch.cuda.max_memory_allocated() - held
        return Measured(host, begin.elapsed_time(end) / 1e3, taken)

    def captured(self, compute: Callable[[], object]) -> Callable[[], object]:
        """See `Recorder`. The work has run on the same stream before."""

        def recorded() -> tuple[Tensor, ...]:
            compute()
            return ()

        _, replay = cuda_graph(recorded, self.device, self._pool, self._side, warm_ups=0)
        return replay

    def free_bytes(self) -> int:
        """What the driver has and what the allocator holds unused."""
        held = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(torch.cuda.mem_get_info(self.device)[0]) + held


@dataclass
class _Graph:
    static: StaticRows
    shares: Tensor
    numbers: Tensor
    replay: Callable[[], object] = lambda: None

    def load(self, rows: PackedBatch) -> None:
        self.static.load(rows)
        for place, share in enumerate(self.static.shares(rows)):
            self.shares[place].fill_(share)


class CapturedSteps:
    """The graphs of a learner's steps. `graphs_of` says whether it can have any.

    Attributes:
        reason: Why there are no more graphs; "" while there may be.
        capture_after, gpu_bound: `CAPTURE_AFTER` and `GPU_BOUND`; a benchmark captures at once.
    """

    def __init__(self, learner: Learner, recorder: Recorder) -> None:
        self.learner = learner
        self.reason = ""
        self.capture_after: int = CAPTURE_AFTER
        self.gpu_bound: float = GPU_BOUND
        self._recorder = recorder
        self._graphs: list[_Graph] = []
        self._without: deque[Sizes] = deque(maxlen=256)
        self._busy_from = math.inf  # positions that keep the GPU busy without a graph
        self._pool_bytes = 0
        self._rate = torch.zeros((), device=learner.device)
        # 1 for a replay that is to move no weight.
        self._still = torch.zeros((), dtype=torch.bool, device=learner.device)

    def __len__(self) -> int:
        return len(self._graphs)

    def __bool__(self) -> bool:
        return not self.reason

    def step(self, batch: Batch, learning_rate: float) -> Tensor | None:
        """Runs a step as a graph. Returns `Learner.numbers`, or None without a graph for this
        batch; then nothing has changed."""
        rows = batch.rows.to(self.learner.device)
        sizes = Sizes.of(rows)
        if sizes is None or self.reason:
            return None
        self._rate.fill_(learning_rate)
        graph = self._holding(sizes)
        if graph is None:
            if not self._worth_it(sizes) or (graph := self._new(sizes, rows)) is None:
                return None
        else:
            graph.load(rows)
        self.learner.seed_dropout()
        graph.replay()
        return graph.numbers.clone()

    def release(self, reason: str) -> None:
        """Drops all graphs and their memory; from here on there are none."""
        if not self.reason:
            self.reason = reason
            log.warning("Training without CUDA graphs, more slowly: %s", reason)
        self._graphs.clear()

    def _holding(self, sizes: Sizes) -> _Graph | None:
        """The smallest graph that has room for a batch."""
        fitting = [one for one in self._graphs if one.static.sizes.hold(sizes)]
        return min(fitting, key=lambda one: one.static.sizes.positions, default=None)

    def _worth_it(self, sizes: Sizes) -> bool:
        """Whether to capture a graph for such a batch; counts the batch."""
        if len(self._graphs) >= MOST_GRAPHS or sizes.positions >= self._busy_from:
            return False
        buffers = sizes.buffers()
        often = sum(buffers.hold(one) for one in self._without)
        self._without.append(sizes)
        # The first step makes the optimizer's state, at the addresses that a graph updates.
        return often >= self.capture_after and bool(self.learner.optimizer.state)

    def _new(self, sizes: Sizes, rows: PackedBatch) -> _Graph | None:
        """A graph that holds `rows` and has been compared; None, and the reason is known."""
        shares = torch.ones(len(LOSS_TERMS), device=self.learner.device)
        numbers = torch.zeros(len(LOSS_TERMS) + 2, device=self.learner.device)
        graph = _Graph(StaticRows(sizes.buffers(), rows), shares, numbers)
        graph.load(rows)
        try:
            plain: list[Tensor] = []
            for _ in range(2):  # the first one warms up
                taken = self._recorder.measured(lambda: plain.append(self._plain(graph)))
            if not self._affordable(taken, sizes):
                return None
            with self._rate_on_device():
                graph.replay = self._recorder.captured(lambda: self._whole(graph))
            self._still.fill_(True)
            self.learner.seed_dropout()
            graph.replay()
            reason = difference(graph.numbers.unbind(), plain[-1].unbind())
        except (RuntimeError, torch.AcceleratorError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
        finally:
            self._still.fill_(False)
            self.learner.optimizer.zero_grad(set_to_none=True)
        if reason:
            self.release(reason)
            return None
        if not self._graphs:
            log.info("Training steps run as CUDA graphs from step %d on.", self.learner.step)
        self._pool_bytes = max(self._pool_bytes, taken.bytes)
        self._graphs.append(graph)
        return graph

    def _affordable(self, taken: Measured, sizes: Sizes) -> bool:
        """Whether a graph makes such a step faster, and memory has room for a step of each kind."""
        room = self._recorder.free_bytes() * MEMORY_SHARE
        needed = taken.bytes + max(0, taken.bytes - self._pool_bytes)
        if taken.gpu_seconds <= self.gpu_bound * taken.host_seconds and needed <= room:
            return True
        # A larger step takes even more of both.
        self._busy_from = min(self._busy_from, sizes.positions)
        return False

    def _plain(self, graph: _Graph) -> Tensor:
        """The numbers of a step that moves nothing, without a graph."""
        self.learner.seed_dropout()
        numbers, _ = self._forward_backward(graph)
        self.learner.optimizer.zero_grad(set_to_none=True)
        return numbers

    def _whole(self, graph: _Graph) -> None:
        """What a graph records."""
        numbers, norm = self._forward_backward(graph)
        graph.numbers.copy_(numbers)
        self.learner.clip_gradients(norm)
        non_finite = ~torch.isfinite(numbers[-2] + numbers[-1])
        self.learner.optimizer_step(non_finite=non_finite | self._still)
        # What they take belongs to the pool again: the next graph may use it.
        self.learner.optimizer.zero_grad(set_to_none=True)

    def _forward_backward(self, graph: _Graph) -> tuple[Tensor, Tensor]:
        learner = self.learner
        losses = learner.losses_of(graph.static.batch())
        text, audio = graph.shares.unbind()
        losses = losses._replace(text=losses.text * text, audio=losses.audio * audio)
        loss = learner.weighted_loss(losses)
        loss.backward()
        norm = learner.gradient_norm()
        return learner.numbers(losses, loss, norm), norm

    @contextmanager
    def _rate_on_device(self) -> Iterator[None]:
        """Inside, AdamW reads its learning rate on the device: a graph would keep a number."""
        groups = self.learner.optimizer.param_groups
        kept = [(group["lr"], group["capturable"]) for group in groups]
        try:
            for group in groups:
                group["lr"], group["capturable"] = self._rate, True
            yield
        finally:
            for group, (rate, capturable) in zip(groups, kept, strict=True):
                group["lr"], group["capturable"] = rate, capturable


def graphs_of(learner: Learner) -> CapturedSteps | None:
    """The graphs of a learner on a GPU; None, with a logged reason, if none can hold its steps."""
    if learner.device.type != "cuda":
        return None
    if reason := obstacle(learner):
        log.info("Training without CUDA graphs: %s", reason)
        return None
    return CapturedSteps(learner, CudaRecorder(learner.device))


def obstacle(learner: Learner) -> str:
    """What a graph cannot hold; "" if it can hold every step."""
    parts = learner.config.trainable
    obstacles = {
        "several processes take each step together": not learner.world.is_single_process,
        "fp16 looks for its scale on the host": learner.scaler.is_enabled(),
        f"OPTIMIZER={learner.config.optimizer} takes many kernels": (
            learner.config.optimizer != "adamw"
        ),
        "the weights are averaged after each step": bool(parts.ema_decay),
        "GRADIENT_CHECKPOINTING runs each block twice": parts.recompute,
        "rows of a new language have another learning rate": parts.new_rows is not None,
    }
    return next((reason for reason, present in obstacles.items() if present), "")
