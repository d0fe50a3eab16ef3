"""Ends an evaluation: judges the remaining candidates, trains decoders, keeps the best weights.

`conclude` runs when a run ends and in `python -m train evaluate`. Each part first checks the files
on disk, so it can be repeated after a kill.

    decoder     trained for the base's weights (LEARN_DECODER), so that the base with it is a
                candidate; as that of an epoch, it is used if it reproduces clips outside its
                training set more closely
    blends      of the base and an epoch (BLEND), written to best.pt if one is best
    speakers    each further speaker of the dataset (`xtts.voices.speakers`) speaks the same
                sentences with the base, with the best weights, and with a decoder trained on their
                clips. All speakers share the weights; each has a separate decoder and verdict
"""

import logging
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from machine import commands
from machine.devices.recovery import GpuLost
from machine.storage.checksums import sha256_of, zip_fault
from machine.storage.files import crash_point, replace_file
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation import judges
from train.evaluation.evaluator import Evaluator
from train.evaluation.floors import PersonFigures, fault_of_decoder
from train.evaluation.judges import NATURALNESS, VOICE, WORD_ERRORS, less_natural
from train.evaluation.plan import VoiceScale
from train.evaluation.verdict import evaluation_table, is_harder
from train.progress import Progress
from train.sampling.decoders import (
    clips_to_learn_from,
    learn,
    learn_for_base,
    leave_out,
    minutes_of,
    newest_state,
    request_for,
)
from train.sampling.reference import MAX_COMPARED
from train.sampling.samples import Samples
from train.settings import TrainSettings
from xtts.model.blending import blend
from xtts.model.config import ModelConfig
from xtts.model.loading import read_tensors
from xtts.voices import learned_decoder, speakers
from xtts.voices.evaluation_file import (
    BASE_DECODER_ID,
    Candidate,
    Evaluation,
    MeanInterval,
    SpeakerFigures,
    SpeakerJudgement,
    SpokenSentence,
    Verdict,
)
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunError, RunFolder, VerifiedCheckpoint, read_checkpoint
from xtts.workers.decoder_schedule import steps_for, steps_until
from xtts.workers.failures import WorkerFailed
from xtts.workers.requests import DecoderLearned, LearnDecoderRequest, TunedVoice

log = logging.getLogger("train")

# Interpolation weights of BLEND=auto, the largest first.
AUTO_SHARES = (0.7, 0.5, 0.3)
# The fewest clips for a speaker's decoder, including some that only judge it.
MIN_CLIPS = 6
# A run begins no further speaker after this time for each, and for at most this number of speakers.
SPEAKER_SECONDS, MAX_SPEAKERS = 150.0, 5


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
    if not evaluator.working:
        return
    if not evaluator.plan.learns_decoder and settings.learn_decoder != "off":
        log.info("LEARN_DECODER: off (recommended by the base model)")
    if not evaluator.plan.learns_decoder:
        learned_decoder.remove(evaluator.run.decoder_path(0))
        evaluator.run.decoder_state_path(0).unlink(missing_ok=True)
    judge_rest(evaluator, shares_of(settings.blend))
    evaluator.attempt(evaluator.judge_further)
    evaluation = evaluator.evaluation()
    verdict = evaluation.verdict if evaluation else None
    if evaluation is None or verdict is None:
        return
    trained = False
    try:
        # Before best.json names a blend: the service loads it together with its decoder.
        trained = keep_best_decoder(evaluator, verdict)
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
        through = " through the decoder trained on the clips" if trained else ""
        recording = evaluator.plan.reference.path
        log.info("The base speaks with the voice of %s%s.", recording, through)


