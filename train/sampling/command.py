"""`python -m train sample`: speaks with a saved epoch on demand.

Writes `samples/on_demand/epoch_N_<hash>.wav` with its reference and sidecar. The hash covers the
whole request. The samples of the run stay.
"""

import logging

from machine import commands
from train.resilience.at_work import at_work
from train.sampling.sample_files import SampleSidecar, on_demand
from train.sampling.sampler import speaking_sampler
from train.settings import TrainSettings
from train.setup import context_of_run
from xtts.voices.run_folder import RunError, RunFolder, Verified

log = logging.getLogger("train")


def run(settings: TrainSettings, *, epoch: int | None) -> int:
    """Speaks with `epoch`, or with the newest complete one. Raises RunError if nothing can speak,
    SotaqueError for a run of another dataset or base."""
    folder = RunFolder(settings.output_dir)
    saved = _chosen(folder, epoch)
    context = context_of_run(settings, folder)
    sidecars: list[SampleSidecar] = []
    sampler = speaking_sampler(
        settings, context, folder, on_sample=lambda _epoch, one: sidecars.append(one)
    )
    plan, reference = sampler.plan, sampler.reference
    files = on_demand(
        folder, saved.epoch,
        (saved.sha256, reference.text, reference.language, str(reference.path), settings.seed,
         plan.mode, plan.device, settings.speak_precision, settings.guard),
    )  # fmt: skip
    with at_work(settings.cache_dir, plan.device, folder.folder), sampler:
        sampler.sample(saved.epoch, saved.checkpoint, saved.sha256, files)
        sampler.finish()
    if not sidecars or sidecars[0].mode == "skipped":
        raise RunError(f"Epoch {saved.epoch} could not speak. The log above gives the reason.")
    log.info("Epoch %d speaks in %s", saved.epoch, files.output)
    return 0


def _chosen(folder: RunFolder, epoch: int | None) -> Verified:
    """The epoch to speak with; its files are complete."""
    if epoch is None:
        if newest := folder.newest_whole():
            return newest
        raise RunError(
            f"{folder.folder} holds no epoch yet. Train one with `{commands.make('train')}`."
        )
    if verified := folder.verified(epoch):
        return verified
    there = ", ".join(str(number) for number in folder.epochs()) or "none"
    reason = folder.absent(epoch) or f"Epoch {epoch} cannot speak: {folder.look(epoch)}"
    raise RunError(f"{reason} Saved epochs: {there}.")
