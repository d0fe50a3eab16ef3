"""int8 and int4 weights for CPU inference, and bfloat16 for a GPU.

int8: one scale a row, activations quantised as they come (torch's x86 kernels, which multiply in
VNNI or AMX). int4: one scale and zero for 32 weights in a row, activations in bfloat16. The rest of
the model stays as it is. bf16: the transformer whole, its norms, its stream and what attention
remembers; embeddings, the last norm and the head that codes are drawn from stay in float32. Half
the bytes a code, and of a slot. Which is fastest is measured on the machine, once a process; what
each costs in words and in numbers is in docs/benchmarks.md.
"""

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from xtts.model.empty_weights import without_weights
from xtts.model.shapes import SMALLEST_ROUNDED_WIDTH

KINDS = ("fp32", "int8", "int4", "bf16")
GROUP = 32
# A hair beyond what rounding can make of -1 .. 1.
_ENDS = 1.0001
# A kind that loses precision has to be faster by this much.
WORTH = 1.2
# From here on (Ampere) a GPU multiplies bfloat16 itself.
BF16_CAPABILITY = (8, 0)


class Int8Linear(nn.Module):
    """`nn.Linear` for inference with 8-bit weights; [.., in] -> [.., out] in float32. What a row
    becomes depends, in no bit, on the other rows (`xtts.inference.torch_backend`)."""

    _multiply = torch.ops.quantized.linear_dynamic

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        # On disk it lies turned; in that order all but the packing takes a third of the time.
        weight, bias = weight.detach().float(), bias.detach().float()
        scales = (torch.maximum(weight.amax(1), -weight.amin(1)) / 127).clamp(min=1e-8)
        numbers = (weight / scales[:, None]).round_()
        sums = numbers.sum(1) * scales  # below 2 ** 24, so that float32 holds each
        zeros = torch.zeros(len(weight), dtype=torch.long)
        rows = numbers.to(torch.int8).contiguous()
        rounded = torch._make_per_channel_quantized_tensor(rows, scales, zeros, 0)
        # Neither a parameter nor a buffer: it is never trained, moved or saved.
        self._packed: Any = torch.ops.quantized.linear_prepack(rounded, bias)
        self._back = torch.stack((sums, bias))

    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 1:  # of one utterance, however many positions
            product: Tensor = self._multiply(x, self._packed, _seven_bits())
            return product
        return self._row_by_row(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], -1)

    def _row_by_row(self, x: Tensor) -> Tensor:
        """Several rows at once, `[n, in]`. The kernel takes one scale from all that it is given, so
        that a loud row would round its neighbours; each is brought to -1 .. 1 before, and a row
        that reaches both ends makes the scale the same whoever is there."""
        least, most = x.aminmax(dim=1, keepdim=True)
        middle, reach = (most + least) / 2, ((most - least) / 2).clamp(min=1e-8)
        even = x.new_zeros(len(x) + 1, x.shape[1])
        torch.addcmul(-middle / reach, x, 1 / reach, out=even[:-1])
        even[-1, 0], even[-1, -1] = -_ENDS, _ENDS
        product = self._multiply(even, self._packed, _seven_bits())[:-1]
        # The kernel has added the bias once, which must not be stretched with the row.
        back = torch.cat((middle, 1 - reach), 1) @ self._back
        return torch.addcmul(back, product, reach)


