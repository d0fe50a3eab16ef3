"""One trainer in a run folder at a time."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from machine.errors import SotaqueError
from machine.storage import locks
from machine.storage.atomic import STALE_SECONDS, WriteError, remove_stale
from xtts.hub.run_folder import RunFolder

log = logging.getLogger(__name__)


class RunLocked(SotaqueError):
    """Another trainer works in this folder; the sentence names its process."""


@contextmanager
def lock(run: RunFolder) -> Iterator[None]:
    """Holds the run for this process, and clears what killed writers left in it.

    Raises:
        RunLocked: Another trainer has it.
        WriteError: The folder cannot be written.
    """
    with ExitStack() as stack:
        try:
            run.folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locks.exclusive(run.lock_file))
        except locks.LockHeld as owner:
            raise RunLocked(
                f"Another trainer (process {owner}) is working in OUTPUT_DIR={run.folder}. "
                "Wait for it or stop it, or set OUTPUT_DIR to another folder."
            ) from None
        except OSError as error:
            raise WriteError(
                f"OUTPUT_DIR={run.folder} cannot be written ({error.strerror}). Make it writable "
                "for this user, or set OUTPUT_DIR to another folder."
            ) from error
        left = [
            path
            for folder in (run.folder, run.checkpoints, run.samples)
            for path in remove_stale(folder)
        ]
        # `train sample` writes there without the lock: it may be at it.
        left += remove_stale(run.samples_on_demand, older_than_seconds=STALE_SECONDS)
        for path in left:
            log.info("Removed %s, left by a run that was killed while writing.", path.name)
        yield


def held(run: RunFolder) -> bool | None:
    """Whether a trainer is at work in this folder, in whatever container of this machine; None
    where the file system has no locks. Reads only."""
    return locks.held(run.lock_file)
