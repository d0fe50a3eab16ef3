"""The decode step captured as a CUDA graph and replayed for every code.

A graph computes on the addresses that it saw. So codes, positions and all that attention remembers
stay where they are (`xtts.model.kv_cache.StaticCaches`), and one graph is kept for each span of
positions and number of slots that is attended to: who speaks alone does not read the keys and
values of fifteen empty slots. The first replay of each is compared with the same step without a
graph: what was captured on another GPU than it computes on replays nothing, and says the same for
ever. Where capturing fails, or the two differ, the same step runs without, and the reason is told.
NOT RUN ON A GPU YET: what is tested is that the step is fit to be captured, and that what is said
to the device is in order (docs/gpu.md).
"""

import logging
from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from machine.devices.graph_capture import Capture, captures_on, difference
from xtts.inference.decode_step import DecodeStep
from xtts.inference.slot_count import positions
from xtts.model.gpt import GPT
from xtts.model.kv_cache import KeyValueCache, StaticCaches

log = logging.getLogger(__name__)

# Positions more at a time: attention reads a span whole, in use or not.
SPAN = 256
# Of how many slots, from the first, attention reads the spans; slots are taken from the first on.
ATTENDED = (1, 4, 16)


class CudaGraphStep:
    """The steps of `slots` rows; used by one thread, by one utterance or crowd at a time.

    layers: whose queries are kept in `caches.queries`; reason: why there are no graphs, if so;
    in_use: whether somebody's keys and values are in its cache.
    """

    @torch.inference_mode()
    def __init__(self, gpt: GPT, slots: int, capture: Capture, layers: Iterable[int] = ()) -> None:
        self.caches = StaticCaches.empty(gpt.gpt.new_cache(slots, positions(gpt.shape)))
        self.caches.watch(layers)
        self.reason = ""
        self.in_use = False
        self._step = DecodeStep(gpt)
        self._capture = capture
        self._codes = torch.zeros(slots, dtype=torch.long, device=gpt.mel_head.weight.device)
        self._positions = torch.zeros_like(self._codes)
        self._graphs: dict[tuple[int, int], tuple[tuple[Tensor, Tensor], Callable[[], object]]] = {}

    @torch.inference_mode()
    def enter(self, slot: int, filled: KeyValueCache) -> None:
        """Takes over what a row has read."""
        self.caches.enter(slot, filled)

    @torch.inference_mode()
    def leave(self, slot: int) -> None:
        """The row is computed from here on, and thrown away."""
        self.caches.leave(slot)

    def release(self) -> None:
        """Whoever borrowed it is done. Starts nothing on the device: a garbage collector may call
        this in the middle of a capture."""
        self.in_use = False

    @torch.inference_mode()
    def borrow(self) -> "CudaGraphStep":
        """Empties every slot for whoever borrows it."""
        self.in_use = True
        for slot in range(len(self._codes)):
            self.caches.leave(slot)
        return self

    @torch.inference_mode()
    def record(self) -> None:
        """Captures now what will be replayed, for every span and number of slots, so that nobody
        who speaks waits for it. Only while no slot is in use."""
        capacity = self.caches.capacity
        for attended in self.caches.buckets(ATTENDED):
            for end in range(SPAN, capacity + SPAN, SPAN):
                self.caches.attended, self.caches.span = attended, min(end, capacity)
                if not self.reason and self._key not in self._graphs:
                    self._first()

    @torch.inference_mode()
    def __call__(self, codes: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """As `xtts.inference.decode_step.DecodeStep`; what it returns is overwritten by the next
        call."""
        self._codes.copy_(codes)
        self._positions.copy_(positions)
        # However many attend, and over whatever span, each row is the same: what is masked adds
        # nothing, and the products are always of all rows, whose kernel their number chooses.
        self.caches.span = self.caches.span_of(SPAN)
        self.caches.attended = self.caches.attended_of(ATTENDED)
        found = self._compute() if self.reason else self._replayed()
        self.caches.counted()
        return found

    @property
    def _key(self) -> tuple[int, int]:
        return self.caches.attended, self.caches.span

    def _compute(self) -> tuple[Tensor, Tensor]:
        return self._step(self._codes, self._positions, self.caches)

    def _replayed(self) -> tuple[Tensor, Tensor]:
        if self._key not in self._graphs:
            return self._first()
        found, replay = self._graphs[self._key]
        replay()
        return found

    def _first(self) -> tuple[Tensor, Tensor]:
        """Captures, and compares the first replay with the step as it is."""
        lengths = self.caches.lengths.clone()
        plain = tuple(one.clone() for one in self._compute())
        # Each run counts; what it wrote is written again.
        self.caches.lengths.copy_(lengths)
        try:
            found, replay = self._capture(self._compute)
        except (RuntimeError, torch.AcceleratorError) as error:
            self.reason = str(error).splitlines()[0] or type(error).__name__
        else:
            self.caches.lengths.copy_(lengths)
            replay()
            self.reason = difference(found, plain)
        if self.reason:
            log.warning("Speaking without CUDA graphs, more slowly: %s", self.reason)
            self.caches.lengths.copy_(lengths)
            return self._compute()
        latents, logits = found
        self._graphs[self._key] = (latents, logits), replay
        return latents, logits


_kept: WeakKeyDictionary[GPT, dict[tuple[int, tuple[int, ...]], list[CudaGraphStep]]] = (
    WeakKeyDictionary()
)


def graphed_step(gpt: GPT, slots: int = 1, layers: tuple[int, ...] = ()) -> CudaGraphStep | None:
    """Graphs of so many rows, and of the queries of these layers, that nobody else uses until
    `release`; kept as long as `gpt`. None on a CPU, which has none."""
    device = gpt.mel_head.weight.device
    if device.type != "cuda":
        return None
    kept = _kept.setdefault(gpt, {}).setdefault((slots, layers), [])
    free = next((step for step in kept if not step.in_use), None)
    if free is None:
        free = CudaGraphStep(gpt, slots, captures_on(device), layers)
        kept.append(free)
    return free.borrow()
