"""Judges the further speakers of a dataset (`xtts.voices.speakers`), and trains a decoder for each.

Each speaks the sentences of the candidates with the base, with the best weights, and with a decoder
trained on their clips. All speakers share the weights; each has a separate decoder and verdict.
"""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from machine import commands
from machine.devices.recovery import GpuLost
from machine.storage.checksums import sha256_of
from train.evaluation import judges
from train.evaluation.best_decoder import ask_with_progress, with_judgement
from train.evaluation.evaluator import Evaluator
from train.evaluation.judges import NATURALNESS, VOICE, WORD_ERRORS, is_less_natural
from train.sampling.decoders import clips_to_learn_from, learn_decoder, minutes_of, request_for
from train.sampling.reference import MAX_COMPARED
from xtts.voices import learned_decoder, speakers
from xtts.voices.evaluation_file import (
    Evaluation,
    MeanInterval,
    SpeakerFigures,
    SpeakerJudgement,
    SpokenSentence,
    Verdict,
)
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.workers.decoder_schedule import steps_for

log = logging.getLogger("train")

# The fewest clips for a speaker's decoder, including some that only judge it.
MIN_DECODER_CLIPS = 6
# A run begins no further speaker after this time for each, and for at most this number of speakers.
SPEAKER_SECONDS, MAX_SPEAKERS = 150.0, 5


def judge_speakers(evaluator: Evaluator, evaluation: Evaluation) -> Evaluation:
    """Adds every further speaker of the run to the evaluation, and writes it after each.

    Speakers that were judged with the same weights and recording stay. In a run, no speaker begins
    after the time limit. After an error, that speaker is left out. Raises only GpuLost.
    """
    verdict, recordings = evaluation.verdict, speakers.read(evaluator.run.folder)
    if verdict is None:
        return evaluation
    names = [name for name in recordings if name in evaluator.plan.clips_by_speaker]
    earlier, unjudged = {judgement.name: judgement for judgement in evaluation.speakers}, []
    judgements: list[SpeakerJudgement] = []
    time_limit = SPEAKER_SECONDS * min(MAX_SPEAKERS, len(names)) if evaluator.in_run else math.inf
    deadline = time.perf_counter() + time_limit
    for name in names:
        judgement = earlier.get(name)
        if judgement is None or not _is_current(judgement, verdict, recordings[name], evaluator):
            if time.perf_counter() >= deadline:
                unjudged.append(name)
                continue
            judgement = _judge_speaker(evaluator, evaluation, verdict, name, recordings[name])
        judgements += [judgement] if judgement else []
        evaluation = _write_speakers(evaluator, evaluation, judgements)
    if unjudged:
        log.info(
            "To save time, these speakers are not judged: %s. `%s` judges them.",
            ", ".join(unjudged),
            commands.program("train evaluate"),
        )
    # Judgements of old weights go, even if there was no time for new ones.
    return _write_speakers(evaluator, evaluation, judgements)


def _write_speakers(
    evaluator: Evaluator, evaluation: Evaluation, judgements: Sequence[SpeakerJudgement]
) -> Evaluation:
    if list(judgements) == evaluation.speakers:
        return evaluation
    evaluation = replace(evaluation, speakers=list(judgements))
    evaluator.write(evaluation)
    return evaluation


def _is_current(judgement: SpeakerJudgement, verdict: Verdict, recording: Path, evaluator: Evaluator) -> bool:
    """Whether it is for these weights and this recording, and no decoder is left to train."""
    if (judgement.weights, judgement.reference_sha256) != (verdict.weights, sha256_of(recording)):
        return False
    learns_decoder = evaluator.plan.learns_decoder
    # `train evaluate` has the time that a run lacked.
    has_time = learns_decoder and not evaluator.in_run and judgement.clips >= MIN_DECODER_CLIPS
    if judgement.learned is None and not has_time:
        return True
    return learns_decoder and learned_decoder.read(speakers.decoder_of(recording)) is not None


