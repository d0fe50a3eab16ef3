"""One sentence in exactly so many codes, which is what two sides can be compared by.

STOP is suppressed, and the codes are bounded, so that no utterance ends as it should. The guard
judges all the same, as in the product, but has nothing spoken again: that would be three times the
codes. Random weights have no attention head that follows the text, so there it judges by length and
repetition; what heads cost is measured by `benchmarks.guard --part cost`. Importing this imports no
torch.
"""

from typing import Any

from xtts.inference.alignment.guarded_piece import Guard

TEXT = "the old man walked slowly along the river and thought about the long day."


def judged_once(model: Any, seed: int = 0) -> Guard:
    """The guard of one speech by a torch or an ONNX model, without a second attempt."""
    heads = tuple(model.config.alignment_heads or ())
    return Guard(heads, model.tokenizer.spoken, seed, retries=0)


def suppress_stop(model: Any) -> None:
    """Of a torch model: it says as many codes as it may."""
    model.gpt.mel_head.bias.data[model.gpt.shape.audio_stop] = -1e4
