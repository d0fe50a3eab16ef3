"""`python -m train evaluate`, `learn-decoder` and `sample`, which work on a saved run.

`evaluate` judges all remaining candidates, even if judging is slow. The first evaluation of a run
speaks every sentence of the set; later ones speak the same number as the first. `learn-decoder`
trains the decoder of the best weights again, with more time. `sample` speaks with a saved epoch
into `samples/on_demand/epoch_N_<hash>.wav`, with its reference and sidecar. The hash covers the
whole request. The samples of the run stay.
"""

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from machine import commands
from machine.storage.reading import read_json
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation import conclusion, report
from train.evaluation.evaluator import Evaluator
from train.evaluation.plan import plan_of
from train.resilience.at_work import at_work
from train.run_context import RunContext
from train.sampling.sample_files import on_demand
from train.sampling.sampler import Sampler, sampler_of
from train.settings import TrainSettings
from train.setup import context_of_run
from xtts.voices.evaluation_file import read_evaluation
from xtts.voices.run_folder import RunError, RunFolder, Verified

log = logging.getLogger("train")


def evaluate(settings: TrainSettings, *, as_json: bool) -> int:
    """Judges all remaining candidates, and prints the table or JSON.

    Raises:
        RunError: there is nothing to judge, or a trainer is using the run.
        SotaqueError: the run has another dataset or base.
    """
    with _evaluator(settings) as (evaluator, base):
        conclusion.conclude(evaluator, settings, base)
    known = read_evaluation(evaluator.run.evaluation_file)
    if known is None:
        raise RunError("Nothing could be judged. The log above gives the reason.")
    if as_json:
        sys.stdout.write(json.dumps(asdict(known), indent=2, ensure_ascii=False) + "\n")
    return 0


def learn_decoder(settings: TrainSettings, *, minutes: float | None) -> int:
    """Trains a decoder for the best weights on up to 64 clips, and speaks the best sample.

    minutes: the time limit. Raises as `evaluate`, and RunError if nothing was judged yet.
    """
    seconds = conclusion.UNBOUNDED_SECONDS if minutes is None else 60 * minutes
    with _evaluator(settings) as (evaluator, _):
        known = read_evaluation(evaluator.run.evaluation_file)
        if known is None or known.verdict is None:
            raise RunError(
                f"{evaluator.run.folder} was not evaluated, so its best weights are unknown. Run "
                f"`{commands.program('train evaluate')}`, which judges them and trains a decoder."
            )
        if not conclusion.learn_best_decoder(evaluator, known.verdict, seconds):
            raise RunError(
                f"{seconds / 60:g} minutes were not enough to train a decoder. Set a longer time "
                "with --minutes."
            )
        evaluator.sampler.sample_best()
    return 0


def sample(settings: TrainSettings, *, epoch: int | None) -> int:
    """Speaks with `epoch`, or with the newest complete one. Raises RunError if nothing can speak,
    SotaqueError for a run of another dataset or base."""
    folder = RunFolder(settings.output_dir)
    saved = _saved(folder, epoch)
    with _speaking(settings, folder) as (_, sampler):
        plan, reference = sampler.plan, sampler.reference
        files = on_demand(
            folder, saved.epoch,
            (saved.sha256, reference.text, reference.language, str(reference.path), settings.seed,
             plan.mode, plan.device, settings.speak_precision, settings.guard),
        )  # fmt: skip
        files.sidecar.unlink(missing_ok=True)
        sampler.sample(saved.epoch, saved.checkpoint, saved.sha256, files)
        sampler.finish()
    if read_json(files.sidecar).get("mode", "skipped") == "skipped":
        raise RunError(f"Epoch {saved.epoch} could not speak. The log above gives the reason.")
    log.info("Epoch %d speaks in %s", saved.epoch, files.output)
    return 0


def _saved(folder: RunFolder, epoch: int | None = None) -> Verified:
    """An epoch, or the newest one; its files are complete. Raises RunError."""
    if epoch is not None:
        if verified := folder.verified(epoch):
            return verified
        there = ", ".join(str(number) for number in folder.epochs()) or "none"
        reason = folder.absent(epoch) or f"Epoch {epoch} cannot speak: {folder.look(epoch)}"
        raise RunError(f"{reason} Saved epochs: {there}.")
    if newest := folder.newest_whole():
        return newest
    raise RunError(
        f"{folder.folder} holds no epoch yet. Train one with `{commands.make('train')}`."
    )


@contextlib.contextmanager
def _speaking(settings: TrainSettings, folder: RunFolder) -> Iterator[tuple[RunContext, Sampler]]:
    """The context of a run, and its sampler. Raises RunError if samples are off."""
    context = context_of_run(settings, folder)
    sampler = sampler_of(settings, context, folder)
    if sampler.plan.mode == "skipped":
        raise RunError(f"Nothing is spoken with {sampler.plan.reason}. Set SAMPLE_DEVICE=auto.")
    with at_work(settings.cache_dir, sampler.plan.device, folder.folder), sampler:
        yield context, sampler


@contextlib.contextmanager
def _evaluator(settings: TrainSettings) -> Iterator[tuple[Evaluator, Path]]:
    """A run's evaluator for all sentences, and its base. The run is locked against a trainer."""
    folder = RunFolder(settings.output_dir)
    base = dict(_saved(folder).manifest.base)
    with folder.lock(), _speaking(settings, folder) as (context, sampler):
        plan = plan_of(settings, context.data, sampler.reference, base, context.config)
        checkpoints = Checkpoints(folder, settings.keep_checkpoints, settings.save_every)
        evaluator = Evaluator(
            plan, sampler, checkpoints, lambda known, one: log.info(report.line(known, one))
        )
        yield evaluator, context.base
