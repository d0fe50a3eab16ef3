"""Model, voice and text -> a waveform.

Epoch samples, the worker and the API all speak through here, so that what is heard during training
is what will be served.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from xtts.audio import VOCODER_RATE
from xtts.decoding import DecodingError, decode
from xtts.model import Model
from xtts.sizes import Decoding
from xtts.voice import Voice

# Pieces of a long text are faded at both ends, so that joining them makes no click.
FADE_SECONDS = 0.005


def speak(
    model: Model,
    voice: Voice,
    text: str,
    language: str,
    *,
    decoding: Decoding | None = None,
    seed: int = 0,
) -> Tensor:
    """Speaks `text`: a waveform `[samples]` in float32 at 24,000 Hz, on the CPU.

    The same seed speaks the same waveform. Raises TextError for text that cannot be spoken and
    DecodingError when the model says what is no number.
    """
    pieces = list(speak_pieces(model, voice, text, language, decoding=decoding, seed=seed))
    return torch.cat(pieces)


@torch.inference_mode()
def speak_pieces(
    model: Model,
    voice: Voice,
    text: str,
    language: str,
    *,
    decoding: Decoding | None = None,
    seed: int = 0,
) -> Iterator[Tensor]:
    """As `speak`, one waveform for each piece that fits the model's token budget."""
    rules = decoding or model.config.decoding
    generator = torch.Generator(model.device).manual_seed(seed)
    pieces = model.tokenizer.split(text, language)
    for piece in pieces:
        ids = torch.tensor(model.tokenizer.encode(piece, language), device=model.device)
        spoken = decode(model.gpt, voice.latents, ids, rules, generator)
        waveform = model.vocoder(spoken.latents[None], voice.speaker)[0].float().cpu()
        if not bool(torch.isfinite(waveform).all()):
            raise DecodingError(
                "The vocoder's waveform is not finite: this device computes wrongly or the "
                "model's files are damaged. Try DEVICE=cpu."
            )
        yield faded(waveform) if len(pieces) > 1 else waveform


def faded(waveform: Tensor) -> Tensor:
    """The waveform with its first and last 5 ms faded."""
    length = min(int(FADE_SECONDS * VOCODER_RATE), len(waveform) // 2)
    ramp = torch.linspace(0.0, 1.0, length)
    faded_waveform = waveform.clone()
    faded_waveform[:length] *= ramp
    faded_waveform[len(waveform) - length :] *= ramp.flip(0)
    return faded_waveform
