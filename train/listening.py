"""`python -m train sample`: speaks a saved epoch again, perhaps another text or elsewhere."""

from train import placement, sampling
from train.run import look
from train.samples import Sidecar, reference_of
from train.sampling import Sampler
from train.settings import TrainSettings
from xtts.runs import RunError, RunFolder, Verified


def run(settings: TrainSettings, *, epoch: int | None) -> int:
    """Speaks `epoch`, or the newest that is whole. Raises RunError when nothing can be spoken."""
    folder = RunFolder(settings.output_dir)
    found = _chosen(folder, epoch)
    looked = look(settings)
    plan = placement.plan(looked.machine, settings.sample_device, looked.device.value)
    if plan.mode == "skipped":
        raise RunError(f"Nothing is spoken with {plan.reason}. Set SAMPLE_DEVICE=auto.")
    told: list[Sidecar] = []
    with Sampler(
        plan, folder, reference_of(settings, looked.data),
        sampling.workers(looked.base, looked.machine, settings.speak_precision),
        seed=settings.seed,
        in_process=sampling.in_process(looked.base),
        heard=lambda _epoch, sidecar: told.append(sidecar),
    ) as sampler:  # fmt: skip
        sampler.sample(found.epoch, found.checkpoint, found.sha256)
        sampler.finish()
    if not told or told[0].mode == "skipped":
        raise RunError(f"Epoch {found.epoch} could not be spoken; the reason stands above.")
    return 0


def _chosen(folder: RunFolder, epoch: int | None) -> Verified:
    """The epoch to speak, its files whole."""
    if epoch is None:
        if newest := folder.newest_verified():
            return newest
        raise RunError(f"{folder.folder} holds no epoch yet; `make train` makes one.")
    if found := folder.verified(epoch):
        return found
    there = ", ".join(str(number) for number in folder.epochs()) or "none"
    raise RunError(f"Epoch {epoch} cannot be spoken: {folder.verify(epoch)} There are: {there}.")
