"""`python -m benchmarks guard`: whether the guard finds what went wrong, and when words are said.

Faults are made by patched logits: STOP suppressed, forced at 30, 60 and 90 % of the utterance, a
loop over its last words, a jump back. A stop that took no sound away (it fell into the closing
silence) is no fault, and is counted apart; that is judged by the loudness of the whole utterance
behind the cut, not by attention. `--part times` speaks flite's recordings again, code by code, and
compares with the phones' times that flite prints.
"""

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import judges, texts
from demo_voice.teachers import phone_timing
from demo_voice.teachers.flite import SpeakingStyle
from xtts.audio import CODE_RATE, SPEAKER_RATE, VOCODER_RATE, dvae_mel, resample
from xtts.inference import decoding
from xtts.inference.alignment import head_measurement
from xtts.inference.alignment.guard import CODE_SECONDS, Verdict, judge
from xtts.inference.alignment.heads import TEXTS, following
from xtts.inference.alignment.path import Alignment, align
from xtts.inference.decoding import DecodingState
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_params import SynthesisParams
from xtts.model.streaming_vocoder import ChunkedVocoder
from xtts.model.vocoder import load_dvae
from xtts.text.phonemes import PHONES
from xtts.text.tokenizer import Piece
from xtts.workers.voice_registry import ComputeConfig, VoiceSpec, load_voice

PARTS = ("heads", "faults", "alarms", "times", "cost")
# As loud as this below the loudest for so long is speech that was cut away.
SPEECH_DB, SPEECH_SECONDS = 35.0, 0.05
FRAME = VOCODER_RATE // 100
# Changes the logits of the code with this number.
Patch = Callable[[int, Tensor], None]


