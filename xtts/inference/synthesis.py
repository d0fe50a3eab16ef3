"""Synthesizes text with a voice: whole or streamed.

Epoch samples, the worker and the API all speak through here, so that what is heard during training
is what will be served.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from xtts.inference.decoding import DecodingError, DecodingState, iterate_codes
from xtts.inference.fading import fade_edges, fade_stream_edges
from xtts.inference.speed import change_speed
from xtts.inference.voice import Voice
from xtts.model.loading import Model
from xtts.model.shapes import VOCODER_RATE, SamplingParams
from xtts.model.streaming_vocoder import ChunkedVocoder, chunk_codes
from xtts.text.tokenizer import Piece


def synthesize(
    model: Model,
    voice: Voice,
    text: str,
    language: str,
    *,
    decoding: SamplingParams | None = None,
    seed: int = 0,
    max_codes: int | None = None,
    speed: float = 1.0,
) -> Tensor:
    """Speaks `text`: a waveform `[samples]` in float32 at 24,000 Hz, on the CPU.

    The same seed speaks the same waveform. max_codes: the most that each piece may take, 46 ms
    each; speed: 2 takes half the time, at the same pitch. Raises TextError for text that cannot be
    spoken and DecodingError when the model says what is no number.
    """
    pieces = synthesize_pieces(
        model, voice, text, language, decoding=decoding, seed=seed, max_codes=max_codes,
        speed=speed,
    )  # fmt: skip
    return torch.cat(list(pieces))


@torch.inference_mode()
def synthesize_pieces(
    model: Model,
    voice: Voice,
    text: str,
    language: str,
    *,
    decoding: SamplingParams | None = None,
    seed: int = 0,
    max_codes: int | None = None,
    speed: float = 1.0,
) -> Iterator[Tensor]:
    """As `synthesize`, one waveform for each piece that the model can say at once."""
    rules = decoding or model.config.decoding
    pieces = model.tokenizer.split(text, language)
    faded = has_edges(pieces)
    spoken = _pieces(model, voice, pieces, rules, seed, max_codes)
    for piece, steps in zip(pieces, spoken, strict=True):
        vocoder = _vocoder(model, voice)
        for latents in change_speed(steps, speed):
            vocoder.add(latents)
        waveform = check_finite(torch.cat(list(vocoder.rest())))
        waveform = fade_edges(waveform) if faded else waveform
        yield torch.cat((silence(piece.before), waveform, silence(piece.after)))


@torch.inference_mode()
def stream(
    model: Model,
    voice: Voice,
    text: str,
    language: str,
    *,
    decoding: SamplingParams | None = None,
    seed: int = 0,
    max_codes: int | None = None,
    speed: float = 1.0,
) -> Iterator[Tensor]:
    """As `synthesize`, in chunks as soon as they can be spoken: a small one first, then larger
    ones.

    Joined they are what `synthesize` says, within rounding.
    """
    rules = decoding or model.config.decoding
    pieces = model.tokenizer.split(text, language)
    faded = has_edges(pieces)
    spoken = _pieces(model, voice, pieces, rules, seed, max_codes)
    for piece, steps in zip(pieces, spoken, strict=True):
        if piece.before:
            yield silence(piece.before)
        latents = change_speed(steps, speed)
        chunks = (check_finite(chunk) for chunk in _chunks(_vocoder(model, voice), latents))
        yield from fade_stream_edges(chunks) if faded else chunks
        if piece.after:
            yield silence(piece.after)


def _pieces(
    model: Model,
    voice: Voice,
    pieces: list[Piece],
    rules: SamplingParams,
    seed: int,
    max_codes: int | None,
) -> Iterator[Iterator[Tensor]]:
    """For each piece of text its latents `[width]`, as they are made."""
    generator = torch.Generator(model.device).manual_seed(seed)
    for piece in pieces:
        ids = torch.tensor(piece.ids, device=model.device)
        utterance = DecodingState(model.gpt, rules, generator, max_codes)
        steps = iterate_codes(model.gpt, voice.latents, ids, utterance)
        yield (said.latents[-1] for said in steps)


def has_edges(pieces: Sequence[Piece]) -> bool:
    """Whether sound begins or ends beside other sound or a pause: then it is faded."""
    return len(pieces) > 1 or any(piece.before or piece.after for piece in pieces)


def silence(seconds: float) -> Tensor:
    """A pause in samples; speed does not change it."""
    return torch.zeros(round(seconds * VOCODER_RATE))


def _chunks(vocoder: ChunkedVocoder, latents: Iterator[Tensor]) -> Iterator[Tensor]:
    sizes = chunk_codes()
    wanted = next(sizes)
    for some in latents:
        vocoder.add(some)
        if vocoder.ready_codes() >= wanted:
            yield vocoder.speak()
            wanted = next(sizes)
    yield from vocoder.rest()


def _vocoder(model: Model, voice: Voice) -> ChunkedVocoder:
    return ChunkedVocoder(model.vocoder, model.config.vocoder, voice.speaker)


def check_finite(waveform: Tensor) -> Tensor:
    """The waveform as float32 on the CPU. Raises DecodingError when it is not finite."""
    waveform = waveform.float().cpu()
    if not bool(torch.isfinite(waveform).all()):
        raise DecodingError(
            "The vocoder's waveform is not finite: this device computes wrongly or the model's "
            "files are damaged. Try DEVICE=cpu."
        )
    return waveform
