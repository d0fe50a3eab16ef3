"""Counts the guard's detections: faults made by patched logits, and false alarms without one.

Each text gives one line of JSON, so a count of an hour can be continued.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from benchmarks import judges
from xtts.audio import SPEAKER_RATE, VOCODER_RATE, resample
from xtts.inference import torch_backend
from xtts.inference.alignment.guard import CODE_SECONDS, Alignment, EndingVerdict, align, judge
from xtts.inference.alignment.guarded_piece import Guard, LoudnessLog, SpokenPiece
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import Speech
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchUtterance
from xtts.inference.voice import Voice
from xtts.model.streaming_vocoder import ChunkedVocoder
from xtts.text.tokenizer import Piece, Tokenizer
from xtts.text.written_words import WordSpan

Line = Mapping[str, Any]
# Sound of this level below the loudest, for this long, is speech that was cut off.
SPEECH_DB, SPEECH_SECONDS = 35.0, 0.05
FRAME = VOCODER_RATE // 100
# Not counted: when the figures of docs/develop/guard.md were measured, the vocoder clicked at the
# end of its input.
CLICK_FRAMES = 5
STOP = -1  # its logit is the last one
# Changes the logits of the code with this number.
Patch = Callable[[int, Tensor], None]


def counts(
    voice: LoadedVoice, texts: Sequence[str], faults: int, lines: Path | None
) -> dict[str, Any]:
    """Speaks the texts, and makes faults with the first ones; texts already in `lines` are not
    spoken again."""
    found: list[Line] = []
    if lines is not None and lines.is_file():
        found = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    known = {(line["part"], line["text"]) for line in found}

    def add(line: Line) -> None:
        found.append(line)
        if lines is not None:
            with lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    for number, text in enumerate(texts):
        made = sum(len(line["made"]) for line in found if line["part"] == "faults")
        if made < faults and ("faults", text) not in known:
            add(_with_faults(voice, text))
        if ("spoken", text) not in known:
            add(_spoken(voice, text, number))
    return summary(found, set(texts))


def summary(lines: Sequence[Line], texts: set[str]) -> dict[str, Any]:
    """The figures of these texts; `shares` are what the goals compare."""
    spoken, faulty = (
        [one for one in lines if one["part"] == part and one["text"] in texts]
        for part in ("spoken", "faults")
    )
    pieces = [piece for line in spoken for piece in line["pieces"]]
    alarms = [alarm for line in spoken for alarm in line["alarms"]]
    changed = [line for line in spoken if line["alarms"]]
    made = [fault for line in faulty for fault in line["made"]]
    missed = [one for one in made if one["ending"] == "good"]
    of, lost = (Counter(one["fault"] for one in some) for some in (made, missed))
    false = sum(alarm["false"] for alarm in alarms)
    shares = {"false alarms a piece": false / max(1, len(pieces))}
    if made:
        shares["faults found"] = 1 - len(missed) / len(made)
    if changed:
        spelled = [line["spelled"] for line in changed]
        for name, key in (("with", "heard_guarded"), ("without", "heard")):
            errors = judges.word_errors(spelled, [line[key] for line in changed])
            shares[f"word errors in changed texts, {name} guard"] = errors
    return {
        "texts": len(spoken),
        "pieces": len(pieces),
        "alarms on first attempts": len(alarms),
        "of which false": false,
        "good pieces in the end": sum(piece["ending"] == "good" for piece in pieces),
        "cut behind the last word": sum(piece["cut_off"] for piece in pieces),
        "faulty and told": sum(
            piece["ending"] != "good" and not piece["cut_off"] for piece in pieces
        ),
        "texts that the guard changed": len(changed),
        **{name: f"{count - lost[name]} of {count}" for name, count in of.items()},
        "unfinished and not told": sum(one["fault"].startswith("stop") for one in missed),
        "stops that cut silence only": sum(line["harmless"] for line in faulty),
        "missed": [f"{one['fault']}: {one['piece']}" for one in missed],
        "shares": shares,
    }


# ---- the content of a line ----


def _with_faults(voice: LoadedVoice, text: str) -> dict[str, Any]:
    made, harmless = list[dict[str, Any]](), 0
    for piece, _ in pieces_of(voice, text):
        good = said(voice, piece)
        if not good.verdict.good:
            continue
        for name, patch in patches(good, word_spans(voice.model.tokenizer, piece.ids)).items():
            bad = said(voice, piece, patch)
            if name.startswith("stop") and not speech_behind(good, len(bad.codes)):
                harmless += 1
                continue
            made.append({"fault": name, "ending": bad.verdict.ending, "piece": piece.text})
    return {"part": "faults", "text": text, "made": made, "harmless": harmless}


def _spoken(voice: LoadedVoice, text: str, number: int) -> dict[str, Any]:
    ask = SynthesisRequest(text, "en", seed=number)
    tokenizer = voice.model.tokenizer
    guard, first = (Guard(voice.heads, tokenizer.spoken, number, retries) for retries in (2, 0))
    guarded = voice.synthesize_guarded(ask, guard)
    changed = any(piece.attempts > 1 or piece.cut_off for piece in guard.pieces)
    line: dict[str, Any] = {
        "part": "spoken",
        "text": text,
        "pieces": [{**piece.as_dict(), "codes": piece.codes} for piece in guard.pieces],
        "alarms": [],
    }
    if changed:
        voice.synthesize_guarded(ask, first)
        line["alarms"] = _alarms_of(voice, ask, first.pieces)
        line["heard"] = " ".join(heard(voice.synthesize_guarded(ask, None)))
        line["heard_guarded"] = " ".join(heard(guarded))
        line["spelled"] = " ".join(tokenizer.spelled(text, "en"))
    return line


def _alarms_of(
    voice: LoadedVoice, ask: SynthesisRequest, verdicts: Sequence[SpokenPiece]
) -> list[dict[str, Any]]:
    """The alarms on first attempts, and whether the recogniser confirms each."""
    speech, sounds = Speech(voice.backend(), own_voice(voice), ask, chunked=False), []
    while not speech.done:
        sounds.append(torch.cat(list(speech.next_piece())))
    told = []
    for (piece, words), verdict, sound in zip(
        pieces_of(voice, ask.text), verdicts, sounds, strict=True
    ):
        if verdict.ending != "good":
            false = heard_whole(words, np.asarray(sound))
            told.append({"false": false, "reason": verdict.reason, "piece": piece.text})
    return told


@dataclass(frozen=True)
class JudgedUtterance:
    """An utterance of a piece with the guard's verdict."""

    codes: list[int]
    path: Alignment | None
    sound: np.ndarray
    verdict: EndingVerdict


