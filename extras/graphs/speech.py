"""Decode steps and the vocoder's windows as CUDA graphs (SPEECH_GRAPHS in `machine.extras`).

A graph always uses the addresses of its capture. So codes, positions, keys and values stay in place
(`extras.graphs.static_caches`). There is one graph for each span of positions and number of
attended slots, so that a single request does not read the keys and values of fifteen empty slots.
The first replay of each graph is compared with the step without a graph, because a graph that was
captured on another GPU returns the same result forever. If capturing fails or the results differ,
the step runs without a graph and the reason is logged (figures from a GPU: docs/develop/gpu.md).
"""

import logging
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from extras.graphs.capture import Capture, captures_on, describe_difference
from extras.graphs.static_caches import StaticCaches
from machine.text import first_line
from xtts.inference.torch_backend import NO_ADAPTERS, Adapters, DecodeStep, slot_positions
from xtts.model.gpt import GPT, KeyValueCache, QueryLog
from xtts.model.vocoder import Vocoder

log = logging.getLogger(__name__)

# Attention reads a multiple of this number of positions.
SPAN_STEP = 256
# The numbers of slots that attention reads, from the first slot on. Low slots are used first.
SLOT_BUCKETS = (1, 4, 16)


class _StepGraph(NamedTuple):
    """A captured decode step: its outputs at fixed addresses, and the function that replays it."""

    latents: Tensor
    logits: Tensor
    replay: Callable[[], object]


class CudaGraphStep:
    """`GraphRows` for `slots` utterances with CUDA graphs. Used by one thread, and by one utterance or
    batcher at a time.

    Attributes:
        num_rows: The number of rows.
        caches: Keys, values, and the queries of `layers`.
        reason: Why graphs are off; "" if they are on.
        in_use: Whether it is borrowed.
    """

    @torch.inference_mode()
    def __init__(self, gpt: GPT, slots: int, capture: Capture, layers: Iterable[int] = ()) -> None:
        like = gpt.gpt.new_cache(slots, slot_positions(gpt.shape))
        self.num_rows, self.caches = slots, StaticCaches(like.entries, layers)
        self.reason = ""
        self.in_use = False
        self._step = DecodeStep(gpt)
        self._capture = capture
        self._codes = torch.zeros(slots, dtype=torch.long, device=gpt.mel_head.weight.device)
        self._positions = torch.zeros_like(self._codes)
        # By the numbers of attended slots and positions.
        self._graphs: dict[tuple[int, int], _StepGraph] = {}

    def release(self) -> None:
        """Ends a `borrow`. Does not use the device, because the garbage collector may call this during
        a capture."""
        self.in_use = False

    @torch.inference_mode()
    def borrow(self) -> "CudaGraphStep":
        """Marks it as in use and empties every slot."""
        self.in_use = True
        for slot in range(self.num_rows):
            self.leave(slot)
        return self

    def enter(self, row: int, filled: KeyValueCache) -> None:
        """As in `GraphRows`."""
        self.caches.enter(row, filled)

    def leave(self, row: int) -> None:
        """As in `GraphRows`."""
        self.caches.leave(row)

    def step(
        self, codes: Tensor, positions: Tensor, adapters: Adapters, logs: Mapping[int, QueryLog]
    ) -> tuple[Tensor, Tensor]:
        """As in `GraphRows`."""
        # The next replay overwrites these outputs.
        latents, logits = (output.clone() for output in self(codes, positions, adapters))
        for row, log in logs.items():
            self.caches.log_queries(row, log)
        return latents, logits

    @torch.inference_mode()
    def prepare(self) -> None:
        """Captures the graphs of all spans and numbers of slots in advance, so that requests do not
        wait for it. Call it only while all slots are free."""
        capacity = self.caches.capacity
        for attended in self.caches.buckets(SLOT_BUCKETS):
            for end in range(SPAN_STEP, capacity + SPAN_STEP, SPAN_STEP):
                self.caches.attended, self.caches.span = attended, min(end, capacity)
                if not self.reason and self._key not in self._graphs:
                    self._capture_graph()

    @torch.inference_mode()
    def __call__(
        self, codes: Tensor, positions: Tensor, adapters: Adapters = NO_ADAPTERS
    ) -> tuple[Tensor, Tensor]:
        """As `DecodeStep`; the next call overwrites the returned tensors. Adapters run without a
        graph, because they change with the utterances."""
        self._codes.copy_(codes)
        self._positions.copy_(positions)
        # The span and the number of attended slots do not change the result of a row: masked
        # positions add nothing, and products always have all rows, so they use the same kernel.
        self.caches.span = self.caches.smallest_span(SPAN_STEP)
        self.caches.attended = self.caches.smallest_bucket(SLOT_BUCKETS)
        if self.reason or adapters:
            outputs = self._compute(adapters)
        elif (graph := self._graphs.get(self._key)) is not None:
            graph.replay()
            outputs = graph.latents, graph.logits
        else:
            outputs = self._capture_graph()
        self.caches.count_positions()
        return outputs

    @property
    def _key(self) -> tuple[int, int]:
        return self.caches.attended, self.caches.span

    def _compute(self, adapters: Adapters = NO_ADAPTERS) -> tuple[Tensor, Tensor]:
        return self._step(self._codes, self._positions, self.caches, adapters)

    def _capture_graph(self) -> tuple[Tensor, Tensor]:
        """Captures a graph and compares its first replay with the step without a graph."""
        lengths = self.caches.lengths.clone()
        expected = tuple(output.clone() for output in self._compute())
        # Each run advances the lengths. They are reset, so that the next run overwrites its entries.
        self.caches.lengths.copy_(lengths)
        try:
            outputs, replay = self._capture(self._compute)
        except (RuntimeError, torch.AcceleratorError) as error:
            self.reason = first_line(error)
        else:
            self.caches.lengths.copy_(lengths)
            replay()
            self.reason = describe_difference(outputs, expected)
        if self.reason:
            log.warning("Speaking without CUDA graphs, more slowly: %s", self.reason)
            self.caches.lengths.copy_(lengths)
            return self._compute()
        latents, logits = outputs
        self._graphs[self._key] = _StepGraph(latents, logits, replay)
        return latents, logits


