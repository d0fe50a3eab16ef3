"""Trains one job: `train check`, then `train run` in a child, until it is done or cancelled.

It first waits for any other training in the same OUTPUT_DIR or on the same device.

The child ends with this process. SIGTERM stops it like Ctrl-C, and it saves its state. A killed
training resumes from its newest checkpoint.
"""

import logging
import os
import signal
import threading
import time
from pathlib import Path
from typing import BinaryIO

from extras.common.answers import failure_message
from extras.studio.settings import StudioSettings
from extras.studio.training_jobs import JobFolder, TrainingJob, check_base, dataset_folder, now, run_folder_of
from machine.process import ChildProcess, module_command
from machine.settings.types import flag_of
from machine.storage.files import writing_to
from machine.text import printable
from train.resilience.at_work import trainings
from train.settings import TrainSettings, load
from xtts.voices.run_folder import RunFolder

log = logging.getLogger("train")

_POLL_SECONDS = 0.2
MAX_LOG_BYTES = 1 << 20
# A job that was killed this often in a row without a new epoch fails: it would never finish.
MAX_DEATHS = 3
# In addition to STOP_SECONDS: enough to save a full-size checkpoint on a slow disk.
_STOP_MARGIN_SECONDS = 60.0
# After a kill due to lack of memory, the machine needs a moment.
_RESTART_PAUSE_SECONDS = 2.0
_UNBEGUN_STATES = ("queued", "checking")
_CANCELLED_BEFORE_START = "It was cancelled before it began."
_CANCELLED_AFTER_START = "It was cancelled. Its checkpoints are kept: train the run again to continue."
# Exit codes after which a new process may succeed: a lost GPU, a stall, a stop from elsewhere.
_RESTARTABLE_CODES = (70, 75, 128 + signal.SIGINT, 128 + signal.SIGKILL, 128 + signal.SIGTERM)


class Training:
    """The work on one job.

    Args:
        job: Its folder.
        settings: The trainer's own settings; those of the job override them.
        module: The module whose verbs `check` and `run` are called.
        stopping: Set when the trainer itself has to end.
    """

    def __init__(
        self, job: JobFolder, settings: TrainSettings, module: str, stopping: threading.Event
    ) -> None:
        self.job = job
        self.settings = settings
        self.module = module
        self.stopping = stopping

    def work(self) -> None:
        """Starts or resumes the job, until it ends or the trainer has to end.

        Raises:
            SotaqueError: The job asks for something that is not allowed; nothing was run.
            WriteError: Its state cannot be written.
        """
        job = self.job.read()
        if self._end_if_cancelled(_CANCELLED_BEFORE_START):
            return
        flags = flags_of(job, self.settings)
        run = RunFolder(run_folder_of(self.settings.output_dir, job.run))
        if not self._wait_for_others(run):
            return
        state = self.job.state()
        log.info("Job %s: run %s on %s.", job.id, job.run, job.dataset)
        if state.state in _UNBEGUN_STATES:
            self.job.write_state(state="checking", started=state.started or now(), message="")
            if not self._check_dataset(flags):
                return
        self.job.write_state(state="running", message="")
        while not self.stopping.is_set() and self._train_until_exit(run, flags):
            self.stopping.wait(_RESTART_PAUSE_SECONDS)

    def _check_dataset(self, flags: list[str]) -> bool:
        """Whether the dataset can be trained on; if not, writes the reason to the state."""
        code, errors = self._run("check", "--no-likelihood", *flags)
        if self._end_if_cancelled(_CANCELLED_BEFORE_START) or self._leave_if_stopping():
            return False
        if code == 0:
            return True
        self._end("failed", code, explain_end(code, errors))
        return False

    def _train_until_exit(self, run: RunFolder, flags: list[str]) -> bool:
        """Trains until the child ends. Returns whether to start it again."""
        if not self._wait_for_others(run):
            return False
        code, errors = self._run("run", *flags)
        if code == 0:
            self._end("done", 0, "")
            return False
        if self._end_if_cancelled(_CANCELLED_AFTER_START, code) or self._leave_if_stopping():
            return False
        if code >= 0 and code not in _RESTARTABLE_CODES:
            self._end("failed", code, explain_end(code, errors))
            return False
        return self._count_death(run, code, errors)

    def _wait_for_others(self, run: RunFolder) -> bool:
        """Waits until no other training is in the way, and says so in the state. Returns False if
        the job was cancelled or the trainer has to end in the meantime."""
        state = self.job.state()
        while others := trainings_to_wait_for(run, self.settings):
            if others[0] != state.waits_for:
                state = self.job.write_state(waits_for=others[0])
                log.info("Job %s: %s", self.job.id, state.sentence)
            self.stopping.wait(_POLL_SECONDS)
            has_begun = state.state not in _UNBEGUN_STATES
            message = _CANCELLED_AFTER_START if has_begun else _CANCELLED_BEFORE_START
            if self._end_if_cancelled(message) or self._leave_if_stopping():
                return False
        if state.waits_for:
            self.job.write_state(waits_for="")
        return True

    def _count_death(self, run: RunFolder, code: int, errors: str) -> bool:
        """Counts a death. Returns whether to start the training again: after several deaths without
        a new epoch, the job fails."""
        before, epoch = self.job.state(), max(run.epochs(), default=0)
        deaths = 1 if epoch > before.epoch else before.deaths + 1
        explanation = explain_end(code, errors)
        if deaths >= MAX_DEATHS:
            text = f"{explanation} That was {deaths} times in a row without a new epoch, so the job ends."
            self._end("failed", code, text)
            return False
        self.job.write_state(
            code=code,
            deaths=deaths,
            epoch=epoch,
            message=f"{explanation} It was started again and resumes from its newest checkpoint.",
        )
        return True

    def _run(self, verb: str, *arguments: str) -> tuple[int, str]:
        """Runs a verb until it ends or has to stop. Returns its exit code and the end of stderr."""
        with _open_log(self.job.log_file) as log_file:
            command = module_command(self.module, verb, *arguments)
            child = ChildProcess(command, output=log_file)
            try:
                self._watch(child, log_file)
                errors = printable(child.errors.tail())
            finally:
                child.end()
            if errors:
                log_file.write(errors.encode() + b"\n")
        assert child.code is not None
        return child.code, errors

    def _watch(self, child: ChildProcess, log_file: BinaryIO) -> None:
        """Returns when the child has ended, or did not stop in time when asked to."""
        max_stop_seconds = self.settings.stop_seconds + _STOP_MARGIN_SECONDS
        asked_at = 0.0
        while child.wait(_POLL_SECONDS) is None:
            _truncate_log(log_file)
            if asked_at and time.monotonic() - asked_at > max_stop_seconds:
                return
            if not asked_at and (self.stopping.is_set() or self.job.is_cancelled):
                child.ask_to_stop()
                asked_at = time.monotonic()

    def _end_if_cancelled(self, text: str, code: int | None = None) -> bool:
        """Ends a cancelled job; returns whether it was cancelled."""
        if not self.job.is_cancelled:
            return False
        self._end("cancelled", code, text)
        return True

    def _leave_if_stopping(self) -> bool:
        """Leaves the job to the trainer's next start if the trainer has to end; returns whether."""
        if not self.stopping.is_set():
            return False
        text = "The trainer was stopped. Its next start resumes this job."
        # An interrupted check starts again.
        has_begun = self.job.state().state not in _UNBEGUN_STATES
        state = "interrupted" if has_begun else "queued"
        self.job.write_state(state=state, message=text, waits_for="")
        return True

    def _end(self, state: str, code: int | None, message: str) -> None:
        self.job.write_state(state=state, ended=now(), code=code, message=message, waits_for="")
        log.info("Job %s: %s. %s", self.job.id, state, message)


