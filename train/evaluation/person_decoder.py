"""Trains a decoder for the best weights of a run and saves it with them.

It is the last step of an evaluation (`train.evaluation.blending`). This module alone decides
whether a decoder is trained, judged and kept. The trained decoder is used if it reproduces clips
outside its training set more closely, and the evaluation's sentences are not measurably harder to
understand, less like the reference or less natural. Otherwise the base's decoder stays. Either
outcome is recorded, so no later start trains again.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from machine.devices.cuda_errors import GpuLost
from machine.storage.atomic import Written, crash_point
from machine.storage.hashes import sha256_of
from train import defaults
from train.evaluation.evaluator import Evaluator
from train.evaluation.judges import NATURALNESS, VOICE, WORD_ERRORS, less_natural
from train.progress import Progress
from train.sampling.epoch_decoder import clips_to_learn_from
from train.settings import TrainSettings
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import MeanInterval, Verdict
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunError
from xtts.workers.decoder_learning import STEPS
from xtts.workers.requests import LearnDecoderRequest, TunedVoice

log = logging.getLogger("train")

# The time limit of training at the end of a run, and if no run waits or LEARN_DECODER is on.
RUN_SECONDS, UNBOUNDED_SECONDS = 300.0, 600.0


def keep_best_decoder(evaluator: Evaluator, verdict: Verdict, settings: TrainSettings) -> None:
    """Writes best_decoder.json and its tensors for the verdict's weights, if they are missing.

    Removes those of other weights, and all with LEARN_DECODER=off. Raises only GpuLost; after any
    other error there is no decoder.
    """
    run, how = evaluator.run, settings.learn_decoder
    known = learned_decoder.read(run.best_decoder)
    # `train evaluate` has more time, so it repeats a training that ran out of time.
    whole = known is not None and (known.steps >= STEPS or evaluator.in_run)
    if how != "off" and known is not None and known.weights == verdict.weights and whole:
        return
    try:
        learned_decoder.remove(run.best_decoder)
        if how != "off":
            seconds = RUN_SECONDS if how == "auto" and evaluator.in_run else UNBOUNDED_SECONDS
            learn_best_decoder(evaluator, verdict, defaults.DECODER_CLIPS, seconds)
    except GpuLost:
        raise
    except Exception as error:
        log.warning("No decoder was trained: %s", error)


def learn_best_decoder(
    evaluator: Evaluator, verdict: Verdict, most_clips: int, seconds: float = UNBOUNDED_SECONDS
) -> bool:
    """Trains and judges a decoder for the verdict's weights; the outcome replaces the last one.

    seconds: the time limit of training. False if there was no time for a step. Raises as
    `learn_decoder`.
    """
    tensors = evaluator.run.best_decoder
    request = request_of(evaluator, verdict, tensors, most_clips, seconds)
    return learn_decoder(
        evaluator, verdict, tensors, request, partial(evaluator.differences_with, verdict)
    )


def learn_decoder(
    evaluator: Evaluator,
    verdict: Verdict,
    tensors: Path,
    request: LearnDecoderRequest,
    judge: Callable[[Path], Mapping[str, MeanInterval]],
    whose: str = "",
) -> bool:
    """Trains and judges a decoder. Writes its record and, if it is used, its tensors.

    judge: returns the changes by the decoder, as `judges.differences`. whose: the name of one of
    several speakers. Returns False if there was no time for a step.

    Raises:
        WorkerFailed, RunError, GpuLost, DiskFull, WriteError: the last outcome stays.
    """
    try:
        return _learn(evaluator, verdict, tensors, request, judge, whose)
    finally:
        with contextlib.suppress(OSError):
            request.out.unlink(missing_ok=True)


def _learn(
    evaluator: Evaluator,
    verdict: Verdict,
    tensors: Path,
    request: LearnDecoderRequest,
    judge: Callable[[Path], Mapping[str, MeanInterval]],
    whose: str,
) -> bool:
    of = f" of {whose}" if whose else ""
    # Percent instead of steps: a time limit may leave some out.
    with Progress(f"Training a decoder{of}", 100, "%") as progress:
        result = evaluator.sampler.ask(request, progress.reach)
    if not result.steps:
        log.info("No decoder%s was trained: preparing the clips took the whole time limit.", of)
        return False
    learned = LearnedDecoder(
        **verdict.weights,
        distance_before=result.distance_before,
        distance_after=result.distance_after,
        clips=result.clips,
        steps=result.steps,
    )
    if learned.better:
        learned = judged(learned, judge(request.out))
    crash_point("before decoder")
    learned_decoder.remove(tensors)
    if learned.better:
        os.replace(request.out, tensors)
        written = Written(sha256_of(tensors), tensors.stat().st_size)
        learned = replace(learned, file=written)
    learned_decoder.write(tensors, learned)
    log.info("%s%s", f"{whose}: " if whose else "", _sentence(learned, result.seconds))
    return True


def judged(learned: LearnedDecoder, gaps: Mapping[str, MeanInterval]) -> LearnedDecoder:
    """Adds the judges' results. gaps: figures with the decoder minus those without; "measurably"
    means that 0 is outside the interval, as in a verdict."""
    if (words := gaps.get(WORD_ERRORS)) is not None:
        learned = replace(learned, more_word_errors=round(words.mean, 4), harder=words.low > 0)
    if (voice := gaps.get(VOICE)) is not None:
        learned = replace(learned, closer_voice=round(voice.mean, 4), less_alike=voice.high < 0)
    if (natural := gaps.get(NATURALNESS)) is not None:
        learned = replace(
            learned, more_natural=round(natural.mean, 4), less_natural=less_natural(natural)
        )
    return learned


def _sentence(learned: LearnedDecoder, seconds: float) -> str:
    distance = f"{learned.distance_before:.3f} to {learned.distance_after:.3f}"
    if learned.distance_after >= learned.distance_before:
        return (
            "The base's decoder stays: the trained one is not closer to the person (spectral "
            f"distance {distance})."
        )
    sentence = (
        f"Decoder trained on {learned.clips} clips in {seconds:.0f} s. Spectral distance of clips "
        f"outside its training set: {distance}."
    )
    if learned.more_word_errors is not None:
        sentence += f" Word error rate with it: {learned.more_word_errors:+.0%}."
    if learned.closer_voice is not None:
        sentence += f" Voice similarity to the reference with it: {learned.closer_voice:+.2f}."
    if learned.more_natural is not None:
        sentence += f" Naturalness with it: {learned.more_natural:+.2f}."
    faults = [
        fault
        for fault, holds in (
            ("is harder to understand", learned.harder),
            ("sounds less like the reference", learned.less_alike),
            ("sounds less natural", learned.less_natural),
        )
        if holds
    ]
    if faults:
        sentence += f" It {' and '.join(faults)}, so the base's decoder stays."
    return sentence


def request_of(
    evaluator: Evaluator, verdict: Verdict, tensors: Path, most_clips: int, seconds: float
) -> LearnDecoderRequest:
    """The request for a decoder of the verdict's weights. Raises RunError if those are gone."""
    source = evaluator.weights_of(verdict)
    if source is None:
        raise RunError("The checkpoint of the best weights is gone.")
    weights, share = source
    return LearnDecoderRequest(
        clips=clips_to_learn_from(evaluator.plan.clips, most_clips),
        voice=TunedVoice(
            evaluator.plan.reference.path, None if verdict.kind == "base" else weights, share
        ),
        # Nothing else reads this name, so nothing uses the decoder before it is judged.
        out=tensors.with_stem(f"unjudged_{tensors.stem}"),
        steps=STEPS,
        budget_seconds=seconds,
    )
