"""LoRA adapters for inference: several voices share the weights of one base GPT.

y = W x + B A x, with B scaled. When utterances decode together, W x is one product for all rows,
and B A x is computed row by row. So the result of a row does not depend on the other rows, and a
row without an adapter equals the base. At XTTS-v2's size, an adapter of rank 16 takes 31 MB in
float32.
"""

import itertools
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
    """The LoRA matrices of one voice for a GPT. The GPT's weights are shared and stay unchanged.

    Attributes:
        matrices: The adapted matrices, by layer and name (`MATRICES`).
    """

    def __init__(self, gpt: GPT, tensors: Mapping[str, Tensor], scale: float, source: str) -> None:
        """tensors: named as in `xtts.voices.adapter_file`. Raises ConfigError, which names
        `source`, if they do not fit this GPT."""
        like, width, unused = gpt.gpt.ln_f.weight, gpt.shape.width, dict(tensors)
        self.matrices: list[dict[str, LowRank]] = [{} for _ in range(gpt.shape.layers)]
        for (number, layer), name in itertools.product(enumerate(self.matrices), MATRICES):
            full_name = f"{PREFIX}gpt.h.{number}.{name}"
            columns, rows = (width * multiple for multiple in MATRICES[name])
            a, b = (unused.pop(f"{full_name}.lora_{letter}.weight", None) for letter in "AB")
            if a is None and b is None:
                continue
            shapes = [None if matrix is None else list(matrix.shape) for matrix in (a, b)]
            if a is None or b is None or shapes != [[len(a), columns], [rows, len(a)]]:
                raise _mismatch(
                    source,
                    f"A and B of {full_name} are {shapes[0] or 'missing'} and "
                    f"{shapes[1] or 'missing'}, but the matrix is [{rows}, {columns}]",
                )
            stored_transposed = (b * scale).t().contiguous().to(like.device, like.dtype).t()
            layer[name] = LowRank(a.to(like.device, like.dtype), stored_transposed)
        if unused or not any(self.matrices):
            raise _mismatch(source, f"it has {min(unused) if unused else 'no tensors'}")


def _mismatch(source: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{source} does not fit this model: {reason}. Use an adapter that was trained from the "
        "loaded base model."
    )


def add_adapters(forward: Forward, matrices_by_row: Sequence[tuple[int, LowRank]]) -> Forward:
    """A layer's `forward` for `[rows, in]` or `[rows, time, in]` that adds adapters to some rows.

    matrices_by_row: the number of a row, and its matrices.
    """

    def adapted(x: Tensor) -> Tensor:
        product = forward(x)
        for row, (a, b) in matrices_by_row:
            if x.dim() == 2:
                product[row].addmv_(b, torch.mv(a, x[row]))
            else:
                product[row] += (x[row] @ a.t()) @ b.t()
        return product

    return adapted if matrices_by_row else forward
