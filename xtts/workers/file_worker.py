"""Parent side of the isolated worker that speaks files for the trainer.

This is the parent's side; `xtts.workers.file_worker_main` is the other.

One JSON line per request on the child's stdin, one per answer on its stdout. The child is its own
process group, and dies with its parent even when that is killed.
"""

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from machine.devices.probe.runner import clean_environment
from machine.devices.selection import oom_kills
from machine.storage.hash_cache import hashed_file
from xtts.workers.failures import WorkerFailed, death, worker_failed
from xtts.workers.file_evaluation import (
    EvaluateRequest,
    HeardRecordings,
    ListenRequest,
    SpokenSet,
    facts_of,
    heard_of,
)
from xtts.workers.file_synthesis import SpeakRequest, SpokenFile

log = logging.getLogger(__name__)

START_SECONDS = 180.0
_STDERR_KEPT_BYTES = 4096
_LOOK_SECONDS = 0.2


class Worker:
    """One child process with a base model's frozen parts loaded, started before it is needed.

    The child dies with the thread that started it: call `start` and `speak` from one that lives as
    long as the worker. keep_weights: as `xtts.workers.file_synthesis.FileSpeaker`. command: what to
    start instead of `xtts.workers.file_worker_main`, for tests.
    """

    def __init__(
        self,
        base_folder: Path,
        *,
        device: str = "cpu",
        mel_device: str = "cpu",
        precision: str = "auto",
        cudnn: bool = True,
        clean_libraries: bool = False,
        threads: int | None = None,
        niceness: int = 0,
        keep_weights: bool = True,
        start_seconds: float = START_SECONDS,
        command: Sequence[str] | None = None,
    ) -> None:
        self.base_folder = base_folder
        self.device = device
        self.mel_device = mel_device
        self.precision = precision
        self.cudnn = cudnn
        self.clean_libraries = clean_libraries
        self.threads = threads
        self.niceness = niceness
        self.keep_weights = keep_weights
        self.start_seconds = start_seconds
        self._command = (
            tuple(command) if command else (sys.executable, "-m", "xtts.workers.file_worker_main")
        )
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._errors: IO[bytes] | None = None
        self._ready = False
        self._oom_kills = 0

    @property
    def pid(self) -> int | None:
        """The child's process id while it is alive."""
        alive = self._child is not None and self._child.poll() is None
        return self._child.pid if alive and self._child else None

    def start(self) -> None:
        """Starts the child without waiting: it imports and loads while the parent goes on."""
        if self.pid is not None:
            return
        self.close()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        options = [
            "--base", str(self.base_folder), "--device", self.device,
            "--mel-device", self.mel_device, "--precision", self.precision,
            "--parent", str(os.getpid()), "--nice", str(self.niceness),
        ]  # fmt: skip
        if self.threads:
            options += ["--threads", str(self.threads)]
        if self.keep_weights:
            options.append("--keep-weights")
        if not self.cudnn:
            options.append("--no-cudnn")
        self._oom_kills = oom_kills()
        self._child = subprocess.Popen(
            (*self._command, *options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, encoding="utf-8", start_new_session=True,
            env=clean_environment() if self.clean_libraries else None,
        )  # fmt: skip
        self._answers = queue.Queue()
        self._ready = False
        threading.Thread(
            target=_pump, args=(self._child.stdout, self._answers), name="worker", daemon=True
        ).start()

    def speak(
        self,
        request: SpeakRequest,
        timeout_seconds: float,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> SpokenFile:
        """Speaks into `request.out`. A dead child is started again first.

        Raises WorkerFailed; a child that took too long, died or was `interrupted` is gone then, and
        the next call starts another.
        """
        return SpokenFile(**self._ask("speak", request, "speaking", timeout_seconds, interrupted))

    def evaluate(
        self,
        request: EvaluateRequest,
        timeout_seconds: float,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> SpokenSet:
        """Speaks and measures the sentences of an evaluation. Raises as `speak`."""
        return facts_of(self._ask("evaluate", request, "evaluating", timeout_seconds, interrupted))

    def listen(
        self,
        request: ListenRequest,
        timeout_seconds: float,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> HeardRecordings:
        """Measures recordings. Raises as `speak`."""
        return heard_of(self._ask("listen", request, "listening", timeout_seconds, interrupted))

    def _ask(
        self,
        verb: str,
        request: SpeakRequest | EvaluateRequest | ListenRequest,
        doing: str,
        timeout_seconds: float,
        interrupted: Callable[[], bool],
    ) -> dict[str, Any]:
        self.start()
        if not self._ready:
            self._answer("getting ready", self.start_seconds, interrupted)
            self._ready = True
        hashed = _hashed(getattr(request, "weights", None))
        self._send({"verb": verb, "hashed": hashed, **asdict(request)})
        return self._answer(doing, timeout_seconds, interrupted)

    def close(self) -> None:
        """Ends the child, and whatever it started."""
        if self._child is not None:
            _end(self._child)
            self._child = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _send(self, message: dict[str, Any]) -> None:
        assert self._child is not None and self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(message, default=str) + "\n")
            self._child.stdin.flush()
        except OSError as error:  # a child that died between two requests
            raise self._death() from error

    def _answer(
        self, doing: str, timeout_seconds: float, interrupted: Callable[[], bool]
    ) -> dict[str, Any]:
        line = self._line(doing, timeout_seconds, interrupted)
        if line is None:
            raise self._death()
        found: dict[str, Any] = json.loads(line)
        if not found.pop("ok"):
            told = worker_failed(found)
            if told.fault:  # the child has ended: nothing more is to be had from its context
                self.close()
            raise told
        return found

    def _line(
        self, doing: str, timeout_seconds: float, interrupted: Callable[[], bool]
    ) -> str | None:
        """The next line of the child; None when it has ended."""
        end = time.monotonic() + timeout_seconds
        while time.monotonic() < end:
            try:
                return self._answers.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if interrupted():
                    self.close()
                    raise WorkerFailed("interrupted", f"Stopped while {doing}.") from None
        last = _last_line(self._errors)
        self.close()
        raise WorkerFailed(
            "hang",
            f"The worker was still {doing} after {timeout_seconds:g} s and was ended."
            + (f" It said last: {last}" if last else ""),
        )

    def _death(self) -> WorkerFailed:
        assert self._child is not None
        try:
            code = self._child.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            code = 0
        last = _last_line(self._errors)
        self.close()
        return death(code, last, oom_killed=oom_kills() > self._oom_kills)


def _hashed(weights: Path | None) -> dict[str, Any] | None:
    """What the trainer has just written need not be hashed once more: a second at full size."""
    with contextlib.suppress(OSError):  # the child tells of what cannot be read
        known = hashed_file(weights) if weights else None
        return asdict(known) if known else None
    return None


def _pump(stream: IO[str], answers: "queue.Queue[str | None]") -> None:
    """Moves lines from the child's stdout into the queue; None when it is closed."""
    for line in stream:
        answers.put(line)
    answers.put(None)
    stream.close()


def _end(child: "subprocess.Popen[str]") -> None:
    # The whole group, and also after the leader has gone: what it started would stay behind.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        child.wait(timeout=5.0)
    except subprocess.TimeoutExpired:
        # In a driver call a process cannot be killed; waiting for it would hang us too.
        log.warning("Process %d does not end; it hangs in a driver call.", child.pid)
    if child.stdin is not None:
        with contextlib.suppress(OSError):
            child.stdin.close()


def _last_line(stream: IO[bytes] | None) -> str:
    if stream is None:
        return ""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _STDERR_KEPT_BYTES))
    lines = stream.read().decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:300]
