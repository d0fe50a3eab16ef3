"""The decode step captured as a CUDA graph and replayed for every code.

A graph computes on the addresses that it saw. So codes, positions and all that attention remembers
stay where they are (`xtts.model.kv_cache.StaticCaches`), and one graph is kept for each span of
positions that is attended to. Where capturing fails, the same step runs without, and the reason is
told. NOT RUN ON A GPU YET: what is tested is that the step is fit to be captured
(docs/benchmarks.md).
"""

import logging
from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from xtts.inference.decode_step import DecodeStep
from xtts.model.gpt import GPT
from xtts.model.kv_cache import KeyValueCache, StaticCaches
from xtts.model.shapes import NUM_LATENTS

log = logging.getLogger(__name__)

# Positions more at a time: attention reads a span whole, in use or not.
SPAN = 256

Compute = Callable[[], tuple[Tensor, Tensor]]
# Runs a function once while the device records it; returns its results and what replays it.
Capture = Callable[[Compute], tuple[tuple[Tensor, Tensor], Callable[[], object]]]


class CudaGraphStep:
    """The steps of `slots` rows; used by one thread. layers: whose queries are kept in
    `caches.queries`; reason: why there are no graphs, if so."""

    @torch.inference_mode()
    def __init__(self, gpt: GPT, slots: int, capture: Capture, layers: Iterable[int] = ()) -> None:
        shape = gpt.shape
        # Warming up counts a few positions more.
        most = NUM_LATENTS + shape.text_positions + shape.audio_positions + 4
        self.caches = StaticCaches.empty(gpt.gpt.new_cache(slots, most))
        self.caches.watch(layers)
        self.reason = ""
        self._step = DecodeStep(gpt)
        self._capture = capture
        self._codes = torch.zeros(slots, dtype=torch.long, device=gpt.mel_head.weight.device)
        self._positions = torch.zeros_like(self._codes)
        self._graphs: dict[int, tuple[tuple[Tensor, Tensor], Callable[[], object]]] = {}

    @torch.inference_mode()
    def enter(self, slot: int, filled: KeyValueCache) -> None:
        """Takes over what a row has read."""
        self.caches.enter(slot, filled)

    @torch.inference_mode()
    def leave(self, slot: int) -> None:
        """The row is computed from here on, and thrown away."""
        self.caches.leave(slot)

    @torch.inference_mode()
    def __call__(self, codes: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """As `xtts.inference.decode_step.DecodeStep`; what it returns is overwritten by the next
        call."""
        self._codes.copy_(codes)
        self._positions.copy_(positions)
        # Of several, none may be another for who else is there: all attend to all.
        alone = len(self._codes) == 1
        self.caches.span = span = self.caches.span_of(SPAN if alone else self.caches.capacity)
        found = self._compute() if self.reason else self._replayed(span)
        self.caches.counted()
        return found

    def _compute(self) -> tuple[Tensor, Tensor]:
        return self._step(self._codes, self._positions, self.caches)

    def _replayed(self, span: int) -> tuple[Tensor, Tensor]:
        if span not in self._graphs:
            lengths = self.caches.lengths.clone()
            try:
                self._graphs[span] = self._capture(self._compute)
            except (RuntimeError, torch.AcceleratorError) as error:
                self.reason = str(error).splitlines()[0] or type(error).__name__
                log.warning("Speaking without CUDA graphs, more slowly: %s", self.reason)
            # Warming up and recording counted as well; what they wrote is written again.
            self.caches.lengths.copy_(lengths)
            if self.reason:
                return self._compute()
        found, replay = self._graphs[span]
        replay()
        return found


def cuda_graph(compute: Compute) -> tuple[tuple[Tensor, Tensor], Callable[[], object]]:
    """Records `compute`; warmed up on a stream of its own before, as torch asks."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            compute()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = compute()
    return found, graph.replay


_kept: WeakKeyDictionary[GPT, dict[tuple[int, tuple[int, ...]], CudaGraphStep]] = (
    WeakKeyDictionary()
)


def graphed_step(gpt: GPT, slots: int = 1, layers: tuple[int, ...] = ()) -> CudaGraphStep | None:
    """The graphs of so many rows and of the queries of these layers, kept as long as `gpt`; None
    on a CPU, which has none."""
    if gpt.mel_head.weight.device.type != "cuda":
        return None
    kept, key = _kept.setdefault(gpt, {}), (slots, layers)
    if key not in kept:
        kept[key] = CudaGraphStep(gpt, slots, cuda_graph, layers)
    return kept[key]
