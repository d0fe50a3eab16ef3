"""What is learned of the person for the best weights of a run, beside the weights: a speaker
embedding.

The last step of an evaluation (`train.evaluation.blending`); whether it is learned, judged and kept
is decided here alone. Spoken with is one with which clips that it did not learn from are nearer to
what the person said, and the evaluation's sentences not measurably harder to understand; every
other outcome leaves the recording's own embedding, and is kept as well, so that no later start
looks again.
"""

import logging
import time

from machine.devices.cuda_errors import GpuLost
from machine.storage.atomic import crash_point
from train.evaluation.budget import MOST_LEARNING_SECONDS
from train.evaluation.evaluator import Evaluator
from xtts.voices import learned_speaker
from xtts.voices.evaluation_file import Verdict
from xtts.voices.learned_speaker import LearnedSpeaker
from xtts.voices.run_folder import RunError
from xtts.workers.requests import LearnSpeakerRequest, TranscribedClip

log = logging.getLogger("train")

# More say nothing new about one person, and each is spoken once by the GPT.
MOST_CLIPS = 64


def keep_best_speaker(evaluator: Evaluator, verdict: Verdict, *, wanted: bool) -> None:
    """Writes best_speaker.json for the verdict's weights where it is not there yet, and removes one
    of other weights or where none is `wanted` (LEARN_SPEAKER). Raises GpuLost alone: a fault costs
    the embedding."""
    path = evaluator.run.best_speaker
    known = learned_speaker.read(path)
    if wanted and known is not None and known.weights == verdict.weights:
        return
    try:
        path.unlink(missing_ok=True)
        if wanted:
            _learn(evaluator, verdict)
    except GpuLost:
        raise
    except Exception as error:
        log.warning("No speaker embedding was learned: %s", error)


def _learn(evaluator: Evaluator, verdict: Verdict) -> None:
    """Raises WorkerFailed, RunError, GpuLost, DiskFull, WriteError."""
    seconds, budget = MOST_LEARNING_SECONDS, evaluator.budget
    if budget:
        seconds = min(seconds, budget.learning_room())
        if seconds <= 0:
            log.info("No speaker embedding is learned: there is no time left for judging.")
            return
    started = time.perf_counter()
    found = evaluator.sampler.ask(_request(evaluator, verdict, seconds))
    lost = evaluator.word_errors_with(verdict, found.embedding)
    learned = LearnedSpeaker(
        **verdict.weights,
        speaker_embedding=found.embedding,
        distance_before=found.distance_before,
        distance_after=found.distance_after,
        clips=found.clips,
        more_word_errors=None if lost is None else round(lost.mean, 4),
        harder=lost is not None and lost.low > 0,
    )
    if budget:
        budget.spend(time.perf_counter() - started)
    crash_point("before speaker")
    learned_speaker.write(evaluator.run.best_speaker, learned)
    log.info("%s", _told(learned, found.seconds))


def _told(learned: LearnedSpeaker, seconds: float) -> str:
    distance = f"{learned.distance_before:.3f} to {learned.distance_after:.3f}"
    if not learned.nearer:
        return f"No speaker embedding nearer to the person was found (distance {distance})."
    told = (
        f"Speaker embedding learned from {learned.clips} clips in {seconds:.0f} s; spectral "
        f"distance of clips that it did not learn from: {distance}"
    )
    if learned.more_word_errors is not None:
        told += f"; word errors of the sentences with it: {learned.more_word_errors:+.0%}"
    return f"{told}. It is harder to understand and is left out." if learned.harder else f"{told}."


def _request(evaluator: Evaluator, verdict: Verdict, seconds: float) -> LearnSpeakerRequest:
    found = evaluator.weights_of(verdict)
    if found is None:
        raise RunError("The weights that it is for are gone.")
    weights, share = found
    # By content, so that the same clips are taken whatever they are called and however they stand.
    clips = sorted(evaluator.plan.clips, key=lambda clip: clip.sha256)[:MOST_CLIPS]
    return LearnSpeakerRequest(
        clips=tuple(TranscribedClip(one.path, one.text, one.language) for one in clips),
        reference=evaluator.plan.reference.path,
        weights=None if verdict.kind == "base" else weights,
        share=share,
        budget_seconds=seconds,
    )
