"""Default parameters of inference, where config.json has none: sampling, conditioning, fades."""

from dataclasses import dataclass

# Pieces of a long text are faded at both ends, to avoid clicks where they join.
FADE_SECONDS = 0.005


@dataclass(frozen=True)
class SamplingParams:
    """The sampling parameters; the defaults are those of `Xtts.synthesize` with XTTS-v2's config.

    Sampling is implemented twice, for torch in `xtts.inference.torch_backend` and for numpy in
    `extras.onnx.speech.sampling`, with one set of tests. Sharing one implementation would mean
    copying the logits off the GPU.
    """

    temperature: float = 0.75
    top_k: int = 50
    top_p: float = 0.85
    repetition_penalty: float = 5.0
    greedy: bool = False


@dataclass(frozen=True)
class ConditioningParams:
    """The lengths of a reference recording that are used for conditioning, in seconds."""

    total_seconds: float = 30.0
    chunk_seconds: float = 4.0
    speaker_seconds: float = 30.0
