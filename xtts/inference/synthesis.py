"""Synthesizes text with a voice: whole or streamed.

Epoch samples, the worker and the API all speak through here, so that what is heard during training
is what will be served.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from xtts.inference.alignment.guarded_piece import Guard, GuardedPiece
from xtts.inference.decoding import DecodingError, DecodingState, iterate_codes
from xtts.inference.fading import StreamFade, fade_edges
from xtts.inference.speed import change_speed
from xtts.inference.voice import Voice
from xtts.model.config import SamplingParams
from xtts.model.loading import Model
from xtts.model.shapes import VOCODER_RATE
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
    guard: Guard | None = None,
) -> Tensor:
    """Speaks `text`: a waveform `[samples]` in float32 at 24,000 Hz, on the CPU.

    The same seed speaks the same waveform. max_codes: the most that each piece may take, 46 ms
    each; speed: 2 takes half the time, at the same pitch; guard: speaks again what did not end as
    it should, and keeps what became of each piece. Raises TextError for text that cannot be spoken
    and DecodingError when the model's output is not finite.
    """
    pieces = synthesize_pieces(
        model, voice, text, language, decoding=decoding, seed=seed, max_codes=max_codes,
        speed=speed, guard=guard,
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
    guard: Guard | None = None,
) -> Iterator[Tensor]:
    """As `synthesize`, one waveform for each piece that the model can say at once."""
    rules = decoding or model.config.decoding
    pieces = model.tokenizer.split(text, language)
    faded = has_edges(pieces)
    generator = torch.Generator(model.device).manual_seed(seed)
    for piece in pieces:
        guarded = GuardedPiece(guard, piece.ids, torch, whole=True, speed=speed)
        say = partial(_vocoded, model, voice, speed)
        waveform = _spoken(model, voice, guarded, piece, rules, generator, max_codes, say)
        waveform = fade_edges(waveform, torch) if faded or guarded.cut_off else waveform
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
    guard: Guard | None = None,
) -> Iterator[Tensor]:
    """As `synthesize`, in chunks as soon as they can be spoken: a small one first, then larger
    ones.

    Joined they are what `synthesize` says, within rounding; but what has left is not taken back.
    With a guard the last half second of a piece waits for its verdict, and no piece is spoken
    again.
    """
    rules = decoding or model.config.decoding
    pieces = model.tokenizer.split(text, language)
    faded = has_edges(pieces)
    generator = torch.Generator(model.device).manual_seed(seed)
    for number, piece in enumerate(pieces):
        if piece.before:
            yield silence(piece.before)
        guarded = GuardedPiece(guard, piece.ids, torch, whole=False, speed=speed, first=number == 0)
        utterance = DecodingState(model.gpt, rules, generator, max_codes, guarded.heads)
        steps = iterate_codes(model.gpt, voice.latents, _ids(model, piece), utterance)
        latents = change_speed((said.latents[-1] for said in steps), speed, torch)
        fade = StreamFade(torch) if faded else None
        for chunk in _chunks(_vocoder(model, voice), latents):
            ready = guarded.push(check_finite(chunk))
            if len(ready := ready if fade is None else fade.push(ready)):
                yield ready
        judge_utterance(guarded, utterance)
        rest = guarded.end()
        if rest is not None and len(rest := rest if fade is None else fade.push(rest)):
            yield rest
        if fade is not None:
            yield fade.end()
        if piece.after:
            yield silence(piece.after)


def judge_utterance(guarded: GuardedPiece, utterance: DecodingState) -> bool:
    """As `GuardedPiece.judge`, of an utterance that is done."""
    codes = torch.cat(utterance.codes).tolist() if utterance.codes else []
    return guarded.judge(
        codes, utterance.latents, stopped=utterance.stopped, attention=utterance.attention()
    )


def _spoken(
    model: Model,
    voice: Voice,
    guarded: GuardedPiece,
    piece: Piece,
    rules: SamplingParams,
    generator: torch.Generator,
    max_codes: int | None,
    say: Callable[[Sequence[Tensor]], Tensor],
) -> Tensor:
    """The waveform of a piece, spoken again where it did not end as it should. say: the sound of
    latents."""
    while True:
        utterance = DecodingState(model.gpt, rules, generator, max_codes, guarded.heads)
        for _ in iterate_codes(model.gpt, voice.latents, _ids(model, piece), utterance):
            pass
        waveform = say(utterance.latents)
        guarded.hear(waveform)
        if not judge_utterance(guarded, utterance):
            break
        # The next piece goes on with the first attempt's generator: it is what it would be if this
        # one had been good.
        generator = torch.Generator(model.device).manual_seed(guarded.next_seed)
    if guarded.spoken_anew or guarded.cut_off:
        return say(guarded.best.kept)
    return waveform


def _vocoded(model: Model, voice: Voice, speed: float, latents: Sequence[Tensor]) -> Tensor:
    vocoder = _vocoder(model, voice)
    for some in change_speed(iter(latents), speed, torch):
        vocoder.add(some)
    return check_finite(torch.cat(list(vocoder.rest())))


def _ids(model: Model, piece: Piece) -> Tensor:
    return torch.tensor(piece.ids, device=model.device)


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
