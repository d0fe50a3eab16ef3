"""A training step as a CUDA graph: one launch instead of two thousand.

On a fast GPU a small step waits for the host, which dispatches every operation: at XTTS-v2's size
four clips kept an H200 busy for 14 of 72 ms. A graph holds the whole step: forward, backward,
clipping and AdamW. It always uses the shapes and addresses of its capture, so a batch is copied
into static buffers that are a little larger (`StaticBatch`). Dropout takes its seed from torch's
generator at each replay, as it does without a graph, and the host reads the losses later.

A capture takes as long as several steps, so a graph is captured only for shapes that would have
used it `CAPTURE_AFTER` times, and only if the host is slower than the GPU. The first replay changes
no weights and is compared with the same step without a graph. All graphs share one memory pool. If
a capture fails, a replay differs or memory runs short, all later steps run without graphs and the
log gives the reason.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from extras.graphs.capture import cuda_graph, describe_difference
from machine.text import first_line
from train.dataset.batches import Batch
from train.step import LOSS_TERMS, Learner
from xtts.model.shapes import NUM_LATENTS
from xtts.model.training import PackedBatch
from xtts.model.varlen import VarlenLayout

log = logging.getLogger("train")

MAX_GRAPHS = 16
# A capture takes about as long as eight steps without a graph: it consists of two such steps, the
# recording and two replays.
CAPTURE_AFTER = 8
# As a share of the positions of a batch.
MAX_PADDING = 0.25
# A graph does not speed up a step that takes the GPU this many times as long as the host.
GPU_BOUND = 1.3
# The share of the free memory that a graph and a step without a graph may take together.
MEMORY_SHARE = 0.8
# The target that `torch.nn.functional.cross_entropy` ignores.
IGNORED = -100


class BatchSizes(NamedTuple):
    """The sizes of a batch, or of the buffers of a graph.

    Attributes:
        positions: The number of positions in the packed row.
        longest_clip: The number of positions of the longest clip.
        text, audio: The numbers of tokens.
        frames: The number of conditioning frames of all clips.
        longest_frames: The number of conditioning frames of the longest clip.
    """

    clips: int
    positions: int
    longest_clip: int
    text: int
    audio: int
    frames: int
    longest_frames: int

    @staticmethod
    def of(rows: PackedBatch) -> "BatchSizes":
        """The sizes of a batch."""
        return BatchSizes(
            len(rows.segments.lengths),
            rows.length,
            max(rows.segments.lengths),
            len(rows.text),
            len(rows.audio),
            sum(rows.frames.lengths),
            max(rows.frames.lengths),
        )

    def buffer_sizes(self) -> "BatchSizes":
        """The sizes of buffers for this batch and for similar ones.

        They include one clip, one position and one place in the attention grid for all padding, and
        one frame for each padding clip.
        """
        clips = _round_up(self.clips + 1, 1, 4)
        return BatchSizes(
            clips,
            _round_up(self.positions + 1, 64, 8),
            _round_up(self.longest_clip + 1, 64, 4),
            _round_up(self.text, 64, 2),
            _round_up(self.audio, 64, 2),
            _round_up(self.frames + clips, 256, 4),
            _round_up(self.longest_frames, 128, 4),
        )

    def can_hold(self, batch: "BatchSizes") -> bool:
        """Whether a batch fits into buffers of these sizes without much padding."""
        return (
            batch.clips < self.clips
            and batch.positions < self.positions <= batch.positions * (1 + MAX_PADDING) + 64
            and batch.longest_clip < self.longest_clip
            and batch.text <= self.text
            and batch.audio <= self.audio
            and batch.frames + self.clips - batch.clips <= self.frames
            and batch.longest_frames <= self.longest_frames
        )


def _round_up(count: int, least: int, parts: int) -> int:
    """`count`, rounded up to a multiple of `least`, or of 1/`parts` of its leading power of two if
    that is larger."""
    unit = max(least, (1 << (count.bit_length() - 1)) // parts)
    return -(-count // unit) * unit


class StaticBatch:
    """A packed batch at fixed addresses. Its padding changes neither losses nor gradients.

    Padding tokens are written to the last position, which belongs to no clip; their targets are
    ignored. In the attention grid they share the last index, which no clip reads. Padding frames
    belong to padding clips, each with at least one frame, because the norm divides by the number of
    frames.
    """

    def __init__(self, sizes: BatchSizes, like: PackedBatch) -> None:
        self.sizes = sizes
        last_position, last_grid_index = sizes.positions - 1, sizes.clips * sizes.longest_clip - 1
        flat_shapes = {"conditioning_slots": (sizes.clips * NUM_LATENTS, last_position)}
        for part, count in (("text", sizes.text), ("audio", sizes.audio)):
            flat_shapes |= {
                part: (count, 0),
                f"{part}_positions": (count, 0),
                f"{part}_slots": (count, last_position),
                f"{part}_targets": (count, IGNORED),
                f"{part}_target_slots": (count, last_position),
            }
        integers = like.text
        # By the name of the field in PackedBatch: the buffer and the value of its padding.
        self._flat_buffers = {
            name: (integers.new_full((count,), padding), padding)
            for name, (count, padding) in flat_shapes.items()
        }
        self._conditioning = like.conditioning.new_zeros(
            sizes.clips, like.conditioning.shape[1], sizes.longest_frames
        )
        self._segments = _StaticLayout(sizes.clips, sizes.longest_clip, sizes.positions, integers)
        self._frames = _StaticLayout(sizes.clips, sizes.longest_frames, sizes.frames, integers)
        self._token_padding = (
            integers.new_zeros(sizes.positions),
            integers.new_full((sizes.positions,), last_grid_index),
        )
        # The clip of each padding frame: `clips - 1` for all but the first few.
        self._frame_clips = torch.arange(sizes.frames + sizes.clips, device=integers.device)
        self._frame_clips.clamp_(max=sizes.clips - 1)
        self._frame_grid_indices = self._frame_clips * sizes.longest_frames

    def load(self, rows: PackedBatch) -> None:
        """Copies a batch from the same device, for which `sizes` must have room. The host does not wait."""
        for name, (buffer, padding) in self._flat_buffers.items():
            value: Tensor = getattr(rows, name)
            buffer[: len(value)].copy_(value)
            buffer[len(value) :].fill_(padding)
        clips, _, frames = rows.conditioning.shape
        self._conditioning.zero_()
        self._conditioning[:clips, :, :frames].copy_(rows.conditioning)
        self._segments.load(rows.segments, *self._token_padding)
        self._frames.load(rows.frames, self._frame_clips[clips:], self._frame_grid_indices[clips:])

    def batch(self) -> PackedBatch:
        """The batch in the buffers. Its layouts are new, so they keep no mask of an earlier
        batch."""
        return PackedBatch(
            length=self.sizes.positions,
            conditioning=self._conditioning,
            **{name: buffer for name, (buffer, _) in self._flat_buffers.items()},
            segments=self._segments.layout(),
            frames=self._frames.layout(),
        )

    def loss_factors(self, rows: PackedBatch) -> list[float]:
        """For each loss term, the factor that turns the mean over the buffers' targets into the
        mean over the targets of `rows`."""
        counts = zip(self.batch().num_targets, rows.num_targets, strict=True)
        return [padded / max(1, targets) for padded, targets in counts]


class _StaticLayout:
    """A `VarlenLayout` at fixed addresses. Every clip gets the length of the longest, because a GPU
    reads only the number of clips and the longest length."""

    def __init__(self, clips: int, longest: int, count: int, like: Tensor) -> None:
        self._clips, self._longest = clips, longest
        self._clip_of_position, self._grid_index = like.new_zeros(count), like.new_zeros(count)
        self._position_in_grid = like.new_zeros(clips * longest)

    def load(self, layout: VarlenLayout, clip_of_position: Tensor, grid_index: Tensor) -> None:
        """Copies a layout and pads it with the first values of the two tensors."""
        count, clips, longest = len(layout.grid_index), len(layout.lengths), max(layout.lengths)
        num_padding = len(self._grid_index) - count
        self._clip_of_position[:count].copy_(layout.clip_of_position)
        self._clip_of_position[count:].copy_(clip_of_position[:num_padding])
        moved = torch.add(layout.grid_index, layout.clip_of_position, alpha=self._longest - longest)
        self._grid_index[:count].copy_(moved)
        self._grid_index[count:].copy_(grid_index[:num_padding])
        grid = self._position_in_grid.zero_().view(self._clips, self._longest)
        grid[:clips, :longest].copy_(layout.position_in_grid.view(clips, longest))

    def layout(self) -> VarlenLayout:
        lengths = (self._longest,) * self._clips
        return VarlenLayout(lengths, self._clip_of_position, self._grid_index, self._position_in_grid)


class StepCost(NamedTuple):
    """The time of a step on the host and on the GPU, and the memory that it allocated at its peak."""

    host_seconds: float
    gpu_seconds: float
    peak_bytes: int


class CudaRecorder:
    """Measures and captures steps on a GPU. All graphs share a stream and a memory pool."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        with torch.cuda.device(device):
            self._pool, self._side = torch.cuda.graph_pool_handle(), torch.cuda.Stream()

    def measure(self, compute: Callable[[], object]) -> StepCost:
        """Runs `compute` on the capture stream and waits for it."""
        with torch.cuda.device(self.device):
            current = torch.cuda.current_stream()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            bytes_before = torch.cuda.memory_allocated()
            with torch.cuda.stream(self._side):
                started = time.perf_counter()
                begin.record()
                compute()
                end.record()
                host_seconds = time.perf_counter() - started
            current.wait_stream(self._side)
            end.synchronize()
            peak_bytes = torch.cuda.max_memory_allocated() - bytes_before
        return StepCost(host_seconds, begin.elapsed_time(end) / 1e3, peak_bytes)

    def capture(self, compute: Callable[[], object]) -> Callable[[], object]:
        """Records `compute`, which must have run on the same stream before, without running it.
        Returns a function that replays it."""

        def recorded() -> tuple[Tensor, ...]:
            compute()
            return ()

        _, replay = cuda_graph(recorded, self.device, self._pool, self._side, warm_ups=0)
        return replay

    def free_bytes(self) -> int:
        """The driver's free memory plus the allocator's unused memory."""
        cached_bytes = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(torch.cuda.mem_get_info(self.device)[0]) + cached_bytes


