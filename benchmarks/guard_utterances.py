"""Utterances of the embedded voice for `benchmarks.guard`: with patched logits, judged, and judged
again without attention, by their loudness and by a recogniser."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from benchmarks import judges
from xtts.audio import SPEAKER_RATE, VOCODER_RATE, resample
from xtts.inference import torch_backend
from xtts.inference.alignment.guard import CODE_SECONDS, EndingVerdict, judge
from xtts.inference.alignment.guarded_piece import LoudnessLog
from xtts.inference.alignment.path import Alignment, align
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.torch_backend import TorchUtterance
from xtts.inference.voice import Voice
from xtts.model.streaming_vocoder import ChunkedVocoder
from xtts.text.tokenizer import Piece, WordSpan

# As loud as this below the loudest for so long is speech that was cut away.
SPEECH_DB, SPEECH_SECONDS = 35.0, 0.05
FRAME = VOCODER_RATE // 100
# Not counted: when the figures of docs/guard.md were measured, the vocoder clicked where its input
# ends.
CLICK_FRAMES = 5
STOP = -1  # its logit is the last one
# Changes the logits of the code with this number.
Patch = Callable[[int, Tensor], None]


@dataclass(frozen=True)
class JudgedUtterance:
    """What was said of a piece, and what the guard makes of it."""

    codes: list[int]
    stopped: bool
    path: Alignment | None
    sound: np.ndarray
    verdict: EndingVerdict


# ---- speaking with patched logits ----


def said(
    voice: LoadedVoice, piece: Piece, patch: Patch | None = None, seed: int = 0
) -> JudgedUtterance:
    """One utterance of a piece, with logits that are patched."""
    model = voice.model
    generator = torch.Generator().manual_seed(seed)
    state = TorchUtterance(model.gpt, model.config.decoding, generator, None, voice.heads)
    ids = torch.tensor(piece.ids)
    sample = torch_backend.sample

    def patched(logits: Tensor, *rest: Any) -> Tensor:
        logits = logits.clone()
        if patch is not None:
            patch(len(state.codes), logits[0])
        return sample(logits, *rest)

    with mock.patch.object(torch_backend, "sample", patched):
        torch_backend.decode(model.gpt, own_voice(voice).latents, [(ids, state)])
    spoken, rows = model.tokenizer.spoken(piece.ids), state.attention()
    path = None if rows is None else align(rows, spoken)
    codes = state.codes
    sound = sound_of(voice, state.latents)
    log = LoudnessLog()
    log.push(sound)
    verdict = judge(
        codes, stopped=state.stopped, alignment=path, tokens=sum(spoken),
        loud=log.loud_codes(len(state.latents)),
    )  # fmt: skip
    return JudgedUtterance(codes, state.stopped, path, sound, verdict)


def patches(good: JudgedUtterance, words: Sequence[WordSpan]) -> dict[str, Patch]:
    """The faults of a piece with these words, made of an utterance of it that is good."""
    codes, count = good.codes, len(good.codes)
    assert good.path is not None, "the embedded voice has heads that follow the text"

    def no_stop(_: int, logits: Tensor) -> None:
        logits[STOP] = -1e9

    def stop_at(share: float) -> Patch:
        return lambda number, logits: _only(logits, STOP) if number >= int(count * share) else None

    times = good.path.times()
    last = words[-2:]
    again = codes[times[last[0].first, 0] : times[last[-1].last, 1] + 1]
    before = codes[: times[last[-1].last, 1] + 1]
    back = [*codes[: int(0.7 * count)], *codes[int(0.2 * count) : int(0.7 * count)]]
    return {
        "no stop": no_stop,
        "stop at 30 %": stop_at(0.3), "stop at 60 %": stop_at(0.6), "stop at 90 %": stop_at(0.9),
        "loop": _begun_with([*before, *again, *again]), "jump back": _begun_with(back),
    }  # fmt: skip


def _begun_with(codes: Sequence[int]) -> Patch:
    """These codes first; then the model goes on as it likes."""
    return lambda number, logits: _only(logits, codes[number]) if number < len(codes) else None


def forced(codes: Sequence[int]) -> Patch:
    """These codes and no others."""
    return lambda number, logits: _only(logits, codes[number] if number < len(codes) else STOP)


def _only(logits: Tensor, code: int) -> None:
    logits.fill_(-1e9)
    logits[code] = 1e9


def own_voice(voice: LoadedVoice) -> Voice:
    assert voice.own is not None, "the embedded voice has a recording of its own"
    found: Voice = voice.own
    return found


def pieces_of(voice: LoadedVoice, text: str) -> list[tuple[Piece, list[str]]]:
    """The pieces of a text and the words of each as they are spelled; no words where reading split
    them otherwise."""
    tokenizer = voice.model.tokenizer
    pieces = tokenizer.split(text, "en")
    spelled = tokenizer.spelled(text, "en")
    counts = [len(tokenizer.word_spans(piece.ids)) for piece in pieces]
    if sum(counts) != len(spelled):
        return [(piece, []) for piece in pieces]
    ends = np.cumsum(counts)
    return [
        (piece, spelled[end - count : end])
        for piece, count, end in zip(pieces, counts, ends, strict=True)
    ]


# ---- judging without attention ----


def sound_of(voice: LoadedVoice, latents: Sequence[Tensor]) -> np.ndarray:
    """The sound `[samples]` of latents."""
    vocoder = ChunkedVocoder(voice.model.vocoder, own_voice(voice).speaker)
    vocoder.add(latents)
    found: np.ndarray = torch.cat(list(vocoder.rest())).float().numpy()
    return found


def speech_behind(good: JudgedUtterance, codes: int) -> bool:
    """Whether a cut behind so many codes took speech away."""
    frames = good.sound[: len(good.sound) // FRAME * FRAME].reshape(-1, FRAME)
    power = 10 * np.log10(np.maximum((frames**2).mean(1), 1e-12))
    loud = power[:-CLICK_FRAMES] > power.max() - SPEECH_DB
    behind = loud[int(codes * CODE_SECONDS * VOCODER_RATE / FRAME) :]
    return bool(behind.sum() * FRAME / VOCODER_RATE > SPEECH_SECONDS)


def heard(sound: np.ndarray) -> list[str]:
    """The words that the recogniser understands of sound at 24,000 Hz."""
    wave = resample(torch.from_numpy(sound), VOCODER_RATE, SPEAKER_RATE)
    return judges.words_heard(wave).lower().split()


def heard_whole(words: Sequence[str], sound: np.ndarray) -> bool:
    """Whether the recogniser hears the last two of these words, and the sound is 0.7 to 1.4 times
    as long as flite's: then an alarm is false. Without words it counts as false."""
    if not words:
        return True
    source = judges.teacher("slt", " ".join(words))
    share = len(sound) / VOCODER_RATE / (len(source) / SPEAKER_RATE)
    wanted = [word.lower() for word in words[-2:]]
    return heard(sound)[-2:] == wanted and 0.7 <= share <= 1.4
