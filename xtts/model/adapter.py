"""LoRA adapters for inference: several voices share the weights of one base GPT.

y = W x + B A x, with B scaled. When utterances decode together, W x is one product for all rows,
and B A x is computed row by row. So the result of a row does not depend on the other rows, and a
row without an adapter equals the base. At XTTS-v2's size, an adapter of rank 16 takes 31 MB in
float32.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from xtts.model.config import ConfigError
from xtts.model.gpt import GPT, PREFIX

# The matrices of a block, with their input and output sizes as multiples of the width.
MATRICES = {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1), "mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1)}
Forward = Callable[[Tensor], Tensor]


class LowRank(NamedTuple):
    """A `[rank, in]` and B `[out, rank]`, scaled. B is stored transposed, which is fastest for
    products with one row."""

    a: Tensor
    b: Tensor


class Adapter:
    """The LoRA matrices of one voice for a GPT, whose weights are shared and stay unchanged.

    Attributes:
        matrices: The adapted matrices, by layer and name (`MATRICES`).
        nbytes: The size of the matrices.
    """

    def __init__(self, gpt: GPT, tensors: Mapping[str, Tensor], scale: float, source: str) -> None:
        """tensors: named as in `xtts.voices.adapter_file`. Raises ConfigError, which names
        `source`, if they do not fit this GPT."""
        self.matrices = _matrices(gpt, tensors, scale, source)
        self.nbytes = sum(
            part.nbytes for layer in self.matrices for pair in layer.values() for part in pair
        )


def for_rows(forward: Forward, pairs: Sequence[tuple[int, LowRank]]) -> Forward:
    """A layer's `forward` for rows `[rows, in]`, or `[rows, time, in]`, that adds adapters to some
    of them. pairs: the number of a row, and its matrices."""

    def adapted(x: Tensor) -> Tensor:
        whole = forward(x)
        for row, (a, b) in pairs:
            if x.dim() == 2:
                whole[row].addmv_(b, torch.mv(a, x[row]))
            else:
                whole[row] += (x[row] @ a.t()) @ b.t()
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
            f"{source} does not fit this model: it has {min(left) if left else 'no tensors'}. "
            "Use an adapter that was trained from the loaded base model."
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
            f"{source} does not fit this model: A and B of {name} are {shapes[0] or 'missing'} and "
            f"{shapes[1] or 'missing'}, but the matrix is [{sizes[1]}, {sizes[0]}]. Use an "
            "adapter that was trained from the loaded base model."
        )
    return LowRank(a, b)
