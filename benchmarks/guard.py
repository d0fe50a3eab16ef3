"""`python -m benchmarks guard` measures the faults that the guard finds, and its word times.

Faults are made by patched logits: the stop code suppressed; forced at 30, 60 and 90 % of the
utterance; a loop over its last words; a jump back. A stop that removed no speech (it fell into the
closing silence) is no fault and is counted separately; the loudness of the whole utterance after
the cut decides that. An alarm on an utterance without such a fault is false if the recogniser hears
the last two words and the length is 0.7 to 1.4 of flite's. `--part times` speaks flite's recordings
again, code by code, and compares with the times of the phones that flite prints.
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import guard_counts, guard_texts, guard_times, texts
from benchmarks.guard_counts import own_voice
from xtts.inference.alignment.heads import TEXTS, following
from xtts.inference.alignment.heads import spoken as spoken_by
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

PARTS = ("heads", "counts", "times", "cost")
RESAMPLES = 2000


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
    said = guard_texts.texts(arguments.set, arguments.texts)
    short = texts.sentences(arguments.set)[::6][: arguments.texts]
    measures = {
        "heads": lambda: heads(voice),
        "counts": lambda: guard_counts.counts(voice, said, arguments.faults, arguments.lines),
        "times": lambda: guard_times.of_recordings(voice, said, arguments.speak_as),
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
    """Processor time of speaking with the guard for that without, in turns, over sentences of which
    the guard changes nothing: the median of so many pairs, with its 95 % interval."""
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
