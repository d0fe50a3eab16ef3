"""Sends requests to the speaking process, streams sound back, restarts it when it dies.

Lives in the event loop; computes nothing.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from api.engine import supervision
from api.engine.child import SpeakingProcess
from api.engine.crash_breaker import CrashBreaker
from api.engine.options import DEMO, ChildOptions, EngineLimits, OpenedVoiceState, VoiceTarget
from api.engine.preview import PreviewSlot
from api.engine.queue import QueuedRequest, RequestQueue
from api.engine.speech_stream import (
    MICRO,
    SpeechStream,
    digest_of,
    no_refusal,
    refusal_of,
)
from api.engine.supervision import ComputePlacement, RestartHistory
from api.errors import APIError, closing
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.workers.failures import WorkerFailed

log = logging.getLogger("api")


class Engine:
    """What routes ask of it; `api.engine.supervisor` gives it a child."""

    def __init__(
        self, how: ChildOptions, limits: EngineLimits, on_event: Callable[..., None]
    ) -> None:
        self.how = how
        self.limits = limits
        self.on_event = on_event
        self.waiting = RequestQueue(limits.slots or 4, limits.queue)
        self.wanted: VoiceTarget = DEMO
        self.standing: OpenedVoiceState | None = None
        self.place: ComputePlacement | None = None
        self.placed: Mapping[str, Any] = {}  # what ONNX Runtime says of itself
        self.happened = RestartHistory()
        self.problem = self.problem_code = ""
        self.started_once = False
        self.last_spoken: float | None = None
        self.child: SpeakingProcess | None = None
        self.spoken: dict[str, SpeechStream] = {}
        self.closing = False
        self.openings = CrashBreaker()
        self.previews = PreviewSlot(limits, self.opened, self._close_voice, self._is_used)
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._names = itertools.count(1)

    # ---- what routes ask ----

    def speak(
        self, ask: SynthesisRequest, recording: str | None = None, caller: str = ""
    ) -> SpeechStream:
        """Takes a request in. Raises APIError when it cannot be in time, or is not welcome.

        caller: whose turns it takes; slots and queue are shared out by caller."""
        digest = self._welcome(ask, recording or "", caller)
        return self._take_in(ask, recording, digest, caller=caller)

    async def preview(
        self,
        voice: VoiceTarget,
        ask: SynthesisRequest,
        recording: str | None = None,
        caller: str = "",
    ) -> SpeechStream:
        """Takes a request in that is spoken with another voice than the served one: in the same
        queue, behind the same people. Raises APIError as `speak`, or when that voice cannot be
        opened beside the served one."""
        if self.how.compute.low_memory or self.how.compute.backend == "onnx":
            setting = "LOW_MEMORY=on" if self.how.compute.low_memory else "BACKEND=onnx"
            text = f"With {setting} no second voice is opened. Serve the epoch to hear it."
            raise APIError(409, "no_preview", text)
        # What kills the process with one voice need not kill it with another.
        source = f"{voice.name}/{recording or ''}"
        self._welcome(ask, source, caller)
        if self.child is None or self.standing is None:
            raise APIError(503, "starting", "The speaking process is being started.", retry_after=2)
        async with self.previews.held(voice) as opened:
            digest = self._welcome(ask, source, caller)  # seconds have passed
            return self._take_in(ask, recording, digest, opened, caller)

    def _welcome(self, ask: SynthesisRequest, source: str, caller: str) -> str:
        """The digest of an input that may come in. Raises APIError. source: whose voice it is."""
        now = time.monotonic()
        if self.closing:
            raise closing()
        digest = digest_of(ask, source)
        if no := self.waiting.refused(digest, caller, now, self.limits.guess):
            raise no_refusal(no, self.limits)
        return digest

    def cancel(self, spoken: SpeechStream) -> None:
        """The caller has gone: out of the queue, or out of the child within one step."""
        if spoken.over:
            return
        spoken.end(APIError(503, "cancelled", "The caller has gone."))
        speaks = spoken.job.name in self.waiting.speaking
        if self.child and (speaks or spoken.job.paused):
            self.child.send({"do": "cancel", "id": spoken.job.name})
        if not speaks:
            self.spoken.pop(spoken.job.name, None)
            self.waiting.leave(spoken.job.name)
        self.on_event("queue")

    async def open(self, voice: VoiceTarget) -> OpenedVoiceState:
        """Opens a voice beside the one that speaks, and speaks with it from then on.

        Raises APIError when it cannot be opened; the one before goes on then.
        """
        if self.child is None or self.standing is None:
            self.wanted = voice
            raise APIError(503, "starting", "The speaking process is being started.", retry_after=2)
        self.previews.release()
        key = f"v{next(self._names)}"
        answer = await self.opened(key, voice)
        before, self.wanted = self.standing, voice
        self.stand(key, voice, answer)
        if before:
            self._close_voice(before.key)
        return self.standing

    async def listen(self, recording: str) -> None:
        """Has the child take a voice from a recording. Raises APIError."""
        if self.standing is None:
            raise APIError(503, "starting", "The speaking process is being started.", retry_after=2)
        await self.ask({"do": "listen", "key": self.standing.key, "recording": recording})

    def forget(self, recording: str) -> None:
        """Has the child drop what it keeps of a recording in memory."""
        if self.child is not None:
            self.child.send({"do": "forget", "recording": recording})

    @property
    def ready(self) -> bool:
        """Whether it has really spoken within the last minute. A full queue changes nothing: a
        balancer that turned away would move the caller who filled it to the next replica."""
        if self.standing is None or self.last_spoken is None or self.closing:
            return False
        return time.monotonic() - self.last_spoken <= self.limits.ready

    @property
    def placement(self) -> dict[str, str]:
        """What computes: device, execution_provider, requested_provider; with ONNX Runtime, where
        that says it does."""
        place, backend = self.place, self.how.compute.backend
        if self.standing and self.placed:
            names = ("device", "execution_provider", "requested_provider")
            return {name: str(self.placed[name]) for name in names}
        if place is None:
            asked = f"{backend}:{self.how.compute.device}"
            return {"device": "none", "execution_provider": "none", "requested_provider": asked}
        return {
            "device": place.device,
            "execution_provider": supervision.provider(place, backend),
            "requested_provider": supervision.requested(self.how.compute.device, backend, place),
        }

    @property
    def state(self) -> supervision.State:
        return supervision.state(
            standing=self.standing is not None, started_once=self.started_once,
            found=self.place, problem=self._trouble[0] or str(self.placed.get("reason_code", "")),
        )  # fmt: skip

    @property
    def reason_code(self) -> str:
        """Why it is not as asked for, as a word; "" when it is."""
        placed, (_, code) = self.placed if self.standing else None, self._trouble
        return supervision.reason_code(self.place, placed, code, self.happened)

    @property
    def message(self) -> str:
        standing, (trouble, _) = self.standing is not None, self._trouble
        return supervision.message(self.place, self.placed, trouble, standing, self.happened)

    @property
    def _trouble(self) -> tuple[str, str]:
        """What is wrong with the voice, and its code: of the one that was wanted, else of this."""
        known = self.problem, self.problem_code
        return known if self.problem or not self.standing else self.standing.trouble

    # ---- what the supervisor does with it ----

    async def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a message that has one answer. Raises APIError."""
        assert self.child is not None
        name = f"a{next(self._names)}"
        future = self._asked[name] = asyncio.get_running_loop().create_future()
        self.child.send({**message, "id": name})
        try:
            answer = await asyncio.wait_for(future, self.limits.start)
        except TimeoutError:
            raise APIError(503, "hang", "The speaking process did not answer in time.") from None
        finally:
            self._asked.pop(name, None)
        if answer["say"] == "failed":
            raise refusal_of(answer)
        return answer

    async def opened(self, key: str, voice: VoiceTarget) -> dict[str, Any]:
        """Has the child open a voice. Raises APIError."""
        self.openings.check(voice)
        with self.openings.begun(voice):
            return await self.ask({"do": "open", "key": key, "voice": dict(voice.wanted)})

    def _close_voice(self, key: str) -> None:
        """Those who speak with it finish first: the child sees to that."""
        if self.child is not None:
            self.child.send({"do": "close", "key": key})

    def _is_used(self, key: str) -> bool:
        return any(one.voice is not None and one.voice.key == key for one in self.spoken.values())

    def stand(self, key: str, voice: VoiceTarget, answer: Mapping[str, Any]) -> None:
        """A voice is ready. It may have fewer slots than were asked for: a GPU's memory decides."""
        self.waiting.slots = int(answer.get("slots", self.waiting.slots))
        self.standing = OpenedVoiceState.of(key, voice, answer)
        self.started_once, self.placed = True, self.standing.placed
        self.on_event("status")
        self.dispatch()

    def dispatch(self) -> None:
        """Sends to the child whoever may speak now."""
        while self.child and self.standing and (job := self.waiting.next(time.monotonic())):
            if job.paused:
                job.paused = False
                self.child.send({"do": "go_on", "id": job.name})
                continue
            spoken = self.spoken[job.name]
            voice = spoken.voice or self.standing
            language = spoken.ask.language or voice.languages[0]
            self.child.send({
                "do": "speak", "id": job.name, "key": voice.key,
                "recording": spoken.recording, "micro": job.micro,
                "ask": asdict(spoken.ask) | {"language": language},
            })  # fmt: skip
            if not job.micro:
                self.on_event("waited", seconds=time.monotonic() - job.arrived)
        self.on_event("queue")

    def heard(self, header: dict[str, Any], body: bytes) -> None:
        """One frame of the child."""
        say, name = header["say"], header.get("id", "")
        if (future := self._asked.get(name)) is not None:
            if not future.done():
                future.set_result(header)
            return
        spoken = self.spoken.get(name)
        if say == "sound" and spoken is not None:
            # Its own word is a check: passed when it is whole. Another voice's says nothing of the
            # served one.
            if not spoken.job.micro and spoken.voice is None:
                self.last_spoken = time.monotonic()
            spoken.put(body)
        elif say == "words" and spoken is not None:
            spoken.words += header["words"]
        elif say == "paused":
            held = spoken is not None and spoken.is_behind
            self.waiting.pause(name, time.monotonic(), header["left"], held=held)
            self.dispatch()
        elif say in ("done", "failed", "cancelled"):
            self._ended(header, spoken)

    def lost(self, why: WorkerFailed) -> None:
        """The child is gone: active requests are answered; waiting ones go on waiting."""
        now, device = time.monotonic(), self.place.device if self.place else "cpu"
        self.happened = self.happened.died(
            device, str(why), why.reason_code, now, of_device=why.of_device
        )
        self.openings.died(device, why.reason_code, alone=not self.waiting.speaking)
        self.child = self.standing = None
        self.last_spoken = None
        told = APIError(503, why.reason_code, f"The speaking process ended: {why}", retry_after=5)
        for job in self.waiting.died():
            self._refuse(job.name, told)
        self.previews.lost()
        for name in [name for name, one in self.spoken.items() if one.voice is not None]:
            self._refuse(name, told)  # waited to speak with a voice that is gone
        for future in self._asked.values():
            if not future.done():
                future.set_exception(told)
        self.on_event("status")

    def close(self) -> None:
        """The service is being stopped: nobody is taken in, and who has not begun is told. Who is
        spoken to, or waits for the next piece, goes on until `cut_off`."""
        self.closing = True
        for job in [job for job in self.waiting.queue if not job.paused]:
            self._refuse(job.name, closing())

    def cut_off(self) -> None:
        """Ends every active request, and every question to the child."""
        for name in list(self.spoken):
            self._refuse(name, closing())
        for future in self._asked.values():
            if not future.done():
                future.set_exception(closing())

    def _refuse(self, name: str, refusal: APIError) -> None:
        self.waiting.leave(name)
        if (spoken := self.spoken.pop(name, None)) is not None:
            spoken.end(refusal)

    def expire(self) -> None:
        """Drops those whose time is up before they began; closes a preview that nobody needs."""
        now = time.monotonic()
        self.previews.expire(now)
        for job in self.waiting.expired(now):
            text = f"It was not this request's turn within {self.limits.deadline:g} s."
            again = self.waiting.retry_seconds(job.caller, now, self.limits.guess)
            self._refuse(job.name, APIError(503, "deadline", text, retry_after=again))

    def try_out(self) -> None:
        """Speaks a word by itself when there was no request for a while (the self-test)."""
        now = time.monotonic()
        silent = self.last_spoken is None or now - self.last_spoken > self.limits.micro
        trying = any(one.job.micro for one in self.spoken.values())
        idle = not trying and not self.waiting.speaking and not self.closing
        if self.standing and silent and idle:
            self._take_in(MICRO, None, "")

    def _take_in(
        self,
        ask: SynthesisRequest,
        recording: str | None,
        digest: str,
        voice: OpenedVoiceState | None = None,
        caller: str = "",
    ) -> SpeechStream:
        now, micro = time.monotonic(), ask is MICRO
        deadline = now + (self.limits.ready if micro else self.limits.turn)
        job = QueuedRequest(
            f"s{next(self._names)}", digest, now, deadline, micro, caller, len(ask.text)
        )
        spoken = SpeechStream(job, ask, recording, voice, on_read=self._read)
        self.spoken[job.name] = spoken
        self.waiting.enter(job)
        self.dispatch()
        return spoken

    def _read(self, spoken: SpeechStream) -> None:
        """A caller has taken sound: one who was too far behind may go on."""
        if spoken.job.held and not spoken.is_behind:
            spoken.job.held = False
            self.dispatch()

    def _ended(self, header: Mapping[str, Any], spoken: SpeechStream | None) -> None:
        self.spoken.pop(name := header["id"], None)
        if header["say"] == "done":
            now = time.monotonic()
            if spoken is None or spoken.voice is None:
                self.last_spoken = now
            self.waiting.said(name, now)
            self.happened = self.happened.spoke()
            if spoken is not None:
                spoken.seconds, spoken.cut_pieces = header["seconds"], header["cut_pieces"]
                spoken.pieces = header.get("pieces", [])
                spoken.timed = header.get("timed", False)
                spoken.end()
                self.on_event("spoken", spoken=spoken)
        else:
            self.waiting.leave(name)
            if spoken is not None and header["say"] == "failed":
                spoken.end(refusal_of(dict(header)))
                self._doubt(header, spoken)
        self.dispatch()

    def _doubt(self, header: Mapping[str, Any], spoken: SpeechStream) -> None:
        """Non-finite output, or an error that nobody expected: one input, or the process? The
        service's own word tells."""
        if header["reason_code"] == "internal":
            log.error("%s: %s", spoken.job.name, header["reason"])
        if header["reason_code"] in ("not_finite", "internal") and spoken.voice is None:
            self.last_spoken = None
            if spoken.job.micro and self.child is not None:
                asyncio.get_running_loop().create_task(self.child.kill())
