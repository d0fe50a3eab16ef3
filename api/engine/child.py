"""The speaking process under asyncio: the voices that it opens, its start, its answers, its end."""

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from api.errors import APIError
from machine.devices.selection import Environment, look_at_machine, oom_kills
from machine.process import StderrFile, kill_group, module_command
from machine.storage.files import JsonObject
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import WorkerFailed, failure_from_answer, failure_from_exit

_REAP_SECONDS = 5.0
# An interpreter with a model takes a while to end on a busy machine.
_EXIT_SECONDS = 3.0
# The longest line that the protocol allows, and the largest audio that may follow it.
_MAX_LINE_BYTES, _MAX_SOUND_BYTES = 1 << 20, 1 << 26
# What reading an invalid answer raises.
_INVALID_ANSWER = (asyncio.LimitOverrunError, ValueError, KeyError, TypeError, AttributeError)
_TICK_SECONDS = 0.1
# The reason code of a child -> HTTP status and code.
_HTTP_OF_REASON = {
    "refused": (422, "refused"),
    "no_reference": (409, "no_reference"),
    "not_finite": (503, "not_finite"),
    "internal": (500, "internal"),
}


@dataclass(frozen=True)
class VoiceTarget:
    """A voice on disk.

    Attributes:
        name: For /status and the log.
        spec: The fields of its `xtts.voices.voice_files.VoiceSpec`.
        decoder: The digest of its learned decoder (`xtts.voices.learned_decoder`), "" without one.
        sha256: The SHA-256 of a checkpoint, or of an imported voice's bundle.json; "" for others.
        run, candidate: The ids of its run and of the candidate; "" for a voice without a run.
        epoch: 0 for the base.
        share: The epoch's share of a blend; 1 for the epoch itself.
        reason: Why it is served, as a sentence.
    """

    name: str
    spec: Mapping[str, object]
    decoder: str = ""
    sha256: str = ""
    run: str = ""
    candidate: str = ""
    epoch: int = 0
    share: float = 1.0
    reason: str = field(default="", compare=False)


DEMO = VoiceTarget("demo", {"name": "demo"})


@dataclass(frozen=True)
class OpenedVoiceState:
    """An open voice, as the child reported it.

    Attributes:
        key: The child's name for it.
        own_voice: Whether it has a reference recording.
        own_name, speakers: As in `xtts.inference.loaded_voice.LoadedVoice`.
        placed: Where and why ONNX Runtime computes it; empty with torch.
        slots: Fewer than configured if the GPU's memory requires it.
    """

    key: str
    voice: VoiceTarget
    licence: str = ""
    languages: tuple[str, ...] = ()
    sha256: str = ""
    own_voice: bool = True
    own_name: str = ""
    speakers: Mapping[str, str] = field(default_factory=dict)
    precision: str = ""
    placed: Mapping[str, object] = field(default_factory=dict)
    slots: int | None = None

    @property
    def trouble(self) -> tuple[str, str]:
        """The message and code for a voice without a reference recording; empty otherwise."""
        if self.own_voice:
            return "", ""
        return "This voice has no reference recording: use an uploaded voice", "no_reference"


@dataclass(frozen=True)
class ChildOptions:
    """How a child process is started.

    Attributes:
        compute: Its device is the configured one.
        module, look_at_machine: Replaced in tests.
    """

    compute: ComputeConfig = field(default_factory=lambda: ComputeConfig("auto"))
    module: str = "xtts.workers.server_main"
    look_at_machine: Callable[[], Environment] = field(default=lambda: look_at_machine(use_cache=False))


