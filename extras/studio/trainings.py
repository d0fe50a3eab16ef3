"""Trainings in the service: queues them, cancels them and reports their progress.

The service does not train. It writes jobs into QUEUE_DIR, and `train queue` runs them.
"""

import asyncio
import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from api import shared_folder
from api.errors import APIError, without_paths
from extras.common.answers import ask_once
from extras.studio.datasets.dataset_store import Datasets
from extras.studio.settings import StudioServiceSettings
from extras.studio.training_jobs import (
    OPEN_STATES,
    JobFolder,
    JobRefused,
    QueueFull,
    TrainingJob,
    TrainingQueue,
    check_base,
    check_settings,
    dataset_folder,
    run_folder_of,
)
from extras.studio.training_schemas import (
    CheckRequest,
    CheckResult,
    TrainingList,
    TrainingProgress,
    TrainingRequest,
    TrainingRow,
)
from machine import commands
from machine.process import module_command
from machine.settings.types import flag_of
from xtts.voices.run_folder import RunFolder

# The end of metrics.jsonl, enough for several steps.
_TAIL_BYTES = 64 << 10
_MAX_VALUES_CHECK_SECONDS = 60.0
_MAX_CHECK_SECONDS = 300.0
_MAX_MESSAGE_CHARACTERS = 700
# The module that checks; replaced in tests.
MODULE = "train"


