"""Trains a decoder for the best weights of a run, and keeps it beside them.

The last step of an evaluation (`train.evaluation.blending`); whether one is learned, judged and
kept is decided here alone. Spoken with is one with which clips that it did not learn from are
nearer to what the person said, and the evaluation's sentences not measurably harder to understand;
every other outcome leaves the base's decoder, and is kept as well, so that no later start looks
again.
"""

import contextlib
import logging
import os
import time
from dataclasses import replace
from pathlib import Path

from machine.devices.cuda_errors import GpuLost
from machine.storage.atomic import Written, crash_point
from machine.storage.hashes import sha256_of
from train.evaluation.budget import MOST_LEARNING_SECONDS
from train.evaluation.evaluator import Evaluator
from train.progress import Progress
from train.settings import TrainSettings
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import Verdict
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunError, RunFolder
from xtts.workers.decoder_learning import STEPS
from xtts.workers.requests import LearnDecoderRequest, TranscribedClip

log = logging.getLogger("train")

# Where no budget bounds it.
UNBOUNDED_SECONDS = 600.0


def keep_best_decoder(evaluator: Evaluator, verdict: Verdict, settings: TrainSettings) -> None:
    """Writes best_decoder.json and its tensors for the verdict's weights where they are not there
    yet, and removes those of other weights or where none are wanted. Raises GpuLost alone: a fault
    costs the decoder."""
    run, how = evaluator.run, settings.learn_decoder
    known = learned_decoder.read(run)
    if how != "off" and known is not None and known.weights == verdict.weights:
        # One that ran out of time is learned again where there is no limit: `train evaluate`.
        whole = known.steps >= STEPS or evaluator.budget is not None
        if whole:
            return
    try:
        _remove(run)
        seconds = _seconds(evaluator, how)
        if how != "off" and not seconds:
            log.info("No decoder is learned: there is no time left for judging.")
        elif how != "off":
            learn_best_decoder(evaluator, verdict, settings.decoder_clips, seconds)
    except GpuLost:
        raise
    except Exception as error:
        log.warning("No decoder was learned: %s", error)


def learn_best_decoder(
    evaluator: Evaluator, verdict: Verdict, most_clips: int, seconds: float = UNBOUNDED_SECONDS
) -> bool:
    """Learns a decoder for the verdict's weights, judges it and takes it into the place of what was
    learned before, whatever came of it. False where there was no time for a step. seconds: no more
    for learning.

    Raises WorkerFailed, RunError, GpuLost, DiskFull, WriteError; what was learned before stays.
    """
    try:
        return _learn(evaluator, verdict, most_clips, seconds)
    finally:
        with contextlib.suppress(OSError):
            _candidate(evaluator).unlink(missing_ok=True)


def _seconds(evaluator: Evaluator, how: str) -> float:
    """How long a run may learn."""
    if how == "auto" and evaluator.budget:
        return min(MOST_LEARNING_SECONDS, evaluator.budget.learning_room())
    return UNBOUNDED_SECONDS


def _learn(evaluator: Evaluator, verdict: Verdict, most_clips: int, seconds: float) -> bool:
    run, budget = evaluator.run, evaluator.budget
    started = time.perf_counter()
    request = _request(evaluator, verdict, most_clips, seconds)
    with Progress("Learning a decoder", request.steps, "steps") as progress:
        found = evaluator.sampler.ask(request, progress.reach)
    if not found.steps:
        log.info("No decoder is learned: the time went into preparing it.")
        return False
    learned = LearnedDecoder(
        **verdict.weights,
        distance_before=found.distance_before,
        distance_after=found.distance_after,
        clips=found.clips,
        steps=found.steps,
    )
    if learned.better and (lost := evaluator.word_errors_with(verdict, _candidate(evaluator))):
        learned = replace(learned, more_word_errors=round(lost.mean, 4), harder=lost.low > 0)
    if budget:
        budget.spend(time.perf_counter() - started)
    crash_point("before decoder")
    _remove(run)
    if learned.better:
        os.replace(_candidate(evaluator), run.best_decoder)
        written = Written(sha256_of(run.best_decoder), run.best_decoder.stat().st_size)
        learned = replace(learned, file=written)
    learned_decoder.write(run, learned)
    log.info("%s", _told(learned, found.seconds))
    return True


def _remove(run: RunFolder) -> None:
    """The record first: without it nobody takes the tensors."""
    run.best_decoder_record.unlink(missing_ok=True)
    run.best_decoder.unlink(missing_ok=True)


def _candidate(evaluator: Evaluator) -> Path:
    """Where its tensors are until it is judged: nobody takes them from there."""
    return evaluator.run.best_decoder.with_stem("unjudged_decoder")


def _told(learned: LearnedDecoder, seconds: float) -> str:
    distance = f"{learned.distance_before:.3f} to {learned.distance_after:.3f}"
    if learned.distance_after >= learned.distance_before:
        return f"No decoder nearer to the person was found (distance {distance})."
    told = (
        f"Decoder learned from {learned.clips} clips in {seconds:.0f} s; spectral distance of "
        f"clips that it did not learn from: {distance}"
    )
    if learned.more_word_errors is not None:
        told += f"; word errors of the sentences with it: {learned.more_word_errors:+.0%}"
    return f"{told}. It is harder to understand and is left out." if learned.harder else f"{told}."


def _request(
    evaluator: Evaluator, verdict: Verdict, most_clips: int, seconds: float
) -> LearnDecoderRequest:
    found = evaluator.weights_of(verdict)
    if found is None:
        raise RunError("The weights that it is for are gone.")
    weights, share = found
    # By content, so that the same clips are taken whatever they are called and however they stand.
    clips = sorted(evaluator.plan.clips, key=lambda clip: clip.sha256)[:most_clips]
    return LearnDecoderRequest(
        clips=tuple(TranscribedClip(one.path, one.text, one.language) for one in clips),
        reference=evaluator.plan.reference.path,
        out=_candidate(evaluator),
        weights=None if verdict.kind == "base" else weights,
        share=share,
        steps=STEPS,
        budget_seconds=seconds,
    )
