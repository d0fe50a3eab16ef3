"""Judges the best weights for each further speaker of a dataset, and trains their decoders.

The candidates of an evaluation and the samples speak as one speaker. Here, each of the others
(`xtts.voices.speakers`) speaks the same sentences with the base, with the best weights, and with a
decoder trained on that speaker's clips. All speakers share the weights; each has a separate decoder
and verdict.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from machine import commands
from machine.devices.cuda_errors import GpuLost
from machine.storage.hashes import sha256_of
from train import defaults
from train.dataset.dataset import Clip
from train.evaluation import judges
from train.evaluation.evaluator import Evaluator
from train.evaluation.judges import NATURALNESS, VOICE, WORD_ERRORS, differences, less_natural
from train.evaluation.person import MOST_RECORDINGS
from train.evaluation.person_decoder import (
    RUN_SECONDS,
    UNBOUNDED_SECONDS,
    learn_decoder,
    request_of,
)
from train.settings import TrainSettings
from xtts.voices import learned_decoder, speakers
from xtts.voices.evaluation_file import (
    Evaluation,
    MeanInterval,
    SpeakerFigures,
    SpeakerJudgement,
    SpokenSentence,
    Verdict,
    write_evaluation,
)
from xtts.voices.run_folder import RunError

log = logging.getLogger("train")

# The fewest clips for a decoder, including some that only judge it.
FEWEST_CLIPS = 6
# The time limit of a run: for each speaker, and for at most this number of speakers.
SPEAKER_SECONDS, MOST_SPEAKERS = 150.0, 5


def judge_speakers(evaluator: Evaluator, known: Evaluation, settings: TrainSettings) -> Evaluation:
    """Adds every further speaker of the run to the evaluation, and writes it after each.

    Speakers that were judged with the same weights and recording stay. In a run, no speaker begins
    after the time limit. After an error, that speaker is left out. Raises only GpuLost.
    """
    verdict, recordings = known.verdict, speakers.read(evaluator.run.folder)
    if verdict is None:
        return known
    others = evaluator.plan.others
    named = {name: others[name] for name in recordings if name in others}
    before, rows, late = {one.name: one for one in known.speakers}, [], []
    most = SPEAKER_SECONDS * min(MOST_SPEAKERS, len(named)) if evaluator.in_run else math.inf
    until = time.perf_counter() + most
    for number, (name, clips) in enumerate(named.items()):
        of_speaker = _evaluator_of(evaluator, recordings[name], clips)
        row = before.get(name)
        if row is None or not _is_current(row, verdict, of_speaker, settings, evaluator.in_run):
            left = (until - time.perf_counter()) / (len(named) - number)
            if left <= 0:
                late.append(name)
                continue
            seconds = min(left, RUN_SECONDS if evaluator.in_run else UNBOUNDED_SECONDS)
            seconds = seconds if settings.learn_decoder != "off" else 0.0
            # The same number of sentences as for every candidate.
            count = len(known.candidates[0].sentences)
            judge = partial(_judge, of_speaker, verdict, count, defaults.DECODER_CLIPS)
            row = _judged(partial(judge, name, seconds), name)
        if row is not None:
            rows.append(row)
            known = replace(known, speakers=rows)
            write_evaluation(evaluator.run.evaluation_file, known)
    if late:
        log.info(
            "To save time, these speakers are not judged: %s. `%s` judges them.",
            ", ".join(late), commands.program("train evaluate"),
        )  # fmt: skip
    if known.speakers != rows:  # rows of old weights, and no time for new ones
        known = replace(known, speakers=rows)
        write_evaluation(evaluator.run.evaluation_file, known)
    return known


def _evaluator_of(evaluator: Evaluator, recording: Path, clips: Sequence[Clip]) -> Evaluator:
    """An evaluator that speaks the same sentences as another speaker, without a run's limits."""
    plan = evaluator.plan
    some = sorted(clips, key=lambda clip: clip.sha256)[:MOST_RECORDINGS]
    plan = replace(
        plan, reference=replace(plan.reference, path=recording), clips=clips, recordings=some
    )
    return Evaluator(plan, evaluator.sampler, evaluator.checkpoints)


