"""The separate worker process that speaks files for the trainer: both sides of its protocol.

Before the first request, the child loads its imports and the frozen parts of a base model; from a
checkpoint it reads only the GPT. In addition to the messages of every child (`xtts.workers.child`):
    {asked: TYPE, request}  -> {say: progress, share} …, then {say: done, answer} | failed
asked, request: one of `xtts.workers.requests`.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from machine.devices.recovery import exit_after_fault
from machine.devices.selection import oom_kills
from machine.process import JsonLineProcess, module_command
from machine.storage.files import JsonObject
from xtts.inference.compute_config import ComputeConfig
from xtts.workers import child
from xtts.workers.child import Say
from xtts.workers.failures import WorkerFailed, answer_to_error, failure_from_answer, failure_from_exit
from xtts.workers.requests import Answer, ReportProgress, Request, no_progress, request_types
from xtts.workers.tasks import FileSpeaker

START_SECONDS = 180.0
_POLL_SECONDS = 0.2
# The time to wait for the exit status after the child closed its output.
_EXIT_SECONDS = 5.0


class Worker:
    """A child process with the frozen parts of a base model, started before it is needed.

    The child dies with the thread that started it, so call `start` and `ask` from a thread that
    lives as long as the worker.

    keep_weights: as in `xtts.workers.tuned_model.TunedModel`; module: the child's, for tests.
    """

    def __init__(
        self,
        base_folder: Path,
        compute: ComputeConfig,
        *,
        niceness: int = 0,
        keep_weights: bool = True,
        start_seconds: float = START_SECONDS,
        module: str = "xtts.workers.file_worker",
    ) -> None:
        self.compute = compute
        self.start_seconds = start_seconds
        self._command = module_command(
            module,
            "--base",
            str(base_folder),
            "--nice",
            str(niceness),
            *(["--keep-weights"] if keep_weights else []),
            *compute.command_line(),
        )
        self._child: JsonLineProcess | None = None
        self._is_ready = False
        self._oom_kills_at_start = 0

    @property
    def pid(self) -> int | None:
        """The child's process id while it is alive."""
        return self._child.pid if self._child and self._child.code is None else None

    def start(self) -> None:
        """Starts the child and returns at once, while the child imports and loads."""
        if self.pid is not None:
            return
        self.close()
        self._oom_kills_at_start = oom_kills()
        self._child = JsonLineProcess(self._command)
        self._is_ready = False

    def ask(
        self,
        request: Request[Answer],
        timeout_seconds: float,
        is_interrupted: Callable[[], bool] = lambda: False,
        progress: ReportProgress = no_progress,
    ) -> Answer:
        """Sends a request to the child and returns its answer. Restarts a dead child first.

        timeout_seconds: the longest time without an answer or progress.

        Raises WorkerFailed. A child that took too long, died or was interrupted is closed, and the
        next call starts another.
        """
        self.start()
        if not self._is_ready:
            self._next_answer("getting ready", self.start_seconds, is_interrupted, progress)
            self._is_ready = True
        request_json = TypeAdapter(type(request)).dump_python(request, mode="json")
        message = {"asked": type(request).__name__, "request": request_json}
        answer = self._next_answer(request.doing, timeout_seconds, is_interrupted, progress, message)
        return TypeAdapter(request.answer_type()).validate_python(answer["answer"])

    def close(self) -> None:
        """Ends the child and its descendants."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _next_answer(
        self,
        doing: str,
        timeout_seconds: float,
        is_interrupted: Callable[[], bool],
        progress: ReportProgress,
        message: JsonObject | None = None,
    ) -> JsonObject:
        """The child's next answer, after sending a message if there is one. Raises WorkerFailed."""
        assert self._child is not None
        try:
            if message is not None:
                self._child.send(message)
            answer = self._receive(doing, timeout_seconds, is_interrupted, progress)
        except EOFError as error:
            code, last_line = self._child.wait(_EXIT_SECONDS), self._child.errors.last_line()
            self.close()
            raise failure_from_exit(
                code or 0, last_line, oom_killed=oom_kills() > self._oom_kills_at_start
            ) from error
        if answer["say"] in ("failed", "fault"):
            if answer["say"] == "fault":  # its CUDA context is unusable
                self.close()
            raise failure_from_answer(answer)
        return answer

    def _receive(
        self, doing: str, timeout_seconds: float, is_interrupted: Callable[[], bool], progress: ReportProgress
    ) -> JsonObject:
        """The child's next message that is not about progress. Raises WorkerFailed, and EOFError if
        the child ended."""
        assert self._child is not None
        deadline = time.monotonic() + timeout_seconds
        while (remaining_seconds := deadline - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                message = self._child.receive(min(_POLL_SECONDS, remaining_seconds))
                if message["say"] != "progress":
                    return message
                progress(message["share"])
                deadline = time.monotonic() + timeout_seconds
            if is_interrupted():
                self.close()
                raise WorkerFailed("interrupted", f"Stopped while {doing}.")
        last_line = self._child.errors.last_line()
        self.close()
        reason = f"The worker was still {doing} after {timeout_seconds:g} s and was stopped."
        raise WorkerFailed("hang", reason + (f" Its last line: {last_line}" if last_line else ""))


# --- the child's side


def main(new_speaker: Callable[[argparse.Namespace], FileSpeaker] | None = None) -> int:
    """Speaks until stdin is closed. Returns 2 if the base model cannot be loaded, 70 after a device
    fault. Any other error ends the process."""
    parser = argparse.ArgumentParser(description="Speaks for a trainer; not for people.")
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--keep-weights", action="store_true")

    def serve(arguments: argparse.Namespace, say: Say) -> None:
        os.nice(arguments.nice)
        speaker = (new_speaker or _new_speaker)(arguments)
        say({"say": "ready"})
        for line in sys.stdin:
            _answer_message(speaker, json.loads(line), say, arguments.compute.device)

    return child.run(parser, serve)


def _answer_message(speaker: FileSpeaker, message: JsonObject, say: Say, device: str) -> None:
    """Answers one request. Raises device faults, because only a new process has a new context."""
    try:
        kind = request_types()[message["asked"]]
        request = TypeAdapter(kind).validate_python(message["request"])
        answer = speaker.ask(request, lambda share: say({"say": "progress", "share": share}))
    except Exception as error:
        refusal = answer_to_error(error, device)
        if refusal is None or "fault" in refusal:
            raise
        say({"say": "failed", **refusal})
    else:
        say({"say": "done", "answer": asdict(answer)})


def _new_speaker(arguments: argparse.Namespace) -> FileSpeaker:
    arguments.compute.apply()
    return FileSpeaker(arguments.base, arguments.compute, keep_weights=arguments.keep_weights)


if __name__ == "__main__":
    exit_after_fault(main())
