"""Adapters of a GPT that speaks: one base in memory, and beside it what LoRA learned of each voice.

y = W x + B A x, with B scaled. When many utterances decode together, W x is one product of all
rows, as without adapters, and B A x is computed for each row by itself. So what a row says does not
depend, in any bit, on who else is there, and a row without an adapter is as it ever was. At
XTTS-v2's size an adapter of rank 16 takes 31 MB in float32.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from xtts.model.config import ConfigError
from xtts.model.gpt import GPT, PREFIX

# Where a matrix is in a block: its sizes, as multiples of the width.
MATRICES = {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1), "mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1)}
_Module = TypeVar("_Module", bound=nn.Module)
Forward = Callable[[Tensor], Tensor]


class LowRank(NamedTuple):
    """A `[rank, in]` and B `[out, rank]`, scaled; B lies turned in memory, as it is read fastest
    where one row is multiplied."""

    a: Tensor
    b: Tensor


class Adapter:
    """What one voice's adapter adds to a GPT, whose weights stay as they are and are shared.

    Attributes:
        gpt: The GPT as this voice's: modules of its own over the same weights, for any number of
            positions of one utterance.
        matrices: By layer and by name of `MATRICES`; of those only that are adapted.
        nbytes: Of its tensors.
    """

    def __init__(self, gpt: GPT, tensors: Mapping[str, Tensor], scale: float, source: str) -> None:
        """tensors: as `xtts.voices.adapter_file` names them. Raises ConfigError, naming `source`,
        where they are not this GPT's."""
        self.matrices = _matrices(gpt, tensors, scale, source)
        self.nbytes = sum(
            part.nbytes for layer in self.matrices for pair in layer.values() for part in pair
        )
        transformer = gpt.gpt
        adapted = {
            f"gpt.h.{number}.{name}": AdaptedLinear(
                transformer.get_submodule(f"h.{number}.{name}"), pair
            )
            for number, layer in enumerate(self.matrices)
            for name, pair in layer.items()
        }
        self.gpt = _with_modules(gpt, adapted)


class AdaptedLinear(nn.Module):
    """A linear layer, of whatever kind of weights, and what an adapter adds; for one utterance."""

    def __init__(self, base: nn.Module, pair: LowRank) -> None:
        super().__init__()
        self.base, self.pair = base, pair

    def forward(self, x: Tensor) -> Tensor:
        """`[.., in]` -> `[.., out]`."""
        whole: Tensor = self.base(x)
        return whole + (x @ self.pair.a.t()) @ self.pair.b.t()


def for_rows(forward: Forward, pairs: Sequence[tuple[int, LowRank]]) -> Forward:
    """`forward` of all rows `[rows, in]`, and what adapters add to some, each row by itself. pairs:
    a row and its matrices."""

    def adapted(x: Tensor) -> Tensor:
        whole = forward(x)
        for row, (a, b) in pairs:
            whole[row].addmv_(b, torch.mv(a, x[row]))
        return whole

    return adapted if pairs else forward


def _matrices(
    gpt: GPT, tensors: Mapping[str, Tensor], scale: float, source: str
) -> list[dict[str, LowRank]]:
    like, left = gpt.gpt.ln_f.weight, dict(tensors)
    found: list[dict[str, LowRank]] = []
    for number in range(gpt.shape.layers):
        layer = {}
        for name, sizes in MATRICES.items():
            whole = f"{PREFIX}gpt.h.{number}.{name}"
            halves = [left.pop(f"{whole}.lora_{half}.weight", None) for half in "AB"]
            if halves != [None, None]:
                layer[name] = _pair(whole, halves, [gpt.shape.width * one for one in sizes], source)
        found.append(layer)
    if left or not any(found):
        raise ConfigError(
            f"{source} is not of this model: it has {min(left) if left else 'no tensor at all'}. "
            "Take an adapter of the base model that speaks."
        )
    return [
        {
            name: LowRank(
                pair.a.to(like.device, like.dtype),
                (pair.b * scale).t().contiguous().to(like.device, like.dtype).t(),
            )
            for name, pair in layer.items()
        }
        for layer in found
    ]


def _pair(name: str, halves: Sequence[Tensor | None], sizes: Sequence[int], source: str) -> LowRank:
    a, b = halves
    shapes = [None if half is None else list(half.shape) for half in halves]
    if a is None or b is None or shapes != [[len(a), sizes[0]], [sizes[1], len(a)]]:
        raise ConfigError(
            f"{source} is not of this model: A and B of {name} are {shapes[0] or 'missing'} and "
            f"{shapes[1] or 'missing'}, and the matrix is [{sizes[1]}, {sizes[0]}]. Take an "
            "adapter of the base model that speaks."
        )
    return LowRank(a, b)


def _with_modules(module: _Module, others: Mapping[str, nn.Module], prefix: str = "") -> _Module:
    """A copy of a tree of modules with other ones in some places; it shares every weight."""
    own = copy.copy(module)
    own._modules = {
        name: others.get(f"{prefix}{name}") or _with_modules(child, others, f"{prefix}{name}.")
        for name, child in module._modules.items()
        if child is not None
    }
    return own