class SpeakingProcess:
    """One child process; a restart makes a new object.

    Attributes:
        is_ready: Whether it takes requests.
    """

    def __init__(self, process: asyncio.subprocess.Process, errors: StderrFile) -> None:
        self.is_ready = False
        self._process = process
        self._errors = errors
        self._oom_kills = oom_kills()
        self._heard_at = time.monotonic()
        self._fault: WorkerFailed | None = None
        self._pending: dict[str, asyncio.Future[JsonObject]] = {}
        self._names = itertools.count(1)

    @staticmethod
    async def start(module: str, slots: int, compute: ComputeConfig) -> "SpeakingProcess":
        """Starts the process without waiting until it has loaded. Raises OSError."""
        errors = StderrFile()
        process = await asyncio.create_subprocess_exec(
            *module_command(module, "--slots", str(slots), *compute.command_line()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors.fileno(),
            start_new_session=True,
            limit=_MAX_LINE_BYTES,
        )
        return SpeakingProcess(process, errors)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Mapping[str, object]) -> None:
        """Writes a message to the pipe; does nothing if the child has ended."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def ask(self, message: Mapping[str, object], limit_seconds: float) -> JsonObject:
        """Sends a message and returns its single answer.

        Raises APIError if the answer is a refusal or late, or if the process ends before it.
        """
        name = f"a{next(self._names)}"
        future = self._pending[name] = asyncio.get_running_loop().create_future()
        self.send({**message, "id": name})
        try:
            answer = await asyncio.wait_for(future, limit_seconds)
        except TimeoutError:
            raise APIError(
                503, "hang", "The speaking process did not answer within the time limit."
            ) from None
        finally:
            self._pending.pop(name, None)
        if answer["say"] == "failed":
            raise refusal_of(answer)
        return answer

    def refuse_pending(self, refusal: APIError) -> None:
        """Ends every pending `ask` with a refusal."""
        for future in self._pending.values():
            if not future.done():
                future.set_exception(refusal)

    async def run(
        self,
        on_answer: Callable[[JsonObject, bytes], None],
        tick: Callable[[], None],
        *,
        start_seconds: float,
        hang_seconds: float,
    ) -> WorkerFailed:
        """Reads answers until the process ends, hangs or sends an invalid one; returns the reason.

        Args:
            on_answer: Called with each answer that is not for `ask`, and its audio.
            tick: Called ten times a second.
            start_seconds: How long the process may be silent before it is ready.
            hang_seconds: How long it may be silent afterwards.
        """
        reading = asyncio.create_task(self._read(on_answer))
        try:
            while not reading.done():
                await asyncio.wait({reading}, timeout=_TICK_SECONDS)
                silent_seconds = time.monotonic() - self._heard_at
                if silent_seconds > (hang_seconds if self.is_ready else start_seconds):
                    activity = "speaking" if self.is_ready else "getting ready"
                    text = f"It sent nothing for {silent_seconds:.0f} s while {activity}, and was ended."
                    self._fault = WorkerFailed("hang", text)
                    break
                tick()
        finally:
            reading.cancel()
            if self._fault is not None and self._fault.reason_code in ("hang", "garbled"):
                await self.kill()
        exit_fault = await self.end()
        return self._fault or exit_fault

    async def _read(self, on_answer: Callable[[JsonObject, bytes], None]) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        try:
            async for answer, sound in answers_of(stdout):
                self._heard_at = time.monotonic()
                if answer["say"] == "ready":
                    self.is_ready = True
                elif answer["say"] == "fault":
                    self._fault = failure_from_answer(answer)
                elif (future := self._pending.get(answer.get("id", ""))) is not None:
                    if not future.done():
                        future.set_result(answer)
                elif answer["say"] != "alive":
                    on_answer(answer, sound)
        except _INVALID_ANSWER as error:
            self._fault = WorkerFailed(
                "garbled", f"Its output is not the protocol ({type(error).__name__}).", of_device=False
            )

    async def end(self) -> WorkerFailed:
        """Ends the process and its children; returns the reason of its end."""
        # Wait for an exit in progress: its code says more than our SIGKILL would.
        has_exited = True
        try:
            await asyncio.wait_for(self._process.wait(), _EXIT_SECONDS)
        except TimeoutError:
            has_exited = False
        await self.kill()
        code = self._process.returncode
        last_line = self._errors.last_line()
        self._errors.close()
        if not has_exited:
            tail = f" Its last output: {last_line}" if last_line else ""
            return WorkerFailed("crashed", f"It closed its output and did not end.{tail}")
        return failure_from_exit(
            code if code is not None else 0, last_line, oom_killed=oom_kills() > self._oom_kills
        )

    async def kill(self) -> None:
        """Sends SIGKILL to its process group; does not wait if it hangs inside a driver."""
        kill_group(self._process.pid)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _REAP_SECONDS)
        if self._process.stdin is not None:
            self._process.stdin.close()


async def answers_of(stdout: asyncio.StreamReader) -> AsyncIterator[tuple[JsonObject, bytes]]:
    """The answers of a child with their audio (`xtts.workers.child`), until its end.

    Raises one of `_INVALID_ANSWER` for anything else.
    """
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            answer = json.loads(await stdout.readuntil(b"\n"))
            if (size := answer.get("bytes", 0)) > _MAX_SOUND_BYTES:
                raise ValueError(size)
            yield answer, await stdout.readexactly(size)


def refusal_of(answer: JsonObject) -> APIError:
    """The APIError for a child's `failed` answer."""
    code = answer["reason_code"]
    status, http_code = _HTTP_OF_REASON.get(code, (503, code))
    retry_after = 1 if status == 503 else None
    return APIError(status, http_code, answer["reason"], retry_after=retry_after)
