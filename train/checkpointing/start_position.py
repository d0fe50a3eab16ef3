"""Epoch and batch where a run starts or resumes, the same on every rank."""

import logging

from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint
from train.checkpointing.resume import Resumed, resume
from train.distributed import World
from train.settings import TrainSettings
from train.trainer_context import StartPosition

log = logging.getLogger("train")


def find_start(
    settings: TrainSettings,
    checkpoints: Checkpoints,
    fingerprint: Fingerprint,
    rate: float,
    world: World,
) -> Resumed | None:
    """Rank 0 sets aside and archives; the others read what it left. A restart by torchrun goes on
    with what the run has, also with RESUME=never."""
    never = settings.resume == "never" and (world.restarts or not world.is_main)
    setting = "auto" if never else settings.resume
    if world.is_main:
        found = checkpoints.resume(
            setting, fingerprint, learning_rate=rate, runs_dir=settings.runs_dir
        )
        world.barrier()
        return found
    world.barrier()
    return resume(checkpoints.run, setting, fingerprint, learning_rate=rate)


def start_position(resumed: Resumed | None) -> StartPosition:
    """The epoch and batch to begin with, told."""
    if resumed is None:
        return StartPosition()
    for note in resumed.notes:
        log.info(note)
    start = StartPosition(resumed.epoch + 1, resumed.batch)
    inside = f", batch {start.batch + 1}" if start.batch else ""
    log.info("Going on from %s: epoch %d%s.", resumed.source.name, start.epoch, inside)
    return start


def nothing_left(start: StartPosition, num_epochs: int) -> str:
    """The sentence for a run that has all the epochs that are asked for, or more."""
    done = start.epoch - 1
    ways = f"Set NUM_EPOCHS to {done + 1} or more to go on, or RESUME=never to begin anew."
    if done == num_epochs and not start.batch:
        all_of_them = f"All {done} epochs are" if done > 1 else "The one epoch is"
        return f"{all_of_them} done already. {ways}"
    inside = f" and {start.batch} batches of epoch {start.epoch}" if start.batch else ""
    return (
        f"The run has {done} epoch{'s' if done > 1 else ''}{inside} already, more than "
        f"NUM_EPOCHS={num_epochs}: there is nothing to train, and nothing is removed. {ways}"
    )