@dataclass
class _Graph:
    """A captured step. loss_factors, numbers: tensors that each replay reads and writes."""

    static: StaticBatch
    loss_factors: Tensor
    numbers: Tensor
    replay: Callable[[], object] = lambda: None

    def load(self, rows: PackedBatch) -> None:
        self.static.load(rows)
        for index, factor in enumerate(self.static.loss_factors(rows)):
            self.loss_factors[index].fill_(factor)


class CapturedSteps:
    """The graphs of a learner's steps. `graphs_of` creates them if a graph can hold its steps.

    Attributes:
        reason: Why the learner gave up graphs; "" while it uses them.
        capture_after, gpu_bound: `CAPTURE_AFTER` and `GPU_BOUND`, unless a benchmark sets them to
            capture at once.
    """

    def __init__(self, learner: Learner, recorder: CudaRecorder) -> None:
        self.learner = learner
        self.reason = ""
        self.capture_after: int = CAPTURE_AFTER
        self.gpu_bound: float = GPU_BOUND
        self._recorder = recorder
        self._graphs: list[_Graph] = []
        self._sizes_without_graph: deque[BatchSizes] = deque(maxlen=256)
        self._gpu_bound_positions = math.inf  # positions that keep the GPU busy without a graph
        self._pool_bytes = 0
        self._rate = torch.zeros((), device=learner.device)
        # 1 for a replay that must not change weights.
        self._keeps_weights = torch.zeros((), dtype=torch.bool, device=learner.device)

    def __len__(self) -> int:
        return len(self._graphs)

    def __bool__(self) -> bool:
        return not self.reason

    def step(self, batch: Batch, learning_rate: float) -> Tensor | None:
        """Replays a step as a graph. Returns `Learner.numbers`; None, without any change, for a
        batch without a graph."""
        rows = batch.rows.to(self.learner.device)
        sizes = BatchSizes.of(rows)
        if self.reason:
            return None
        self._rate.fill_(learning_rate)
        graph = self._smallest_fitting(sizes)
        if graph is None:
            if not self._is_worth_capturing(sizes) or (graph := self._capture_graph(sizes, rows)) is None:
                return None
        else:
            graph.load(rows)
        self.learner.seed_dropout()
        graph.replay()
        return graph.numbers.clone()

    def release(self, reason: str) -> None:
        """Drops all graphs, frees their memory and captures no more."""
        if not self.reason:
            self.reason = reason
            log.warning("Training without CUDA graphs, more slowly: %s", reason)
        self._graphs.clear()

    def _smallest_fitting(self, sizes: BatchSizes) -> _Graph | None:
        """The smallest graph that has room for a batch."""
        fitting = [graph for graph in self._graphs if graph.static.sizes.can_hold(sizes)]
        return min(fitting, key=lambda graph: graph.static.sizes.positions, default=None)

    def _is_worth_capturing(self, sizes: BatchSizes) -> bool:
        """Whether to capture a graph for a batch of these sizes; counts the batch."""
        if len(self._graphs) >= MAX_GRAPHS or sizes.positions >= self._gpu_bound_positions:
            return False
        buffer_sizes = sizes.buffer_sizes()
        earlier_uses = sum(buffer_sizes.can_hold(earlier) for earlier in self._sizes_without_graph)
        self._sizes_without_graph.append(sizes)
        # The first step creates the optimizer's state, at the addresses that a graph updates.
        return earlier_uses >= self.capture_after and bool(self.learner.optimizer.state)

    def _capture_graph(self, sizes: BatchSizes, rows: PackedBatch) -> _Graph | None:
        """Captures a graph for `rows`, and compares its replay with a step without a graph. Returns None
        if it is faulty, too large or not faster."""
        loss_factors = torch.ones(len(LOSS_TERMS), device=self.learner.device)
        numbers = torch.zeros(len(LOSS_TERMS) + 2, device=self.learner.device)
        graph = _Graph(StaticBatch(sizes.buffer_sizes(), rows), loss_factors, numbers)
        graph.load(rows)
        try:
            numbers_without_graph: list[Tensor] = []
            for _ in range(2):  # the first one warms up
                cost = self._recorder.measure(
                    lambda: numbers_without_graph.append(self._run_without_graph(graph))
                )
            if not self._is_affordable(cost, sizes):
                return None
            with self._rate_on_device():
                graph.replay = self._recorder.capture(lambda: self._run_step(graph))
            self._keeps_weights.fill_(True)
            self.learner.seed_dropout()
            graph.replay()
            reason = describe_difference(graph.numbers.unbind(), numbers_without_graph[-1].unbind())
        except (RuntimeError, torch.AcceleratorError) as error:
            reason = first_line(error)
        finally:
            self._keeps_weights.fill_(False)
            self.learner.optimizer.zero_grad(set_to_none=True)
        if reason:
            self.release(reason)
            return None
        if not self._graphs:
            log.info("Training steps run as CUDA graphs from step %d on.", self.learner.step)
        self._pool_bytes = max(self._pool_bytes, cost.peak_bytes)
        self._graphs.append(graph)
        return graph

    def _is_affordable(self, cost: StepCost, sizes: BatchSizes) -> bool:
        """Whether a graph speeds up such a step, and memory has room for steps with and without
        the graph."""
        available_bytes = self._recorder.free_bytes() * MEMORY_SHARE
        needed_bytes = cost.peak_bytes + max(0, cost.peak_bytes - self._pool_bytes)
        if cost.gpu_seconds <= self.gpu_bound * cost.host_seconds and needed_bytes <= available_bytes:
            return True
        # A larger step takes even more time and memory.
        self._gpu_bound_positions = min(self._gpu_bound_positions, sizes.positions)
        return False

    def _run_without_graph(self, graph: _Graph) -> Tensor:
        """The numbers of a step without a graph that changes no weights."""
        self.learner.seed_dropout()
        numbers, _ = self._forward_backward(graph)
        self.learner.optimizer.zero_grad(set_to_none=True)
        return numbers

    def _run_step(self, graph: _Graph) -> None:
        """The step that a graph records."""
        numbers, norm = self._forward_backward(graph)
        graph.numbers.copy_(numbers)
        self.learner.clip_gradients(norm)
        non_finite = ~torch.isfinite(numbers[-2] + numbers[-1])
        self.learner.optimizer_step(non_finite=non_finite | self._keeps_weights)
        # Returns the gradients' memory to the pool, so that the next graph can use it.
        self.learner.optimizer.zero_grad(set_to_none=True)

    def _forward_backward(self, graph: _Graph) -> tuple[Tensor, Tensor]:
        learner = self.learner
        losses = learner.losses_of(graph.static.batch())
        text_factor, audio_factor = graph.loss_factors.unbind()
        losses = losses._replace(text=losses.text * text_factor, audio=losses.audio * audio_factor)
        loss = learner.weighted_loss(losses)
        loss.backward()
        norm = learner.gradient_norm()
        return learner.numbers(losses, loss, norm), norm

    @contextmanager
    def _rate_on_device(self) -> Iterator[None]:
        """Inside, AdamW reads its learning rate from the device: a graph would record a number as a
        constant."""
        groups = self.learner.optimizer.param_groups
        settings = [(group["lr"], group["capturable"]) for group in groups]
        try:
            for group in groups:
                group["lr"], group["capturable"] = self._rate, True
            yield
        finally:
            for group, (rate, capturable) in zip(groups, settings, strict=True):
                group["lr"], group["capturable"] = rate, capturable


def graphs_of(learner: Learner) -> CapturedSteps | None:
    """The graphs of a learner on a GPU. None on a CPU, or if no graph can hold its steps; the log
    then gives the reason."""
    if learner.device.type != "cuda":
        return None
    if reason := obstacle(learner):
        log.info("Training without CUDA graphs: %s", reason)
        return None
    return CapturedSteps(learner, CudaRecorder(learner.device))


def obstacle(learner: Learner) -> str:
    """Why a graph cannot hold the learner's steps; "" if it can."""
    parts = learner.config.trainable
    obstacles = {
        "several processes take each step together": not learner.world.is_single_process,
        "fp16 looks for its scale on the host": learner.scaler.is_enabled(),
        f"OPTIMIZER={learner.config.optimizer} takes many kernels": (learner.config.optimizer != "adamw"),
        "the weights are averaged after each step": bool(parts.ema_decay),
        "GRADIENT_CHECKPOINTING runs each block twice": parts.recompute,
        "rows of a new language have another learning rate": bool(parts.new_rows),
    }
    return next((reason for reason, present in obstacles.items() if present), "")
