"""Model, voice and text -> a waveform.

Epoch samples, the worker and the API all speak through here, so that what is heard during training
is what will be served.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from xtts.audio import VOCODER_RATE
from xtts.chunks import ChunkedVocoder, chunk_codes
from xtts.decoding import DecodingError, Utterance, codes_one_by_one
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
    pieces = model.tokenizer.split(text, language)
    for chunks in _pieces(model, voice, pieces, language, decoding, seed, whole=True):
        waveform = torch.cat(list(chunks))
        yield faded(waveform) if len(pieces) > 1 else waveform


@torch.inference_mode()
def stream(
    model: Model,
    voice: Voice,
    text: str,
    language: str,
    *,
    decoding: Decoding | None = None,
    seed: int = 0,
) -> Iterator[Tensor]:
    """As `speak`, in chunks as soon as they can be spoken: a small one first, then larger ones.

    Joined they are what `speak` says, within rounding.
    """
    pieces = model.tokenizer.split(text, language)
    for chunks in _pieces(model, voice, pieces, language, decoding, seed, whole=False):
        yield from faded_stream(chunks) if len(pieces) > 1 else chunks


def _pieces(
    model: Model,
    voice: Voice,
    pieces: list[str],
    language: str,
    decoding: Decoding | None,
    seed: int,
    *,
    whole: bool,
) -> Iterator[Iterator[Tensor]]:
    """The chunks of each piece of text; `whole`: spoken when all its codes are there."""
    generator = torch.Generator(model.device).manual_seed(seed)
    for piece in pieces:
        ids = torch.tensor(model.tokenizer.encode(piece, language), device=model.device)
        utterance = Utterance(model.gpt, decoding or model.config.decoding, generator)
        steps = codes_one_by_one(model.gpt, voice.latents, ids, utterance)
        yield (checked(chunk) for chunk in _chunks(model, voice, utterance, steps, whole=whole))


def _chunks(
    model: Model,
    voice: Voice,
    utterance: Utterance,
    steps: Iterator[Utterance],
    *,
    whole: bool,
) -> Iterator[Tensor]:
    vocoder = ChunkedVocoder(model.vocoder, model.config.vocoder, voice.speaker)
    sizes = chunk_codes()
    wanted = next(sizes)
    for _ in steps:
        vocoder.add(utterance.latents[-1][None])
        if not whole and not utterance.done and vocoder.ready_codes() >= wanted:
            yield vocoder.speak()
            wanted = next(sizes)
    yield from vocoder.rest()


def checked(waveform: Tensor) -> Tensor:
    """The waveform as float32 on the CPU. Raises DecodingError when it is not finite."""
    waveform = waveform.float().cpu()
    if not bool(torch.isfinite(waveform).all()):
        raise DecodingError(
            "The vocoder's waveform is not finite: this device computes wrongly or the model's "
            "files are damaged. Try DEVICE=cpu."
        )
    return waveform


def faded(waveform: Tensor) -> Tensor:
    """The waveform with its first and last 5 ms faded."""
    length = min(int(FADE_SECONDS * VOCODER_RATE), len(waveform) // 2)
    ramp = _ramp(length)
    faded_waveform = waveform.clone()
    faded_waveform[:length] *= ramp
    faded_waveform[len(waveform) - length :] *= ramp.flip(0)
    return faded_waveform


def _ramp(length: int) -> Tensor:
    return torch.linspace(0.0, 1.0, length)


def faded_stream(chunks: Iterator[Tensor]) -> Iterator[Tensor]:
    """As `faded`, of a waveform that comes in chunks: the last 5 ms are held back until the end."""
    length = int(FADE_SECONDS * VOCODER_RATE)
    held = torch.zeros(0)
    begun = False
    for chunk in chunks:
        held = torch.cat((held, chunk))
        # The fade in needs its 5 ms as well, and in a short piece both are shorter.
        if len(held) > 2 * length:
            said, held = held[:-length], held[-length:]
            yield said if begun else torch.cat((said[:length] * _ramp(length), said[length:]))
            begun = True
    if not begun:
        yield faded(held)
    else:
        held[-length:] *= _ramp(length).flip(0)
        yield held