def seconds_left(evaluator: Evaluator, settings: TrainSettings, decoder_step_seconds: float) -> float:
    """The estimated time to end the evaluation, after the last epoch was judged."""
    if not evaluator.working:
        return 0.0
    each, shares = evaluator.candidate_seconds, shares_of(settings.blend)
    evaluation = evaluator.evaluation()
    lost = evaluation is not None and any(
        _lost(evaluation, candidate) for candidate in evaluation.candidates if candidate.kind == "epoch"
    )
    blends = 0 if shares == AUTO_SHARES and not lost else len(shares)
    if evaluator.is_slow:  # the newest epoch and a blend
        blends = 1 + min(blends, 1)
    decoder = 0.0
    if evaluator.plan.learns_decoder:
        # The base also speaks the sentences with the trained decoder.
        steps = _steps_left(evaluator, evaluator.run.decoder_state_epochs())
        decoder = each + steps * decoder_step_seconds
    others = min(MAX_SPEAKERS, len(evaluator.plan.others))
    return blends * each + decoder + others * min(SPEAKER_SECONDS, 2 * each + decoder)


def keep_best_blend(checkpoints: Checkpoints, verdict: Verdict, base: Path) -> None:
    """Writes best.pt if the verdict is a blend that is not on disk yet.

    Raises RunError, ConfigError, DiskFull, WriteError.
    """
    run = checkpoints.run
    if verdict.kind == "blend" and isinstance(fault := run.verify_best(verdict), str):
        best = run.read_best()
        if (best.get("kind"), best.get("epoch")) == ("blend", verdict.epoch):  # it existed
            log.warning("%s It is written again from epoch %d.", fault, verdict.epoch)
        tuned = read_checkpoint(run.checkpoint_path(verdict.epoch))
        unlearned = ModelConfig.read(base).unlearned
        state = blend(read_tensors(base / "model.pth"), tuned.model, verdict.share, unlearned)
        checkpoints.save_blend(verdict, state, tuned.provenance)


# The remaining candidates


def judge_rest(evaluator: Evaluator, shares: Sequence[float]) -> None:
    """Judges the base with a learned decoder, the epochs that were not judged yet, and then
    blends, of these shares, of the base and the epoch that sounds closest to the person.

    If judging is slow, only the newest epoch and the middle blend; evaluation.json names the
    others. If the decoder rules the base out, no epoch keeps its decoder. Waits for the end.
    """
    evaluator.submit(_judge_rest, evaluator, shares)
    evaluator.sampler.finish()


