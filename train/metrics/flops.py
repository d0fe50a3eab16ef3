"""FLOPs of a training step, and peak FLOPs of GPUs, for MFU.

The useful part: recomputed blocks and padding do not count, so that the share of a GPU's peak that
a step reaches (MFU, Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311) compares over modes.
"""

import time

import torch

from xtts.model.packed_batch import PackedBatch
from xtts.model.shapes import GPTShape

ENCODER_BLOCKS = 6
PERCEIVER_LAYERS = 2
PERCEIVER_WIDTH = 512
LATENTS = 32

# Dense bf16 products a second, as the makers tell them.
PEAKS = {
    "H200": 989e12, "H100": 989e12, "H800": 989e12, "A100": 312e12, "A800": 312e12, "L40": 181e12,
    "L4": 121e12, "A10": 125e12, "RTX 4090": 165e12, "RTX 3090": 71e12, "RTX A6000": 155e12,
}  # fmt: skip


def step_flops(rows: PackedBatch, shape: GPTShape) -> float:
    """Of one step on these rows; a multiplication and an addition are two."""
    width = shape.width
    clips = rows.segments.lengths if rows.segments else (rows.length,) * rows.rows
    frames = rows.frames.lengths if rows.frames else (rows.conditioning.shape[2],) * rows.rows
    products = sum(clips) * shape.layers * 12 * width**2
    # Causal: half of the square; scores and their weighted sum.
    products += sum(length**2 for length in clips) * shape.layers * width
    products += len(rows.text_targets) * width * shape.text_ids
    products += len(rows.audio_targets) * width * shape.audio_ids
    products += sum(frames) * ENCODER_BLOCKS * 4 * width**2
    products += sum(length**2 for length in frames) * ENCODER_BLOCKS * 2 * width
    products += sum(frames) * PERCEIVER_LAYERS * 2 * PERCEIVER_WIDTH * width
    products += len(frames) * LATENTS * PERCEIVER_LAYERS * (8 * width**2 + 2 * width)
    return 6.0 * products


def peak_flops(device_name: str) -> float | None:
    """Of a GPU, by its name; None where it is not known."""
    known = sorted(PEAKS, key=len, reverse=True)
    return next((PEAKS[name] for name in known if name in device_name), None)


def reached_flops(kind: torch.dtype, size: int = 1024, tries: int = 3) -> float:
    """What a product of this kind really reaches on this CPU, whose maker tells nothing: the best
    of some, 20 ms with two cores and AMX."""
    one = torch.ones(size, size, dtype=kind)
    seconds = float("inf")
    for _ in range(tries + 1):  # the first one makes oneDNN's code
        began = time.perf_counter()
        one @ one
        seconds = min(seconds, time.perf_counter() - began)
    return 2 * size**3 / seconds