class Int4Linear(nn.Module):
    """`nn.Linear` for inference with 4-bit weights; [.., in] -> [.., out] in float32.

    Raises ValueError for a width that groups of 32 do not divide.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        rows, columns = weight.shape
        if columns % GROUP:
            raise ValueError(f"{columns} columns are no multiple of {GROUP}")
        grouped = weight.detach().float().view(rows, -1, GROUP)
        least, most = grouped.amin(-1), grouped.amax(-1)
        scales = ((most - least) / 15).clamp(min=1e-8)
        numbers = ((grouped - least[..., None]) / scales[..., None]).round().clamp(0, 15)
        pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu
        self._packed: Tensor = pack(numbers.to(torch.int32).view(rows, columns), 1)
        # The kernel computes (number - 8) * scale + zero.
        zeros = least + 8 * scales
        self._scales = torch.stack((scales, zeros), -1).transpose(0, 1).contiguous().bfloat16()
        self._bias = bias.detach().float().clone()

    def forward(self, x: Tensor) -> Tensor:
        multiply = torch.ops.aten._weight_int4pack_mm_for_cpu
        rows = x.reshape(-1, x.shape[-1]).bfloat16()
        # The sum is in float32, as if its bfloat16 part had been widened before.
        product: Tensor = multiply(rows, self._packed, GROUP, self._scales) + self._bias
        return product.view(*x.shape[:-1], -1)


@cache
def _seven_bits() -> bool:
    """Whether activations get 7 bits: without VNNI, sums of products of 8 bits overflow 16."""
    return not torch.cpu._is_vnni_supported()


def quantized_linear(kind: str, weight: Tensor, bias: Tensor) -> nn.Module:
    """A linear layer of weights [out, in] in `kind`, one of KINDS."""
    if kind == "int8":
        return Int8Linear(weight, bias)
    if kind == "int4":
        return Int4Linear(weight, bias)
    with without_weights():
        linear = nn.Linear(weight.shape[1], weight.shape[0])
    linear.weight = nn.Parameter(weight.detach().float().clone(), requires_grad=False)
    linear.bias = nn.Parameter(bias.detach().float().clone(), requires_grad=False)
    return linear


def resolve_precision(
    precision: str, device: torch.device, width: int
) -> tuple[str, torch.dtype | None]:
    """What a precision means on this machine: the kind of the transformer's weights, and the type
    of the vocoder, None for the published layout in float32."""
    if device.type == "cuda":
        return gpu_kind(precision, width, torch.cuda.get_device_capability(device)), None
    if precision == "fp32" or device.type != "cpu":
        return "fp32", None
    return (fastest(width) if precision == "auto" else precision), vocoder_type()


def gpu_kind(precision: str, width: int, capability: tuple[int, int]) -> str:
    """What a precision means on a GPU of this compute capability. int8 and int4 are kernels of a
    CPU; bf16 is half the bytes of float32, and as likely codes (docs/benchmarks.md)."""
    small = precision == "auto" and width < SMALLEST_ROUNDED_WIDTH
    rounds = precision in ("auto", "bf16") and capability >= BF16_CAPABILITY and not small
    return "bf16" if rounds else "fp32"


def vocoder_type() -> torch.dtype:
    """Convolutions in bfloat16 take 0.56 of their time also where AVX-512 alone multiplies so."""
    quick = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if quick else torch.float32


def memory_type() -> torch.dtype:
    """Of what attention remembers: bfloat16 with AMX only; with AVX-512 alone it takes twice as
    long to attend in.

    A code reads all that is remembered: 45 MB in float32 behind 185 positions, where the weights
    are 379 in int8."""
    return torch.bfloat16 if torch.cpu._is_amx_tile_supported() else torch.float32


def choose_precision(seconds: Mapping[str, float]) -> str:
    """Which kind to speak with, from what one row took in each. Four bits are never chosen unasked:
    the rounding is audible (docs/benchmarks.md)."""
    return "int8" if seconds["fp32"] / seconds["int8"] >= WORTH else "fp32"


@cache
def fastest(width: int) -> str:
    """Measures, for a transformer of this width, and chooses; a small one is not bound by
    memory."""
    return "fp32" if width < SMALLEST_ROUNDED_WIDTH else choose_precision(measured(width))


@torch.inference_mode()
def measured(width: int, layers: int = 6, runs: int = 9) -> dict[str, float]:
    """Seconds that one row through the widest matrices takes in float32 and int8: the least of
    some runs over `layers` of them, more than the caches hold."""
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(4 * width, width, generator=generator), torch.zeros(4 * width)
    row = torch.randn(1, width, generator=generator)
    errors = {}
    for kind in ("fp32", "int8"):
        modules = [quantized_linear(kind, weight, bias) for _ in range(layers)]
        times = []
        for _ in range(runs):
            started = time.perf_counter()
            for module in modules:
                module(row)
            times.append(time.perf_counter() - started)
        errors[kind] = min(times) / layers
    return errors
