"""Cuts datasets with `python -m train cut`, one at a time, at a lower priority than speech.

The queue is on disk (`job.json`). The replica that holds the lock file of DATASETS_DIR works on it.
If a service ends or is killed, the next one continues its cut where `train cut` stopped.
"""

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from api.datasets import clips, takes, uploads
from api.datasets.prompts import refuse_read_aloud
from api.datasets.store import (
    Datasets,
    Job,
    UploadedDataset,
    changing,
    is_queued,
    now,
    read_job,
    write_job,
)
from api.errors import APIError, without_paths
from machine.process import StderrFile, kill_group, module_command
from machine.storage import locks
from machine.storage.atomic import WriteError
from machine.text import last_line, printable
from machine.threads import ONE_THREAD

log = logging.getLogger("api")

# The module that cuts; replaced in tests.
MODULE = "train"
# The speaking process has niceness 0. With 19 a cut would get no time on a busy machine.
NICENESS = 15
# The OOM killer takes the cut first, because a cut can be continued.
_OOM_SCORE = 900
# Ten hours of English take half an hour of one core. An endless file is stopped.
MOST_SECONDS = 12 * 3600.0
_LOOK_SECONDS = 5.0
_LONGEST_MESSAGE = 700
_READ_LIMIT = 1 << 16