def rows_of(gpt: GPT, count: int, layers: tuple[int, ...], owner: object) -> CudaGraphStep:
    """Borrows a step with CUDA graphs for `count` utterances and the queries of `layers`, as long
    as `owner` lives. Steps are cached as long as `gpt` lives."""
    steps = _steps_by_gpt.setdefault(gpt, {}).setdefault((count, layers), [])
    free = next((step for step in steps if not step.in_use), None)
    if free is None:
        free = CudaGraphStep(gpt, count, captures_on(gpt.mel_head.weight.device), layers)
        steps.append(free)
    weakref.finalize(owner, free.release)
    return free.borrow()


# By the number of rows and the layers with queries.
_Steps = dict[tuple[int, tuple[int, ...]], list[CudaGraphStep]]
_steps_by_gpt: WeakKeyDictionary[GPT, _Steps] = WeakKeyDictionary()


class _WindowGraph(NamedTuple):
    """A captured window of a vocoder: its inputs and its output at fixed addresses, and the function that
    replays it."""

    steps: Tensor
    speaker: Tensor
    output: Tensor
    replay: Callable[[], object]


class RecordedWindows:
    """Windows of a vocoder as CUDA graphs, one of each width: one launch instead of about 250. For
    one thread."""

    def __init__(self, vocoder: Vocoder) -> None:
        self._graph_by_width: dict[int, _WindowGraph] = {}
        self._compute, self._like = vocoder.compute, next(vocoder.parameters())
        self._channels = vocoder.rows, vocoder.speaker_width

    def __len__(self) -> int:
        return len(self._graph_by_width)

    @torch.inference_mode()
    def __call__(self, steps: Tensor, speaker: Tensor) -> Tensor | None:
        """As `Vocoder.sound`; None if no window of this width was recorded."""
        graph = self._graph_by_width.get(steps.shape[2]) if len(steps) == 1 else None
        if graph is None:
            return None
        graph.steps.copy_(steps)
        graph.speaker.copy_(speaker)
        graph.replay()
        # A copy, because the next window overwrites this output.
        return graph.output.clone()

    @torch.inference_mode()
    def record(self, width: int, capture: Capture) -> str:
        """Captures windows of this width. Returns the reason for a failure, or "". Call it while no
        utterance uses the vocoder."""
        if width in self._graph_by_width:
            return ""
        like, (channels, speaker_width) = self._like, self._channels
        steps, speaker = like.new_zeros(1, channels, width), like.new_zeros(1, speaker_width, 1)
        steps.normal_(generator=torch.Generator(like.device).manual_seed(0))
        expected = self._compute(steps, speaker).clone()
        try:
            outputs, replay = capture(lambda: (self._compute(steps, speaker),))
        except (RuntimeError, torch.AcceleratorError) as error:
            return first_line(error)
        replay()
        reason = describe_difference(outputs, (expected,))
        if not reason:
            self._graph_by_width[width] = _WindowGraph(steps, speaker, outputs[0], replay)
        return reason


def record_windows(vocoder: Vocoder, widths: Sequence[int]) -> bool:
    """Captures windows of these widths, which the vocoder then replays. Returns False if a window
    cannot be captured, and logs the reason."""
    windows = vocoder.recorded_windows = vocoder.recorded_windows or RecordedWindows(vocoder)
    capture = captures_on(next(vocoder.parameters()).device)
    reasons = (windows.record(width, capture) for width in widths)
    if reason := next(filter(None, reasons), ""):
        log.warning("The vocoder speaks without CUDA graphs, more slowly: %s", reason)
    return not reason
