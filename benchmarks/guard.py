"""`python -m benchmarks guard` measures the faults that the guard detects, and its word times.

Faults are made by patched logits: the stop code suppressed; forced at 30, 60 and 90 % of the
utterance; a loop over its last words; a jump back. A stop that removed no speech (it fell into the
closing silence) is not a fault and is counted separately; the loudness of the whole utterance after
the cut decides that. An alarm on an utterance without such a fault is false if the recogniser finds
the last two words and the length is 0.7 to 1.4 of flite's. `--part times` speaks flite's recordings
again, code by code, and compares the word times with the times of the phones that flite prints.
"""

import argparse
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import guard_counts, guard_texts, judges, texts
from benchmarks.guard_counts import JudgedUtterance, forced, own_voice, said, word_spans
from xtts.audio import CODE_RATE, SPEAKER_RATE, dvae_mel, resample
from xtts.inference.alignment.guard import CODE_SECONDS
from xtts.inference.alignment.guarded_piece import LoudnessLog, without_silence
from xtts.inference.alignment.heads import TEXTS, following
from xtts.inference.alignment.heads import spoken as spoken_by
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.loading import load_dvae
from xtts.text.pronunciations import PHONES
from xtts.text.tokenizer import Piece
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

PARTS = ("heads", "counts", "times", "cost")
RESAMPLES = 2000
SILENCE = "pau"  # by flite's name
# Begin and end of a word in seconds.
Span = tuple[float, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", default="demo")
    parser.add_argument("--part", action="append", choices=PARTS, help="a part to run")
    parser.add_argument("--set", choices=guard_texts.SETS, default="reporting", help="set of texts")
    parser.add_argument("--texts", type=int, default=200, help="number of texts")
    parser.add_argument("--faults", type=int, default=200, help="number of faults to make")
    parser.add_argument("--pairs", type=int, default=9, help="pairs that measure the cost")
    parser.add_argument(
        "--lines", type=Path, help="file with a line of JSON per text; a new count continues it"
    )
    parser.add_argument("--speak-as", default="slt", help="voice whose recordings are timed")
    parser.add_argument("--threads", type=int, default=1)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of each part."""
    torch.set_num_threads(arguments.threads)
    voice = load_voice(VoiceSpec(arguments.bundle), ComputeConfig(precision="fp32"))
    chosen = guard_texts.texts(arguments.set, arguments.texts)
    short = texts.sentences(arguments.set)[::6][: arguments.texts]
    measures = {
        "heads": lambda: heads(voice),
        "counts": lambda: guard_counts.counts(voice, chosen, arguments.faults, arguments.lines),
        "times": lambda: of_recordings(voice, chosen, arguments.speak_as),
        "cost": lambda: cost(voice, short, arguments.pairs),
    }
    return {part: measures[part]() for part in arguments.part or PARTS}


def to_record(found: dict[str, Any]) -> dict[str, Any]:
    """The figures; those of a single part without its name."""
    return dict(next(iter(found.values()))) if len(found) == 1 else found


def heads(voice: LoadedVoice) -> dict[str, Any]:
    """How well the best heads follow the text, and which config.json names."""
    spoken = [spoken_by(voice.backend(), own_voice(voice), text) for text in TEXTS]
    marks = {
        f"layer {layer} head {head}": round(
            min(following(rows[layer, head], said) for rows, said in spoken), 3
        )
        for layer, head in spoken[0][0]
    }
    best = dict(sorted(marks.items(), key=lambda item: -item[1])[:6])
    return {"named": voice.model.config.alignment_heads, **best}


def cost(voice: LoadedVoice, sentences: Sequence[str], pairs: int) -> dict[str, Any]:
    """The ratio of processor time with the guard to that without it, measured in turns on sentences
    that the guard does not change: the median of the pairs, with its 95 % interval."""
    asks = [SynthesisRequest(text, "en") for text in sentences]
    asks = [ask for ask in asks if _good(voice, ask)]
    ratios = list[float]()
    for number in range(pairs):
        seconds = {True: 0.0, False: 0.0}
        for ask in asks:
            for guarded in (True, False) if number % 2 else (False, True):
                started = time.process_time()
                voice.synthesize_guarded(ask, voice.guard(ask) if guarded else None)
                seconds[guarded] += time.process_time() - started
        ratios.append(seconds[True] / seconds[False])
    # Of the median, by the bootstrap (https://doi.org/10.1214/aos/1176344552).
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=pairs)) for _ in range(RESAMPLES))
    low, high = medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]
    return {
        "sentences": len(asks),
        "pairs": pairs,
        "processor time, ratio": round(statistics.median(ratios), 4),
        "95 % interval": f"{low:.4f} to {high:.4f}",
    }


def _good(voice: LoadedVoice, ask: SynthesisRequest) -> bool:
    guard = voice.guard(ask)
    voice.synthesize_guarded(ask, guard)
    return guard is not None and all(piece.attempts == 1 for piece in guard.pieces)


# ---- word times ----


def of_recordings(voice: LoadedVoice, texts: Sequence[str], name: str) -> dict[str, Any]:
    """The distance in milliseconds between our word times and flite's, in flite's recordings of one
    piece each, whose codes are forced."""
    dvae = load_dvae(voice.files.folder, voice.model.config)
    pairs, recordings = list[tuple[Span, Span]](), 0
    for text in texts:
        pieces = voice.model.tokenizer.split(text, "en")
        if len(pieces) > 1:
            continue
        wave = resample(judges.teacher(name, text), SPEAKER_RATE, CODE_RATE)
        with torch.inference_mode():
            mel = dvae_mel(wave[None], voice.model.mel_stats)
            codes = dvae.get_codebook_indices(mel)[0].tolist()
        utterance = said(voice, pieces[0], forced(codes))
        if utterance.path is None:
            return {"no head follows the text": True}
        told = judges.phone_times(name, text)
        pairs += _told_pairs(voice, pieces[0], utterance, told)
        recordings += 1
    return {"recordings": recordings, **_errors(pairs)}


def _errors(pairs: Sequence[tuple[Span, Span]]) -> dict[str, Any]:
    if not pairs:
        return {"words": 0}
    signed = [1000 * (a - b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True)]
    errors = [abs(one) for one in signed]
    return {
        "words": len(pairs),
        "median ms": round(statistics.median(errors), 1),
        "95 % ms": round(float(np.quantile(errors, 0.95)), 1),
        "median with sign ms": round(statistics.median(signed), 1),
    }


def _times(utterance: JudgedUtterance) -> np.ndarray:
    """`[positions, 2]` in seconds, as `SpokenPiece.times`."""
    assert utterance.path is not None
    log = LoudnessLog()
    log.push(utterance.sound)
    times = utterance.path.times() * CODE_SECONDS
    return without_silence(times, utterance.path.spoken, log.loud())


def _told_pairs(
    voice: LoadedVoice, piece: Piece, utterance: JudgedUtterance, told: Sequence[tuple[str, float]]
) -> Iterator[tuple[Span, Span]]:
    """Begin and end of each word, ours and flite's, where both have its first and last phone."""
    assert utterance.path is not None
    letters = {name.lower(): letter for name, letter in PHONES.items()}
    sounds = [
        (letters.get(phone.lower(), phone), start, end)
        for (phone, end), start in zip(told, [0.0, *(end for _, end in told)], strict=False)
        if phone != SILENCE
    ]
    tokens = [
        (position, voice.model.tokenizer.token(id_))
        for position, id_ in enumerate(piece.ids, start=1)
        if utterance.path.spoken[position]
    ]
    same = SequenceMatcher(
        None, [letter for _, letter in tokens], [letter for letter, _, _ in sounds], autojunk=False
    )
    matched = {
        tokens[a + k][0]: sounds[b + k][1:]
        for a, b, size in same.get_matching_blocks()
        for k in range(size)
    }
    ours = _times(utterance)
    for word in word_spans(voice.model.tokenizer, piece.ids):
        if word.first in matched and word.last in matched:
            begin, end = float(ours[word.first, 0]), float(ours[word.last, 1])
            yield (begin, end), (matched[word.first][0], matched[word.last][1])
