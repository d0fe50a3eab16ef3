"""Sends requests to the speaking process, streams audio back, restarts the process if it dies.

A process that dies or hangs is replaced. The new one computes on the device that a new inspection
of the machine recommends. The engine runs in the event loop and computes nothing itself.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict

from api.engine import supervision
from api.engine.child import DEMO, ChildOptions, OpenedVoiceState, SpeakingProcess, VoiceTarget, refusal_of
from api.engine.queue import DEADLY, RETRY_SECONDS, EngineLimits, RequestQueue, SpeechStream
from api.engine.supervision import EngineCondition, RestartHistory
from api.errors import APIError, closing, starting, without_paths
from api.metrics import ServiceMetrics
from machine.devices.selection import Place
from machine.storage.files import JsonObject
from xtts.encoding import RATE
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.workers.failures import WorkerFailed

log = logging.getLogger("api")
_TOLD_OF_A_VOICE = ("licence", "sha256", "own_voice", "own_name", "speakers", "precision", "placed", "slots")
# The self-test.
MICRO = SynthesisRequest("Yes.", "", max_codes=12)
_LOOK_SECONDS = 0.05


class Engine:
    """The interface of the routes to the speaking process, which `live` keeps running.

    Attributes:
        target: The voice that should speak; `standing` is the one that does.
        place: Where the process computes.
        happened: The history of earlier processes.
        problem, problem_code: Why `standing` is not the target; "" if it is.
        last_spoken: When the served voice last produced audio.
        previewed: An open voice in addition to the served one; at most one, to bound the memory.
        changed: Called when the status changes.
    """

    def __init__(
        self, how: ChildOptions, limits: EngineLimits, metrics: ServiceMetrics, changed: Callable[[], None]
    ) -> None:
        self.how = how
        self.limits = limits
        self.metrics = metrics
        self.changed = changed
        self.requests = RequestQueue(limits.slots or 4, limits.queue)
        self.target: VoiceTarget = DEMO
        self.standing: OpenedVoiceState | None = None
        self.place: Place | None = None
        self.happened = RestartHistory()
        self.problem = self.problem_code = ""
        self.started_once = False
        self.last_spoken: float | None = None
        self.child: SpeakingProcess | None = None
        self.closing = False
        self.previewed: OpenedVoiceState | None = None
        self._previewing = asyncio.Lock()
        self._previews_waiting = 0
        self._preview_used = 0.0
        self._opening: list[str] = []
        self._opening_deaths = Counter[str]()
        self._names = itertools.count(1)

    # ---- for the routes ----

    def speak(self, spoken: SpeechStream) -> SpeechStream:
        """Queues a request. Raises APIError if it is refused."""
        self._admit(spoken)
        return self._enter(spoken, self.limits.turn)

    async def preview(self, spoken: SpeechStream) -> SpeechStream:
        """Queues a request for another voice than the served one, in the same queue.

        It waits, first come first served, until no request uses another preview. Raises APIError as
        `speak`, or if the voice cannot be opened.
        """
        assert spoken.target is not None
        voice = spoken.target
        if self.how.compute.low_memory or self.how.compute.backend == "onnx":
            setting = "LOW_MEMORY=on" if self.how.compute.low_memory else "BACKEND=onnx"
            text = f"With {setting} no second voice is opened. Promote the epoch to hear it."
            raise APIError(409, "no_preview", text)
        self._admit(spoken)
        if self.child is None or self.standing is None:
            raise starting()
        if self._previews_waiting >= self.limits.queue:
            text = f"{self.limits.queue} requests already wait to hear an epoch. Try again later."
            raise APIError(503, "queue_full", text, retry_after=5)
        async with contextlib.AsyncExitStack() as alone:
            self._previews_waiting += 1
            try:
                async with asyncio.timeout(self.limits.turn):
                    await alone.enter_async_context(self._previewing)
                    while self._uses_preview() and self.preview_of(voice) is None:
                        await asyncio.sleep(_LOOK_SECONDS)
            except TimeoutError:
                text = "Another epoch is in use. Only one can be open in addition to the served voice."
                raise APIError(503, "preview_busy", text, retry_after=5) from None
            finally:
                self._previews_waiting -= 1
            if (opened := self.preview_of(voice)) is None:
                self._close_preview()
                opened = await self._open_voice(f"preview-{next(self._names)}", voice)
                self.previewed = opened
            self._preview_used = time.monotonic()
            spoken.voice = opened
            return self.speak(spoken)

    def _admit(self, spoken: SpeechStream) -> None:
        """Raises APIError for a request that may not enter the queue."""
        if self.closing:
            raise closing()
        if refusal := self.requests.refusal(spoken.digest, spoken.caller):
            raise refusal

    def preview_of(self, voice: VoiceTarget) -> OpenedVoiceState | None:
        """The preview, if it is this voice."""
        return self.previewed if self.previewed and self.previewed.voice == voice else None

    def _uses_preview(self) -> bool:
        return any(job.voice is not None and job.voice is self.previewed for job in self.requests)

    def _close_preview(self) -> None:
        if self.previewed is not None:
            self._close_voice(self.previewed.key)
            self.previewed = None

    def _close_unused_preview(self, seconds: float) -> None:
        """Closes the preview unless it was used within these seconds."""
        if self._uses_preview() or self._previewing.locked():
            self._preview_used = time.monotonic()
        elif time.monotonic() - self._preview_used > seconds:
            self._close_preview()

    def cancel(self, spoken: SpeechStream) -> None:
        """Drops a request whose caller has left: from the queue, or from the child in one step."""
        if spoken.over:
            return
        spoken.end(APIError(503, "cancelled", "The caller has disconnected."))
        self._tell_child("cancel", spoken)
        if spoken.name not in self.requests.speaking:
            self.requests.leave(spoken.name)
        self.changed()

    async def open(self, voice: VoiceTarget) -> OpenedVoiceState:
        """Opens a voice while the old one is served, then serves it.

        Raises APIError if it cannot be opened; the old voice stays served.
        """
        if self.child is None or self.standing is None:
            self.target = voice
            raise starting()
        self._close_unused_preview(0.0)
        opened = await self._open_voice(f"v{next(self._names)}", voice)
        before, self.target = self.standing, voice
        self.problem = self.problem_code = ""
        self._stand(opened)
        if before:
            self._close_voice(before.key)
        return opened

    def forget(self, recording: str) -> None:
        """Has the child drop the cached latents of a recording."""
        if self.child is not None:
            self.child.send({"do": "forget", "recording": recording})

    @property
    def ready(self) -> bool:
        """Whether the service has spoken within the last minute.

        A full queue does not make it unready: a load balancer would only move the caller that
        filled it to the next replica.
        """
        if self.standing is None or self.last_spoken is None or self.closing:
            return False
        return time.monotonic() - self.last_spoken <= self.limits.ready

    @property
    def condition(self) -> EngineCondition:
        """The state with its reasons; the target voice's problem precedes the served one's."""
        problem, code = self.problem, self.problem_code
        if not problem and self.standing:
            problem, code = self.standing.trouble
        return EngineCondition(
            self.how.compute,
            self.place,
            self.standing.placed if self.standing else None,
            self.started_once,
            problem,
            code,
            self.happened,
        )

    # ---- voices ----

    def is_deadly(self, name: str) -> bool:
        """Whether the process died twice while it opened this voice, which is then not retried.

        The demo voice is always retried.
        """
        return self._opening_deaths[name] >= DEADLY and name != DEMO.name

    async def _open_voice(self, key: str, voice: VoiceTarget) -> OpenedVoiceState:
        """Has the child open a voice. Raises APIError."""
        if self.is_deadly(voice.name):
            text = (
                f"{voice.name} ended the speaking process {DEADLY} times while it was opened. The "
                "service tries it again after a restart."
            )
            raise APIError(409, "deadly_voice", text)
        self._opening.append(voice.name)
        cancelled = False
        try:
            answer = await self._ask({"do": "open", "key": key, "voice": dict(voice.spec)})
        except asyncio.CancelledError:
            cancelled = True  # the child is still opening this voice, and may die from it
            raise
        finally:
            if not cancelled and voice.name in self._opening:  # else `_handle_death` has cleared it
                self._opening.remove(voice.name)
        properties = {name: answer[name] for name in _TOLD_OF_A_VOICE if name in answer}
        return OpenedVoiceState(key, voice, **properties | {"languages": tuple(answer["languages"])})

    async def _ask(self, message: Mapping[str, object]) -> JsonObject:
        """The child's answer. Raises APIError."""
        assert self.child is not None
        return await self.child.ask(message, self.limits.start)

    def _close_voice(self, key: str) -> None:
        """Closes a voice. The child lets its requests finish first."""
        if self.child is not None:
            self.child.send({"do": "close", "key": key})

    def _stand(self, opened: OpenedVoiceState) -> None:
        """Serves an open voice; a new child gets the requests that wait."""
        self.requests.slots = opened.slots or self.requests.slots
        before, self.standing = self.standing, opened
        self.started_once = True
        if self.child is not None:
            self.child.send({"do": "serve", "key": opened.key, "slots": self.requests.slots})
            for job in self.requests.queue if before is None else ():
                self._send(job)
        self.changed()

    # ---- requests ----

    def _send(self, job: SpeechStream) -> None:
        """Sends a request to the child, where it waits for its turns."""
        assert self.child is not None
        self.child.send(
            {
                "do": "speak",
                "id": job.name,
                "key": job.voice and job.voice.key,
                "caller": job.caller,
                "suspect": job.digest if self.requests.suspect(job) else "",
                "recording": job.recording,
                "cast": job.cast,
                "micro": job.micro,
                "ask": asdict(job.ask),
            }
        )

    def _tell_child(self, do: str, job: SpeechStream) -> None:
        if self.child is not None:
            self.child.send({"do": do, "id": job.name})

    def _handle_answer(self, header: JsonObject, body: bytes) -> None:
        """Handles one answer of the child."""
        say, name = header["say"], header.get("id", "")
        spoken = self.requests.find(name)
        if say == "sound" and spoken is not None:
            # The self-test counts only once it is complete, and audio of another voice proves
            # nothing about the served one.
            if not spoken.micro and spoken.voice is None:
                self.last_spoken = time.monotonic()
            spoken.put(body)
            if spoken.is_behind and not spoken.held:
                spoken.held = True
                self._tell_child("hold", spoken)
        elif say == "words" and spoken is not None:
            spoken.words += header["words"]
        elif say == "turn":
            job = self.requests.begin(name)
            if job is not None and not (job.micro or job.begun):
                self.metrics.queue_wait.observe(time.monotonic() - job.arrived)
            self.changed()
        elif say == "paused":
            self.requests.pause(name)
            self.changed()
        elif say in ("done", "failed", "cancelled"):
            self._end_request(header, spoken)

    def close_queue(self) -> None:
        """Refuses new and waiting requests, as the service is stopping.

        Requests that have begun continue until `cut_off`.
        """
        self.closing = True
        for job in [job for job in self.requests.queue if not job.begun]:
            self._refuse(job, closing())

    def cut_off(self) -> None:
        """Ends every active request and every pending `ask`."""
        for job in list(self.requests):
            self._refuse(job, closing())
        if self.child is not None:
            self.child.refuse_asked(closing())

    def _refuse(self, spoken: SpeechStream, refusal: APIError) -> None:
        self.requests.leave(spoken.name)
        self._tell_child("cancel", spoken)
        spoken.end(refusal)

    def _expire(self) -> None:
        """Refuses requests whose deadline passed before their turn; closes an unused preview."""
        self._close_unused_preview(self.limits.preview)
        text = f"The request got no turn within {self.limits.deadline:g} s. Try again later."
        for job in self.requests.remove_expired(time.monotonic()):
            self._refuse(job, APIError(503, "deadline", text, retry_after=RETRY_SECONDS))

    def _try_out(self) -> None:
        """Runs the self-test: speaks one word if there was no request for a while."""
        last = self.last_spoken
        silent = last is None or time.monotonic() - last > self.limits.micro
        idle = not self.closing and not self.requests.speaking
        if self.standing and silent and idle and not any(job.micro for job in self.requests):
            self._enter(SpeechStream(MICRO, micro=True), self.limits.ready)

    def _enter(self, spoken: SpeechStream, seconds: float) -> SpeechStream:
        """Queues a request that must get its turn within `seconds`."""
        spoken.name, spoken.on_read = f"s{next(self._names)}", self._read
        spoken.arrived = time.monotonic()
        spoken.deadline = spoken.arrived + seconds
        self.requests.enter(spoken)
        if self.standing is not None:
            self._send(spoken)
        self.changed()
        return spoken

    def _read(self, spoken: SpeechStream) -> None:
        """Resumes a request whose caller had too much unread audio and has now read some."""
        if spoken.held and not spoken.is_behind:
            spoken.held = False
            self._tell_child("resume", spoken)

    def _end_request(self, header: JsonObject, spoken: SpeechStream | None) -> None:
        name = header["id"]
        if header["say"] == "done":
            now = time.monotonic()
            if spoken is None or spoken.voice is None:
                self.last_spoken = now
            self.requests.finish(name)
            if self.happened.in_a_row:
                self.happened = self.happened.spoke()
            if spoken is not None:
                spoken.seconds, spoken.cut_pieces = header["seconds"], header["cut_pieces"]
                spoken.pieces = header.get("pieces", [])
                spoken.timed = header.get("timed", False)
                spoken.end()
                self._measure(spoken)
        else:
            self.requests.leave(name)
            if spoken is not None and header["say"] == "failed":
                spoken.end(_no_voice(spoken) or refusal_of(header))
                self._doubt(header, spoken)
        self.changed()

    def _measure(self, spoken: SpeechStream) -> None:
        seconds = spoken.num_bytes / 2 / RATE
        if not spoken.micro:
            self.metrics.audio_seconds.inc(seconds)
            if seconds and spoken.seconds is not None:
                self.metrics.rtf.set(spoken.seconds / seconds)

    def _doubt(self, header: JsonObject, spoken: SpeechStream) -> None:
        """After non-finite output or an unexpected error, runs the self-test.

        It shows whether one input or the whole process is at fault.
        """
        if header["reason_code"] == "internal":
            log.error("%s: %s", spoken.name, header["reason"])
        if header["reason_code"] in ("not_finite", "internal") and spoken.voice is None:
            self.last_spoken = None
            if spoken.micro and self.child is not None:
                asyncio.get_running_loop().create_task(self.child.kill())

    # ---- the speaking processes, one after another ----

    async def live(self) -> None:
        """Keeps a child running until cancelled, which ends the child and its active requests.

        `api.http.server` lets the requests finish before that.
        """
        try:
            while True:
                await asyncio.sleep(supervision.back_off(self.happened))
                try:
                    self.child = await self._start_child()
                except OSError as error:
                    self._handle_death(WorkerFailed("crashed", f"It cannot start: {error}."))
                    continue
                why = await self._run(self.child)
                log.warning("The speaking process has ended (%s): %s", why.reason_code, why)
                self._handle_death(why)
        finally:
            self.close_queue()
            self.cut_off()
            if (child := self.child) is not None:
                self._handle_death(WorkerFailed("closing", "The service is stopping."))
                await child.kill()
                await child.end()

    async def _start_child(self) -> SpeakingProcess:
        how, before = self.how, self.place
        machine = await asyncio.to_thread(how.look)
        self.place = place = supervision.place(machine, how.compute.device, self.happened, time.monotonic())
        if before is not None and before.value != place.value:
            self.metrics.fallbacks.labels(before.value, place.value, place.code).inc()
        slots = self.limits.slots or (4 if place.value == "cpu" else 16)
        self.requests.slots = slots
        log.info("Speaking process: %s", self.condition.message)
        return await SpeakingProcess.start(how.module, slots, how.compute.at(place))

    async def _run(self, child: SpeakingProcess) -> WorkerFailed:
        """Runs a child, opening the target voice once it is ready; returns why the child ended."""
        opening: asyncio.Task[None] | None = None

        def tick() -> None:
            nonlocal opening
            if child.ready and opening is None:
                opening = asyncio.get_running_loop().create_task(self._open_target())
            self._expire()
            self._try_out()

        try:
            return await child.run(
                self._handle_answer, tick, start_seconds=self.limits.start, hang_seconds=self.limits.hang
            )
        finally:
            if opening is not None:
                opening.cancel()

    async def _open_target(self) -> None:
        """Opens the target voice; if that fails, records the reason and opens the demo voice."""
        target = self.target
        try:
            self._stand(await self._open_voice(f"first-{target.name}", target))
            self.problem = self.problem_code = ""
            return
        except APIError as refusal:
            if self.child is None:
                return
            self.voice_refused(target, refusal)
        if target != DEMO:
            with contextlib.suppress(APIError):
                self._stand(await self._open_voice(f"first-{DEMO.name}", DEMO))

    def voice_refused(self, voice: VoiceTarget, refusal: APIError) -> None:
        """Logs and records that the wanted voice cannot be opened, until another one can."""
        instead = self.standing.voice if self.standing else DEMO
        text = f"{voice.name} cannot be opened: {refusal.detail.rstrip('.')}."
        if instead != voice:
            text += f" The voice {instead.name} speaks instead."
        log.error("%s", text)
        self.problem = without_paths(text)
        self.problem_code = "voice_refused"

    def _handle_death(self, why: WorkerFailed) -> None:
        """Handles the end of the child: active requests are refused; waiting ones stay queued."""
        device = self.place.value if self.place else "cpu"
        self.happened = self.happened.died(device, why, time.monotonic())
        # An active request may have been the cause as well as the opening voice. A GPU fault is not
        # blamed on a voice: the next child uses another device.
        if not self.requests.speaking and (device == "cpu" or why.reason_code == "crashed"):
            for name in self._opening:
                self._opening_deaths[name] += 1
        self._opening.clear()
        child, self.child, self.standing, self.last_spoken = self.child, None, None, None
        refusal = APIError(503, why.reason_code, f"The speaking process ended: {why}", retry_after=5)
        for job in self.requests.died():
            job.end(refusal)
        for job in [job for job in self.requests if job.voice is not None]:
            self._refuse(job, refusal)  # its voice is closed
        self.previewed = None
        if child is not None:
            child.refuse_asked(refusal)
        self.changed()


def _no_voice(spoken: SpeechStream) -> APIError | None:
    """The refusal of a failed request if its voice, or one that its text names, was deleted while
    it waited; None if all still exist."""
    files = [path for path in (spoken.recording, *spoken.cast.values()) if path is not None]
    if all(map(os.path.exists, files)):
        return None
    text = "The voice was deleted while the request waited. /v1/voices lists the existing voices."
    return APIError(404, "no_voice", text, param="voice")
