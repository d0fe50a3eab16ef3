"""`python -m train evaluate` and `learn-decoder`: judge or complete a finished run.

`evaluate` judges all remaining candidates, even if judging is slow. The first evaluation of a run
speaks every sentence of the set; later ones speak the same number as the first. `learn-decoder`
trains the decoder of the best weights again, with other clips or more time.
"""

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from machine import commands
from train import defaults
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation import person_decoder
from train.evaluation.blending import conclude
from train.evaluation.evaluator import Evaluator
from train.evaluation.plan import plan_of
from train.evaluation.report import line
from train.resilience.at_work import at_work
from train.sampling.sampler import speaking_sampler
from train.settings import TrainSettings
from train.setup import context_of_run
from xtts.voices.run_folder import RunError, RunFolder

log = logging.getLogger("train")


def evaluate(settings: TrainSettings, *, as_json: bool) -> int:
    """Judges all remaining candidates, and prints the table or JSON.

    Raises:
        RunError: there is nothing to judge, or a trainer is using the run.
        SotaqueError: the run has another dataset or base.
    """
    with _opened(settings) as (evaluator, base):
        conclude(evaluator, settings, base)
    known = evaluator.run.evaluation()
    if known is None:
        raise RunError("Nothing could be judged. The log above gives the reason.")
    if as_json:
        sys.stdout.write(json.dumps(asdict(known), indent=2, ensure_ascii=False) + "\n")
    return 0


def learn_decoder(settings: TrainSettings, *, minutes: float | None) -> int:
    """Trains a decoder for the best weights on up to 64 clips, and speaks the best sample.

    minutes: the time limit. Raises as `evaluate`, and RunError if nothing was judged yet.
    """
    seconds = person_decoder.UNBOUNDED_SECONDS if minutes is None else 60 * minutes
    with _opened(settings) as (evaluator, _):
        known = evaluator.run.evaluation()
        if known is None or known.verdict is None:
            raise RunError(
                f"{evaluator.run.folder} was not evaluated, so its best weights are unknown. Run "
                f"`{commands.program('train evaluate')}`, which judges them and trains a decoder."
            )
        clips = defaults.DECODER_CLIPS
        if not person_decoder.learn_best_decoder(evaluator, known.verdict, clips, seconds):
            raise RunError(
                f"{seconds / 60:g} minutes were not enough to train a decoder. Set a longer time "
                "with --minutes."
            )
        if best := evaluator.run.best_weights():
            evaluator.sampler.sample_best(best)
            evaluator.sampler.finish()
    return 0


@contextlib.contextmanager
def _opened(settings: TrainSettings) -> Iterator[tuple[Evaluator, Path]]:
    """A run's evaluator for all sentences, and its base. The run is locked against a trainer."""
    folder = RunFolder(settings.output_dir)
    newest = folder.newest_whole()
    if newest is None:
        raise RunError(
            f"{folder.folder} holds no epoch yet. Train one with `{commands.make('train')}`."
        )
    with folder.lock():
        context = context_of_run(settings, folder)
        sampler = speaking_sampler(settings, context, folder)
        with at_work(settings.cache_dir, sampler.plan.device, folder.folder), sampler:
            yield (
                Evaluator(
                    plan_of(
                        settings,
                        context.data,
                        sampler.reference,
                        dict(newest.manifest.base),
                        context.config,
                    ),
                    sampler,
                    Checkpoints(folder, settings.keep_checkpoints, settings.save_every),
                    lambda evaluation, candidate: log.info(line(evaluation, candidate)),
                ),
                context.base,
            )