def _is_current(
    row: SpeakerJudgement,
    verdict: Verdict,
    evaluator: Evaluator,
    settings: TrainSettings,
    in_run: bool,
) -> bool:
    """Whether a row is for these weights and this recording, and no decoder is left to train."""
    recording, learns = evaluator.plan.reference.path, settings.learn_decoder != "off"
    if (row.weights, row.reference_sha256) != (verdict.weights, sha256_of(recording)):
        return False
    record = learned_decoder.read(speakers.decoder_of(recording))
    if row.learned is not None:
        return learns and record is not None
    # `train evaluate` has the time that a run lacked.
    wanted = learns and not in_run and row.clips >= FEWEST_CLIPS
    return record is not None or not wanted


def _judged(judge: Callable[[], SpeakerJudgement], name: str) -> SpeakerJudgement | None:
    """The speaker's row; None, with a line in the log, if judging failed."""
    try:
        return judge()
    except GpuLost:
        raise
    except Exception as error:
        log.warning("The speaker %s was not judged: %s", name, error)
        return None


def _judge(
    evaluator: Evaluator,
    verdict: Verdict,
    count: int,
    most_clips: int,
    name: str,
    seconds: float,
) -> SpeakerJudgement:
    weights = evaluator.weights_of(verdict)
    if weights is None:
        raise RunError("The checkpoint of the best weights is gone.")
    base = evaluator.spoken(weights[0], 0.0, count)
    best = base if verdict.kind == "base" else evaluator.spoken(*weights, count)
    learned = _learned(evaluator, verdict, weights, most_clips, name, best, seconds)
    than_base = differences(best if learned is None else learned, base)
    outcome = _sentence(than_base, learned is not None)
    log.info("%s: %s", name, outcome)
    reference = evaluator.plan.reference.path
    return SpeakerJudgement(
        name, len(evaluator.plan.clips), sha256_of(reference), count,
        _figures(base), _figures(best), None if learned is None else _figures(learned),
        than_base, outcome, verdict.weights,
    )  # fmt: skip


def _learned(
    evaluator: Evaluator,
    verdict: Verdict,
    weights: tuple[Path, float],
    most_clips: int,
    name: str,
    best: Sequence[SpokenSentence],
    seconds: float,
) -> list[SpokenSentence] | None:
    """The sentences with a decoder trained for the speaker. None if there are too few clips or
    there is no time, or if the decoder is not better than the base's."""
    tensors, spoken = speakers.decoder_of(evaluator.plan.reference.path), list[SpokenSentence]()
    learned_decoder.remove(tensors)
    if not seconds or len(evaluator.plan.clips) < FEWEST_CLIPS:
        return None

    def judge(decoder: Path) -> Mapping[str, MeanInterval]:
        spoken[:] = evaluator.spoken(*weights, len(best), decoder)
        return differences(spoken, best)

    request = request_of(evaluator, verdict, tensors, most_clips, seconds)
    learn_decoder(evaluator, verdict, tensors, request, judge, name)
    return spoken if tensors.is_file() else None


def _figures(spoken: Sequence[SpokenSentence]) -> SpeakerFigures:
    means = judges.means(spoken)
    return SpeakerFigures(means.get(WORD_ERRORS), means.get(VOICE), means.get(NATURALNESS))


def _sentence(than_base: Mapping[str, MeanInterval], learned: bool) -> str:
    """A verdict on the measurable differences in words, voice and naturalness."""
    words, voice = than_base.get(WORD_ERRORS), than_base.get(VOICE)
    worse = [
        what for what, holds in (
            ("harder to understand", words is not None and words.low > 0),
            ("less like the speaker", voice is not None and voice.high < 0),
            ("less natural", less_natural(than_base.get(NATURALNESS))),
        ) if holds
    ]  # fmt: skip
    better = [
        what for what, holds in (
            ("easier to understand", words is not None and words.high < 0),
            ("closer to the speaker", voice is not None and voice.low > 0),
        ) if holds
    ]  # fmt: skip
    how = "the best weights with a decoder for this speaker" if learned else "the best weights"
    said = " and ".join(worse or better)
    how += (
        f" are measurably {said} than the base"
        if said
        else " cannot be distinguished from the base"
    )
    return f"{how.capitalize()}."