@dataclass(frozen=True)
class Utterance:
    """What was said of a piece, and what the guard makes of it."""

    codes: list[int]
    latents: list[Tensor]
    stopped: bool
    path: Alignment | None
    verdict: Verdict


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures, or JSON."""
    arguments = _parser().parse_args(argv)
    torch.set_num_threads(arguments.threads)
    voice = load_voice(VoiceSpec(arguments.bundle), ComputeConfig(precision="fp32"))
    sentences = texts.sentences(arguments.set)[:: arguments.every]
    measures = {
        "heads": lambda: heads(voice),
        "faults": lambda: faults(voice, sentences),
        "alarms": lambda: alarms(voice, sentences, arguments.seeds),
        "times": lambda: times(voice, sentences, arguments.speak_as),
        "cost": lambda: cost(voice, sentences),
    }
    report = {part: measures[part]() for part in arguments.part or PARTS}
    if arguments.json:
        print(json.dumps(report, indent=1))
        return 0
    for part, figures in report.items():
        print(part)
        for name, value in figures.items():
            print(f"  {name:28} {value}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks guard", description=__doc__)
    parser.add_argument("--bundle", default="demo")
    parser.add_argument("--part", action="append", choices=PARTS, help="only these")
    parser.add_argument("--set", choices=texts.FILES, default="reporting", help="which sentences")
    parser.add_argument("--every", type=int, default=1, help="only every so many of them")
    parser.add_argument("--seeds", type=int, default=1, help="how often each is said for alarms")
    parser.add_argument("--speak-as", default="slt", help="whose recordings are timed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser


# ---- what the parts measure ----


def heads(voice: LoadedVoice) -> dict[str, Any]:
    """How well the best heads follow the text, and which config.json names."""
    spoken = [head_measurement.spoken(voice.model, voice.own, text) for text in TEXTS]
    marks = {
        f"layer {layer} head {head}": round(
            min(following(rows[layer, head], said) for rows, said in spoken), 3
        )
        for layer, head in spoken[0][0]
    }
    best = dict(sorted(marks.items(), key=lambda item: -item[1])[:6])
    return {"named": voice.model.config.alignment_heads, **best}


def faults(voice: LoadedVoice, sentences: Sequence[str]) -> dict[str, Any]:
    """Of each kind of fault: how many were found of how many; those that took nothing away."""
    found: Counter[str] = Counter()
    made: Counter[str] = Counter()
    harmless = by_codes_alone = 0
    missed = list[str]()
    for piece, _ in _pieces(voice, sentences):
        good = said(voice, piece)
        if not good.verdict.good:
            continue
        loud = _loud(voice, good)
        for name, patch in _patches(good).items():
            bad = said(voice, piece, patch)
            if name.startswith("stop") and not _speech_behind(loud, len(bad.codes)):
                harmless += 1
                continue
            made[name] += 1
            found[name] += not bad.verdict.good
            # The same path with codes that never come again.
            alone = judge(range(len(bad.codes)), stopped=bad.stopped, alignment=bad.path, tokens=1)
            by_codes_alone += alone.good and not bad.verdict.good
            if bad.verdict.good:
                missed.append(f"{name}: {piece.text}")
    return {
        **{name: f"{found[name]} of {count}" for name, count in made.items()},
        "all": f"{sum(found.values())} of {sum(made.values())}",
        "stops that cut silence only": harmless,
        "found by repeated codes alone": by_codes_alone,
        "missed": missed,
    }


def alarms(voice: LoadedVoice, sentences: Sequence[str], seeds: int) -> dict[str, Any]:
    """Of utterances that nobody tampered with: verdicts, and alarms although the recogniser hears
    the last two words and the length is that of the source."""
    endings: Counter[str] = Counter()
    count = false = 0
    told = list[str]()
    for piece, text in _pieces(voice, sentences):
        for seed in range(seeds):
            utterance = said(voice, piece, seed=seed)
            count += 1
            endings[utterance.verdict.ending.value] += 1
            if not utterance.verdict.good:
                whole = _heard_whole(voice, text, utterance)
                false += whole
                mark = "false alarm" if whole else "confirmed"
                told.append(f"{mark}: {utterance.verdict.reason}: {piece.text}")
    return {"utterances": count, "false alarms": false, **endings, "told": told}


def times(voice: LoadedVoice, sentences: Sequence[str], name: str) -> dict[str, Any]:
    """Milliseconds between a word's begin and end on the path and as flite tells them, of flite's
    recordings, whose codes are forced."""
    dvae = load_dvae(voice.folder, voice.model.config)
    errors = list[float]()
    signed = list[float]()
    for text in sentences:
        pieces = voice.model.tokenizer.split(text, "en")
        if len(pieces) > 1:
            continue
        wave = resample(judges.teacher(name, text), SPEAKER_RATE, CODE_RATE)
        with torch.inference_mode():
            mel = dvae_mel(wave[None], voice.model.mel_stats)
            codes = dvae.get_codebook_indices(mel)[0].tolist()
        utterance = said(voice, pieces[0], _forced(codes))
        if utterance.path is None:
            return {"no head follows the text": True}
        told = phone_timing.told_by_flite(text, SpeakingStyle(name, name, Fraction(1)))
        for ours, theirs in _word_pairs(voice, pieces[0], utterance.path, told):
            signed += [1000 * (a - b) for a, b in zip(ours, theirs, strict=True)]
            errors += [1000 * abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    if not errors:
        return {"words": 0}
    return {
        "words": len(errors) // 2,
        "median ms": round(statistics.median(errors), 1),
        "95 % ms": round(float(np.quantile(errors, 0.95)), 1),
        "median with sign ms": round(statistics.median(signed), 1),
    }


def cost(voice: LoadedVoice, sentences: Sequence[str]) -> dict[str, Any]:
    """Time with the guard for time without, in turns: median over the sentences."""
    ratios = list[float]()
    for text in sentences:
        ask = SynthesisParams(text, "en")
        guard = voice.guard(ask)
        seconds = {True: 0.0, False: 0.0}
        for guarded in (True, False, False, True):
            started = time.process_time()
            voice.synthesize_guarded(ask, voice.guard(ask) if guarded else None)
            seconds[guarded] += time.process_time() - started
        voice.synthesize_guarded(ask, guard)
        if guard is not None and all(piece.attempts == 1 for piece in guard.pieces):
            ratios.append(seconds[True] / seconds[False])
    return {"sentences": len(ratios), "processor time, ratio": round(statistics.median(ratios), 4)}


# ---- speaking with patched logits ----


def said(voice: LoadedVoice, piece: Piece, patch: Patch | None = None, seed: int = 0) -> Utterance:
    """One utterance of a piece, with logits that are patched."""
    model = voice.model
    generator = torch.Generator().manual_seed(seed)
    state = DecodingState(model.gpt, model.config.decoding, generator, None, voice.heads)
    ids = torch.tensor(piece.ids)
    with _patched(state, patch):
        for _ in decoding.iterate_codes(model.gpt, voice.own.latents, ids, state):
            pass
    spoken, rows = model.tokenizer.spoken(piece.ids), state.attention()
    path = None if rows is None else align(rows, spoken)
    codes = torch.cat(state.codes).tolist() if state.codes else []
    verdict = judge(codes, stopped=state.stopped, alignment=path, tokens=sum(spoken))
    return Utterance(codes, state.latents, state.stopped, path, verdict)


@contextmanager
def _patched(state: DecodingState, patch: Patch | None) -> Iterator[None]:
    real = decoding.sample

    def sample(logits: Tensor, *rest: Any) -> Tensor:
        logits = logits.clone()
        if patch is not None:
            patch(len(state.codes), logits)
        return real(logits, *rest)

    decoding.sample = sample
    try:
        yield
    finally:
        decoding.sample = real


def _patches(good: Utterance) -> dict[str, Patch]:
    codes, count, stop = good.codes, len(good.codes), -1

    def no_stop(_: int, logits: Tensor) -> None:
        logits[stop] = -1e9

    def stop_at(share: float) -> Patch:
        return lambda number, logits: _only(logits, stop) if number >= int(count * share) else None

    # The closing silence is about 6 codes.
    loop = [*codes[:-5], *codes[count // 2 : -5], *codes[count // 2 : -5]]
    back = [*codes[: int(0.7 * count)], *codes[int(0.2 * count) : int(0.7 * count)]]
    return {
        "no stop": no_stop,
        "stop at 30 %": stop_at(0.3), "stop at 60 %": stop_at(0.6), "stop at 90 %": stop_at(0.9),
        "loop": _begun_with(loop), "jump back": _begun_with(back),
    }  # fmt: skip


def _begun_with(codes: Sequence[int]) -> Patch:
    """These codes first; then the model goes on as it likes."""
    return lambda number, logits: _only(logits, codes[number]) if number < len(codes) else None


def _forced(codes: Sequence[int]) -> Patch:
    return lambda number, logits: _only(logits, codes[number] if number < len(codes) else -1)


def _only(logits: Tensor, code: int) -> None:
    logits.fill_(-1e9)
    logits[code] = 1e9


def _pieces(voice: LoadedVoice, sentences: Sequence[str]) -> Iterator[tuple[Piece, str]]:
    """The pieces of all sentences, with the sentence where it is one piece."""
    for text in sentences:
        pieces = voice.model.tokenizer.split(text, "en")
        for piece in pieces:
            yield piece, text if len(pieces) == 1 else ""


# ---- judging without attention ----


def _sound(voice: LoadedVoice, utterance: Utterance) -> np.ndarray:
    vocoder = ChunkedVocoder(voice.model.vocoder, voice.model.config.vocoder, voice.own.speaker)
    with torch.inference_mode():
        vocoder.add(torch.stack(utterance.latents))
        found: np.ndarray = torch.cat(list(vocoder.rest())).float().numpy()
    return found


def _loud(voice: LoadedVoice, utterance: Utterance) -> np.ndarray:
    """Whether each 10 ms of an utterance are speech."""
    wave = _sound(voice, utterance)
    frames = wave[: len(wave) // FRAME * FRAME].reshape(-1, FRAME)
    power = 10 * np.log10(np.maximum((frames**2).mean(1), 1e-12))
    found: np.ndarray = power > power.max() - SPEECH_DB
    return found


def _speech_behind(loud: np.ndarray, codes: int) -> bool:
    """Whether a cut behind so many codes took speech away."""
    behind = loud[int(codes * CODE_SECONDS * VOCODER_RATE / FRAME) :]
    return bool(behind.sum() * FRAME / VOCODER_RATE > SPEECH_SECONDS)


def _heard_whole(voice: LoadedVoice, text: str, utterance: Utterance) -> bool:
    """Whether the recogniser hears the last two words of a sentence, and its length is that of the
    source's; of a part of a sentence nobody knows, and the alarm counts as false."""
    if not text:
        return True
    wave = torch.from_numpy(_sound(voice, utterance))
    heard = judges.words_heard(resample(wave, VOCODER_RATE, SPEAKER_RATE)).lower().split()
    source = judges.teacher("slt", text)
    share = len(wave) / VOCODER_RATE / (len(source) / SPEAKER_RATE)
    return heard[-2:] == voice.model.tokenizer.spelled(text, "en")[-2:] and 0.7 <= share <= 1.4


