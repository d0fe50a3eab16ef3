"""Opens a saved run for a verb: its epochs, its sampler and its evaluator."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from machine import commands
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation.evaluator import Evaluator
from train.evaluation.plan import plan_of
from train.evaluation.report import candidate_line
from train.resilience.at_work import at_work
from train.run_context import RunContext
from train.sampling.reference import reference_of_run
from train.sampling.sampler import sampler_of
from train.sampling.samples import Samples
from train.settings import TrainSettings
from train.setup import context_of_run
from xtts.voices.run_folder import RunError, RunFolder, VerifiedCheckpoint
from xtts.voices.run_lock import lock

log = logging.getLogger("train")


def saved_epoch(folder: RunFolder, epoch: int | None = None) -> VerifiedCheckpoint:
    """An epoch, or the newest one; its files are complete. Raises RunError."""
    if epoch is not None:
        if verified := folder.verified(epoch):
            return verified
        there = ", ".join(str(number) for number in folder.epochs()) or "none"
        reason = folder.explain_absence(epoch) or f"Epoch {epoch} cannot speak: {folder.verify(epoch)}"
        raise RunError(f"{reason} Saved epochs: {there}.")
    if newest := folder.newest_weights():
        return newest
    raise RunError(f"{folder.folder} holds no epoch yet. Train one with `{commands.make('train')}`.")


@contextlib.contextmanager
def speaking(settings: TrainSettings, folder: RunFolder) -> Iterator[tuple[RunContext, Samples]]:
    """The context of a run, and its samples. Raises RunError if samples are off, SotaqueError
    for a run of another dataset or base."""
    context = context_of_run(settings, folder)
    sampler = sampler_of(settings, context)
    samples = Samples(sampler, folder, reference_of_run(settings, context, folder), seed=settings.seed)
    if sampler.plan.mode == "skipped":
        raise RunError(f"Nothing is spoken with {sampler.plan.reason}. Set SAMPLE_DEVICE=auto.")
    with at_work(settings.cache_dir, sampler.plan.device, folder.folder), sampler:
        yield context, samples


@contextlib.contextmanager
def open_evaluator(settings: TrainSettings) -> Iterator[tuple[Evaluator, Samples, Path]]:
    """A run's evaluator for all sentences, its samples, and its base. The run is locked against a
    trainer.

    Raises RunError if there is nothing to judge or a trainer uses the run, SotaqueError for a run
    of another dataset or base.
    """
    folder = RunFolder(settings.output_dir)
    base = dict(saved_epoch(folder).manifest.base)
    with lock(folder), speaking(settings, folder) as (context, samples):
        plan = plan_of(settings, context.data, samples.reference, base, context.config)
        checkpoints = Checkpoints(folder, settings.keep_checkpoints, settings.save_every)
        evaluator = Evaluator(
            plan,
            samples.sampler,
            checkpoints,
            lambda evaluation, candidate: log.info(candidate_line(evaluation, candidate)),
        )
        yield evaluator, samples, context.base