class Trainings:
    """The queue of trainings of one service."""

    def __init__(self, settings: StudioServiceSettings, datasets: Datasets, module: str = MODULE) -> None:
        self.module = module
        self.settings = settings
        self.queue = TrainingQueue(settings.queue_dir)
        self._datasets = datasets
        self.checking = asyncio.Lock()

    def ask(self, request: TrainingRequest) -> TrainingRow:
        """Adds a training to the queue. Blocks.

        Raises APIError: 422 for a job that is not allowed, 409 for a full queue, 507 if the job
        cannot be written.
        """
        settings = {**self._language_of(request.dataset), **request.settings}
        self.check_job(request.dataset, settings)
        with shared_folder.writing(self.queue.folder):
            try:
                job = self.queue.ask(request.run, request.dataset, settings)
            except QueueFull as error:
                raise APIError(409, "too_many_trainings", str(error)) from error
            except JobRefused as error:
                raise APIError(422, "invalid_request", str(error)) from error
        row = self.read(job.id)
        return row if row.message else row.model_copy(update={"message": self._missing_trainer_advice()})

    def _missing_trainer_advice(self) -> str:
        """How to start a trainer; "" if one works on the queue."""
        if self.queue.has_trainer() is not False:
            return ""
        command = commands.program("train queue")
        return f"No trainer works on the queue. Start it with `{command}`."

    def check_job(self, dataset: str, settings: dict[str, str]) -> Path:
        """The folder of the dataset. Raises APIError (422) if the trainer would refuse the job."""
        try:
            check_settings(settings)
            check_base(settings, self.settings.base_model)
            folder = dataset_folder(dataset, self.settings.datasets_dir, self.settings.dataset_roots)
        except JobRefused as error:
            raise APIError(422, "invalid_request", without_paths(str(error))) from error
        if settings:
            command = module_command("extras.common.training_preflight", "--values")
            faults = ask_once(command, _MAX_VALUES_CHECK_SECONDS, request=settings).answer
            if faults:  # without an answer, the trainer checks the settings later
                raise APIError(422, "invalid_request", " ".join(faults), param="settings")
        return folder

    def check(self, request: CheckRequest) -> CheckResult:
        """The findings of `train check`, without the likelihood of each clip, which takes longest.
        Blocks.

        Raises APIError: 422 for a dataset that cannot be trained on, 503 if the check fails.
        """
        settings = {**self._language_of(request.dataset), **request.settings}
        folder = self.check_job(request.dataset, settings)
        flags = [f"{flag_of(name)}={value}" for name, value in settings.items()]
        # A person waits for the check, so it yields to speech but not to a training on this
        # machine. In a container, CACHE_DIR belongs to the trainer.
        with tempfile.TemporaryDirectory(prefix="check-") as cache:
            flags += [f"--dataset-dir={folder}", "--dataset-format=auto", f"--cache-dir={cache}"]
            command = module_command(self.module, "check", "--json", "--no-likelihood", *flags)
            reply = ask_once(("nice", "-n", "5", *command), _MAX_CHECK_SECONDS)
        if reply.code == 2:
            message = without_paths(" ".join(reply.errors.split())[-_MAX_MESSAGE_CHARACTERS:])
            raise APIError(422, "bad_dataset", message, param="dataset")
        try:
            return CheckResult.model_validate(reply.answer)
        except ValidationError as error:
            text = f"The dataset could not be checked: {without_paths(reply.last_error)}."
            raise APIError(503, "not_checked", text, retry_after=30) from error

    def all(self) -> TrainingList:
        """All trainings, newest first. Blocks."""
        trainer, allowed = self.queue.has_trainer(), self.settings.training_allowed
        message = "API_ALLOW_TRAINING is off here, so trainings are started by the command."
        if allowed:
            message = self._missing_trainer_advice()
        return TrainingList(
            trainings=self._rows()[::-1],
            allowed=allowed,
            trainer=trainer,
            message=message,
            command=commands.program("train queue"),
        )

    def read(self, identity: str) -> TrainingRow:
        """One training. Blocks. Raises APIError (404)."""
        for row in self._rows():
            if row.id == identity:
                return row
        raise no_training_error()

    def cancel(self, identity: str) -> TrainingRow:
        """Cancels a training, unless it has ended. Blocks. Raises APIError."""
        job = self.queue.get(identity)
        if job is None:
            raise no_training_error()
        if job.state().is_open:
            with shared_folder.writing(self.queue.folder):
                job.cancel()
        return self.read(identity)

    def start(self, identity: str) -> TrainingRow:
        """Lets the trainer begin a held training. Blocks. Raises APIError."""
        job = self.queue.get(identity)
        if job is None:
            raise no_training_error()
        with shared_folder.writing(self.queue.folder):
            job.release()
        return self.read(identity)

    def _rows(self) -> list[TrainingRow]:
        rows: list[TrainingRow] = []
        ahead = 0
        has_trainer = self.queue.has_trainer() is not False
        for folder in self.queue.jobs():
            rows.append(row := self._row(folder, ahead, has_trainer))
            ahead += row.state in OPEN_STATES
        return rows

    def _row(self, folder: JobFolder, ahead: int, has_trainer: bool) -> TrainingRow:
        """has_trainer: whether a trainer works on the queue; a killed one leaves the state of its
        job."""
        state, refusal = folder.state(), ""
        try:
            job = folder.read()
        except JobRefused as error:
            job, refusal = TrainingJob(folder.id, "", "", {}, ""), str(error)
        is_cancelled = state.is_open and folder.is_cancelled
        shown_state, message = state.state, without_paths(state.sentence or refusal)
        if is_cancelled and (state.state == "queued" or not has_trainer):
            shown_state = "cancelled"  # no trainer works on it, and none will
        elif not has_trainer and state.state in ("checking", "running"):
            shown_state, message = "interrupted", "No trainer works on it: the last one has died."
        is_held = shown_state == "queued" and not refusal and folder.is_held
        if is_held:
            message = "It was queued before this trainer started. Start it, or cancel it."
        has_begun = job.run and state.state not in ("queued", "checking")
        run = RunFolder(run_folder_of(self.settings.output_dir, job.run)) if has_begun else None
        return TrainingRow(
            id=folder.id,
            run=job.run,
            dataset=job.dataset,
            settings=dict(job.settings),
            asked=job.asked,
            state="failed" if refusal else shown_state,
            started=state.started,
            ended=state.ended,
            code=state.code,
            message=message,
            ahead=ahead if shown_state == "queued" else 0,
            held=is_held,
            cancelling=is_cancelled and shown_state != "cancelled",
            progress=progress_of(run.metrics) if run else None,
        )

    def _language_of(self, name: str) -> dict[str, str]:
        dataset = self._datasets.get(name)
        return {"LANGUAGE": dataset.language} if dataset else {}


def no_training_error() -> APIError:
    """The error for an unknown id."""
    text = "There is no training with this id. /v1/trainings lists them."
    return APIError(404, "no_training", text)


def progress_of(metrics: Path) -> TrainingProgress | None:
    """The progress of a run at the newest step in its metrics.jsonl; None before the first."""
    try:
        with metrics.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).splitlines()
    except OSError:
        return None
    phase = ""
    for line in reversed(lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            row: dict[str, Any] = json.loads(line)
            if row["kind"] == "phase":
                phase = phase or str(row["phase"])
            if row["kind"] == "train":
                progress = row["progress"]
                return TrainingProgress(
                    epoch=row["epoch"],
                    epochs=progress["epochs"],
                    step=progress["epoch_step"],
                    steps=progress["epoch_steps"],
                    seconds_left=progress["seconds_left"],
                    loss=row["loss"],
                    phase=phase,
                )
    return None
