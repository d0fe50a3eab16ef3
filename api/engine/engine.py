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
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from api.engine import supervision
from api.engine.child import ChildOptions, SpeakingProcess, SpeechStream, refusal_of
from api.engine.queue import (
    DEADLY,
    RETRY_SECONDS,
    EngineLimits,
    RequestQueue,
    digest_of,
)
from api.engine.supervision import EngineCondition, RestartHistory
from api.engine.voices import DEMO, OpenedVoiceState, PreviewSlot, VoiceTarget
from api.errors import APIError, closing, starting, without_paths
from api.metrics import ServiceMetrics
from machine.devices.selection import Place
from xtts.encoding import RATE
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.workers.failures import WorkerFailed

log = logging.getLogger("api")
_TOLD_OF_A_VOICE = (
    "licence", "sha256", "own_voice", "own_name", "speakers", "precision", "placed", "slots",
)  # fmt: skip
# The self-test.
MICRO = SynthesisRequest("Yes.", "", max_codes=12)


class Engine:
    """The interface of the routes to the speaking process, which `live` keeps running.

    Attributes:
        wanted: The voice that should speak; `standing` is the one that does.
        place: Where the process computes.
        happened: The history of earlier processes.
        problem, problem_code: Why `standing` is not the wanted voice; "" if it is.
        last_spoken: When the served voice last produced audio.
        spoken: Every request that has not ended, by name.
        changed: Called when the status changes.
    """

    def __init__(
        self, how: ChildOptions, limits: EngineLimits, metrics: ServiceMetrics,
        changed: Callable[[], None],
    ) -> None:  # fmt: skip
        self.how = how
        self.limits = limits
        self.metrics = metrics
        self.changed = changed
        self.requests = RequestQueue(limits.slots or 4, limits.queue)
        self.wanted: VoiceTarget = DEMO
        self.standing: OpenedVoiceState | None = None
        self.place: Place | None = None
        self.happened = RestartHistory()
        self.problem = self.problem_code = ""
        self.started_once = False
        self.last_spoken: float | None = None
        self.child: SpeakingProcess | None = None
        self.spoken: dict[str, SpeechStream] = {}
        self.closing = False
        self.previews = PreviewSlot(limits, self._opened, self._close_voice, self._is_used)
        self._opening: list[str] = []
        self._opening_deaths: dict[str, int] = {}
        self._names = itertools.count(1)

    # ---- for the routes ----

    def speak(
        self,
        ask: SynthesisRequest,
        recording: str | None = None,
        caller: str = "",
        cast: Mapping[str, str | None] = {},
    ) -> SpeechStream:
        """Queues a request. Raises APIError if it is refused.

        recording, cast: as in `SpeechStream`; caller: the slots and the queue are shared fairly
        between callers.
        """
        digest = self._welcome(ask, _source(recording, cast), caller)
        return self._take_in(ask, recording, digest, caller=caller, cast=cast)

    async def preview(
        self,
        voice: VoiceTarget,
        ask: SynthesisRequest,
        recording: str | None = None,
        caller: str = "",
        cast: Mapping[str, str | None] = {},
    ) -> SpeechStream:
        """Queues a request for another voice than the served one, in the same queue.

        Raises APIError as `speak`, or if no second voice can be opened.
        """
        if self.how.compute.low_memory or self.how.compute.backend == "onnx":
            setting = "LOW_MEMORY=on" if self.how.compute.low_memory else "BACKEND=onnx"
            text = f"With {setting} no second voice is opened. Promote the epoch to hear it."
            raise APIError(409, "no_preview", text)
        # An input that kills the process with one voice may be harmless with another.
        source = f"{voice.name}/{_source(recording, cast)}"
        self._welcome(ask, source, caller)
        if self.child is None or self.standing is None:
            raise starting()
        async with self.previews.held(voice) as opened:
            digest = self._welcome(ask, source, caller)  # opening may have taken seconds
            return self._take_in(ask, recording, digest, opened, caller, cast)

    def _welcome(self, ask: SynthesisRequest, source: str, caller: str) -> str:
        """The digest of an accepted input. Raises APIError. source: names its voice."""
        if self.closing:
            raise closing()
        digest = digest_of(ask, source)
        if refusal := self.requests.refusal(digest, caller):
            raise refusal
        return digest

    def cancel(self, spoken: SpeechStream) -> None:
        """Drops a request whose caller has left: from the queue, or from the child in one step."""
        if spoken.over:
            return
        spoken.end(APIError(503, "cancelled", "The caller has disconnected."))
        speaks = spoken.name in self.requests.speaking
        if self.child and (speaks or spoken.paused):
            self.child.send({"do": "cancel", "id": spoken.name})
        if not speaks:
            self.spoken.pop(spoken.name, None)
            self.requests.leave(spoken.name)
        self.changed()

    async def open(self, voice: VoiceTarget) -> OpenedVoiceState:
        """Opens a voice while the old one is served, then serves it.

        Raises APIError if it cannot be opened; the old voice stays served.
        """
        if self.child is None or self.standing is None:
            self.wanted = voice
            raise starting()
        self.previews.release()
        opened = await self._opened(f"v{next(self._names)}", voice)
        before, self.wanted = self.standing, voice
        self.problem = self.problem_code = ""
        self._stand(opened)
        if before:
            self._close_voice(before.key)
        return opened

    async def listen(self, recording: str) -> None:
        """Has the child compute the latents of a recording. Raises APIError."""
        if self.standing is None:
            raise starting()
        await self._ask({"do": "listen", "key": self.standing.key, "recording": recording})

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
        """The state with its reasons; the wanted voice's problem precedes the served one's."""
        problem, code = self.problem, self.problem_code
        if not problem and self.standing:
            problem, code = self.standing.trouble
        return EngineCondition(
            self.how.compute, self.place, self.standing.placed if self.standing else None,
            self.started_once, problem, code, self.happened,
        )  # fmt: skip

    # ---- voices ----

    def is_deadly(self, name: str) -> bool:
        """Whether the process died twice while it opened this voice, which is then not retried.

        The demo voice is always retried.
        """
        return self._opening_deaths.get(name, 0) >= DEADLY and name != DEMO.name

    async def _opened(self, key: str, voice: VoiceTarget) -> OpenedVoiceState:
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
            answer = await self._ask({"do": "open", "key": key, "voice": dict(voice.wanted)})
        except asyncio.CancelledError:
            cancelled = True  # the child is still opening this voice, and may die from it
            raise
        finally:
            if not cancelled and voice.name in self._opening:  # else `_lost` has cleared it
                self._opening.remove(voice.name)
        properties = {name: answer[name] for name in _TOLD_OF_A_VOICE if name in answer}
        return OpenedVoiceState(
            key, voice, **properties | {"languages": tuple(answer["languages"])}
        )

    async def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The child's answer. Raises APIError."""
        assert self.child is not None
        return await self.child.ask(message, self.limits.start)

    def _close_voice(self, key: str) -> None:
        """Closes a voice. The child lets its requests finish first."""
        if self.child is not None:
            self.child.send({"do": "close", "key": key})

    def _is_used(self, key: str) -> bool:
        return any(one.voice is not None and one.voice.key == key for one in self.spoken.values())

    def _stand(self, opened: OpenedVoiceState) -> None:
        """Serves an open voice."""
        self.requests.slots = opened.slots or self.requests.slots
        self.standing = opened
        self.started_once = True
        self.changed()
        self._dispatch()

    # ---- requests ----

    def _dispatch(self) -> None:
        """Sends to the child every request that has its turn."""
        while self.child and self.standing and (job := self.requests.next()):
            if job.paused:
                job.paused = False
                self.child.send({"do": "go_on", "id": job.name})
                continue
            spoken = self.spoken[job.name]
            voice = spoken.voice or self.standing
            language = spoken.ask.language or voice.languages[0]
            self.child.send({
                "do": "speak", "id": job.name, "key": voice.key,
                "recording": spoken.recording, "cast": spoken.cast, "micro": job.micro,
                "ask": asdict(spoken.ask) | {"language": language},
            })  # fmt: skip
            if not job.micro:
                self.metrics.queue_wait.observe(time.monotonic() - job.arrived)
        self.changed()

    def _heard(self, header: dict[str, Any], body: bytes) -> None:
        """Handles one answer of the child."""
        say, name = header["say"], header.get("id", "")
        spoken = self.spoken.get(name)
        if say == "sound" and spoken is not None:
            # The self-test counts only once it is complete, and audio of another voice proves
            # nothing about the served one.
            if not spoken.micro and spoken.voice is None:
                self.last_spoken = time.monotonic()
            spoken.put(body)
        elif say == "words" and spoken is not None:
            spoken.words += header["words"]
        elif say == "paused":
            held = spoken is not None and spoken.is_behind
            self.requests.pause(name, held=held)
            self._dispatch()
        elif say in ("done", "failed", "cancelled"):
            self._ended(header, spoken)

    def close_queue(self) -> None:
        """Refuses new and waiting requests, as the service is stopping.

        Requests that have begun continue until `cut_off`.
        """
        self.closing = True
        for job in [job for job in self.requests.queue if not job.paused]:
            self._refuse(job.name, closing())

    def cut_off(self) -> None:
        """Ends every active request and every pending `ask`."""
        for name in list(self.spoken):
            self._refuse(name, closing())
        if self.child is not None:
            self.child.refuse_asked(closing())

    def _refuse(self, name: str, refusal: APIError) -> None:
        self.requests.leave(name)
        if (spoken := self.spoken.pop(name, None)) is not None:
            spoken.end(refusal)

    def _expire(self) -> None:
        """Refuses requests whose deadline passed before their turn; closes an unused preview."""
        now = time.monotonic()
        self.previews.expire(now)
        for job in self.requests.expired(now):
            text = f"The request got no turn within {self.limits.deadline:g} s. Try again later."
            self._refuse(job.name, APIError(503, "deadline", text, retry_after=RETRY_SECONDS))

    def _try_out(self) -> None:
        """Runs the self-test: speaks one word if there was no request for a while."""
        now = time.monotonic()
        silent = self.last_spoken is None or now - self.last_spoken > self.limits.micro
        trying = any(one.micro for one in self.spoken.values())
        idle = not trying and not self.requests.speaking and not self.closing
        if self.standing and silent and idle:
            self._take_in(MICRO, None, "")

    def _take_in(
        self,
        ask: SynthesisRequest,
        recording: str | None,
        digest: str,
        voice: OpenedVoiceState | None = None,
        caller: str = "",
        cast: Mapping[str, str | None] = {},
    ) -> SpeechStream:
        now, micro = time.monotonic(), ask is MICRO
        deadline = now + (self.limits.ready if micro else self.limits.turn)
        spoken = SpeechStream(
            f"s{next(self._names)}", digest, now, deadline, micro, caller,
            ask=ask, recording=recording, cast=cast, voice=voice, on_read=self._read,
        )  # fmt: skip
        self.spoken[spoken.name] = spoken
        self.requests.enter(spoken)
        self._dispatch()
        return spoken

    def _read(self, spoken: SpeechStream) -> None:
        """Resumes a request whose caller had too much unread audio and has now read some."""
        if spoken.held and not spoken.is_behind:
            spoken.held = False
            self._dispatch()

    def _ended(self, header: Mapping[str, Any], spoken: SpeechStream | None) -> None:
        self.spoken.pop(name := header["id"], None)
        if header["say"] == "done":
            now = time.monotonic()
            if spoken is None or spoken.voice is None:
                self.last_spoken = now
            self.requests.said(name)
            self.happened = self.happened.spoke()
            if spoken is not None:
                spoken.seconds, spoken.cut_pieces = header["seconds"], header["cut_pieces"]
                spoken.pieces = header.get("pieces", [])
                spoken.timed = header.get("timed", False)
                spoken.end()
                self._measure(spoken)
                self.changed()
        else:
            self.requests.leave(name)
            if spoken is not None and header["say"] == "failed":
                spoken.end(_no_voice(spoken) or refusal_of(header))
                self._doubt(header, spoken)
        self._dispatch()

    def _measure(self, spoken: SpeechStream) -> None:
        seconds = spoken.num_bytes / 2 / RATE
        if not spoken.micro:
            self.metrics.audio_seconds.inc(seconds)
            if seconds and spoken.seconds is not None:
                self.metrics.rtf.set(spoken.seconds / seconds)

    def _doubt(self, header: Mapping[str, Any], spoken: SpeechStream) -> None:
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
                    self.child = await self._started()
                except OSError as error:
                    self._lost(WorkerFailed("crashed", f"It cannot start: {error}."))
                    continue
                why = await self._run(self.child)
                log.warning("The speaking process has ended (%s): %s", why.reason_code, why)
                self._lost(why)
        finally:
            self.close_queue()
            self.cut_off()
            if (child := self.child) is not None:
                self._lost(WorkerFailed("closing", "The service is stopping."))
                await child.kill()
                await child.end()

    async def _started(self) -> SpeakingProcess:
        how, before = self.how, self.place
        machine = await asyncio.to_thread(how.look)
        self.place = place = supervision.place(
            machine, how.compute.device, self.happened, time.monotonic()
        )
        if before is not None and before.value != place.value:
            self.metrics.fallbacks.labels(before.value, place.value, place.code).inc()
        slots = self.limits.slots or (4 if place.value == "cpu" else 16)
        self.requests.slots = slots
        log.info("Speaking process: %s", self.condition.message)
        return await SpeakingProcess.start(how.module, slots, how.compute.at(place))

    async def _run(self, child: SpeakingProcess) -> WorkerFailed:
        """Runs a child, opening the wanted voice once it is ready; returns why the child ended."""
        opening: asyncio.Task[None] | None = None

        def tick() -> None:
            nonlocal opening
            if child.ready and opening is None:
                opening = asyncio.get_running_loop().create_task(self._open_wanted())
            self._expire()
            self._try_out()

        try:
            return await child.run(
                self._heard, tick,
                start_seconds=self.limits.start, hang_seconds=self.limits.hang,
            )  # fmt: skip
        finally:
            if opening is not None:
                opening.cancel()

    async def _open_wanted(self) -> None:
        """Opens the wanted voice; if that fails, records the reason and opens the demo voice."""
        wanted = self.wanted
        try:
            self._stand(await self._opened(f"first-{wanted.name}", wanted))
            self.problem = self.problem_code = ""
            return
        except APIError as refusal:
            if self.child is None:
                return
            log.error("%s cannot be opened: %s", wanted.name, refusal)
            self.voice_refused(wanted, refusal)
        if wanted != DEMO:
            with contextlib.suppress(APIError):
                self._stand(await self._opened(f"first-{DEMO.name}", DEMO))

    def voice_refused(self, voice: VoiceTarget, refusal: APIError) -> None:
        """Records that the wanted voice cannot be opened, until another one can."""
        self.problem = without_paths(f"{voice.name} cannot be opened: {refusal.detail}")
        self.problem_code = "voice_refused"

    def _lost(self, why: WorkerFailed) -> None:
        """Handles the end of the child: active requests are refused; waiting ones stay queued."""
        device = self.place.value if self.place else "cpu"
        self.happened = self.happened.died(device, why, time.monotonic())
        # An active request may have been the cause as well as the opening voice. A GPU fault is not
        # blamed on a voice: the next child uses another device.
        if not self.requests.speaking and (device == "cpu" or why.reason_code == "crashed"):
            for name in self._opening:
                self._opening_deaths[name] = self._opening_deaths.get(name, 0) + 1
        self._opening.clear()
        child, self.child, self.standing, self.last_spoken = self.child, None, None, None
        refusal = APIError(
            503, why.reason_code, f"The speaking process ended: {why}", retry_after=5
        )
        for job in self.requests.died():
            self._refuse(job.name, refusal)
        self.previews.lost()
        for name in [name for name, one in self.spoken.items() if one.voice is not None]:
            self._refuse(name, refusal)  # its voice is closed
        if child is not None:
            child.refuse_asked(refusal)
        self.changed()


def _source(recording: str | None, cast: Mapping[str, str | None]) -> str:
    """A text that identifies the recordings of a request."""
    others = [f"{name}={path or ''}" for name, path in sorted(cast.items())]
    return "|".join([recording or "", *others])


def _no_voice(spoken: SpeechStream) -> APIError | None:
    """The refusal of a failed request if its voice, or one that its text names, was deleted while
    it waited; None if all still exist."""
    files = [one for one in (spoken.recording, *spoken.cast.values()) if one is not None]
    if all(map(os.path.exists, files)):
        return None
    text = "The voice was deleted while the request waited. /v1/voices lists the existing voices."
    return APIError(404, "no_voice", text, param="voice")