def _judge_rest(evaluator: Evaluator, shares: Sequence[float]) -> None:
    if evaluator.plan.learns_decoder:
        evaluator.attempt(_judge_base_with_decoder, evaluator)
    epochs, newest = evaluator.missing(), max(evaluator.run.epochs(), default=0)
    if evaluator.is_slow:
        epochs = [epoch for epoch in epochs if epoch.epoch == newest]
    evaluation = evaluator.evaluation()
    judged = (
        [candidate.share for candidate in evaluation.candidates if candidate.kind == "blend"]
        if evaluation
        else []
    )
    tried = shares[len(shares) // 2 :][:1] if evaluator.is_slow else shares
    count = (evaluation is None) + len(epochs) + sum(share not in judged for share in tried)
    with Progress("Judging", count, "candidates") as evaluator.progress:
        for epoch in epochs:
            evaluator.attempt(evaluator.judge_candidate, "epoch", epoch, 1.0)
        evaluator.attempt(_judge_blends, evaluator, shares, tried)


def _judge_blends(evaluator: Evaluator, shares: Sequence[float], tried: Sequence[float]) -> None:
    evaluation = evaluator.evaluation()
    chosen = _source_of_blends(evaluator.run, evaluation) if evaluation else None
    if evaluation is None or chosen is None:
        return
    if shares == AUTO_SHARES and not _lost(evaluation, _judged(evaluation, chosen)):
        return
    new = [share for share in shares if evaluator.is_new("blend", chosen, share)]
    for share in new:
        if share in tried:
            evaluator.judge_candidate("blend", chosen, share)
    left = [f"epoch {epoch.epoch}" for epoch in evaluator.missing()]
    left += [f"epoch {chosen.epoch} at {share:.0%}" for share in new if share not in tried]
    evaluation = evaluator.with_base()
    if left != evaluation.left_out:
        evaluator.write(replace(evaluation, left_out=left))


def _judged(evaluation: Evaluation, epoch: VerifiedCheckpoint) -> Candidate:
    """The candidate of an epoch that was judged."""
    return next(
        candidate
        for candidate in evaluation.candidates
        if candidate.kind == "epoch" and candidate.epoch == epoch.epoch
    )


def _lost(evaluation: Evaluation, epoch: Candidate) -> bool:
    """Whether the epoch lost words or endings that the base has, which a blend may bring back."""
    base = evaluation.candidates[0]
    failed = epoch.ruled_out is not None or epoch.num_failed > base.num_failed
    of_person = PersonFigures.of(evaluation).word_errors
    return failed or bool(epoch.old_sentences) or is_harder(epoch, base, of_person)


def _judge_base_with_decoder(evaluator: Evaluator) -> None:
    """Judges the base with a decoder trained on the clips. If that breaks a floor, each epoch
    that breaks one, too, loses its decoder, and is judged again without."""
    whole = evaluator.run.newest_weights()
    if whole is None or not evaluator.with_base().candidates[0].knows_language:
        return
    _learn_for_base(evaluator, evaluator.voice(whole.checkpoint, 0.0))
    if (learned := evaluator.decoder_of(None)) is None:
        return
    done = evaluator.with_base().with_id(BASE_DECODER_ID)
    if done is None or done.decoder != learned.digest:
        evaluator.judge_candidate("base", None, 0.0)
    evaluation = evaluator.with_base()
    other = evaluation.with_id(BASE_DECODER_ID)
    if other is None:
        return
    fault = fault_of_decoder(other, evaluation.candidates[0], PersonFigures.of(evaluation))
    if fault is None:
        return
    passed = {
        candidate.epoch
        for candidate in evaluation.candidates
        if candidate.kind == "epoch" and not candidate.ruled_out
    }
    for epoch in set(evaluator.run.epochs()) - passed:
        if leave_out(evaluator.run.decoder_path(epoch)):
            text = "Epoch %d speaks with the base's decoder, because of the one for the base: %s"
            log.info(text, epoch, fault)


def _learn_for_base(evaluator: Evaluator, voice: TunedVoice) -> None:
    """Trains the decoder of the base. An error only costs the decoder."""
    try:
        with Progress("Training a decoder", 100, "%") as progress:
            ask = partial(evaluator.sampler.ask, progress=progress.reach)
            learn_for_base(evaluator.run, ask, evaluator.plan.training, voice, evaluator.plan.decoder_steps)
    except Exception as error:
        stopped = isinstance(error, WorkerFailed) and error.reason_code == "interrupted"
        if stopped or isinstance(error, GpuLost):
            raise
        log.warning("No decoder was trained: %s", error)


def _source_of_blends(run: RunFolder, evaluation: Evaluation) -> VerifiedCheckpoint | None:
    """The epoch that sounds closest to the person: blending can repair its words."""
    epochs = [candidate for candidate in evaluation.candidates if candidate.kind == "epoch"]
    # Epochs of which most sentences failed come last, before them those without a figure for
    # the voice.
    order = sorted(
        epochs,
        key=lambda candidate: (
            2 * candidate.num_failed > len(candidate.sentences),
            judges.VOICE not in candidate.judges,
            -candidate.mean(judges.VOICE),
        ),
    )
    for candidate in order:
        epoch = run.verified(candidate.epoch)
        if epoch and epoch.sha256 == candidate.checkpoint_sha256:
            return epoch
    return None


# The decoder of the best weights


def keep_best_decoder(evaluator: Evaluator, verdict: Verdict) -> bool:
    """Keeps the verdict's decoder as best_decoder.safetensors, and no other. Whether it has one.

    A decoder that `train learn-decoder` continued from the verdict's stays, unless LEARN_DECODER
    is off. Raises DiskFull, WriteError and, if the decoder is damaged, RunError.
    """
    run, tensors = evaluator.run, evaluator.run.best_decoder
    learned = learned_decoder.read(tensors)
    if learned is not None and learned.weights == verdict.weights:
        continues = learned.continues if evaluator.plan.learns_decoder else None
        if not verdict.decoder:
            return learned.file is not None
        # A kill may have left the record of a refused one, whose tensors are gone.
        if learned.file is not None and verdict.decoder in (learned.digest, continues):
            return True
    learned_decoder.remove(tensors)
    run.best_decoder_state.unlink(missing_ok=True)
    if not verdict.decoder:
        return False
    _copy_judged_decoder(run, verdict)
    return True


def _copy_judged_decoder(run: RunFolder, verdict: Verdict) -> None:
    """Writes the verdict's decoder to best_decoder.safetensors. Raises as `keep_best_decoder`."""
    source, tensors = run.decoder_path(verdict.epoch), run.best_decoder
    record = learned_decoder.read(source)
    if record is None or record.digest != verdict.decoder:
        raise RunError(f"{source}, the decoder of the best weights, is gone or damaged.")
    with source.open("rb") as file:
        replace_file(tensors, partial(shutil.copyfileobj, file))
    crash_point("before decoder record")
    learned_decoder.write(tensors, replace(record, **verdict.weights))


def learn_best_decoder(evaluator: Evaluator, verdict: Verdict, seconds: float) -> bool:
    """Trains the verdict's decoder for this time, and judges it against the base's; if it passes, it
    replaces the last one, and else the verdict's speaks again.

    False if there was no time for a step. Raises as `decoders.learn`, and RunError if the weights
    are gone.
    """
    run, voice = evaluator.run, evaluator.voice_of(verdict)
    clips = clips_to_learn_from(evaluator.plan.training)

    def judge(learned: LearnedDecoder, out: Path) -> LearnedDecoder:
        # Other seeds than the candidates': the weights were chosen by that speech, so it is better
        # than usual, and would be unfair to the decoder.
        count, evaluation = len(evaluator.plan.sentences), evaluator.with_base()
        speak = partial(evaluator.spoken, count=count, evaluation=evaluation, fresh=True)
        before, after = speak(voice), speak(replace(voice, decoder=out))
        gaps, person = judges.differences(after, before), PersonFigures.of(evaluation)
        more = gaps.get(WORD_ERRORS)
        return with_judgement(
            learned,
            gaps,
            misheard=more is not None and person.excuses(judges.mean_of(after, WORD_ERRORS), more),
            rougher_person=person.naturalness_below(judges.mean_of(before, NATURALNESS)),
            scale=evaluator.person.voice,
        )

    states = [run.best_decoder_state]
    if verdict.kind == "base":
        states.append(run.decoder_state_path(0))
    whole = [path for path in states if path.is_file() and zip_fault(path) is None]
    state = whole[0] if whole else newest_state(run)[1]
    request = request_for(clips, voice, steps=None, budget_seconds=seconds, state=state)
    result, outcome = learn(
        partial(_ask, evaluator, ""),
        run.best_decoder,
        {**verdict.weights, "continues": verdict.decoder},
        request,
        state=run.best_decoder_state,
        judge=judge,
        else_stays="the decoder before it" if verdict.decoder else "the base's decoder",
    )
    if outcome is not None and not outcome.is_better and verdict.decoder:
        _copy_judged_decoder(run, verdict)
    return result.new_steps > 0


def _steps_left(evaluator: Evaluator, epochs: Sequence[int]) -> int:
    """The steps of the base's decoder, if it continues that of the newest epoch."""
    minutes = minutes_of(clips_to_learn_from(evaluator.plan.training))
    minute_steps = evaluator.plan.decoder_steps
    before = steps_until(max(epochs), minutes, minute_steps) if epochs else 0
    return max(steps_for(minutes, minute_steps) - before, steps_until(1, minutes, minute_steps))


def _ask(evaluator: Evaluator, whose: str, request: LearnDecoderRequest) -> DecoderLearned:
    of = f" of {whose}" if whose else ""
    # Percent instead of steps: training may end before the last one.
    with Progress(f"Training a decoder{of}", 100, "%") as progress:
        return evaluator.sampler.ask(request, progress.reach)


def with_judgement(
    learned: LearnedDecoder,
    gaps: Mapping[str, MeanInterval],
    *,
    misheard: bool = False,
    rougher_person: float = 0.0,
    scale: VoiceScale | None = None,
) -> LearnedDecoder:
    """Adds the judges' results; "measurably" means that 0 is outside the interval, as in a verdict.

    Args:
        gaps: Figures with the decoder minus those without, the voice as a cosine to the reference.
        misheard, rougher_person: `PersonFigures.excuses` and `naturalness_below`, as in the floors
            of a verdict.
        scale: That of the person's voice, by which nearness is worth a loss of naturalness.
    """
    if (words := gaps.get(WORD_ERRORS)) is not None:
        harder = words.low > 0 and not misheard
        learned = replace(learned, more_word_errors=round(words.mean, 4), harder=harder)
    if (voice := gaps.get(VOICE)) is not None:
        learned = replace(learned, closer_voice=round(voice.mean, 4), less_alike=voice.high < 0)
    if (natural := gaps.get(NATURALNESS)) is not None:
        nearer = scale.part_of_way(voice) if voice and scale else voice
        less = less_natural(natural, nearer, rougher_person)
        learned = replace(learned, more_natural=round(natural.mean, 4), less_natural=less)
    return learned


# The further speakers


def judge_speakers(evaluator: Evaluator, evaluation: Evaluation) -> Evaluation:
    """Adds every further speaker of the run to the evaluation, and writes it after each.

    Speakers that were judged with the same weights and recording stay. In a run, no speaker begins
    after the time limit. After an error, that speaker is left out. Raises only GpuLost.
    """
    verdict, recordings = evaluation.verdict, speakers.read(evaluator.run.folder)
    if verdict is None:
        return evaluation
    named = [name for name in recordings if name in evaluator.plan.others]
    before, late = {row.name: row for row in evaluation.speakers}, []
    rows: list[SpeakerJudgement] = []
    most = SPEAKER_SECONDS * min(MAX_SPEAKERS, len(named)) if evaluator.in_run else math.inf
    until = time.perf_counter() + most
    for name in named:
        row = before.get(name)
        if row is None or not _is_current(row, verdict, recordings[name], evaluator):
            if time.perf_counter() >= until:
                late.append(name)
                continue
            row = _speaker(evaluator, evaluation, verdict, name, recordings[name])
        rows += [row] if row else []
        evaluation = _with_speakers(evaluator, evaluation, rows)
    if late:
        log.info(
            "To save time, these speakers are not judged: %s. `%s` judges them.",
            ", ".join(late),
            commands.program("train evaluate"),
        )
    # Rows of old weights go, even if there was no time for new ones.
    return _with_speakers(evaluator, evaluation, rows)


def _with_speakers(
    evaluator: Evaluator, evaluation: Evaluation, rows: Sequence[SpeakerJudgement]
) -> Evaluation:
    if list(rows) == evaluation.speakers:
        return evaluation
    evaluation = replace(evaluation, speakers=list(rows))
    evaluator.write(evaluation)
    return evaluation


def _is_current(row: SpeakerJudgement, verdict: Verdict, recording: Path, evaluator: Evaluator) -> bool:
    """Whether a row is for these weights and this recording, and no decoder is left to train."""
    if (row.weights, row.reference_sha256) != (verdict.weights, sha256_of(recording)):
        return False
    learns = evaluator.plan.learns_decoder
    # `train evaluate` has the time that a run lacked.
    trains = learns and not evaluator.in_run and row.clips >= MIN_CLIPS
    if row.learned is None and not trains:
        return True
    return learns and learned_decoder.read(speakers.decoder_of(recording)) is not None


def _speaker(
    evaluator: Evaluator, evaluation: Evaluation, verdict: Verdict, name: str, recording: Path
) -> SpeakerJudgement | None:
    """Judges a speaker by the sentences of the candidates and, if decoders learn, trains theirs;
    None, with a line in the log, after an error."""
    count = len(evaluation.candidates[0].sentences)
    clips, tensors = evaluator.plan.others[name], speakers.decoder_of(recording)
    plan = replace(
        evaluator.plan,
        reference=replace(evaluator.plan.reference, path=recording),
        clips=clips,
        training=clips,
        recordings=sorted(clips, key=lambda clip: clip.sha256)[:MAX_COMPARED],
    )
    of_speaker = Evaluator(plan, evaluator.sampler, evaluator.checkpoints)
    learned = list[SpokenSentence]()
    try:
        voice = of_speaker.voice_of(verdict)
        speak = partial(of_speaker.spoken, count=count, evaluation=evaluation)
        base = speak(replace(voice, share=0.0))
        best = base if verdict.kind == "base" else speak(voice)

        def judge(record: LearnedDecoder, out: Path) -> LearnedDecoder:
            learned[:] = speak(replace(voice, decoder=out))
            return with_judgement(record, judges.differences(learned, best))

        learned_decoder.remove(tensors)
        if evaluator.plan.learns_decoder and len(clips) >= MIN_CLIPS:
            learned_clips = clips_to_learn_from(clips)
            request = request_for(
                learned_clips, voice, steps=steps_for(minutes_of(learned_clips), plan.decoder_steps)
            )
            ask = partial(_ask, evaluator, name)
            learn(ask, tensors, verdict.weights, request, judge=judge, whose=name)
    except GpuLost:
        raise
    except Exception as error:
        log.warning("The speaker %s was not judged: %s", name, error)
        return None
    with_decoder = learned if tensors.is_file() else []
    than_base = judges.differences(with_decoder or best, base)
    outcome = _outcome(than_base, bool(with_decoder))
    log.info("%s: %s", name, outcome)
    return SpeakerJudgement(
        name,
        len(clips),
        sha256_of(recording),
        count,
        figures_of(base),
        figures_of(best),
        figures_of(with_decoder) if with_decoder else None,
        than_base,
        outcome,
        verdict.weights,
    )


def figures_of(spoken: Sequence[SpokenSentence]) -> SpeakerFigures:
    """A speaker's figures over the sentences that did not fail."""
    means = judges.means(spoken)
    return SpeakerFigures(means.get(WORD_ERRORS), means.get(VOICE), means.get(NATURALNESS))


def _outcome(than_base: Mapping[str, MeanInterval], learned: bool) -> str:
    """A verdict on the measurable differences in words, voice and naturalness."""
    words, voice = than_base.get(WORD_ERRORS), than_base.get(VOICE)
    worse = (
        (words is not None and words.low > 0, "harder to understand"),
        (voice is not None and voice.high < 0, "less like the speaker"),
        (less_natural(than_base.get(NATURALNESS), voice), "less natural"),
    )
    better = (
        (words is not None and words.high < 0, "easier to understand"),
        (voice is not None and voice.low > 0, "closer to the speaker"),
    )
    measurable = [[what for holds, what in some if holds] for some in (worse, better)]
    measured = " and ".join(measurable[0] or measurable[1])
    who = "The best weights" + (" with a decoder for this speaker" if learned else "")
    if not measured:
        return f"{who} cannot be distinguished from the base."
    return f"{who} are measurably {measured} than the base."