# ---- words ----


def _word_pairs(
    voice: LoadedVoice, piece: Piece, path: Alignment, told: Sequence[tuple[str, float]]
) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Begin and end of each word, ours and flite's, where both have its first and last phone."""
    letters = {name.lower(): letter for name, letter in PHONES.items()}
    sounds = [(letters.get(phone.lower(), phone), start, end)
              for (phone, end), start in zip(told, [0.0, *(end for _, end in told)], strict=False)
              if phone != phone_timing.SILENCE]  # fmt: skip
    tokens = [
        (position, voice.model.tokenizer.token(id_))
        for position, id_ in enumerate(piece.ids, start=1)
        if path.spoken[position]
    ]
    same = SequenceMatcher(
        None, [letter for _, letter in tokens], [letter for letter, _, _ in sounds], autojunk=False
    )
    matched = {
        tokens[a + k][0]: sounds[b + k][1:] for a, b, size in same.get_matching_blocks()
        for k in range(size)
    }  # fmt: skip
    ours = path.times() * CODE_SECONDS
    for word in voice.model.tokenizer.word_spans(piece.ids):
        if word.first in matched and word.last in matched:
            begin, end = float(ours[word.first, 0]), float(ours[word.last, 1])
            yield (begin, end), (matched[word.first][0], matched[word.last][1])
