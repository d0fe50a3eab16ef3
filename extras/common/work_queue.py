"""WorkQueue: works on a queue on disk, one child at a time, at a lower priority than speech.

An item is a folder, and `job.json` in it holds the state of its work. The replica that holds the
lock file in the queue's folder works on it. If a service ends or is killed, its child dies with it,
and the next service continues where the child stopped.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from api.errors import APIError, without_paths
from api.shared_folder import now
from extras.common.answers import failure_message
from extras.common.named_folders import NamedFolder, NamedFolders
from machine.process import StderrFile, kill_group
from machine.storage import locks
from machine.storage.files import WriteError, read_json, write_json
from machine.text import last_line, printable

log = logging.getLogger("api")

# The speaking process has niceness 0. With 19 the work would get no time on a busy machine.
NICENESS = 15
# The OOM killer takes the work first, because it can be continued.
_OOM_SCORE = 900
_POLL_SECONDS = 5.0
_MAX_LINE_BYTES = 1 << 16
# The time between two checks whether somebody speaks.
_CHECK_SECONDS = 0.05
# Every half second, a check whether another replica has stopped the work.
_CHECKS_UNTIL_STOP = 10
# Every 5 s, a check whether the disk has room.
_CHECKS_UNTIL_ROOM = 100
# How long speech must be absent before paused work resumes.
_QUIET_SECONDS = 1.0


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


class JobOutcome(NamedTuple):
    """The state of a job that has ended, and a message for the user."""

    state: JobState
    message: str


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


class WorkFolder(NamedFolder):
    """A named folder with work on it."""

    @property
    def job(self) -> Job:
        """The current state of the work, as it is on disk."""
        return read_job(self.folder, Job)


Item = TypeVar("Item", bound=WorkFolder)


class _RunningChild(NamedTuple):
    """The item that this service works on, and its child once it has started."""

    item_id: str
    process: asyncio.subprocess.Process | None


class WorkQueue(ABC, Generic[Item]):
    """Works on the queued items.

    Args:
        store: The items, queued or not, in a folder that replicas share.
        changed: Called with an item's id when the state of its work has changed.
        module: The module that the child runs.
        busy: Whether somebody speaks or waits to speak; the child is paused then. None never pauses
            it.
        check_room: Raises APIError if the disk has too little room to continue; blocks. None skips
            the check.

    Class attributes:
        work_name: The noun for the work, such as `cut`.
        lock_name: The name of the queue's lock file.
        max_seconds: The time limit for an item; None for no limit.
    """

    work_name: ClassVar[str]
    lock_name: ClassVar[str]
    max_seconds: ClassVar[float | None] = None

    def __init__(
        self,
        store: NamedFolders[Item],
        changed: Callable[[str], None],
        module: str,
        busy: Callable[[], bool] | None = None,
        check_room: Callable[[], None] | None = None,
    ) -> None:
        self.module = module
        self.niceness = NICENESS
        self._store = store
        self._changed = changed
        self._is_speech_active = busy
        self._check_room = check_room
        self._wake_event = asyncio.Event()
        self._lock: contextlib.ExitStack | None = None
        self._running: _RunningChild | None = None
        self._is_stopping = False
        self._failure = ""
        self._last_output = ""
        self._paused = False

    # ---- for each kind of work to define ----

    @abstractmethod
    def _prepare(self, item: Item, /) -> tuple[str, ...]:
        """Prepares the work; returns the command of its child. Blocks. Raises APIError."""

    @abstractmethod
    def _store_results(self, item: Item, /, state: str) -> None:
        """Stores the child's results, inside `changing`. Blocks. Raises APIError."""

    @abstractmethod
    def _repair(self) -> None:
        """Repairs the leftovers of a kill, once this service holds the lock. Blocks."""

    @abstractmethod
    def _environment(self) -> Mapping[str, str]:
        """The child's environment variables in addition to those of this process."""

    # ---- for the routes ----

    def wake(self) -> None:
        """Makes `work` check the queue at once."""
        self._wake_event.set()

    def told(self, item: Item) -> str:
        """The last line of the child's log, if this service works on that item."""
        return self._last_output if self._works_on(item) else ""

    def is_paused(self, item: Item) -> bool:
        """Whether its work is paused because somebody speaks."""
        return self._paused and self._works_on(item)

    def _works_on(self, item: Item) -> bool:
        return self._running is not None and self._running.item_id == item.id

    def place(self, item: Item) -> int:
        """The number of queued items before this one. Blocks."""
        waiting = [item.id for item in self._waiting()]
        return waiting.index(item.id) if item.id in waiting else 0

    async def stop(self, item: Item, *, deleted: bool = False) -> None:
        """Stops the work on an item, or removes it from the queue. Its progress is kept.

        A child of another replica ends within a second, when that replica reads the state.

        Args:
            item: The item.
            deleted: It will be deleted next, so a state that cannot be written is not an error.
        """
        if not self._works_on(item):
            try:
                if await asyncio.to_thread(self._unqueue, item):
                    self._changed(item.id)
            except APIError:
                if not deleted:
                    raise
        # Also if the child starts only now.
        while self._works_on(item):
            self._is_stopping = True
            if (child := self._running.process if self._running else None) is not None:
                kill_group(child.pid)
            await asyncio.sleep(0.02)

    # ---- the work ----

    async def work(self) -> None:
        """Works on the queue until cancelled; the next service continues what is unfinished."""
        try:
            while True:
                self._wake_event.clear()
                try:
                    if (item := await asyncio.to_thread(self._next)) is not None:
                        await self._process(item)
                        continue
                except (APIError, WriteError, OSError) as error:
                    log.error("The queue of %ss has stopped: %s", self.work_name, error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake_event.wait(), _POLL_SECONDS)
        finally:
            if self._lock is not None:
                self._lock.close()

    def _next(self) -> Item | None:
        """The next item, if this service holds the lock. Blocks."""
        if not self._store.folder.is_dir() or not self._take_lock():
            return None
        return next(iter(self._waiting()), None)

    def _waiting(self) -> list[Item]:
        """The queued items, and one marked as running, since no other service has the lock."""
        jobs = [(item, item.job) for item in self._store.all()]
        waiting = [(item, job) for item, job in jobs if job.is_queued]
        waiting.sort(key=lambda pair: (pair[1].state != "running", pair[1].asked or ""))
        return [item for item, _ in waiting]

    def _take_lock(self) -> bool:
        if self._lock is not None:
            return True
        lock = contextlib.ExitStack()
        try:
            lock.enter_context(locks.exclusive(self._store.folder / self.lock_name))
        except locks.LockHeld:
            return False
        self._lock = lock
        self._repair()
        return True

    def _unqueue(self, item: Item) -> bool:
        """Removes an item from the queue; returns whether it was queued."""
        return self._change_job(item, state="stopped", ended=now(), message=self._stopped_message)

    @property
    def _stopped_message(self) -> str:
        return f"Stopped. Start the {self.work_name} again to continue from there."

    def _change_job(self, item: Item, **changes: Any) -> bool:
        """Changes the fields of a job if it is queued or running; returns whether it was. A job
        that has ended does not change. Blocks. Raises APIError."""
        with item.changing():
            job = item.job
            if job.is_queued:
                write_job(item.folder, job, **changes)
        return job.is_queued

    def _end(self, item: Item, state: str, message: str) -> None:
        """Stores the outcome of the work. Blocks. Raises APIError."""
        if not item.exists:  # deleted by another replica while the child was still writing
            shutil.rmtree(item.folder, ignore_errors=True)
            return
        with item.changing():
            self._store_results(item, state)
            if _is_stopped(item):  # by another replica, which has stored that
                return
            write_job(item.folder, item.job, state=state, ended=now(), message=message)
        log.info("%s of %s: %s. %s", self.work_name.capitalize(), item.id, state, message)

    async def _process(self, item: Item) -> None:
        self._is_stopping, self._failure, self._last_output = False, "", ""
        self._running = _RunningChild(item.id, None)
        try:
            # It may have been removed from the queue since it was chosen.
            started = {"state": "running", "started": now(), "ended": None, "message": ""}
            if not await asyncio.to_thread(self._change_job, item, **started):
                return
            command = await asyncio.to_thread(self._prepare, item)
            self._changed(item.id)
            state, message = await self._run_child(item, command)
            await asyncio.to_thread(self._end, item, state, message)
        except asyncio.CancelledError:
            text = f"The service was stopped. After a restart the {self.work_name} continues."
            with contextlib.suppress(APIError):
                await asyncio.shield(asyncio.to_thread(self._change_job, item, state="queued", message=text))
            raise
        except (APIError, WriteError, OSError) as error:
            message = without_paths(str(error))
            with contextlib.suppress(APIError):
                await asyncio.to_thread(self._change_job, item, state="failed", ended=now(), message=message)
            log.error("The %s of %s failed: %s", self.work_name, item.id, error)
            # If that cannot be written either, the item is still queued: do not retry at once.
            await asyncio.sleep(_POLL_SECONDS)
        finally:
            self._running = None
            self._changed(item.id)

    async def _run_child(self, item: Item, command: tuple[str, ...]) -> JobOutcome:
        """Runs the child to its end."""
        errors = StderrFile()
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors.fileno(),
            start_new_session=True,
            limit=_MAX_LINE_BYTES,
            env={**os.environ, **self._environment()},
        )
        self._running = _RunningChild(item.id, child)
        _lower_priority(child.pid, self.niceness)
        watching = asyncio.create_task(self._watch(child, item))
        try:
            async with asyncio.timeout(self.max_seconds):
                await self._read_output(child)
                await child.wait()
        except TimeoutError:
            hours = (self.max_seconds or 0.0) / 3600
            text = f"The {self.work_name} was ended at the limit of {hours:g} hours."
            return JobOutcome("failed", text)
        finally:
            watching.cancel()
            kill_group(child.pid)
            with contextlib.suppress(asyncio.CancelledError):
                await child.wait()
            self._paused = False
            stderr = errors.tail()
            errors.close()
        if self._is_stopping:
            return JobOutcome("stopped", self._stopped_message)
        if self._failure:
            return JobOutcome("failed", self._failure)
        assert child.returncode is not None
        return outcome(child.returncode, stderr, self.work_name)

    async def _watch(self, child: asyncio.subprocess.Process, item: Item) -> None:
        """Pauses the child while somebody speaks or waits to. Ends it if the disk runs out of room,
        or if another replica has stopped or deleted its work."""
        quiet_since = 0.0
        for count in itertools.count(1):
            if self._is_speech_active is not None and self._is_speech_active():
                quiet_since = time.monotonic()
            # Not before its first line: until then it loads a voice, holding locks that speech may
            # need.
            pause = bool(self._last_output) and time.monotonic() - quiet_since < _QUIET_SECONDS
            if pause != self._paused:
                self._paused = pause
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGSTOP if pause else signal.SIGCONT)
            await asyncio.sleep(_CHECK_SECONDS)
            with contextlib.suppress(OSError):  # the folder may be unavailable for a moment
                if count % _CHECKS_UNTIL_STOP == 0:
                    self._is_stopping = self._is_stopping or await asyncio.to_thread(_is_stopped, item)
                if count % _CHECKS_UNTIL_ROOM == 0 and self._check_room is not None:
                    try:
                        await asyncio.to_thread(self._check_room)
                    except APIError as error:
                        self._failure = str(error)
            if self._is_stopping or self._failure:
                kill_group(child.pid)
                return

    async def _read_output(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:  # longer than any line of ours
                continue
            if not line:
                return
            if shown_line := last_line(printable(line.decode(errors="replace"))):
                self._last_output = without_paths(shown_line)


def _is_stopped(item: WorkFolder) -> bool:
    """Whether the running work was stopped, queued again since, or deleted. Blocks. An unreadable
    state does not count."""
    return not item.exists or item.job.state in ("stopped", "queued")


def outcome(code: int, stderr: str, work_name: str) -> JobOutcome:
    """The outcome of a job whose child has ended. Pure.

    Args:
        code: Its exit status, negative for a signal.
        stderr: The end of its stderr.
        work_name: As in `WorkQueue`.
    """
    if code == 0:
        return JobOutcome("done", "")
    reason = without_paths(failure_message(code, stderr))
    if code in (2, 74) and reason:
        return JobOutcome("failed", reason)
    advice = f"What is done is kept: start the {work_name} again, and it continues from there."
    if code < 0 or code in (130, 137, 143):
        text = f"The {work_name} was killed, perhaps because memory ran out. {advice}"
        return JobOutcome("failed", text)
    text = f"The {work_name} ended with exit code {code}. {reason} {advice}"
    return JobOutcome("failed", text.replace("  ", " "))


def _lower_priority(pid: int, niceness: int) -> None:
    # The group includes everything that the child starts.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, pid, niceness)
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")
