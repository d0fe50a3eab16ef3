"""Jobs of the training queue: their files, written atomically and validated strictly when read.

    QUEUE_DIR/<id>/job.json    the requested training; written once, by the requester
    QUEUE_DIR/<id>/state.json  its state; only the trainer writes it
    QUEUE_DIR/<id>/cancel      an empty file; its existence asks the trainer to end the job
    QUEUE_DIR/<id>/held        an empty file; while it exists, no trainer begins the job
    QUEUE_DIR/<id>/log.txt     the output of the training, the newest megabyte of it
    QUEUE_DIR/.trainer.lock    held by the trainer (`extras.studio.jobs.trainer`)

The service and the trainer import this module. Write access to QUEUE_DIR allows a request for a
training and nothing else: a job names a dataset, by its id or by a path below DATASET_ROOTS, and
settings from a short list. It cannot name a command, a device or an output folder.
"""

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from machine import package_data
from machine.errors import SotaqueError
from machine.storage import locks
from machine.storage.files import make_folder, replace_file, write_json, writing_to

State = Literal["queued", "checking", "running", "done", "failed", "cancelled", "interrupted"]
# States of jobs that the trainer still has to work on; in the others the job has ended.
OPEN_STATES = ("queued", "checking", "running", "interrupted")
ALLOWED_SETTINGS = frozenset(
    """
    BASE_MODEL BATCH_SECONDS BLEND LANGUAGE LEARNING_RATE LEARN_DECODER LORA_RANK MAX_TRAIN_SAMPLES
    NUM_EPOCHS SAMPLE_TEXT SEED SUSPECT_CLIPS
    """.split()
)
# The name of a run is also the name of its folder, OUTPUT_DIR/runs/<run>.
RUN_NAME = re.compile(r"[a-z0-9](-?[a-z0-9]){0,39}")
_JOB_ID = re.compile(r"[a-z0-9](-?[a-z0-9]){0,79}")
_DATASET_ID = re.compile(r"[a-z0-9](-?[a-z0-9]){0,63}")
# The id of the run in OUTPUT_DIR itself.
_RESERVED_NAMES = ("current",)
_MAX_FILE_BYTES = 64 << 10
MAX_JOBS = 500
# The maximum number of jobs that have not ended.
MAX_OPEN_JOBS = 50
MAX_DATASET_CHARACTERS = 1_000
MAX_VALUE_CHARACTERS = 2_000
_LOCK_NAME = ".trainer.lock"
_STRICT = ConfigDict(extra="forbid")


class JobRefused(SotaqueError):
    """A job cannot be read, or it asks for something that is not allowed."""


class QueueFull(JobRefused):
    """QUEUE_DIR has as many jobs as it may have."""


@dataclass(frozen=True)
class TrainingJob:
    """A requested training.

    Attributes:
        id: The name of its folder in QUEUE_DIR.
        run: The name of its run. A job of an existing run resumes it.
        dataset: An id of DATASETS_DIR, or the path of a folder below one of DATASET_ROOTS.
        settings: Values as text, by their names in `.env`; only names in `ALLOWED_SETTINGS`.
        asked: The time of the request, as ISO 8601.
    """

    id: str
    run: str
    dataset: str
    settings: dict[str, str]
    asked: str
    __pydantic_config__ = _STRICT


@dataclass(frozen=True)
class TrainingState:
    """The state of a job.

    Attributes:
        state: A `State`.
        started, ended: Times as ISO 8601.
        code: The exit code of the last training process, negative for a signal.
        message: The reason for the state, as sentences for a person.
        deaths: How often in a row the training was killed without saving a new epoch.
        epoch: The newest saved epoch when the training was last killed.
        waits_for: The OUTPUT_DIR of another training that has to end first; "" for none. It hides
            the message meanwhile.
    """

    state: State
    started: str | None
    ended: str | None
    code: int | None
    message: str
    deaths: int
    epoch: int
    waits_for: str = ""
    __pydantic_config__ = _STRICT

    @property
    def sentence(self) -> str:
        """The message for a person."""
        if self.waits_for:
            return f"It waits until other work ends, in {self.waits_for}."
        return self.message

    @property
    def is_open(self) -> bool:
        """Whether the trainer still has to work on the job."""
        return self.state in OPEN_STATES


_UNBEGUN_STATE = TrainingState("queued", None, None, None, "", 0, 0)
Stored = TypeVar("Stored", TrainingJob, TrainingState)


