"""Estimates the memory of a training step from the model's size.

`benchmarks.memory` counts the same tensors in a real step; a test compares the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.model.shapes import NUM_LATENTS, GPTShape

# Values that a block keeps for its backward pass, in widths: both norms' inputs and outputs,
# queries, keys, values, attention's output, and the feed-forward's two inner activations. In bf16
# all but the stream and the norms' inputs take two bytes.
_WIDTHS_KEPT = 16
_WIDTHS_IN_FP32 = 4
# Speech has about 14 characters a second, and fewer text ids.
TEXT_IDS_A_SECOND = 14
# Conditioning frames of a clip (6 s), and the values that the encoder's six blocks keep of each, in
# widths.
_CONDITIONING_FRAMES = 517
_CONDITIONING_WIDTHS = 6 * 10
STATE_BYTES = {"adamw": 8.0, "adamw8bit": 2.04}


@dataclass(frozen=True)
class MemoryEstimate:
    """The bytes that a step takes on the device, by purpose."""

    weights: int
    gradients: int
    states: int
    activations: int

    @property
    def held_bytes(self) -> int:
        """The bytes that do not depend on the batch."""
        return self.weights + self.gradients + self.states

    @property
    def total_bytes(self) -> int:
        return self.held_bytes + self.activations


def estimate_memory(
    shape: GPTShape,
    *,
    parameters: int,
    trainable: int,
    audio_seconds: float,
    clips: int,
    precision: str,
    optimizer: str,
    recomputed: bool,
) -> MemoryEstimate:
    """The memory of a step. parameters: of the model; trainable: those with a gradient;
    audio_seconds: of the batch."""
    position = _position_bytes(shape, precision, recomputed)
    heads = 4 * (shape.audio_ids + shape.text_ids) / 2
    second = (CODE_RATE / SAMPLES_PER_CODE + TEXT_IDS_A_SECOND) * (position + heads)
    conditioning = 4 * _CONDITIONING_FRAMES * _CONDITIONING_WIDTHS * shape.width
    return MemoryEstimate(
        weights=4 * parameters,
        gradients=4 * trainable,
        states=int(STATE_BYTES[optimizer] * trainable),
        activations=int(audio_seconds * second + clips * (conditioning + NUM_LATENTS * position)),
    )


def _position_bytes(shape: GPTShape, precision: str, recomputed: bool) -> float:
    """The bytes of a position in all blocks; if recomputed, in their inputs and one block."""
    small = 4 if precision == "fp32" else 2
    block = shape.width * (4 * _WIDTHS_IN_FP32 + small * (_WIDTHS_KEPT - _WIDTHS_IN_FP32))
    return shape.layers * 4 * shape.width + block if recomputed else shape.layers * block


def tensor_bytes(value: Any) -> int:
    """Bytes of the tensors in nested dictionaries and lists."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        return sum(map(tensor_bytes, value.values()))
    return sum(map(tensor_bytes, value)) if isinstance(value, list | tuple) else 0
