"""Judges the best weights as each further speaker of a dataset, and trains their decoders.

The candidates of an evaluation are judged by one speaker, whom the samples are spoken as. Here each
of the others (`xtts.voices.speakers`) says the same sentences by the base, by the best weights, and
with a decoder that learns from their own clips. All speakers share the weights; each has a decoder
and a verdict of their own.
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
from train.dataset.dataset import Clip
from train.evaluation import judges
from train.evaluation.budget import LEAST_LEARNING_SHARE, MOST_LEARNING_SECONDS, JudgingBudget
from train.evaluation.evaluator import Evaluator
from train.evaluation.judges import NATURALNESS, VOICE, WORD_ERRORS, less_natural
from train.evaluation.person import MOST_RECORDINGS
from train.evaluation.person_decoder import UNBOUNDED_SECONDS, learn_decoder, request_of
from train.settings import TrainSettings
from xtts.voices import learned_decoder, speakers
from xtts.voices.evaluation_file import (
    Evaluation,
    MeanInterval,
    SpeakerFigures,
    SpeakerJudgement,
    Verdict,
    write_evaluation,
)
from xtts.voices.run_folder import RunError
from xtts.workers.requests import SpokenFacts

log = logging.getLogger("train")

# A decoder learns from at least so many clips, some of which only judge.
FEWEST_CLIPS = 6


def judge_speakers(evaluator: Evaluator, known: Evaluation, settings: TrainSettings) -> Evaluation:
    """The evaluation with every further speaker of the run, which is written after each of them.

    Those that were judged with the same weights and recording stay. With a budget, each has an
    equal part of `JudgingBudget.speakers_seconds`; a fault costs one speaker. Raises GpuLost only.
    """
    verdict, recordings = known.verdict, speakers.read(evaluator.run.folder)
    if verdict is None:
        return known
    others = evaluator.plan.others
    named = {name: others[name] for name in recordings if name in others}
    before, rows, late = {one.name: one for one in known.speakers}, [], []
    budget = evaluator.budget
    until = time.perf_counter() + budget.speakers_seconds if budget else math.inf
    for number, (name, clips) in enumerate(named.items()):
        of_speaker = _evaluator_of(evaluator, recordings[name], clips)
        row = before.get(name)
        if row is None or not _is_current(row, verdict, of_speaker, settings, budget is None):
            left = (until - time.perf_counter()) / (len(named) - number)
            seconds = _learning_seconds(budget, left, _count(known), settings)
            if seconds is None:
                late.append(name)
                continue
            judge = partial(_judge, of_speaker, verdict, _count(known), settings.decoder_clips)
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
    if known.speakers != rows:  # rows of other weights, and no time for new ones
        known = replace(known, speakers=rows)
        write_evaluation(evaluator.run.evaluation_file, known)
    return known


def _evaluator_of(evaluator: Evaluator, recording: Path, clips: Sequence[Clip]) -> Evaluator:
    """One that speaks the same sentences as another speaker, and always all of them."""
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
    unlimited: bool,
) -> bool:
    """Whether a row is of these weights and this recording, and nothing is left to learn."""
    recording, learns = evaluator.plan.reference.path, settings.learn_decoder != "off"
    if (row.weights, row.reference_sha256) != (verdict.weights, sha256_of(recording)):
        return False
    record = learned_decoder.read(speakers.decoder_of(recording))
    if row.learned is not None:
        return learns and record is not None
    # `train evaluate` has the time that a run had not.
    wanted = learns and unlimited and row.clips >= FEWEST_CLIPS
    return record is not None or not wanted


def _learning_seconds(
    budget: JudgingBudget | None, left: float, count: int, settings: TrainSettings
) -> float | None:
    """The time limit for training one speaker's decoder, 0 for none; None where not even the base
    and the best weights can speak `count` sentences in the seconds that are left."""
    learns = settings.learn_decoder != "off"
    if budget is None:
        return UNBOUNDED_SECONDS if learns else 0.0
    speaking = budget.candidate_seconds(count)
    if left <= 2 * speaking:
        return None
    seconds = min(MOST_LEARNING_SECONDS, left - 3 * speaking)
    enough = seconds >= LEAST_LEARNING_SHARE * budget.learning_seconds()
    return seconds if learns and enough else 0.0


def _count(known: Evaluation) -> int:
    """How many sentences: as many as every candidate."""
    return len(known.candidates[0].sentences)


def _judged(judge: Callable[[], SpeakerJudgement], name: str) -> SpeakerJudgement | None:
    """The speaker's row; None, with a line in the log, where it could not be judged."""
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
    than_base = judges.changed_by_decoder(
        best if learned is None else learned, base, evaluator.person, evaluator.reference
    )
    outcome = _sentence(than_base, learned is not None)
    log.info("%s: %s", name, outcome)
    reference = evaluator.plan.reference.path
    return SpeakerJudgement(
        name, len(evaluator.plan.clips), sha256_of(reference), count,
        _figures(evaluator, base), _figures(evaluator, best),
        None if learned is None else _figures(evaluator, learned),
        than_base, outcome, verdict.weights,
    )  # fmt: skip


def _learned(
    evaluator: Evaluator,
    verdict: Verdict,
    weights: tuple[Path, float],
    most_clips: int,
    name: str,
    best: Sequence[SpokenFacts],
    seconds: float,
) -> list[SpokenFacts] | None:
    """The sentences with a decoder learned for the speaker; None where the base's decoder speaks:
    for few clips, without time, or where the learned one is not better."""
    tensors, spoken = speakers.decoder_of(evaluator.plan.reference.path), list[SpokenFacts]()
    learned_decoder.remove(tensors)
    if not seconds or len(evaluator.plan.clips) < FEWEST_CLIPS:
        return None

    def judge(decoder: Path) -> Mapping[str, MeanInterval]:
        spoken[:] = evaluator.spoken(*weights, len(best), decoder)
        return judges.changed_by_decoder(spoken, best, evaluator.person, evaluator.reference)

    request = request_of(evaluator, verdict, tensors, most_clips, seconds)
    learn_decoder(evaluator, verdict, tensors, request, judge, name)
    return spoken if tensors.is_file() else None


def _figures(evaluator: Evaluator, facts: Sequence[SpokenFacts]) -> SpeakerFigures:
    finished = [how == "finished" for how in judges.outcomes_of(facts, evaluator.person)]

    def mean(values: Sequence[float | None]) -> MeanInterval | None:
        return judges.mean_interval(
            [one for one, ended in zip(values, finished, strict=True) if ended and one is not None]
        )

    return SpeakerFigures(
        mean([one.word_errors for one in facts]),
        mean(judges.likeness(facts, evaluator.reference)),
        mean([one.naturalness for one in facts]),
    )


def _sentence(than_base: Mapping[str, MeanInterval], learned: bool) -> str:
    """What is measurable, by words, voice and naturalness, as a verdict says it."""
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
    how = "the best weights with a decoder of its own" if learned else "the best weights"
    said = " and ".join(worse or better)
    how += f" are measurably {said} than the base" if said else " cannot be told from the base"
    return f"{how.capitalize()}."
