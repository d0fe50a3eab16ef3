"""Parent side of the isolated worker that speaks files for the trainer.

This is the parent's side; `xtts.workers.file_worker_main` is the other.

The child is a `machine.process.JsonLineProcess`: it dies with its parent even when that is killed.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from machine.devices.probe.runner import clean_environment
from machine.devices.selection import oom_kills
from machine.process import JsonLineProcess
from machine.storage.hashes import hashed_file
from xtts.workers.failures import WorkerFailed, death, worker_failed
from xtts.workers.file_evaluation import (
    EvaluateRequest,
    HeardRecordings,
    ListenRequest,
    SpeakingSpeed,
    SpokenSet,
    TrialRequest,
    facts_of,
    heard_of,
)
from xtts.workers.file_synthesis import SpeakRequest, SpokenFile
from xtts.workers.speaker_learning import LearnSpeakerRequest, SpeakerLearned

START_SECONDS = 180.0
_LOOK_SECONDS = 0.2
# It closed its output: its exit status is about to come.
_EXIT_SECONDS = 5.0


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
        guard: bool = True,
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
        self.guard = guard
        self.cudnn = cudnn
        self.clean_libraries = clean_libraries
        self.threads = threads
        self.niceness = niceness
        self.keep_weights = keep_weights
        self.start_seconds = start_seconds
        self._command = (
            tuple(command) if command else (sys.executable, "-m", "xtts.workers.file_worker_main")
        )
        self._child: JsonLineProcess | None = None
        self._ready = False
        self._oom_kills = 0

    @property
    def pid(self) -> int | None:
        """The child's process id while it is alive."""
        return self._child.pid if self._child and self._child.code is None else None

    def start(self) -> None:
        """Starts the child without waiting: it imports and loads while the parent goes on."""
        if self.pid is not None:
            return
        self.close()
        options = [
            "--base", str(self.base_folder), "--device", self.device,
            "--mel-device", self.mel_device, "--precision", self.precision,
            "--parent", str(os.getpid()), "--nice", str(self.niceness),
        ]  # fmt: skip
        options += [] if self.guard else ["--no-guard"]
        if self.threads:
            options += ["--threads", str(self.threads)]
        if self.keep_weights:
            options.append("--keep-weights")
        if not self.cudnn:
            options.append("--no-cudnn")
        self._oom_kills = oom_kills()
        self._child = JsonLineProcess(
            (*self._command, *options), keep_stderr=True,
            environ=clean_environment() if self.clean_libraries else None,
        )  # fmt: skip
        self._ready = False

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

    def trial(
        self,
        request: TrialRequest,
        timeout_seconds: float,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> SpeakingSpeed:
        """Measures how fast the worker speaks. Raises as `speak`."""
        return SpeakingSpeed(
            **self._ask("trial", request, "trying its speed", timeout_seconds, interrupted)
        )

    def learn_speaker(
        self,
        request: LearnSpeakerRequest,
        timeout_seconds: float,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> SpeakerLearned:
        """Learns a speaker embedding for some weights. Raises as `speak`."""
        doing = "learning a speaker embedding"
        return SpeakerLearned(
            **self._ask("learn_speaker", request, doing, timeout_seconds, interrupted)
        )

    def _ask(
        self,
        verb: str,
        request: SpeakRequest
        | EvaluateRequest
        | ListenRequest
        | LearnSpeakerRequest
        | TrialRequest,
        doing: str,
        timeout_seconds: float,
        interrupted: Callable[[], bool],
    ) -> dict[str, Any]:
        self.start()
        if not self._ready:
            self._answer("getting ready", self.start_seconds, interrupted)
            self._ready = True
        hashed = _hashed(getattr(request, "weights", None))
        self._send({"verb": verb, "hashed": hashed, **_plain(asdict(request))})
        return self._answer(doing, timeout_seconds, interrupted)

    def close(self) -> None:
        """Ends the child, and whatever it started."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _send(self, message: dict[str, Any]) -> None:
        assert self._child is not None
        try:
            self._child.send(message)
        except EOFError as error:  # a child that died between two requests
            raise self._death() from error

    def _answer(
        self, doing: str, timeout_seconds: float, interrupted: Callable[[], bool]
    ) -> dict[str, Any]:
        try:
            found = self._received(doing, timeout_seconds, interrupted)
        except EOFError as error:
            raise self._death() from error
        if not found.pop("ok"):
            told = worker_failed(found)
            if told.fault:  # the child has ended: nothing more is to be had from its context
                self.close()
            raise told
        return found

    def _received(
        self, doing: str, timeout_seconds: float, interrupted: Callable[[], bool]
    ) -> dict[str, Any]:
        """The child's next answer. Raises EOFError when it has ended."""
        assert self._child is not None
        end = time.monotonic() + timeout_seconds
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                return self._child.receive(min(_LOOK_SECONDS, left))
            if interrupted():
                self.close()
                raise WorkerFailed("interrupted", f"Stopped while {doing}.")
        last = self._child.last_error()
        self.close()
        raise WorkerFailed(
            "hang",
            f"The worker was still {doing} after {timeout_seconds:g} s and was ended."
            + (f" It said last: {last}" if last else ""),
        )

    def _death(self) -> WorkerFailed:
        assert self._child is not None
        code = self._child.wait(_EXIT_SECONDS)
        last = self._child.last_error()
        self.close()
        return death(code or 0, last, oom_killed=oom_kills() > self._oom_kills)


def _hashed(weights: Path | None) -> dict[str, Any] | None:
    """What the trainer has just written need not be hashed once more: a second at full size."""
    with contextlib.suppress(OSError):  # the child tells of what cannot be read
        known = hashed_file(weights) if weights else None
        return asdict(known) if known else None
    return None


def _plain(value: Any) -> Any:
    """What JSON can hold: paths as text, however deep."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
