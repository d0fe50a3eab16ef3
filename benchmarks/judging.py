"""`python -m benchmarks judging`: what judging an epoch costs, with random weights.

Sixteen sentences, the fewest that a run speaks, 75 codes (3.5 s) each, a third of them also by the
vocoder; the base's turn, then an epoch's, whose words the base has to hear, for which its weights
are read once more. An evaluation speaks without the guard, and so does this. Processor seconds
beside the clock, since the former mind a busy machine less.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import bases
from benchmarks.sample import checkpoint
from train.evaluation.budget import TIME_SHARE
from train.evaluation.evaluator import FEWEST_SENTENCES, SOUNDED_EVERY
from train.evaluation.sentences import built_in
from xtts import audio
from xtts.evaluation.word_evidence import word_evidence
from xtts.voices.base_models import DEMO
from xtts.workers import file_evaluation
from xtts.workers.file_evaluation import (
    RUNAWAY,
    RUNAWAY_CODES,
    EvaluateRequest,
    SentenceTask,
    SpeakingRate,
)
from xtts.workers.file_synthesis import FileSpeaker

# Random weights do not stop by themselves: the limit of a runaway ends them here.
CODES = 75
# The shortest epoch of which at most 15 % may go into judging.
LONG_EPOCH_SECONDS = 600.0


def main(argv: Sequence[str]) -> int:
    """Prints JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks judging", description=__doc__)
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size")
    parser.add_argument("--sentences", type=int, default=FEWEST_SENTENCES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the base model is kept")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        base = bases.write(arguments.folder or Path(name) / "base", full=arguments.full)
        turns = measured(base, Path(name), arguments.sentences, arguments.threads)
    found: dict[str, Any] = {"sentences": arguments.sentences, "guard": "off", **turns}
    asked_about = {turn: figures.pop("words") for turn, figures in turns.items()}
    found |= {"words_asked_about": asked_about}
    found |= told(turns["epoch"]["seconds"], arguments.sentences)
    print(json.dumps(found, indent=1))
    return 0


def measured(base: Path, folder: Path, sentences: int, threads: int) -> dict[str, dict[str, float]]:
    """Seconds and processor seconds of the base's turn and of an epoch's, in one process."""
    waveform = audio.read(DEMO / "reference.wav", audio.CODE_RATE)
    reference = folder / "reference.wav"
    audio.write_wav(reference, waveform.repeat(9)[: 10 * audio.CODE_RATE], audio.CODE_RATE)
    tasks = tuple(
        SentenceTask(text, "en", number, sounded=number % SOUNDED_EVERY == 0)
        for number, text in enumerate(built_in("en")[:sentences])
    )
    rate = SpeakingRate(0.0, (CODES - RUNAWAY_CODES) / RUNAWAY)
    saved = checkpoint(base, folder / "checkpoint.pt")
    speaker = FileSpeaker(base, "cpu", threads)
    found = {}
    with mock.patch.object(file_evaluation, "evidence", _evidence):
        for name, share in (("base", 0.0), ("epoch", 1.0)):
            clock, processor = time.perf_counter(), time.process_time()
            said = speaker.evaluate(EvaluateRequest(tasks, reference, saved, share, rate))
            found[name] = {
                "seconds": round(time.perf_counter() - clock, 1),
                "processor_seconds": round(time.process_time() - processor, 1),
                "words": sum(len(one.words) for one in said.sentences),
            }
    return found


def _evidence(model: Any, latents: Any, utterance: Any) -> list[float]:
    """Of sentences that did not end too, which all of these are."""
    return [
        nats
        for piece, said in zip(utterance.pieces, utterance.said, strict=True)
        for nats in word_evidence(
            model.gpt, model.tokenizer, latents, piece, utterance.task.language, said.codes,
            stopped=True,
        )
    ]  # fmt: skip


def told(seconds: float, sentences: int) -> dict[str, float]:
    """What so many seconds are of a long epoch, and how many sentences its share buys."""
    budget = TIME_SHARE * LONG_EPOCH_SECONDS
    return {
        "share_of_ten_minutes": round(seconds / LONG_EPOCH_SECONDS, 3),
        "sentences_for_15_percent": int(budget / seconds * sentences),
    }
