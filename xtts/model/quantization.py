"""Packed float32, int8 and int4 weights for CPU inference, and bfloat16 for a GPU.

fp32: the weights are packed once for oneDNN, which with few rows is twice as fast as MKL. int8: one
scale per row; activations are quantised dynamically (torch's x86 kernels, which use VNNI or AMX).
int4: one scale and zero point per 32 weights of a row, activations in bfloat16. These three leave
the rest of the model unchanged. bf16: the whole transformer with its norms, residual stream and
key-value cache; embeddings, the last norm and the audio head stay in float32. This halves the bytes
read per code and the memory of a slot. The word errors and numerical errors of each kind are in
docs/develop/log.md.
"""

from functools import cache

import torch
from torch import Tensor, nn

from xtts.model.shapes import MIN_QUANTIZED_WIDTH

KINDS = ("fp32", "int8", "int4", "bf16")
# The weights of a row that share a scale in int4.
GROUP_SIZE = 32
# Slightly more than rounding can make of the range -1 to 1.
_RANGE_END = 1.0001
# With 5, 7, 8 or 9 rows, the result of oneDNN's AVX2 kernels for a row depends on its place; with 4
# and 12 it does not. 16 to 60 rows at once take up to three times as long as in groups of twelve.
_ROW_MULTIPLE, _MAX_SPLIT_ROWS, _MAX_FEW_ROWS = 4, 12, 60
# From this compute capability on (Ampere), a GPU multiplies bfloat16 in hardware.
BF16_CAPABILITY = (8, 0)


class PackedLinear(nn.Module):
    """`nn.Linear` in float32 for inference on a CPU; [.., in] -> [.., out]. If the number of rows
    is a multiple of 4, the result of a row does not depend on its place
    (`xtts.inference.torch_backend`)."""

    _multiply = torch.ops.mkldnn._linear_pointwise.default

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        # Neither a parameter nor a buffer, because it is never trained, moved or saved.
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().float(), 1)
        self._bias = bias.detach().float().clone()

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if len(rows) <= _ROW_MULTIPLE or len(rows) > _MAX_FEW_ROWS:
            return self._product(rows).view(*x.shape[:-1], -1)
        size = _MAX_SPLIT_ROWS if len(rows) % _MAX_SPLIT_ROWS in (0, _ROW_MULTIPLE) else _ROW_MULTIPLE
        products = [self._product(part) for part in rows.split(size)]
        return torch.cat(products).view(*x.shape[:-1], -1)

    def _product(self, rows: Tensor) -> Tensor:
        product: Tensor = self._multiply(rows, self._packed, self._bias, "none", [], "")
        return product


class Int8Linear(nn.Module):
    """`nn.Linear` for inference with 8-bit weights; [.., in] -> [.., out] in float32. The result of
    a row does not depend on the other rows (`xtts.inference.torch_backend`)."""

    _multiply = torch.ops.quantized.linear_dynamic

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        # Stored transposed on disk; in that order, everything but the packing takes a third of the
        # time.
        weight, bias = weight.detach().float(), bias.detach().float()
        scales = (torch.maximum(weight.amax(1), -weight.amin(1)) / 127).clamp(min=1e-8)
        numbers = (weight / scales[:, None]).round_()
        sums = numbers.sum(1) * scales  # below 2 ** 24, so exact in float32
        zeros = torch.zeros(len(weight), dtype=torch.long)
        rows = numbers.to(torch.int8).contiguous()
        rounded = torch._make_per_channel_quantized_tensor(rows, scales, zeros, 0)
        # Neither a parameter nor a buffer, because it is never trained, moved or saved.
        self._packed = torch.ops.quantized.linear_prepack(rounded, bias)
        self._sums_and_bias = torch.stack((sums, bias))

    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 1:  # one utterance, with any number of positions
            product: Tensor = self._multiply(x, self._packed, _uses_seven_bits())
            return product
        return self._row_by_row(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], -1)

    def _row_by_row(self, x: Tensor) -> Tensor:
        """Several rows, `[n, in]`. The kernel uses one scale for all rows, so a row of large values
        would make the others less precise. Therefore each row is scaled to -1 .. 1 first, and an
        additional row with both extremes makes the kernel's scale constant."""
        minimum, maximum = x.aminmax(dim=1, keepdim=True)
        middle, reach = (maximum + minimum) / 2, ((maximum - minimum) / 2).clamp(min=1e-8)
        scaled = x.new_zeros(len(x) + 1, x.shape[1])
        torch.addcmul(-middle / reach, x, 1 / reach, out=scaled[:-1])
        scaled[-1, 0], scaled[-1, -1] = -_RANGE_END, _RANGE_END
        product = self._multiply(scaled, self._packed, _uses_seven_bits())[:-1]
        # The kernel has added the bias, which must not be scaled back with the row.
        offset = torch.cat((middle, 1 - reach), 1) @ self._sums_and_bias
        return torch.addcmul(offset, product, reach)


