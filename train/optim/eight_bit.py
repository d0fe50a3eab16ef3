"""OPTIMIZER=adamw8bit: AdamW with 8-bit states.

Dettmers et al. 2022 (https://arxiv.org/abs/2110.02861): each block of 256 values has a scale, and
each value is one of 256 levels. Small tensors (under 4,096 values) stay in float32, and so do
weights and arithmetic. At XTTS-v2's size this saves 2.6 GB. The results equal those of torchao's
AdamW8bit, and so do the states in checkpoints.

Tensors are stored one after the other and processed in chunks. So the number of kernels of a step
depends on the number of chunks, not of tensors, and the extra memory is that of one chunk. A
value's level comes from one search among the thresholds between levels.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BLOCK = 256
FEWEST_QUANTISED = 4096
# Values per chunk: about 40 kernels a chunk, and 170 MB of extra memory.
CHUNK = 1 << 22
_EXPONENTS = 7


class AdamW8bit(torch.optim.Optimizer):
    """AdamW whose averages take one byte per value, in blocks; `param_groups` are AdamW's."""

    def __init__(
        self, groups: list[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})
        self._rows = [row for group in self.param_groups for row in _rows(group)]
        # Views of the storage, so that `optimizer.state` shows its size.
        for row in self._rows:
            self.state |= {place.weight: row.averages_of(place) for place in row.places}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step of the weights that have a gradient, at the groups' learning rates."""
        del closure
        for row in self._rows:
            row.step()

    def state_dict(self) -> dict[str, Any]:
        """The state as plain tensors and values, in the order of the weights."""
        places = {id(place.weight): (row, place) for row in self._rows for place in row.places}
        numbers = [places[id(one)] for group in self.param_groups for one in group["params"]]
        return {"adamw8bit": [row.state_of(place) for row, place in numbers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        places = {id(place.weight): (row, place) for row in self._rows for place in row.places}
        weights = [weight for group in self.param_groups for weight in group["params"]]
        for weight, kept in zip(weights, state_dict["adamw8bit"], strict=True):
            row, place = places[id(weight)]
            row.take_up(place, kept)


@dataclass
class _Place:
    """A weight in a row: the index of its first value, and how many steps it has taken."""

    weight: Tensor
    start: int
    steps: int = 0

    @property
    def end(self) -> int:
        return self.start + self.weight.numel()


class _Averages:
    """One average of all values of a row, in 8 bits or in float32."""

    def __init__(self, count: int, like: Tensor, *, signed: bool, quantised: bool) -> None:
        self.signed = signed
        self.scale: Tensor | None = None
        if quantised:
            self.values = torch.zeros(count, dtype=torch.uint8, device=like.device)
            self.scale = torch.zeros(count // BLOCK, device=like.device)
        else:
            self.values = torch.zeros(count, device=like.device)

    def read(self, start: int, end: int) -> Tensor:
        """A copy of values `start` to `end` in float32."""
        if self.scale is None:
            return self.values[start:end].clone()
        levels = _levels(self.signed, self.values.device)
        values = levels.index_select(0, self.values[start:end].int())
        values.view(-1, BLOCK).mul_(self.scale[start // BLOCK : end // BLOCK, None])
        return values

    def write(self, start: int, new: Tensor) -> None:
        """Stores new values from index `start` on."""
        end = start + len(new)
        if self.scale is None:
            self.values[start:end] = new
            return
        blocks = new.view(-1, BLOCK)
        scale = self.scale[start // BLOCK : end // BLOCK]
        torch.linalg.vector_norm(blocks, torch.inf, 1, out=scale).clamp_(min=1e-12)
        thresholds = _thresholds(self.signed, self.values.device)
        self.values[start:end] = torch.bucketize(
            blocks / scale[:, None], thresholds, out_int32=True, right=True
        ).view(-1)

    def state_of(self, place: _Place) -> Any:
        """The average of one weight, in the form of a checkpoint."""
        own = self.values[place.start : place.end].view(place.weight.shape)
        if self.scale is None:
            return own
        scale = self.scale[place.start // BLOCK : place.end // BLOCK]
        return {"codes": own, "scale": scale, "signed": self.signed}

    def take_up(self, place: _Place, kept: Any) -> None:
        if self.scale is not None:
            self.scale[place.start // BLOCK : place.end // BLOCK] = kept["scale"]
            kept = kept["codes"]
        self.values[place.start : place.end] = kept.reshape(-1)


class _Row:
    """Weights of one group, one after the other; the averages of all or of none are in 8 bits."""

    def __init__(
        self, group: Mapping[str, Any], weights: Sequence[Tensor], *, quantised: bool
    ) -> None:
        self._group = group
        self.places, count = list[_Place](), 0
        for weight in weights:
            self.places.append(_Place(weight, count))
            count += weight.numel()
        self._first = _Averages(count, weights[0], signed=True, quantised=quantised)
        self._second = _Averages(count, weights[0], signed=False, quantised=quantised)

    def step(self) -> None:
        """One step of the weights that have a gradient."""
        for place in self.places:
            place.steps += place.weight.grad is not None
        for chunk in _chunks([one for one in self.places if one.weight.grad is not None]):
            values = [place.weight.view(-1)[start:end] for place, start, end in chunk]
            gradients = [_flat_gradient(place)[start:end] for place, start, end in chunk]
            place, start, _ = chunk[0]
            if len(values) == 1:
                self._move(values[0], gradients[0], place.start + start, place.steps)
                continue
            together = torch.cat(values)
            self._move(together, torch.cat(gradients), place.start + start, place.steps)
            torch._foreach_copy_(values, together.split([len(one) for one in values]))

    def _move(self, weights: Tensor, gradients: Tensor, start: int, steps: int) -> None:
        """Applies AdamW to the values from index `start` on, in place."""
        end, (beta1, beta2) = start + len(weights), self._group["betas"]
        # float32 numbers on the host, computed as torchao does.
        rate, step = (torch.tensor(float(one)) for one in (self._group["lr"], steps))
        if decay := self._group["weight_decay"]:
            weights.sub_(weights * (rate * decay))
        first = self._first.read(start, end).lerp_(gradients, 1 - beta1)
        self._first.write(start, first)
        second = self._second.read(start, end).lerp_(gradients.square(), 1 - beta2)
        self._second.write(start, second)
        divisor = second.sqrt_().div_((1 - beta2**step).sqrt()).add_(self._group["eps"])
        weights.sub_(first.div_(1 - beta1**step).mul_(rate).div_(divisor))

    def state_of(self, place: _Place) -> dict[str, Any]:
        """The checkpoint state of one weight; empty before its first step."""
        if not place.steps:
            return {}
        return {"step": torch.tensor(float(place.steps)), **self.averages_of(place)}

    def averages_of(self, place: _Place) -> dict[str, Any]:
        """The averages of one weight, as views of this storage."""
        return {
            "exp_avg": self._first.state_of(place), "exp_avg_sq": self._second.state_of(place),
        }  # fmt: skip

    def take_up(self, place: _Place, kept: Mapping[str, Any]) -> None:
        """Restores what `state_of` returned."""
        if kept:
            place.steps = int(kept["step"])
            self._first.take_up(place, kept["exp_avg"])
            self._second.take_up(place, kept["exp_avg_sq"])


def _rows(group: Mapping[str, Any]) -> Iterator[_Row]:
    """A group's weights in two rows: those in 8 bits, and the small or oddly sized ones in
    float32."""
    sides: dict[bool, list[Tensor]] = {True: [], False: []}
    for weight in group["params"]:
        count = weight.numel()
        sides[count >= FEWEST_QUANTISED and count % BLOCK == 0].append(weight)
    return (_Row(group, side, quantised=kind) for kind, side in sides.items() if side)


def _chunks(places: Sequence[_Place]) -> Iterator[list[tuple[_Place, int, int]]]:
    """Lists of pieces of weights, (place, from, to), that are adjacent, have taken the same number
    of steps and have at most `CHUNK` values together."""
    chunk, room = list[tuple[_Place, int, int]](), CHUNK
    for number, place in enumerate(places):
        before = places[number - 1] if number else place
        if chunk and (before.end != place.start or before.steps != place.steps):
            yield chunk
            chunk, room = [], CHUNK
        count = place.weight.numel()
        for start in _cuts(count, room):
            end = min(count, start + room)
            chunk.append((place, start, end))
            room -= end - start
            if not room:
                yield chunk
                chunk, room = [], CHUNK
    if chunk:
        yield chunk


def _cuts(count: int, room: int) -> Iterator[int]:
    """The start index of each piece of a weight; the first piece has at most `room` values."""
    yield 0
    yield from range(room, count, CHUNK)


def _flat_gradient(place: _Place) -> Tensor:
    gradient = place.weight.grad
    assert gradient is not None
    return gradient.float().reshape(-1)


@functools.lru_cache(maxsize=4)
def _levels(signed: bool, device: torch.device) -> Tensor:
    """The 256 levels, between -1 or 0 and 1, of the dynamic tree data type (Dettmers 2016,
    https://arxiv.org/abs/1511.04561): seven decades, each with twice the levels of the one
    below."""
    parts = [torch.tensor([0.0, 1.0])]
    for decade in range(_EXPONENTS):
        edges = torch.linspace(0.1, 1.0, 2 ** (decade + (not signed)) + 1)
        middles = (edges[:-1] + edges[1:]) / 2 * 10 ** (decade + 1 - _EXPONENTS)
        parts += [middles, -middles] if signed else [middles]
    return torch.cat(parts).sort().values.to(device)


@functools.lru_cache(maxsize=4)
def _thresholds(signed: bool, device: torch.device) -> Tensor:
    """For each level, the smallest float32 number that is rounded to the next level: in float32
    arithmetic, its distance from the level is at least half of the distance between the two."""
    levels = _levels(signed, torch.device("cpu"))
    below, above = levels[:-1], levels[1:]
    half = (above - below) * 0.5
    low, high = _ordered(below), _ordered(above)
    while bool((high - low > 1).any()):
        middle = torch.div(low + high, 2, rounding_mode="floor")
        up = _number(middle) - below >= half
        low, high = torch.where(up, low, middle), torch.where(up, middle, high)
    return _number(high).to(device)


def _ordered(numbers: Tensor) -> Tensor:
    """float32 numbers as integers in the same order, where neighbours differ by 1."""
    bits = numbers.view(torch.int32).long()
    return torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _number(ordered: Tensor) -> Tensor:
    bits = torch.where(ordered < 0, -ordered - (1 << 31), ordered)
    return bits.int().view(torch.float32)
