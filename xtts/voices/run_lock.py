"""The lock of a run folder: one process writes it at a time."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from machine.storage import locks
from machine.storage.files import STALE_SECONDS, WriteError, remove_stale
from xtts.voices.run_folder import RunError, RunFolder

log = logging.getLogger(__name__)


@contextmanager
def lock(run: RunFolder) -> Iterator[None]:
    """Locks the run for this trainer, and removes temporary files of killed writers.

    Raises:
        RunError: Another trainer holds the lock; the message names its process.
        WriteError: The folder cannot be written.
    """
    with ExitStack() as stack:
        try:
            run.folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locks.exclusive(run.lock_file))
        except locks.LockHeld as owner:
            raise RunError(
                f"Another trainer (process {owner}) is working in OUTPUT_DIR={run.folder}. "
                "Wait for it or stop it, or set OUTPUT_DIR to another folder."
            ) from None
        except OSError as error:
            raise WriteError(
                f"OUTPUT_DIR={run.folder} cannot be written ({error.strerror}). Make it "
                "writable for this user, or set OUTPUT_DIR to another folder."
            ) from error
        left = [*remove_stale(run.folder), *remove_stale(run.checkpoints), *remove_stale(run.samples)]
        # `train sample` writes to this folder without the lock, possibly now.
        left += remove_stale(run.samples_on_demand, older_than_seconds=STALE_SECONDS)
        for path in left:
            log.info("Removed %s, left by a run that was killed while writing.", path.name)
        yield