# ---- speaking with patched logits ----


def said(
    voice: LoadedVoice, piece: Piece, patch: Patch | None = None, seed: int = 0
) -> JudgedUtterance:
    """One utterance of a piece with patched logits."""
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
        codes,
        stopped=state.stopped,
        alignment=path,
        tokens=sum(spoken),
        loud=log.loud_codes(len(state.latents)),
    )
    return JudgedUtterance(codes, path, sound, verdict)


def patches(good: JudgedUtterance, words: Sequence[WordSpan]) -> dict[str, Patch]:
    """The faults of a piece with these words, made from a good utterance of it."""
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
        "stop at 30 %": stop_at(0.3),
        "stop at 60 %": stop_at(0.6),
        "stop at 90 %": stop_at(0.9),
        "loop": _begun_with([*before, *again, *again]),
        "jump back": _begun_with(back),
    }


def _begun_with(codes: Sequence[int]) -> Patch:
    """Forces these codes first; then the model continues freely."""
    return lambda number, logits: _only(logits, codes[number]) if number < len(codes) else None


def forced(codes: Sequence[int]) -> Patch:
    """Forces exactly these codes."""
    return lambda number, logits: _only(logits, codes[number] if number < len(codes) else STOP)


def _only(logits: Tensor, code: int) -> None:
    logits.fill_(-1e9)
    logits[code] = 1e9


def own_voice(voice: LoadedVoice) -> Voice:
    assert voice.own is not None, "the embedded voice has a recording of its own"
    found: Voice = voice.own
    return found


def word_spans(tokenizer: Tokenizer, ids: Sequence[int]) -> list[WordSpan]:
    """The words in these ids: the spoken parts between spaces. Positions count START, the ids and
    STOP."""
    spans, begun, spoken = list[WordSpan](), list[int](), tokenizer.spoken(ids)
    for position, token in enumerate([*map(tokenizer.token, ids), "[SPACE]"], start=1):
        if token == "[SPACE]" and begun:
            text = "".join(tokenizer.token(ids[one - 1]) for one in begun)
            spans.append(WordSpan(text, begun[0], begun[-1]))
        if token == "[SPACE]":
            begun = []
        elif spoken[position]:
            begun.append(position)
    return spans


def pieces_of(voice: LoadedVoice, text: str) -> list[tuple[Piece, list[str]]]:
    """The pieces of a text with the spelled words of each; none if they were split otherwise."""
    tokenizer = voice.model.tokenizer
    pieces = tokenizer.split(text, "en")
    spelled = tokenizer.spelled(text, "en")
    counts = [len(word_spans(tokenizer, piece.ids)) for piece in pieces]
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
    """Whether a cut after `codes` codes removed speech."""
    frames = good.sound[: len(good.sound) // FRAME * FRAME].reshape(-1, FRAME)
    power = 10 * np.log10(np.maximum((frames**2).mean(1), 1e-12))
    loud = power[:-CLICK_FRAMES] > power.max() - SPEECH_DB
    behind = loud[int(codes * CODE_SECONDS * VOCODER_RATE / FRAME) :]
    return bool(behind.sum() * FRAME / VOCODER_RATE > SPEECH_SECONDS)


def heard(sound: np.ndarray) -> list[str]:
    """The words that the recogniser finds in audio at 24,000 Hz."""
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
