"""Default parameters of speaking: sampling, conditioning and fades."""

from dataclasses import dataclass

# Pieces of a long text are faded at both ends, so that joining them makes no click.
FADE_SECONDS = 0.005


@dataclass(frozen=True)
class SamplingParams:
    """How codes are drawn; the defaults are those of `Xtts.synthesize` with XTTS-v2's config.

    The rules have a body in `xtts.inference.torch_backend` and one in
    `extras.onnx.speech.sampling`, with one set of tests: sorting and masking are spelled
    differently in torch and numpy, and copying logits off a GPU to share one would cost more than
    the rules.
    """

    temperature: float = 0.75
    top_k: int = 50
    top_p: float = 0.85
    repetition_penalty: float = 5.0
    greedy: bool = False


@dataclass(frozen=True)
class ConditioningParams:
    """How much of a reference recording becomes latents, in seconds."""

    total_seconds: float = 30.0
    chunk_seconds: float = 4.0
    speaker_seconds: float = 30.0
