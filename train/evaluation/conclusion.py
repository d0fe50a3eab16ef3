"""Ends an evaluation: judges the remaining candidates, trains the base's decoder, keeps the best weights.

`conclude` runs when a run ends and in `python -m train evaluate`. Each part first checks the files
on disk, so it can be repeated after a kill.

    decoder     trained for the base's weights (LEARN_DECODER), so that the base with it is a
                candidate; like an epoch's decoder, it is used if it reproduces clips outside its
                training set more closely (`train.evaluation.best_decoder` keeps the best one)
    blends      of the base and an epoch (BLEND), written to best.pt if one is best
    speakers    the further speakers of the dataset (`train.evaluation.speakers`)
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from machine.devices.recovery import GpuLost
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation.best_decoder import keep_best_decoder
from train.evaluation.evaluator import Evaluator
from train.evaluation.floors import PersonFigures, fault_of_decoder
from train.evaluation.judges import VOICE
from train.evaluation.report import evaluation_table
from train.evaluation.speakers import MAX_SPEAKERS, SPEAKER_SECONDS, judge_speakers
from train.evaluation.verdict import is_harder_to_understand
from train.progress import Progress
from train.sampling.decoders import (
    clips_to_learn_from,
    learn_for_base,
    minutes_of,
    weaken_for_base,
    withdraw_decoder,
)
from train.sampling.samples import Samples
from train.settings import TrainSettings
from xtts.model.blending import blend
from xtts.model.config import ModelConfig
from xtts.model.loading import read_tensors
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import BASE_DECODER_ID, Candidate, Evaluation, Verdict
from xtts.voices.run_folder import RunFolder, VerifiedCheckpoint, read_checkpoint
from xtts.workers.decoder_schedule import steps_for, steps_until
from xtts.workers.failures import WorkerFailed
from xtts.workers.requests import TunedVoice

log = logging.getLogger("train")

# Interpolation weights of BLEND=auto, the largest first.
AUTO_SHARES = (0.7, 0.5, 0.3)
# How much of the base's decoder is tried in turn while it breaks a floor. On the way from the base's
# decoder to the learned one, nearness grows and naturalness falls steadily (docs/develop/log.md).
DECODER_STRENGTHS = (0.67, 0.33)


def shares_of(blend: float | str) -> tuple[float, ...]:
    """The shares that BLEND names, without 1, which is the epoch itself."""
    if blend == "off":
        return ()
    shares = AUTO_SHARES if blend == "auto" else (float(blend),)
    return tuple(share for share in shares if share < 1)


def conclude(evaluator: Evaluator, samples: Samples, settings: TrainSettings, base: Path) -> None:
    """Judges missing epochs, the blends and each speaker, keeps the best, speaks its sample and
    logs the table.

    base: the base model's folder. Raises only GpuLost.
    """
    if not evaluator.can_judge:
        return
    if not evaluator.plan.learns_decoder and settings.learn_decoder != "off":
        log.info("LEARN_DECODER: off (recommended by the base model)")
    if not evaluator.plan.learns_decoder:
        learned_decoder.remove(evaluator.run.decoder_path(0))
        evaluator.run.decoder_state_path(0).unlink(missing_ok=True)
    judge_remaining(evaluator, shares_of(settings.blend))
    evaluator.attempt(evaluator.judge_further)
    evaluation = evaluator.evaluation()
    verdict = evaluation.verdict if evaluation else None
    if evaluation is None or verdict is None:
        return
    has_decoder = False
    try:
        # Before best.json names a blend: the service loads it together with its decoder.
        has_decoder = keep_best_decoder(evaluator, verdict)
        evaluation = judge_speakers(evaluator, evaluation)
        keep_best_blend(evaluator.checkpoints, verdict, base)
        evaluator.checkpoints.publish_best(evaluation)
        samples.speak_best(verdict)
    except GpuLost:
        raise
    except Exception as error:
        log.warning("The best weights could not be saved: %s", error)
    log.info("Evaluation of the run (docs/evaluation.md):\n%s", evaluation_table(evaluation))
    if verdict.kind == "base":
        through = " through the decoder trained on the clips" if has_decoder else ""
        recording = evaluator.plan.reference.path
        log.info("The base speaks with the voice of %s%s.", recording, through)


def seconds_left(evaluator: Evaluator, settings: TrainSettings, decoder_step_seconds: float) -> float:
    """The estimated time to end the evaluation, after the last epoch was judged."""
    if not evaluator.can_judge:
        return 0.0
    candidate_seconds, shares = evaluator.candidate_seconds, shares_of(settings.blend)
    evaluation = evaluator.evaluation()
    needs_blend = evaluation is not None and any(
        _needs_blend(evaluation, candidate)
        for candidate in evaluation.candidates
        if candidate.kind == "epoch"
    )
    candidates = 0 if shares == AUTO_SHARES and not needs_blend else len(shares)
    if evaluator.is_slow:  # the newest epoch and a blend
        candidates = 1 + min(candidates, 1)
    decoder_seconds = 0.0
    if evaluator.plan.learns_decoder:
        # The base also speaks the sentences with the trained decoder.
        steps = _decoder_steps_left(evaluator, evaluator.run.decoder_state_epochs())
        decoder_seconds = candidate_seconds + steps * decoder_step_seconds
    speakers = min(MAX_SPEAKERS, len(evaluator.plan.clips_by_speaker))
    speaker_seconds = min(SPEAKER_SECONDS, 2 * candidate_seconds + decoder_seconds)
    return candidates * candidate_seconds + decoder_seconds + speakers * speaker_seconds


def _decoder_steps_left(evaluator: Evaluator, epochs: Sequence[int]) -> int:
    """The steps of the base's decoder, which continues that of the newest of these epochs."""
    minutes = minutes_of(clips_to_learn_from(evaluator.plan.training_clips))
    rule = evaluator.plan.decoder_steps
    steps_done = steps_until(max(epochs), minutes, rule) if epochs else 0
    return max(steps_for(minutes, rule) - steps_done, steps_until(1, minutes, rule))