def _judge_speaker(
    evaluator: Evaluator, evaluation: Evaluation, verdict: Verdict, name: str, recording: Path
) -> SpeakerJudgement | None:
    """Judges a speaker by the sentences of the candidates; if decoders learn, also with a decoder
    trained on their clips. Logs an error and returns None."""
    count = len(evaluation.candidates[0].sentences)
    clips, tensors = evaluator.plan.clips_by_speaker[name], speakers.decoder_of(recording)
    plan = replace(
        evaluator.plan,
        reference=replace(evaluator.plan.reference, path=recording),
        clips=clips,
        training_clips=clips,
        compared_clips=sorted(clips, key=lambda clip: clip.sha256)[:MAX_COMPARED],
    )
    speaker_evaluator = Evaluator(plan, evaluator.sampler, evaluator.checkpoints)
    spoken_with_decoder = list[SpokenSentence]()
    try:
        voice = speaker_evaluator.voice_of(verdict)
        speak = partial(speaker_evaluator.speak_and_judge, count=count, evaluation=evaluation)
        base = speak(replace(voice, share=0.0))
        best = base if verdict.kind == "base" else speak(voice)

        def judge(record: LearnedDecoder, draft: Path) -> LearnedDecoder:
            spoken_with_decoder[:] = speak(replace(voice, decoder=draft))
            return with_judgement(record, judges.differences(spoken_with_decoder, best))

        learned_decoder.remove(tensors)
        if evaluator.plan.learns_decoder and len(clips) >= MIN_DECODER_CLIPS:
            decoder_clips = clips_to_learn_from(clips)
            steps = steps_for(minutes_of(decoder_clips), plan.decoder_steps)
            request = request_for(decoder_clips, voice, steps=steps)
            ask = partial(ask_with_progress, evaluator, name)
            learn_decoder(ask, tensors, verdict.weights, request, judge=judge, subject=name)
    except GpuLost:
        raise
    except Exception as error:
        log.warning("The speaker %s was not judged: %s", name, error)
        return None
    with_decoder = spoken_with_decoder if tensors.is_file() else []
    than_base = judges.differences(with_decoder or best, base)
    sentence = _verdict_sentence(than_base, has_decoder=bool(with_decoder))
    log.info("%s: %s", name, sentence)
    return SpeakerJudgement(
        name=name,
        clips=len(clips),
        reference_sha256=sha256_of(recording),
        sentences=count,
        base=figures_of(base),
        best=figures_of(best),
        learned=figures_of(with_decoder) if with_decoder else None,
        than_base=than_base,
        verdict=sentence,
        weights=verdict.weights,
    )


def figures_of(spoken: Sequence[SpokenSentence]) -> SpeakerFigures:
    """A speaker's figures over the sentences that did not fail."""
    means = judges.judge_means(spoken)
    return SpeakerFigures(means.get(WORD_ERRORS), means.get(VOICE), means.get(NATURALNESS))


def _verdict_sentence(than_base: Mapping[str, MeanInterval], *, has_decoder: bool) -> str:
    """A sentence on the measurable differences in words, voice and naturalness."""
    words, voice = than_base.get(WORD_ERRORS), than_base.get(VOICE)
    worse = (
        (words is not None and words.low > 0, "harder to understand"),
        (voice is not None and voice.high < 0, "less like the speaker"),
        (is_less_natural(than_base.get(NATURALNESS), voice), "less natural"),
    )
    better = (
        (words is not None and words.high < 0, "easier to understand"),
        (voice is not None and voice.low > 0, "closer to the speaker"),
    )
    losses, gains = ([phrase for holds, phrase in phrases if holds] for phrases in (worse, better))
    differences = " and ".join(losses or gains)
    subject = "The best weights" + (" with a decoder for this speaker" if has_decoder else "")
    if not differences:
        return f"{subject} cannot be distinguished from the base."
    return f"{subject} are measurably {differences} than the base."