class CutQueue:
    """Cuts what is queued.

    Args:
        changed: Called with a dataset's id when the state of its cut has changed.
        recogniser: A folder of what writes the transcripts of recordings without a text.
    """

    def __init__(
        self, datasets: Datasets, changed: Callable[[str], None],
        module: str = MODULE, recogniser: str | None = None,
    ) -> None:  # fmt: skip
        self.module = module
        self.niceness = NICENESS
        self._recogniser = recogniser
        self._datasets = datasets
        self._changed = changed
        self._woken = asyncio.Event()
        self._lock: contextlib.ExitStack | None = None
        self._running: tuple[str, asyncio.subprocess.Process | None] | None = None
        self._stopped = False
        self._told = ""

    def ask(self, dataset: UploadedDataset) -> Job:
        """Queues a cut. Blocks. Raises APIError if it is already queued or has no recording."""
        with changing(dataset, uncut=True):
            refuse_read_aloud(dataset)
            recordings = uploads.recordings(dataset)
            if not any(one.whole for one in recordings):
                text = "There is nothing to cut yet: no recording is complete."
                raise APIError(409, "no_recording", text)
            if unfinished := [one.name for one in recordings if not one.whole]:
                text = (
                    f"{len(unfinished)} recordings are incomplete, such as "
                    f"{unfinished[0]}. Send the rest, or delete them."
                )
                raise APIError(409, "unfinished_recording", text)
            return write_job(
                dataset, state="queued", asked=now(), started=None, ended=None, message=""
            )

    def wake(self) -> None:
        """Makes `work` look into the queue."""
        self._woken.set()

    def told(self, dataset: UploadedDataset) -> str:
        """The last line of the child's log, if this service cuts that dataset."""
        running = self._running
        return self._told if running is not None and running[0] == dataset.id else ""

    def place(self, dataset: UploadedDataset) -> int:
        """How many datasets are cut before this one. Blocks."""
        waiting = [one.id for one in self._waiting()]
        return waiting.index(dataset.id) if dataset.id in waiting else 0

    async def stop(self, dataset: UploadedDataset, *, deleted: bool = False) -> None:
        """Ends a cut, or removes it from the queue. Its progress is kept for the next time."""
        running = self._running
        if running is not None and running[0] == dataset.id:
            self._stopped = True
            if running[1] is not None:
                kill_group(running[1].pid)
            while self._running is running:
                await asyncio.sleep(0.02)
        elif not deleted and await asyncio.to_thread(_unqueue, dataset):
            self._changed(dataset.id)

    async def work(self) -> None:
        """Works on the queue until cancelled; the next service continues an unfinished cut."""
        try:
            while True:
                self._woken.clear()
                try:
                    if (dataset := await asyncio.to_thread(self._next)) is not None:
                        await self._cut(dataset)
                        continue
                except (APIError, WriteError, OSError) as error:
                    log.error("The queue of cuts has stopped: %s", error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), _LOOK_SECONDS)
        finally:
            if self._lock is not None:
                self._lock.close()

    def _next(self) -> UploadedDataset | None:
        """The dataset to cut next, if this service holds the lock. Blocks."""
        if not self._datasets.folder.is_dir() or not self._is_ours():
            return None
        return next(iter(self._waiting()), None)

    def _waiting(self) -> list[UploadedDataset]:
        """The queued datasets; includes one marked as running, as no other service has the lock."""
        jobs = [(one, read_job(one)) for one in self._datasets.all()]
        waiting = [(one, job) for one, job in jobs if job.state in ("queued", "running")]
        waiting.sort(key=lambda one: (one[1].state != "running", one[1].asked or ""))
        return [one for one, _ in waiting]

    def _is_ours(self) -> bool:
        if self._lock is not None:
            return True
        lock = contextlib.ExitStack()
        try:
            lock.enter_context(locks.exclusive(self._datasets.folder / ".cutting.lock"))
        except locks.LockHeld:
            return False
        self._lock = lock
        self._datasets.remove_rest()
        for dataset in self._datasets.all():
            # Between a correction and what training reads of it, a kill may have come.
            with contextlib.suppress(APIError), changing(dataset):
                adopt(dataset)
                takes.repair(dataset)
                clips.write_metadata(dataset)
        return True

    async def _cut(self, dataset: UploadedDataset) -> None:
        self._stopped, self._told = False, ""
        self._running = (dataset.id, None)
        try:
            command = await asyncio.to_thread(self._prepare, dataset)
            self._changed(dataset.id)
            state, message = await self._ran(dataset, command)
            await asyncio.to_thread(self._end, dataset, state, message)
        except asyncio.CancelledError:
            text = "The service was stopped. After a restart the cut continues from there."
            await asyncio.shield(
                asyncio.to_thread(_write_state, dataset, state="queued", message=text)
            )
            raise
        except (APIError, WriteError, OSError) as error:
            message = without_paths(str(error))
            await asyncio.to_thread(
                _write_state, dataset, state="failed", ended=now(), message=message
            )
            log.error("The cut of %s failed: %s", dataset.id, error)
            # Where not even that can be written, it is queued still.
            await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._running = None
            self._changed(dataset.id)

    def _prepare(self, dataset: UploadedDataset) -> tuple[str, ...]:
        with changing(dataset):
            inputs = uploads.signature(dataset)
            if read_job(dataset).inputs != inputs:
                # Of other recordings: nothing of it may get among the clips.
                shutil.rmtree(dataset.cutting, ignore_errors=True)
            write_job(
                dataset, state="running", started=now(), ended=None, message="", inputs=inputs
            )
        paths = [str(one.path.resolve()) for one in uploads.recordings(dataset) if one.whole]
        options = ["--to", str(dataset.cutting.resolve()), "--language", dataset.language]
        if (text := uploads.text_of(dataset)) is not None:
            options += ["--text", str(text.resolve())]
        elif self._recogniser is not None:
            options += ["--recogniser", str(Path(self._recogniser).resolve())]
        return module_command(self.module, "cut", *paths, *options)

    async def _ran(self, dataset: UploadedDataset, command: tuple[str, ...]) -> tuple[str, str]:
        """Runs it to its end: the state of the job, and a sentence."""
        errors = StderrFile()
        child = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=errors.fileno(), start_new_session=True, limit=_READ_LIMIT,
            env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
        self._running = (dataset.id, child)
        _behind_everybody(child.pid, self.niceness)
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await self._listen(child)
                await child.wait()
        except TimeoutError:
            return "failed", f"The cut was ended at the limit of {MOST_SECONDS / 3600:g} hours."
        finally:
            kill_group(child.pid)
            with contextlib.suppress(asyncio.CancelledError):
                await child.wait()
            stderr = errors.tail()
            errors.close()
        if self._stopped:
            return "stopped", "Stopped. Cut again to continue from there."
        assert child.returncode is not None
        return outcome(child.returncode, stderr)

    async def _listen(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:  # longer than any that is ours
                continue
            if not line:
                return
            if line_shown := last_line(printable(line.decode(errors="replace"))):
                self._told = without_paths(line_shown)

    def _end(self, dataset: UploadedDataset, state: Any, message: str) -> None:
        if not (dataset.folder / "dataset.json").is_file():
            # Deleted meanwhile, by another replica: what the child has made goes too.
            shutil.rmtree(dataset.folder, ignore_errors=True)
            return
        with changing(dataset):
            if state == "done":
                adopt(dataset)
                clips.write_metadata(dataset)
            write_job(dataset, state=state, ended=now(), message=message)
        log.info("Cut of %s: %s. %s", dataset.id, state, message)


def _unqueue(dataset: UploadedDataset) -> bool:
    """Takes it from the queue; whether it was there. Blocks. Raises APIError."""
    if not is_queued(dataset):
        return False
    with changing(dataset):
        if queued := is_queued(dataset):
            text = "Stopped. Cut again to continue from there."
            write_job(dataset, state="stopped", ended=now(), message=text)
    return queued


def adopt(dataset: UploadedDataset) -> None:
    """Puts a cut that is whole in the place of the one before, inside `changing`; again after a
    kill. Blocks."""
    if not (dataset.cutting / "cut.json").is_file():
        return
    before = dataset.folder / ".clips-before"
    shutil.rmtree(before, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        dataset.clips.rename(before)
    dataset.cutting.rename(dataset.clips)
    shutil.rmtree(before, ignore_errors=True)


def outcome(code: int, stderr: str) -> tuple[str, str]:
    """What the end of `train cut` means: the state of the job, and a sentence. Pure.

    Args:
        code: Its exit status, negative for a signal.
        stderr: The end of its stderr.
    """
    if code == 0:
        return "done", ""
    stderr = printable(stderr)
    words = last_line(stderr) if "Traceback (most" in stderr else " ".join(stderr.split())
    words = without_paths(words[-_LONGEST_MESSAGE:])
    if code in (2, 74) and words:
        return "failed", words
    again = "The progress is kept: cut again to continue from there."
    if code < 0 or code in (130, 137, 143):
        return "failed", f"The cut was killed, perhaps because memory ran out. {again}"
    return "failed", f"The cut ended with exit code {code}. {words} {again}".replace("  ", " ")


def _behind_everybody(pid: int, niceness: int) -> None:
    # All that it starts is in its group, and gets the same.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, pid, niceness)
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")


def _write_state(dataset: UploadedDataset, **changes: Any) -> None:
    """In a thread: another process may hold the folder's lock. A cut that has ended stays so."""
    with contextlib.suppress(APIError), changing(dataset):
        if read_job(dataset).state in ("queued", "running"):
            write_job(dataset, **changes)
