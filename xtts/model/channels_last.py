"""Channels-last memory layout for the vocoder's convolutions.

`nn.Conv1d` knows no such layout and copies at every layer in bfloat16. The same arithmetic as a
two-dimensional convolution one row high: XTTS-v2's vocoder on one AMX core, per second of audio,
0.46 s as published, 0.37 s so in float32, 0.09 s so in bfloat16 (docs/benchmarks.md).
"""

from typing import Any

import torch
from torch import Tensor, nn

from xtts.model.empty_weights import without_weights


def to_channels_last(module: nn.Module) -> None:
    """Replaces every 1-D convolution inside `module`; it takes [batch, channels, 1, time] then."""
    for name, child in module.named_children():
        if isinstance(child, nn.Conv1d | nn.ConvTranspose1d):
            setattr(module, name, _two_dimensional(child))
        else:
            to_channels_last(child)


def widened(x: Tensor, dtype: torch.dtype) -> Tensor:
    """[batch, channels, time] -> [batch, channels, 1, time], channels innermost."""
    return x[:, :, None].to(dtype, memory_format=torch.channels_last)


def _two_dimensional(conv: nn.Conv1d | nn.ConvTranspose1d) -> nn.Module:
    """Shares nothing with `conv` but its values. Raises ValueError for what HiFi-GAN has not."""
    if conv.groups != 1 or conv.padding_mode != "zeros" or isinstance(conv.padding, str):
        raise ValueError(f"{conv} is none of HiFi-GAN's convolutions")
    options: dict[str, Any] = {
        "stride": (1, conv.stride[0]),
        "padding": (0, conv.padding[0]),
        "dilation": (1, conv.dilation[0]),
        "bias": conv.bias is not None,
    }
    kind: type[nn.Conv2d | nn.ConvTranspose2d] = nn.Conv2d
    if isinstance(conv, nn.ConvTranspose1d):
        kind, options["output_padding"] = nn.ConvTranspose2d, (0, conv.output_padding[0])
    with without_weights():
        found = kind(conv.in_channels, conv.out_channels, (1, conv.kernel_size[0]), **options)
    weight = conv.weight.detach()[:, :, None].contiguous(memory_format=torch.channels_last)
    found.weight = nn.Parameter(weight, requires_grad=False)
    if conv.bias is not None:
        found.bias = nn.Parameter(conv.bias.detach().clone(), requires_grad=False)
    return found
