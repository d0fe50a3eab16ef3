"""Sends requests to the speaking process, streams audio back, replaces the process if it ends.

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
from functools import partial

from api.engine import supervision
from api.engine.child import DEMO, ChildOptions, OpenedVoiceState, SpeakingProcess, VoiceTarget, refusal_of
from api.engine.queue import DEADLY_COUNT, RETRY_SECONDS, EngineLimits, RequestQueue, SpeechStream
from api.engine.supervision import EngineCondition, RestartHistory
from api.errors import APIError, closing_refusal, starting_refusal, without_paths
from api.metrics import ServiceMetrics
from machine.devices.selection import Place
from machine.storage.files import JsonObject
from xtts.encoding import RATE
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.workers.failures import WorkerFailed

log = logging.getLogger("api")
# The fields of the child's answer that describe an open voice.
_VOICE_FIELDS = ("licence", "sha256", "own_voice", "own_name", "speakers", "precision", "placed", "slots")
# The request of the self-test.
SELF_TEST = SynthesisRequest("Yes.", "", max_codes=12)
_POLL_SECONDS = 0.05


class Engine:
    """The interface of the routes to the speaking process, which `keep_running` keeps alive.

    Attributes:
        options: How the process is started.
        on_change: Called when the status changes.
        target: The voice that should speak; `served_voice` is the one that does.
        served_voice: None while no voice is open.
        place: Where the process computes.
        history: The deaths of earlier processes.
        problem, problem_code: Why `served_voice` is not the target; "" if it is.
        last_spoken: When the served voice last produced audio.
        child: The process; None while none runs.
        previewed: An open voice in addition to the served one; at most one, to bound the memory.
    """

    def __init__(
        self,
        options: ChildOptions,
        limits: EngineLimits,
        metrics: ServiceMetrics,
        on_change: Callable[[], None],
    ) -> None:
        self.options = options
        self.limits = limits
        self.metrics = metrics
        self.on_change = on_change
        self.requests = RequestQueue(limits.slots or 4, limits.queue)
        self.target: VoiceTarget = DEMO
        self.served_voice: OpenedVoiceState | None = None
        self.place: Place | None = None
        self.history = RestartHistory()
        self.problem = self.problem_code = ""
        self.has_served = False
        self.last_spoken: float | None = None
        self.child: SpeakingProcess | None = None
        self.is_closing = False
        self.previewed: OpenedVoiceState | None = None
        self._preview_lock = asyncio.Lock()
        self._previews_waiting = 0
        self._preview_used_at = 0.0
        self._openings: dict[str, str] = {}  # the name of each voice that the child is opening, by key
        self._opening_deaths = Counter[str]()
        self._names = itertools.count(1)
        self._killing: asyncio.Task[None] | None = None

    # ---- for the routes ----

    def speak(self, stream: SpeechStream) -> SpeechStream:
        """Queues a request. Raises APIError if it is refused."""
        self._admit(stream)
        return self._queue(stream, self.limits.turn_seconds)

    async def preview(self, stream: SpeechStream) -> SpeechStream:
        """Queues a request for a voice other than the served one, in the same queue.

        First come first served, it waits until no request uses another preview. Raises APIError as
        `speak`, and if the voice cannot be opened.
        """
        assert stream.target is not None
        voice = stream.target
        if self.options.compute.low_memory or self.options.compute.backend == "onnx":
            setting = "LOW_MEMORY=on" if self.options.compute.low_memory else "BACKEND=onnx"
            text = f"With {setting} no second voice is opened. Promote the epoch to hear it."
            raise APIError(409, "no_preview", text)
        self._admit(stream)
        if self.child is None or self.served_voice is None:
            raise starting_refusal()
        if self._previews_waiting >= self.limits.queue:
            text = f"{self.limits.queue} requests already wait to hear an epoch. Try again later."
            raise APIError(503, "queue_full", text, retry_after=5)
        async with contextlib.AsyncExitStack() as held_lock:
            self._previews_waiting += 1
            try:
                async with asyncio.timeout(self.limits.turn_seconds):
                    await held_lock.enter_async_context(self._preview_lock)
                    while self._preview_is_used() and self.preview_of(voice) is None:
                        await asyncio.sleep(_POLL_SECONDS)
            except TimeoutError:
                text = "Another epoch is in use. Only one can be open in addition to the served voice."
                raise APIError(503, "preview_busy", text, retry_after=5) from None
            finally:
                self._previews_waiting -= 1
            if (opened := self.preview_of(voice)) is None:
                self._close_preview()
                opened = await self._open_voice(f"preview-{next(self._names)}", voice)
                self.previewed = opened
            self._preview_used_at = time.monotonic()
            stream.voice = opened
            return self.speak(stream)

    def _admit(self, stream: SpeechStream) -> None:
        """Raises APIError for a request that may not enter the queue."""
        if self.is_closing:
            raise closing_refusal()
        if refusal := self.requests.refusal(stream.digest, stream.caller):
            raise refusal

    def preview_of(self, voice: VoiceTarget) -> OpenedVoiceState | None:
        """The preview, if it is this voice."""
        return self.previewed if self.previewed and self.previewed.voice == voice else None

    def _preview_is_used(self) -> bool:
        return any(stream.voice is not None and stream.voice is self.previewed for stream in self.requests)

    def _close_preview(self) -> None:
        if self.previewed is not None:
            self._close_voice(self.previewed.key)
            self.previewed = None

    def _close_unused_preview(self, idle_seconds: float) -> None:
        """Closes the preview if no request has used it for `idle_seconds`."""
        if self._preview_is_used() or self._preview_lock.locked():
            self._preview_used_at = time.monotonic()
        elif time.monotonic() - self._preview_used_at > idle_seconds:
            self._close_preview()

    def cancel(self, stream: SpeechStream) -> None:
        """Drops a request whose caller has left: from the queue, or from the child at its next
        step."""
        if stream.is_over:
            return
        stream.end(APIError(503, "cancelled", "The caller has disconnected."))
        self._send_about("cancel", stream)
        if stream.name not in self.requests.speaking:
            self.requests.leave(stream.name)
        self.on_change()

    async def open(self, voice: VoiceTarget) -> OpenedVoiceState:
        """Opens a voice while the old one is served, then serves it.

        Raises APIError if it cannot be opened; the old voice stays served.
        """
        if self.child is None or self.served_voice is None:
            self.target = voice
            raise starting_refusal()
        self._close_unused_preview(0.0)
        opened = await self._open_voice(f"v{next(self._names)}", voice)
        previous, self.target = self.served_voice, voice
        self.problem = self.problem_code = ""
        self._serve(opened)
        if previous:
            self._close_voice(previous.key)
        return opened

    def forget(self, recording: str) -> None:
        """Has the child drop the cached latents of a recording."""
        if self.child is not None:
            self.child.send({"do": "forget", "recording": recording})

    @property
    def served_sha256(self) -> str:
        """The SHA-256 of the served voice's weights; "" while no voice is open."""
        return self.served_voice.sha256 if self.served_voice else ""

    @property
    def is_ready(self) -> bool:
        """Whether the service has spoken within the last minute.

        A full queue does not make it unready: a load balancer would only move the caller that
        filled it to the next replica.
        """
        if self.served_voice is None or self.last_spoken is None or self.is_closing:
            return False
        return time.monotonic() - self.last_spoken <= self.limits.ready_seconds

    @property
    def condition(self) -> EngineCondition:
        """The state with its reasons; the target voice's problem precedes the served one's."""
        problem, code = self.problem, self.problem_code
        if not problem and self.served_voice:
            problem, code = self.served_voice.trouble
        return EngineCondition(
            self.options.compute,
            self.place,
            self.served_voice.placed if self.served_voice else None,
            self.has_served,
            problem,
            code,
            self.history,
        )

    # ---- voices ----

    def is_deadly(self, voice_name: str) -> bool:
        """Whether the process died twice while it opened this voice, which is then not retried.

        The demo voice is always retried.
        """
        return self._opening_deaths[voice_name] >= DEADLY_COUNT and voice_name != DEMO.name

    async def _open_voice(self, key: str, voice: VoiceTarget) -> OpenedVoiceState:
        """Has the child open a voice. Raises APIError."""
        if self.is_deadly(voice.name):
            text = (
                f"{voice.name} ended the speaking process {DEADLY_COUNT} times while it was opened. The "
                "service tries it again after a restart."
            )
            raise APIError(409, "deadly_voice", text)
        self._openings[key] = voice.name
        opening = asyncio.ensure_future(self._ask({"do": "open", "key": key, "voice": dict(voice.spec)}))
        opening.add_done_callback(lambda _: self._openings.pop(key, None))
        try:
            answer = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The child cannot be interrupted: it opens the voice, or dies from it.
            opening.add_done_callback(partial(self._close_if_opened, key))
            raise
        properties = {name: answer[name] for name in _VOICE_FIELDS if name in answer}
        return OpenedVoiceState(key, voice, **properties | {"languages": tuple(answer["languages"])})

    def _close_if_opened(self, key: str, opening: asyncio.Task[JsonObject]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._close_voice(key)

    async def _ask(self, message: Mapping[str, object]) -> JsonObject:
        """The child's answer. Raises APIError."""
        if self.child is None:  # it died while this request waited for the preview
            raise starting_refusal()
        return await self.child.ask(message, self.limits.start_seconds)

    def _close_voice(self, key: str) -> None:
        """Closes a voice. The child lets its requests finish first."""
        if self.child is not None:
            self.child.send({"do": "close", "key": key})

    def _serve(self, opened: OpenedVoiceState) -> None:
        """Serves an open voice; if it is a new child's first, the child gets the waiting requests."""
        self.requests.slots = opened.slots or self.requests.slots
        previous, self.served_voice = self.served_voice, opened
        self.has_served = True
        if self.child is not None:
            self.child.send({"do": "serve", "key": opened.key, "slots": self.requests.slots})
            for stream in self.requests.queue if previous is None else ():
                self._send_request(stream)
        self.on_change()

    # ---- requests ----

    def _send_request(self, stream: SpeechStream) -> None:
        """Sends a request to the child, where it waits for its turns."""
        assert self.child is not None
        self.child.send(
            {
                "do": "speak",
                "id": stream.name,
                "key": stream.voice and stream.voice.key,
                "caller": stream.caller,
                "suspect": stream.digest if self.requests.is_suspect(stream) else "",
                "recording": stream.recording,
                "cast": stream.cast,
                "micro": stream.is_self_test,
                "ask": asdict(stream.request),
            }
        )

    def _send_about(self, action: str, stream: SpeechStream) -> None:
        """Sends the child an action on a request that it knows."""
        if self.child is not None:
            self.child.send({"do": action, "id": stream.name})

    def _handle_answer(self, header: JsonObject, body: bytes) -> None:
        """Handles one answer of the child. body: the audio of a `sound`."""
        kind, name = header["say"], header.get("id", "")
        stream = self.requests.find(name)
        if kind == "sound" and stream is not None:
            # The self-test counts only once it is complete, and audio of another voice proves
            # nothing about the served one.
            if not stream.is_self_test and stream.voice is None:
                self.last_spoken = time.monotonic()
            stream.put(body)
            if stream.is_behind and not stream.is_held:
                stream.is_held = True
                self._send_about("hold", stream)
        elif kind == "words" and stream is not None:
            stream.words += header["words"]
        elif kind == "turn":
            active = self.requests.begin(name)
            if active is not None and not (active.is_self_test or active.has_begun):
                self.metrics.queue_wait.observe(time.monotonic() - active.arrived)
            self.on_change()
        elif kind == "paused":
            self.requests.pause(name)
            self.on_change()
        elif kind in ("done", "failed", "cancelled"):
            self._end_request(header, stream)

    def close_queue(self) -> None:
        """Refuses new and waiting requests, as the service is stopping.

        Requests that have begun continue until `cut_off`.
        """
        self.is_closing = True
        for stream in [stream for stream in self.requests.queue if not stream.has_begun]:
            self._refuse(stream, closing_refusal())

    def cut_off(self) -> None:
        """Ends every active request and every pending `ask`."""
        for stream in list(self.requests):
            self._refuse(stream, closing_refusal())
        if self.child is not None:
            self.child.refuse_pending(closing_refusal())

    def _refuse(self, stream: SpeechStream, refusal: APIError) -> None:
        self.requests.leave(stream.name)
        self._send_about("cancel", stream)
        stream.end(refusal)

    def _refuse_expired(self) -> None:
        """Refuses requests whose deadline passed before their turn; closes an unused preview."""
        self._close_unused_preview(self.limits.preview_seconds)
        text = f"The request got no turn within {self.limits.deadline_seconds:g} s. Try again later."
        for stream in self.requests.remove_expired(time.monotonic()):
            self._refuse(stream, APIError(503, "deadline", text, retry_after=RETRY_SECONDS))

    def _run_self_test(self) -> None:
        """Speaks one word if nothing was spoken for a while."""
        last = self.last_spoken
        is_silent = last is None or time.monotonic() - last > self.limits.self_test_seconds
        is_idle = not self.is_closing and not self.requests.speaking
        if (
            self.served_voice
            and is_silent
            and is_idle
            and not any(stream.is_self_test for stream in self.requests)
        ):
            self._queue(SpeechStream(SELF_TEST, is_self_test=True), self.limits.ready_seconds)

    def _queue(self, stream: SpeechStream, turn_seconds: float) -> SpeechStream:
        """Queues a request that must get its turn within `turn_seconds`."""
        stream.name, stream.on_read = f"s{next(self._names)}", self._resume
        stream.arrived = time.monotonic()
        stream.deadline = stream.arrived + turn_seconds
        self.requests.enter(stream)
        if self.served_voice is not None:
            self._send_request(stream)
        self.on_change()
        return stream

    def _resume(self, stream: SpeechStream) -> None:
        """Resumes a request whose caller had too much unread audio and has now read some."""
        if stream.is_held and not stream.is_behind:
            stream.is_held = False
            self._send_about("resume", stream)

    def _end_request(self, header: JsonObject, stream: SpeechStream | None) -> None:
        name = header["id"]
        if header["say"] == "done":
            now = time.monotonic()
            if stream is None or stream.voice is None:
                self.last_spoken = now
            self.requests.finish(name)
            if self.history.deaths_in_a_row:
                self.history = self.history.with_success()
            if stream is not None:
                stream.seconds, stream.cut_pieces = header["seconds"], header["cut_pieces"]
                stream.pieces = header.get("pieces", [])
                stream.has_word_times = header.get("timed", False)
                stream.end()
                self._observe(stream)
        else:
            self.requests.leave(name)
            if stream is not None and header["say"] == "failed":
                stream.end(_deleted_voice_refusal(stream) or refusal_of(header))
                self._check_after_failure(header, stream)
        self.on_change()

    def _observe(self, stream: SpeechStream) -> None:
        seconds = stream.num_bytes / 2 / RATE
        if not stream.is_self_test:
            self.metrics.audio_seconds.inc(seconds)
            if seconds and stream.seconds is not None:
                self.metrics.rtf.set(stream.seconds / seconds)

    def _check_after_failure(self, header: JsonObject, stream: SpeechStream) -> None:
        """After non-finite output or an unexpected error, lets the self-test run.

        It shows whether one input or the whole process is at fault. If the self-test itself failed,
        the process is killed.
        """
        if header["reason_code"] == "internal":
            log.error("%s: %s", stream.name, header["reason"])
        if header["reason_code"] in ("not_finite", "internal") and stream.voice is None:
            self.last_spoken = None
            if stream.is_self_test and self.child is not None:
                self._killing = asyncio.create_task(self.child.kill())

    # ---- the speaking processes, one after another ----

    async def keep_running(self) -> None:
        """Keeps a child running until cancelled, which ends the child and its active requests.

        `api.http.server` lets the requests finish before that.
        """
        refusing = asyncio.create_task(self._keep_refusing())
        try:
            while True:
                await asyncio.sleep(supervision.back_off_seconds(self.history))
                try:
                    self.child = await self._start_child()
                except OSError as error:
                    self._handle_death(WorkerFailed("crashed", f"It cannot start: {error}."))
                    continue
                death = await self._run(self.child)
                log.warning("The speaking process has ended (%s): %s", death.reason_code, death)
                self._handle_death(death)
        finally:
            refusing.cancel()
            self.close_queue()
            self.cut_off()
            if (child := self.child) is not None:
                self._handle_death(WorkerFailed("closing", "The service is stopping."))
                await child.kill()
                await child.end()

    async def _keep_refusing(self) -> None:
        """Refuses expired requests until cancelled, also while no child runs."""
        while True:
            self._refuse_expired()
            await asyncio.sleep(_POLL_SECONDS)

    async def _start_child(self) -> SpeakingProcess:
        options, previous = self.options, self.place
        machine = await asyncio.to_thread(options.look_at_machine)
        now = time.monotonic()
        self.place = place = supervision.next_place(machine, options.compute.device, self.history, now)
        if previous is not None and previous.value != place.value:
            self.metrics.fallbacks.labels(previous.value, place.value, place.code).inc()
        slots = self.limits.slots or (4 if place.value == "cpu" else 16)
        self.requests.slots = slots
        log.info("Speaking process: %s", self.condition.message)
        return await SpeakingProcess.start(options.module, slots, options.compute.at(place))

    async def _run(self, child: SpeakingProcess) -> WorkerFailed:
        """Runs a child, opening the target voice once it is ready; returns why the child ended."""
        opening: asyncio.Task[None] | None = None

        def tick() -> None:
            nonlocal opening
            if child.is_ready and opening is None:
                opening = asyncio.create_task(self._open_target())
            self._run_self_test()

        try:
            return await child.run(
                self._handle_answer,
                tick,
                start_seconds=self.limits.start_seconds,
                hang_seconds=self.limits.hang_seconds,
            )
        finally:
            if opening is not None:
                opening.cancel()

    async def _open_target(self) -> None:
        """Opens the target voice; if that fails, records the reason and opens the demo voice."""
        target = self.target
        try:
            self._serve(await self._open_voice(f"first-{target.name}", target))
            self.problem = self.problem_code = ""
            return
        except APIError as refusal:
            if self.child is None:
                return
            self.report_refused_voice(target, refusal)
        if target != DEMO:
            with contextlib.suppress(APIError):
                self._serve(await self._open_voice(f"first-{DEMO.name}", DEMO))

    def report_refused_voice(self, voice: VoiceTarget, refusal: APIError) -> None:
        """Logs that the target voice cannot be opened, and reports it until a target can be."""
        replacement = self.served_voice.voice if self.served_voice else DEMO
        text = f"{voice.name} cannot be opened: {refusal.detail.rstrip('.')}."
        if replacement != voice:
            text += f" The voice {replacement.name} speaks instead."
        log.error("%s", text)
        self.problem = without_paths(text)
        self.problem_code = "voice_refused"

    def _handle_death(self, death: WorkerFailed) -> None:
        """Handles the end of the child: active requests are refused; waiting ones stay queued."""
        device = self.place.value if self.place else "cpu"
        self.history = self.history.with_death(device, death, time.monotonic())
        # An active request may have been the cause as well as the opening voice. A GPU fault is not
        # blamed on a voice: the next child uses another device.
        if not self.requests.speaking and (device == "cpu" or death.reason_code == "crashed"):
            self._opening_deaths.update(self._openings.values())
        self._openings.clear()
        child, self.child, self.served_voice, self.last_spoken = self.child, None, None, None
        refusal = APIError(503, death.reason_code, f"The speaking process ended: {death}", retry_after=5)
        for stream in self.requests.remove_active():
            stream.end(refusal)
        for stream in [stream for stream in self.requests if stream.voice is not None]:
            self._refuse(stream, refusal)  # its voice is closed
        self.previewed = None
        if child is not None:
            child.refuse_pending(refusal)
        self.on_change()


def _deleted_voice_refusal(stream: SpeechStream) -> APIError | None:
    """The refusal of a failed request if its voice, or one that its text names, was deleted while
    it waited; None if all still exist."""
    files = [path for path in (stream.recording, *stream.cast.values()) if path is not None]
    if all(map(os.path.exists, files)):
        return None
    text = "The voice was deleted while the request waited. /v1/voices lists the existing voices."
    return APIError(404, "no_voice", text, param="voice")
