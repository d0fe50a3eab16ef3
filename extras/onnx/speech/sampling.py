"""Sampling in numpy: repetition penalty, temperature, top-k and top-p.

Greedy codes equal torch's. Sampled codes have the same distribution but differ, because numpy has
another random generator.
"""

import numpy as np

from machine.devices.cuda_errors import NotFinite
from xtts.inference.defaults import SamplingParams

Array = np.ndarray


def sample(logits: Array, seen: Array, decoding: SamplingParams, random: np.random.Generator) -> int:
    """Draws the next code from logits `[audio_ids]`; `seen` [audio_ids] marks the codes so far.

    Raises NotFinite for non-finite logits.
    """
    if not np.isfinite(logits).all():
        raise NotFinite(
            "The model's output is not finite (NaN or infinite): its weights are damaged, or "
            "this device computes wrongly. Export the voice again, or use BACKEND=torch."
        )
    logits = repetition_penalty(logits.astype(np.float32), seen, decoding.repetition_penalty)
    if decoding.greedy:
        return int(logits.argmax())
    probabilities = softmax(top_k_top_p(logits, decoding)).astype(np.float64)
    return int(random.choice(len(probabilities), p=probabilities / probabilities.sum()))


def repetition_penalty(logits: Array, seen: Array, penalty: float) -> Array:
    """CTRL's repetition penalty (https://arxiv.org/abs/1909.05858): used codes become less
    likely."""
    if penalty == 1.0:
        return logits
    lowered = np.where(logits < 0, logits * np.float32(penalty), logits / np.float32(penalty))
    return np.where(seen, lowered, logits)


def top_k_top_p(logits: Array, decoding: SamplingParams) -> Array:
    """Temperature, then the top-k, then the smallest set with at least `top_p` of the
    probability."""
    logits = logits / np.float32(max(decoding.temperature, 1e-5))
    if 0 < decoding.top_k < len(logits):
        threshold = np.partition(logits, -decoding.top_k)[-decoding.top_k]
        logits = np.where(logits < threshold, -np.inf, logits)
    if decoding.top_p < 1.0:
        order = np.argsort(logits, kind="stable")
        # The likeliest code always stays, as in Hugging Face's TopPLogitsWarper.
        is_removed = softmax(logits[order]).cumsum() <= 1 - decoding.top_p
        is_removed[-1] = False
        logits = logits.copy()
        logits[order[is_removed]] = -np.inf
    return logits


def softmax(logits: Array) -> Array:
    """The probabilities `[n]` of logits `[n]`, some of which may be -inf."""
    exponentials = np.exp(logits - logits.max())
    probabilities: Array = exponentials / exponentials.sum()
    return probabilities