class Int4Linear(nn.Module):
    """`nn.Linear` for inference with 4-bit weights; [.., in] -> [.., out] in float32.

    Raises ValueError for a width that is not a multiple of 32.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        rows, columns = weight.shape
        if columns % GROUP_SIZE:
            raise ValueError(f"{columns} columns are not a multiple of {GROUP_SIZE}")
        grouped = weight.detach().float().view(rows, -1, GROUP_SIZE)
        minimum, maximum = grouped.amin(-1), grouped.amax(-1)
        scales = ((maximum - minimum) / 15).clamp(min=1e-8)
        numbers = ((grouped - minimum[..., None]) / scales[..., None]).round().clamp(0, 15)
        pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu
        self._packed: Tensor = pack(numbers.to(torch.int32).view(rows, columns), 1)
        # The kernel computes (number - 8) * scale + zero.
        zeros = minimum + 8 * scales
        self._scales = torch.stack((scales, zeros), -1).transpose(0, 1).contiguous().bfloat16()
        self._bias = bias.detach().float().clone()

    def forward(self, x: Tensor) -> Tensor:
        multiply = torch.ops.aten._weight_int4pack_mm_for_cpu
        rows = x.reshape(-1, x.shape[-1]).bfloat16()
        # The addition is in float32, as if the bfloat16 product had been converted first.
        product: Tensor = multiply(rows, self._packed, GROUP_SIZE, self._scales) + self._bias
        return product.view(*x.shape[:-1], -1)


@cache
def _uses_seven_bits() -> bool:
    """Whether activations get 7 bits: without VNNI, sums of 8-bit products overflow 16 bits."""
    return not torch.cpu._is_vnni_supported()


def packed_linear(kind: str, weight: Tensor, bias: Tensor) -> nn.Module:
    """A linear layer of weights [out, in] in `kind`, one of KINDS."""
    if kind == "int8":
        return Int8Linear(weight, bias)
    if kind == "int4":
        return Int4Linear(weight, bias)
    return PackedLinear(weight, bias)


def resolve_precision(precision: str, device: torch.device, width: int) -> tuple[str, torch.dtype | None]:
    """Resolves a precision on this machine: the kind of the transformer's weights, and the type of
    the vocoder (None for the published layout in float32)."""
    is_small = width < MIN_QUANTIZED_WIDTH
    if device.type == "cuda":
        # int8 and int4 have only CPU kernels. bf16 reads half the bytes, and its codes are as
        # likely as float32's (docs/develop/log.md).
        wants_bf16 = precision == "bf16" or (precision == "auto" and not is_small)
        has_bf16 = torch.cuda.get_device_capability(device) >= BF16_CAPABILITY
        return ("bf16" if wants_bf16 and has_bf16 else "fp32"), None
    if precision == "fp32" or device.type != "cpu":
        return "fp32", None
    if precision == "auto":
        # A code reads all weights once, and int8 has a quarter of the bytes. int4 is not chosen,
        # because its rounding is audible (docs/develop/log.md). torch's kernels are x86's.
        has_int8 = "x86" in torch.backends.quantized.supported_engines
        precision = "int8" if has_int8 and not is_small else "fp32"
    return precision, vocoder_type()


def vocoder_type() -> torch.dtype:
    """The vocoder's type: bfloat16 if the CPU supports it. With AVX-512 alone, convolutions then
    take 0.56 of their time."""
    has_bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if has_bf16 else torch.float32