class JobFolder:
    """The files of one job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job_file = folder / "job.json"
        self.state_file = folder / "state.json"
        self.cancel_file = folder / "cancel"
        self.held_file = folder / "held"
        self.log_file = folder / "log.txt"

    @property
    def id(self) -> str:
        return self.folder.name

    def read(self) -> TrainingJob:
        """The job. Raises JobRefused for anything that `ask` would not write."""
        job = _read(self.job_file, TrainingJob)
        if job.id != self.id:
            raise JobRefused(f"Job {self.id} says that its id is {job.id[:80]!r}.")
        return _validated(job)

    def state(self) -> TrainingState:
        """The state of the job: "queued" without a state file, "failed" with an invalid one."""
        if not self.state_file.is_symlink() and not self.state_file.exists():
            return _UNBEGUN_STATE
        try:
            return _read(self.state_file, TrainingState)
        except JobRefused as error:
            return replace(_UNBEGUN_STATE, state="failed", message=str(error))

    def write_state(self, **changed: Any) -> TrainingState:
        """Changes fields of the state. Only the trainer may call this. Raises WriteError."""
        state = replace(self.state(), **changed)
        write_json(self.state_file, asdict(state))
        return state

    @property
    def is_cancelled(self) -> bool:
        """Whether the trainer was asked to end the job."""
        return self.cancel_file.exists()

    @property
    def is_held(self) -> bool:
        """Whether the job waits until somebody starts it."""
        return self.held_file.exists()

    def release(self) -> None:
        """Lets a trainer begin a held job. Raises WriteError."""
        with writing_to(self.held_file):
            self.held_file.unlink(missing_ok=True)

    def cancel(self) -> None:
        """Asks the trainer to end the job; its checkpoint stays. Raises WriteError."""
        replace_file(self.cancel_file, lambda _file: None)


class TrainingQueue:
    """The jobs in QUEUE_DIR. Reading them creates no files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock_file = folder / _LOCK_NAME

    def jobs(self) -> list[JobFolder]:
        """All jobs, oldest first: ids begin with the time. Links are ignored."""
        names: list[str] = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            names = [
                entry.name
                for entry in entries
                if _JOB_ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
        return [JobFolder(self.folder / name) for name in sorted(names)]

    def get(self, identity: str) -> JobFolder | None:
        """The job with this id, or None."""
        return next((job for job in self.jobs() if job.id == identity), None)

    def ask(self, run: str, dataset: str, settings: Mapping[str, str]) -> TrainingJob:
        """Adds a job atomically, with one rename.

        Raises:
            JobRefused: The job asks for something that is not allowed.
            QueueFull: There are as many jobs as there may be.
            WriteError: QUEUE_DIR cannot be written.
        """
        now = datetime.now(UTC)
        # Microseconds keep the order; the random digit keeps two callers apart.
        moment = f"{now:%Y%m%d-%H%M%S-%f}{secrets.token_hex(1)[0]}"
        identity = f"{moment}-{run}"[:80].rstrip("-")
        job = TrainingJob(identity, run, dataset, dict(settings), now.isoformat(timespec="milliseconds"))
        _validated(job)
        if len(self.jobs()) >= MAX_JOBS:
            raise QueueFull(f"There are already {MAX_JOBS} jobs in QUEUE_DIR, the limit. Delete old ones.")
        if sum(open_job.state().is_open for open_job in self.jobs()) >= MAX_OPEN_JOBS:
            raise QueueFull(
                f"There are already {MAX_OPEN_JOBS} trainings in the queue, the limit. Cancel "
                "one, or wait until one has ended."
            )
        # `jobs` ignores names that begin with a dot.
        new_folder = self.folder / f".new-{identity}"
        make_folder(new_folder)
        try:
            write_json(new_folder / "job.json", asdict(job))
            with writing_to(new_folder):
                new_folder.rename(self.folder / identity)
        except BaseException:
            shutil.rmtree(new_folder, ignore_errors=True)
            raise
        return job

    def hold_unbegun(self) -> list[str]:
        """Holds the jobs that no trainer has begun, unless one works now; returns the names of
        their runs. Raises WriteError."""
        held_jobs = list[str]()
        for job in self.jobs() if not self.has_trainer() else ():
            with contextlib.suppress(JobRefused):
                if job.state().state == "queued" and not job.is_cancelled:
                    replace_file(job.held_file, lambda _file: None)
                    held_jobs.append(job.read().run)
        return held_jobs

    def has_trainer(self) -> bool | None:
        """Whether a trainer works on the queue; None on a file system without locks."""
        return locks.is_held(self.lock_file)

    def open_job_of(self, run: str) -> JobFolder | None:
        """The open job of a run, or None."""
        for job in self.jobs():
            with contextlib.suppress(JobRefused):
                if job.state().is_open and not job.is_cancelled and job.read().run == run:
                    return job
        return None


def run_folder_of(output_dir: Path, run: str) -> Path:
    """The OUTPUT_DIR of a run of the queue."""
    return output_dir / "runs" / run


def check_settings(settings: Mapping[str, str]) -> None:
    """Raises JobRefused for a setting that a job may not set, or a value that is too long or not
    printable. The trainer validates the values themselves."""
    for name, value in settings.items():
        if name not in ALLOWED_SETTINGS:
            raise JobRefused(
                f"{name[:60]!r} is not a setting of a job. Allowed: {', '.join(sorted(ALLOWED_SETTINGS))}."
            )
        if len(value) > MAX_VALUE_CHARACTERS or not value.isprintable():
            raise JobRefused(
                f"{name} is {value[:40]!r}…: at most {MAX_VALUE_CHARACTERS} characters in one line are "
                "allowed."
            )


def check_base(settings: Mapping[str, str], program_base: str) -> None:
    """Raises JobRefused for a base other than `demo`, `xtts_v2` and `program_base`, the BASE_MODEL
    of this program."""
    allowed = tuple(dict.fromkeys(("demo", "xtts_v2", program_base)))
    base = settings.get("BASE_MODEL", "").strip()
    if base and base not in allowed:
        raise JobRefused(
            f"BASE_MODEL is {base[:200]!r}. A job may name {', '.join(allowed)}; another folder is "
            "named by BASE_MODEL in the trainer's own .env."
        )


def dataset_folder(dataset: str, datasets_dir: Path, roots: Sequence[str]) -> Path:
    """The folder of a job's dataset: the clips of an uploaded one, or a folder below a root.

    Links are resolved first, so a link inside a root cannot lead outside it. Raises JobRefused.
    """
    if _DATASET_ID.fullmatch(dataset):
        folder = datasets_dir / dataset / "clips"
        if folder.is_dir() and _is_within(folder, (datasets_dir,)):
            return folder.resolve()
        raise JobRefused(
            f"There is no dataset {dataset!r} with clips in DATASETS_DIR. Record it, or upload "
            "recordings and cut them first; a folder is named by its path."
        )
    path = Path(dataset)
    with contextlib.suppress(RuntimeError):  # an unknown "~user" stays as it is: not a folder
        path = package_data.locate(path.expanduser())
    allowed = tuple(package_data.locate(Path(root).expanduser()) for root in roots)
    if "\0" in dataset or not _is_within(path, allowed):
        raise JobRefused(
            f"The dataset {dataset[:200]!r} is not below a folder that jobs may read "
            f"({', '.join(roots) or 'none'}). DATASET_ROOTS in .env names these folders."
        )
    if not path.is_dir():
        raise JobRefused(f"The dataset {dataset[:200]!r} is not a folder on the trainer's machine.")
    return path.resolve()


def _is_within(path: Path, roots: Sequence[Path]) -> bool:
    try:
        resolved = path.resolve()
        return any(resolved.is_relative_to(root.resolve()) for root in roots)
    except (OSError, RuntimeError, ValueError):  # a name that is too long, a circle of links
        return False


def _read(path: Path, kind: type[Stored]) -> Stored:
    """The content of a small, regular JSON file. Raises JobRefused for any other file."""
    name = f"{path.parent.name}/{path.name}"
    try:
        # A link could lead to any file, and reading a pipe could block for ever.
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise JobRefused(f"{name} cannot be read: it is not a plain file.")
        if status.st_size > _MAX_FILE_BYTES:
            raise JobRefused(f"{name} has {status.st_size:,} bytes. A job has at most {_MAX_FILE_BYTES:,}.")
        return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise JobRefused(f"{name} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        # An unexpected field is the most informative fault.
        first = max(faults, key=lambda fault: fault["type"].startswith("unexpected"))
        field = "".join(f"{str(part)[:60]}: " for part in first["loc"])
        raise JobRefused(f"{name} is not a valid job. {field}{first['msg']}.") from error


def _validated(job: TrainingJob) -> TrainingJob:
    """Returns the job. Raises JobRefused if it asks for something that is not allowed."""
    if not RUN_NAME.fullmatch(job.run) or job.run in _RESERVED_NAMES:
        raise JobRefused(
            f"The name of the run is {job.run[:80]!r}. Use up to 40 lower-case letters, digits "
            "and single hyphens, such as ana-2; `current` is taken."
        )
    if not 0 < len(job.dataset) <= MAX_DATASET_CHARACTERS or not job.dataset.isprintable():
        raise JobRefused(
            f"The dataset of job {job.id} is {job.dataset[:80]!r}, which is neither an id nor a path."
        )
    check_settings(job.settings)
    with contextlib.suppress(ValueError):
        datetime.fromisoformat(job.asked)
        return job
    raise JobRefused(f"asked of job {job.id} is {job.asked[:60]!r}, which is not a time.")


def now() -> str:
    """The current time in UTC as ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