def keep_best_blend(checkpoints: Checkpoints, verdict: Verdict, base: Path) -> None:
    """Writes best.pt if the verdict is a blend that is not on disk yet.

    Raises RunError, ConfigError, DiskFull, WriteError.
    """
    run = checkpoints.run
    if verdict.kind == "blend" and isinstance(fault := run.verify_best(verdict), str):
        best = run.read_best()
        if (best.get("kind"), best.get("epoch")) == ("blend", verdict.epoch):  # best.pt existed
            log.warning("%s It is written again from epoch %d.", fault, verdict.epoch)
        tuned = read_checkpoint(run.checkpoint_path(verdict.epoch))
        unlearned = ModelConfig.read(base).unlearned
        state = blend(read_tensors(base / "model.pth"), tuned.model, verdict.share, unlearned)
        checkpoints.save_blend(verdict, state, tuned.provenance)


# The remaining candidates


def judge_remaining(evaluator: Evaluator, shares: Sequence[float]) -> None:
    """Judges the base with a learned decoder, the epochs that were not judged yet, and then
    blends (with these shares) of the base and the epoch that sounds closest to the person.

    If judging is slow, only the newest epoch and the middle blend; evaluation.json names the
    others. If the decoder rules the base out, no epoch keeps its decoder. Waits for the end.
    """
    evaluator.submit(_judge_remaining, evaluator, shares)
    evaluator.sampler.finish()


