"""job.json in the folder of an item: the state of the work on it."""

import contextlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from machine.storage.atomic import write_json
from machine.storage.reading import read_json

JobState = Literal["none", "queued", "running", "done", "failed", "stopped"]


@dataclass(frozen=True)
class Job:
    """The state of a piece of work; times as ISO 8601."""

    state: JobState = "none"
    asked: str | None = None
    started: str | None = None
    ended: str | None = None
    message: str = ""

    @property
    def is_queued(self) -> bool:
        """Whether it is running or waiting."""
        return self.state in ("queued", "running")


AnyJob = TypeVar("AnyJob", bound=Job)


def read_job(folder: Path, kind: type[AnyJob]) -> AnyJob:
    """The state of the work; the default if the file is missing or unreadable."""
    with contextlib.suppress(TypeError):
        return kind(**read_json(folder / "job.json"))
    return kind()


def write_job(folder: Path, job: AnyJob, **changed: Any) -> AnyJob:
    """Writes a job with these changes, inside `changing` of its store. Raises WriteError."""
    job = replace(job, **changed)
    write_json(folder / "job.json", asdict(job))
    return job
