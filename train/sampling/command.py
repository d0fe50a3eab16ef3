"""`python -m train sample`: speaks a saved epoch on demand.

Into files of its own, `samples/on_demand/epoch_N_<hash>.wav` and beside it its reference and its
sidecar: what the run has spoken stays. The hash is of everything that was asked for.
"""

import logging

from train.sampling import placement
from train.sampling import sampler as sampling
from train.sampling.sample_files import SampleSidecar, on_demand, reference_of
from train.sampling.sampler import Sampler
from train.settings import TrainSettings
from train.setup import context_of_run
from xtts.voices.run_folder import RunError, RunFolder, Verified

log = logging.getLogger("train")


def run(settings: TrainSettings, *, epoch: int | None) -> int:
    """Speaks `epoch`, or the newest that is whole. Raises RunError when nothing can be spoken,
    ResumeError for a run of another dataset or base."""
    folder = RunFolder(settings.output_dir)
    found = _chosen(folder, epoch)
    context = context_of_run(settings, folder)
    plan = placement.plan(context.machine, settings.sample_device, context.device.value)
    if plan.mode == "skipped":
        raise RunError(f"Nothing is spoken with {plan.reason}. Set SAMPLE_DEVICE=auto.")
    reference = reference_of(settings, context.data)
    files = on_demand(
        folder, found.epoch,
        (found.sha256, reference.text, reference.language, str(reference.path), settings.seed,
         plan.mode, plan.device, settings.speak_precision, settings.guard),
    )  # fmt: skip
    told: list[SampleSidecar] = []
    with Sampler(
        plan, folder, reference,
        sampling.workers(
            context.base, context.machine, settings.speak_precision, guard=settings.guard
        ),
        seed=settings.seed,
        in_process=sampling.in_process(
            context.base, precision=settings.speak_precision, guard=settings.guard
        ),
        heard=lambda _epoch, sidecar: told.append(sidecar),
        files=lambda _run, _epoch: files,
    ) as sampler:  # fmt: skip
        sampler.sample(found.epoch, found.checkpoint, found.sha256)
        sampler.finish()
    if not told or told[0].mode == "skipped":
        raise RunError(f"Epoch {found.epoch} could not be spoken; the reason is above.")
    log.info("Epoch %d speaks in %s", found.epoch, files.output)
    return 0


def _chosen(folder: RunFolder, epoch: int | None) -> Verified:
    """The epoch to speak, its files whole."""
    if epoch is None:
        if newest := folder.newest_whole():
            return newest
        raise RunError(f"{folder.folder} holds no epoch yet; `make train` makes one.")
    if found := folder.verified(epoch):
        return found
    there = ", ".join(str(number) for number in folder.epochs()) or "none"
    reason = folder.absent(epoch) or f"Epoch {epoch} cannot be spoken: {folder.verify(epoch)}"
    raise RunError(f"{reason} There are: {there}.")