def _judge_remaining(evaluator: Evaluator, shares: Sequence[float]) -> None:
    if evaluator.plan.learns_decoder:
        evaluator.attempt(_judge_base_with_decoder, evaluator)
    epochs, newest = evaluator.unjudged_epochs(), max(evaluator.run.epochs(), default=0)
    if evaluator.is_slow:
        epochs = [epoch for epoch in epochs if epoch.epoch == newest]
    evaluation = evaluator.evaluation()
    candidates = evaluation.candidates if evaluation else []
    judged_shares = [candidate.share for candidate in candidates if candidate.kind == "blend"]
    tried_shares = shares[len(shares) // 2 :][:1] if evaluator.is_slow else shares
    new_blends = sum(share not in judged_shares for share in tried_shares)
    count = (evaluation is None) + len(epochs) + new_blends
    with Progress("Judging", count, "candidates") as evaluator.progress:
        for epoch in epochs:
            evaluator.attempt(evaluator.judge_candidate, "epoch", epoch, 1.0)
        evaluator.attempt(_judge_blends, evaluator, shares, tried_shares)


def _judge_blends(evaluator: Evaluator, shares: Sequence[float], tried_shares: Sequence[float]) -> None:
    evaluation = evaluator.evaluation()
    epoch = _source_of_blends(evaluator.run, evaluation) if evaluation else None
    if evaluation is None or epoch is None:
        return
    judged_epoch = evaluation.find("epoch", epoch.epoch)
    assert judged_epoch is not None  # it was chosen among the judged epochs
    if shares == AUTO_SHARES and not _needs_blend(evaluation, judged_epoch):
        return
    new_shares = [share for share in shares if evaluator.is_new("blend", epoch, share)]
    for share in new_shares:
        if share in tried_shares:
            evaluator.judge_candidate("blend", epoch, share)
    left_out = [f"epoch {unjudged.epoch}" for unjudged in evaluator.unjudged_epochs()]
    left_out += [f"epoch {epoch.epoch} at {share:.0%}" for share in new_shares if share not in tried_shares]
    evaluation = evaluator.evaluation_with_base()
    if left_out != evaluation.left_out:
        evaluator.write(replace(evaluation, left_out=left_out))


def _needs_blend(evaluation: Evaluation, epoch: Candidate) -> bool:
    """Whether the epoch lost words or endings that the base has, which a blend may bring back."""
    base = evaluation.candidates[0]
    fails_more = epoch.ruled_out is not None or epoch.num_failed > base.num_failed
    person_errors = PersonFigures.of(evaluation).word_errors
    return fails_more or bool(epoch.old_sentences) or is_harder_to_understand(epoch, base, person_errors)


def _judge_base_with_decoder(evaluator: Evaluator) -> None:
    """Judges the base with a decoder trained on the clips. If this candidate breaks a floor, the decoder
    is weakened and judged again, and each epoch that also breaks one loses its decoder, and is judged
    again without it."""
    checkpoint = evaluator.run.newest_weights()
    if checkpoint is None or not evaluator.evaluation_with_base().candidates[0].knows_language:
        return
    voice = evaluator.voice_with(checkpoint.checkpoint, 0.0)
    _learn_for_base(evaluator, voice)
    first_fault = fault = _judge_decoder(evaluator)
    for strength in DECODER_STRENGTHS:
        decoder = evaluator.decoder_of(None)
        if fault is None or decoder is None:
            break
        if strength < decoder.strength:
            weaken_for_base(
                evaluator.run, evaluator.sampler.ask, evaluator.plan.training_clips, voice, strength
            )
            fault = _judge_decoder(evaluator)
    if first_fault is None:
        return
    passing_epochs = {
        candidate.epoch
        for candidate in evaluator.evaluation_with_base().candidates
        if candidate.kind == "epoch" and not candidate.ruled_out
    }
    for epoch in set(evaluator.run.epochs()) - passing_epochs:
        if withdraw_decoder(evaluator.run.decoder_path(epoch)):
            message = "Epoch %d speaks with the base's decoder, because of the one for the base: %s"
            log.info(message, epoch, first_fault)


def _judge_decoder(evaluator: Evaluator) -> str | None:
    """Judges the base with its decoder, unless it was judged. Returns the first floor that it breaks."""
    if (decoder := evaluator.decoder_of(None)) is None:
        return None
    candidate = evaluator.evaluation_with_base().with_id(BASE_DECODER_ID)
    if candidate is None or candidate.decoder != decoder.digest:
        evaluator.judge_candidate("base", None, 0.0)
    evaluation = evaluator.evaluation_with_base()
    candidate = evaluation.with_id(BASE_DECODER_ID)
    if candidate is None:
        return None
    return fault_of_decoder(candidate, evaluation.candidates[0], PersonFigures.of(evaluation))


def _learn_for_base(evaluator: Evaluator, voice: TunedVoice) -> None:
    """Trains the decoder of the base. An error only costs the decoder."""
    try:
        with Progress("Training a decoder", 100, "%") as progress:
            ask = partial(evaluator.sampler.ask, progress=progress.reach)
            learn_for_base(
                evaluator.run, ask, evaluator.plan.training_clips, voice, evaluator.plan.decoder_steps
            )
    except Exception as error:
        is_interrupted = isinstance(error, WorkerFailed) and error.reason_code == "interrupted"
        if is_interrupted or isinstance(error, GpuLost):
            raise
        log.warning("No decoder was trained: %s", error)


def _source_of_blends(run: RunFolder, evaluation: Evaluation) -> VerifiedCheckpoint | None:
    """The epoch that sounds closest to the person: blending can repair its words."""
    epochs = [candidate for candidate in evaluation.candidates if candidate.kind == "epoch"]
    # Epochs of which most sentences failed come last; before them, those without a figure for the
    # voice.
    ranked = sorted(
        epochs,
        key=lambda candidate: (
            2 * candidate.num_failed > len(candidate.sentences),
            VOICE not in candidate.judges,
            -candidate.mean(VOICE),
        ),
    )
    for candidate in ranked:
        epoch = run.verified(candidate.epoch)
        if epoch and epoch.sha256 == candidate.checkpoint_sha256:
            return epoch
    return None
