"""FLOPs of a training step, and peak FLOPs of GPUs, for MFU.

Recomputed blocks and padding do not count, so that the share of a GPU's peak that a step reaches
(MFU, Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311) can be compared between modes.
"""

import re
from collections.abc import Callable

import torch

from train.step import Learner
from xtts.model.shapes import GPTShape
from xtts.model.training import PackedBatch

ENCODER_BLOCKS = 6
PERCEIVER_LAYERS = 2
PERCEIVER_WIDTH = 512
LATENTS = 32

# Dense bf16 FLOP/s, as the manufacturers state them.
PEAKS = {
    "B200": 2250e12,
    "GH200": 989e12,
    "H200": 989e12,
    "H100": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H800": 989e12,
    "H20": 148e12,
    "A100": 312e12,
    "A800": 312e12,
    "A40": 150e12,
    "A30": 165e12,
    "A10": 125e12,
    "A10G": 70e12,
    "L40": 181e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX 6000 Ada": 364e12,
    "RTX A6000": 155e12,
    "RTX 5090": 209e12,
    "RTX 4090": 165e12,
    "RTX 4080": 97e12,
    "RTX 4070": 58e12,
    "RTX 4060": 30e12,
    "RTX 3090": 71e12,
    "RTX 3090 Ti": 80e12,
    "RTX 3080": 60e12,
    "RTX 3070": 41e12,
    "RTX 3060": 25e12,
}
# Suffixes of variants that are slower than the GPU of the plain name, each to another degree.
_SLOWER = ("Laptop", "Max-Q", "Mobile")


def of_steps(learner: Learner) -> Callable[[PackedBatch, float], dict[str, float]]:
    """A function of a step's rows and seconds that returns its TFLOP/s and, on a known GPU, its
    MFU."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in learner.gpt.parameters()]
    learns = sum(size for size, learns in sizes if learns) / sum(size for size, _ in sizes)
    peak = peak_flops(str(learner.device))

    def figures(rows: PackedBatch, seconds: float) -> dict[str, float]:
        reached = step_flops(rows, learner.gpt.shape, learns) / seconds
        return {"tflops": reached / 1e12, **({"mfu": reached / peak} if peak else {})}

    return figures


def step_flops(rows: PackedBatch, shape: GPTShape, learns: float = 1.0) -> float:
    """The FLOPs of one step on these rows; a multiplication and an addition count as two.

    learns: the share of the weights that learn (LORA_RANK, frozen parts). A frozen weight needs no
    gradient, so one of its three matrix products is left out.
    """
    width = shape.width
    clips, frames = rows.segments.lengths, rows.frames.lengths
    products = sum(clips) * shape.layers * 12 * width**2
    products += len(rows.text_targets) * width * shape.text_ids
    products += len(rows.audio_targets) * width * shape.audio_ids
    products += sum(frames) * ENCODER_BLOCKS * 4 * width**2
    products += sum(frames) * PERCEIVER_LAYERS * 2 * PERCEIVER_WIDTH * width
    products += len(frames) * LATENTS * PERCEIVER_LAYERS * (8 * width**2 + 2 * width)
    # Causal attention is half of the square: the scores, and the weighted sum of the values.
    attention = sum(length**2 for length in clips) * shape.layers * width
    attention += sum(length**2 for length in frames) * ENCODER_BLOCKS * 2 * width
    return 2.0 * (2 + learns) * products + 6.0 * attention


def peak_flops(device: str) -> float | None:
    """The FLOP/s that MFU is a share of; None on a CPU, whose manufacturer states none."""
    return peak_of_gpu(torch.cuda.get_device_name(device)) if device != "cpu" else None


def peak_of_gpu(device_name: str) -> float | None:
    """The peak of a GPU by its name; None if it is unknown. Only whole words match (an L40S is not
    an L40, an RTX A1000 not an A100), and the longest of several matches counts."""
    if any(word in device_name for word in _SLOWER):
        return None
    variants = {f"{name}{more}" for name in PEAKS for more in (" SUPER", " Ti")} - PEAKS.keys()
    for name in sorted({*PEAKS, *variants}, key=len, reverse=True):
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", device_name, re.IGNORECASE):
            return PEAKS.get(name)
    return None