def flags_of(job: TrainingJob, settings: TrainSettings) -> list[str]:
    """The settings of a job's run as flags: the requested ones, its dataset and its folder.

    Raises:
        JobRefused: A job may not name this dataset or base.
        SettingsError: A setting has an invalid value.
    """
    assert isinstance(settings, StudioSettings)
    check_base(job.settings, settings.base_model)
    data = dataset_folder(job.dataset, settings.datasets_dir, settings.dataset_roots)
    flags = [f"{flag_of(name)}={value}" for name, value in job.settings.items()]
    load(flags, {}, None)
    return [
        *flags,
        f"--dataset-dir={data}",
        "--dataset-format=auto",
        f"--output-dir={run_folder_of(settings.output_dir, job.run).absolute()}",
        "--resume=auto",
        "--tensorboard=off",
    ]


def explain_end(code: int, stderr: str) -> str:
    """Explains the end of a training to a person. Pure. code: its exit code, negative for a signal;
    stderr: the end of its stderr."""
    words = failure_message(code, stderr)
    if code in (2, 65, 70, 74, 75) and words:
        return words
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "The training was killed, perhaps because memory ran out."
    if code < 0:
        name = signal.strsignal(-code) or f"signal {-code}"
        return f"The training was ended by {name}. {words}".rstrip()
    return f"The training ended with exit code {code}. {words}".rstrip()


def trainings_to_wait_for(run: RunFolder, settings: TrainSettings) -> list[str]:
    """The trainings that a job of this run has to wait for, by their OUTPUT_DIR."""
    locked = [str(folder.folder) for folder in (RunFolder(settings.output_dir), run) if folder.is_locked()]
    return locked or trainings(settings.cache_dir, settings.device)


def _open_log(path: Path) -> BinaryIO:
    """Opens the log for appending. Raises WriteError, also if the path is a symbolic link."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    with writing_to(path):
        return os.fdopen(os.open(path, flags, 0o666), "ab+")


def _truncate_log(log_file: BinaryIO) -> None:
    """Keeps only the newest part of a log that has become too long. The child opened it for
    appending, so it continues after the kept part."""
    size = os.fstat(log_file.fileno()).st_size
    if size <= MAX_LOG_BYTES:
        return
    log_file.seek(size - MAX_LOG_BYTES // 2)
    newest = log_file.read().partition(b"\n")[2]
    log_file.truncate(0)
    log_file.write(newest)
    log_file.flush()
