"""`python -m train queue`: trains the jobs in QUEUE_DIR, oldest first, one at a time.

All state is on disk, so a kill of this process or of the training loses nothing: the next start
takes the job that was running, and RESUME=auto continues its run.
"""

import contextlib
import logging
import signal
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from extras.studio.jobs.job_work import Training
from extras.studio.settings import StudioSettings
from extras.studio.training_jobs import JobFolder, JobRefused, TrainingQueue, now
from machine.errors import SotaqueError
from machine.storage import locks
from machine.storage.files import WriteError, make_folder
from train.settings import TrainSettings

log = logging.getLogger("train")

_POLL_SECONDS = 1.0
_BLOCKED_POLL_SECONDS = 10.0
# The module that trains; replaced in tests.
MODULE = "train"


def run(settings: TrainSettings, *, once: bool = False, module: str = MODULE) -> int:
    """Works on the queue until SIGTERM or Ctrl-C. Returns 0.

    Args:
        once: End as soon as no job is left.
        module: The module whose verbs `check` and `run` are called.

    Raises:
        SotaqueError: Another trainer works on this queue.
        WriteError: QUEUE_DIR cannot be written.
    """
    assert isinstance(settings, StudioSettings)
    queue = TrainingQueue(settings.queue_dir)
    make_folder(queue.folder)
    with _locked(queue), _stop_signals() as stopping:
        log.info("The training queue is %s. Ctrl-C ends it; jobs stay.", queue.folder)
        blocked: set[str] = set()
        while not stopping.is_set():
            fail_invalid_jobs(queue)
            if (job := next_job(queue, blocked)) is not None:
                _train(job, settings, module, stopping)
                if job.state().is_open:  # its folder cannot be written: try the other jobs first
                    blocked.add(job.id)
            elif once:
                break
            else:
                stopping.wait(_POLL_SECONDS if not blocked else _BLOCKED_POLL_SECONDS)
                blocked.clear()
    return 0


def next_job(queue: TrainingQueue, blocked: Collection[str] = ()) -> JobFolder | None:
    """The next job: the one that was running, else the oldest. None if no job is left.

    blocked: ids to leave out.
    """
    jobs = [(job, job.state()) for job in queue.jobs() if job.id not in blocked and not job.is_held]
    open_jobs = [(job, state) for job, state in jobs if state.is_open]
    open_jobs.sort(key=lambda pair: pair[1].state == "queued")
    return open_jobs[0][0] if open_jobs else None


def fail_invalid_jobs(queue: TrainingQueue) -> None:
    """Marks jobs that `ask` would not write as failed, with the reason, so they never run."""
    for job in queue.jobs():
        if job.state().is_open:
            try:
                job.read()
            except JobRefused as error:
                _fail(job, str(error))


def _fail(job: JobFolder, reason: str) -> None:
    log.error("Job %s is refused. %s", job.id, reason)
    with contextlib.suppress(WriteError):
        job.write_state(state="failed", ended=now(), message=reason)


def _train(job: JobFolder, settings: TrainSettings, module: str, stopping: threading.Event) -> None:
    try:
        Training(job, settings, module, stopping).work()
    except WriteError as error:
        log.error("Job %s cannot continue now and will be tried again: %s", job.id, error)
    except SotaqueError as error:
        _fail(job, str(error))


@contextmanager
def _locked(queue: TrainingQueue) -> Iterator[None]:
    """Keeps other trainers from the queue. Raises SotaqueError if one works on it, and WriteError."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locks.exclusive(queue.lock_file))
        except locks.LockHeld as owner:
            raise SotaqueError(
                f"Another trainer (process {owner}) works on QUEUE_DIR={queue.folder}. Jobs are "
                "trained one at a time: let it work, or stop it first."
            ) from None
        except OSError as error:
            raise WriteError(
                f"QUEUE_DIR={queue.folder} cannot be written ({error.strerror}). Make it writable "
                "for this user, or set QUEUE_DIR to another folder."
            ) from error
        yield


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set while the block runs; only in the main thread."""
    stopping = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
