"""Where a run begins, on every rank the same; and how that is told."""

import logging

from train.checkpoints import Checkpoints
from train.distributed import World
from train.fingerprint import Fingerprint
from train.parts import Start
from train.resume import Resumed, resume
from train.settings import TrainSettings

log = logging.getLogger("train")


def begin_at(
    settings: TrainSettings,
    checkpoints: Checkpoints,
    fingerprint: Fingerprint,
    rate: float,
    world: World,
) -> Resumed | None:
    """Rank 0 sets aside and archives; the others read what it left. A restart by torchrun goes on
    with what the run has, also with RESUME=never."""
    never = settings.resume == "never" and (world.restarts or not world.first)
    setting = "auto" if never else settings.resume
    if world.first:
        found = checkpoints.resume(
            setting, fingerprint, learning_rate=rate, runs_dir=settings.runs_dir
        )
        world.wait()
        return found
    world.wait()
    return resume(checkpoints.run, setting, fingerprint, learning_rate=rate)


def told_start(resumed: Resumed | None) -> Start:
    """The epoch and batch to begin with, told."""
    if resumed is None:
        return Start()
    for note in resumed.notes:
        log.info(note)
    start = Start(resumed.epoch + 1, resumed.batch)
    inside = f", batch {start.batch + 1}" if start.batch else ""
    log.info("Going on from %s: epoch %d%s.", resumed.source.name, start.epoch, inside)
    return start
