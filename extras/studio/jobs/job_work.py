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
_REST_SECONDS = 2.0
_UNBEGUN = ("queued", "checking")
_NOT_BEGUN = "It was cancelled before it began."
_KEPT = "It was cancelled. Its checkpoints are kept: train the run again to continue."
# Exit codes after which a new process may succeed: a lost GPU, a stall, a stop from elsewhere.
_MENDABLE = (70, 75, 128 + signal.SIGINT, 128 + signal.SIGKILL, 128 + signal.SIGTERM)


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
        if self._ended_by_cancel(_NOT_BEGUN):
            return
        flags = flags_of(job, self.settings)
        run = RunFolder(run_folder_of(self.settings.output_dir, job.run))
        if not self._others_ended(run):
            return
        state = self.job.state()
        log.info("Job %s: run %s on %s.", job.id, job.run, job.dataset)
        if state.state in _UNBEGUN:
            self.job.write_state(state="checking", started=state.started or now(), message="")
            if not self._checked(flags):
                return
        self.job.write_state(state="running", message="")
        while not self.stopping.is_set() and self._goes_on(run, flags):
            self.stopping.wait(_REST_SECONDS)

    def _checked(self, flags: list[str]) -> bool:
        """Whether the dataset can be trained on; if not, writes the reason to the state."""
        code, errors = self._run("check", "--no-likelihood", *flags)
        if self._ended_by_cancel(_NOT_BEGUN) or self._interrupted():
            return False
        if code == 0:
            return True
        self._end("failed", code, sentence_of(code, errors))
        return False

    def _goes_on(self, run: RunFolder, flags: list[str]) -> bool:
        """Trains until the child ends. Returns whether to start it again."""
        if not self._others_ended(run):
            return False
        code, errors = self._run("run", *flags)
        if code == 0:
            self._end("done", 0, "")
            return False
        if self._ended_by_cancel(_KEPT, code) or self._interrupted():
            return False
        if code >= 0 and code not in _MENDABLE:
            self._end("failed", code, sentence_of(code, errors))
            return False
        return self._survives(run, code, errors)

    def _others_ended(self, run: RunFolder) -> bool:
        """Waits until no other training is in the way, and says so in the state. False if the job
        was cancelled or the trainer has to end in the meantime."""
        state = self.job.state()
        while others := others_at_work(run, self.settings):
            if others[0] != state.waits_for:
                state = self.job.write_state(waits_for=others[0])
                log.info("Job %s: %s", self.job.id, state.sentence)
            self.stopping.wait(_POLL_SECONDS)
            gone = _NOT_BEGUN if state.state in _UNBEGUN else _KEPT
            if self._ended_by_cancel(gone) or self._interrupted():
                return False
        if state.waits_for:
            self.job.write_state(waits_for="")
        return True

    def _survives(self, run: RunFolder, code: int, errors: str) -> bool:
        """Counts a death. False, and the job has failed, after several without a new epoch."""
        before, epoch = self.job.state(), max(run.epochs(), default=0)
        deaths = 1 if epoch > before.epoch else before.deaths + 1
        what = sentence_of(code, errors)
        if deaths >= MAX_DEATHS:
            text = f"{what} That was {deaths} times in a row without a new epoch, so the job ends."
            self._end("failed", code, text)
            return False
        self.job.write_state(
            code=code,
            deaths=deaths,
            epoch=epoch,
            message=f"{what} It was started again and resumes from its newest checkpoint.",
        )
        return True

    def _run(self, verb: str, *arguments: str) -> tuple[int, str]:
        """Runs a verb until it ends or has to stop. Returns its exit code and the end of stderr."""
        with _open_log(self.job.log_file) as written:
            command = module_command(self.module, verb, *arguments)
            child = ChildProcess(command, output=written)
            try:
                self._watch(child, written)
                errors = printable(child.errors.tail())
            finally:
                child.end()
            if errors:
                written.write(errors.encode() + b"\n")
        assert child.code is not None
        return child.code, errors

    def _watch(self, child: ChildProcess, written: BinaryIO) -> None:
        """Returns when the child has ended, or did not stop in time when asked to."""
        patience = self.settings.stop_seconds + _STOP_MARGIN_SECONDS
        asked = 0.0
        while child.wait(_POLL_SECONDS) is None:
            _shorten(written)
            if asked and time.monotonic() - asked > patience:
                return
            if not asked and (self.stopping.is_set() or self.job.is_cancelled):
                child.ask_to_stop()
                asked = time.monotonic()

    def _ended_by_cancel(self, text: str, code: int | None = None) -> bool:
        if not self.job.is_cancelled:
            return False
        self._end("cancelled", code, text)
        return True

    def _interrupted(self) -> bool:
        if not self.stopping.is_set():
            return False
        text = "The trainer was stopped. Its next start resumes this job."
        # An interrupted check starts again.
        begun = self.job.state().state not in _UNBEGUN
        state = "interrupted" if begun else "queued"
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


def sentence_of(code: int, stderr: str) -> str:
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


def others_at_work(run: RunFolder, settings: TrainSettings) -> list[str]:
    """The trainings that a job of this run has to wait for, by their OUTPUT_DIR."""
    locked = [str(folder.folder) for folder in (RunFolder(settings.output_dir), run) if folder.is_locked()]
    return locked or trainings(settings.cache_dir, settings.device)


def _open_log(path: Path) -> BinaryIO:
    """Opens the log for appending. Raises WriteError, also if the path is a symbolic link."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    with writing_to(path):
        return os.fdopen(os.open(path, flags, 0o666), "ab+")


def _shorten(written: BinaryIO) -> None:
    """Keeps only the newest part of a log that has become too long. The child opened it for
    appending, so it continues after the kept part."""
    size = os.fstat(written.fileno()).st_size
    if size <= MAX_LOG_BYTES:
        return
    written.seek(size - MAX_LOG_BYTES // 2)
    newest = written.read().partition(b"\n")[2]
    written.truncate(0)
    written.write(newest)
    written.flush()
