"""Supervises the speaking process: start, open the voice, listen, restart after a crash.

A child that has died, or said nothing for too long, is replaced by one that computes where the
machine, looked at again, is good for it.
"""

import asyncio
import contextlib
import logging
import time

from api.engine import supervision
from api.engine.child import SpeakingProcess
from api.engine.engine import Engine
from api.engine.options import DEMO, VoiceTarget
from api.errors import APIError, without_paths
from xtts.workers.failures import WorkerFailed, worker_failed
from xtts.workers.protocol import FrameError

log = logging.getLogger("api")

_TICK_SECONDS = 0.1


class Supervisor:
    """Runs one engine until `close`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._task: asyncio.Task[None] | None = None
        self._heard = 0.0
        self._fault: WorkerFailed | None = None

    def start(self) -> None:
        """In the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._live())

    async def close(self) -> None:
        """Ends the child, and whoever still speaks: `api.http.server` has let them finish."""
        self.engine.close()
        self.engine.cut_off()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self.engine.child is not None:
            child = self.engine.child
            self.engine.lost(WorkerFailed("closing", "The service is being stopped."))
            await child.kill()
            await child.end()

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(supervision.back_off(self.engine.happened))
            try:
                child = await self._started()
            except OSError as error:
                self.engine.lost(WorkerFailed("crashed", f"It cannot be started: {error}."))
                continue
            why = await self._until_its_end(child)
            log.warning("The speaking process is gone (%s): %s", why.reason_code, why)
            self.engine.lost(why)

    async def _started(self) -> SpeakingProcess:
        engine, how = self.engine, self.engine.how
        machine = await asyncio.to_thread(how.look)
        before = engine.place
        engine.place = found = supervision.place(
            machine, how.compute, engine.happened, time.monotonic()
        )
        if before is not None and before.device != found.device:
            engine.on_event(
                "fell_back", before=before.device, after=found.device, code=found.reason_code
            )
        slots = engine.limits.slots or (4 if found.device == "cpu" else 16)
        engine.waiting.slots = slots
        log.info("Starts to speak: %s", engine.message)
        return await SpeakingProcess.start(
            ("--slots", str(slots), *found.compute.command_line()),
            command=how.command, clean_libraries=found.compute.clean_libraries,
        )  # fmt: skip

    async def _until_its_end(self, child: SpeakingProcess) -> WorkerFailed:
        engine = self.engine
        engine.child, self._fault, self._heard = child, None, time.monotonic()
        self._ready = False
        reading = asyncio.get_running_loop().create_task(self._read(child))
        opening: asyncio.Task[None] | None = None
        try:
            while not reading.done():
                await asyncio.wait({reading}, timeout=_TICK_SECONDS)
                if self._ready and opening is None:
                    opening = asyncio.get_running_loop().create_task(self._open())
                silent = time.monotonic() - self._heard
                limit = engine.limits.hang if self._ready else engine.limits.start
                if silent > limit:
                    doing = "speaking" if self._ready else "getting ready"
                    text = f"It was silent for {silent:.0f} s while {doing}, and was ended."
                    self._fault = WorkerFailed("hang", text)
                    break
                engine.expire()
                engine.try_out()
        finally:
            for task in (reading, opening):
                if task is not None:
                    task.cancel()
            if self._fault is not None and self._fault.reason_code in ("hang", "garbled"):
                await child.kill()
        ended = await child.end()
        return self._fault or ended

    async def _read(self, child: SpeakingProcess) -> None:
        try:
            async for header, body in child.frames():
                self._heard = time.monotonic()
                if header["say"] == "ready":
                    self._ready = True
                elif header["say"] == "fault":
                    self._fault = worker_failed(header)
                elif header["say"] != "alive":
                    self.engine.heard(header, body)
        except (FrameError, KeyError, TypeError) as error:
            self._fault = WorkerFailed(
                "garbled", f"It wrote what is not the protocol ({type(error).__name__}).",
                of_device=False,
            )  # fmt: skip

    async def _open(self) -> None:
        """The wanted voice; where it cannot be opened, the one in the package, with the reason."""
        engine = self.engine
        wanted = engine.wanted
        try:
            await self._opened(wanted)
            engine.problem = engine.problem_code = ""
            return
        except APIError as refusal:
            if engine.child is None:
                return
            log.error("%s cannot be opened: %s", wanted.name, refusal)
            engine.problem = without_paths(f"{wanted.name} cannot be opened: {refusal.detail}")
            engine.problem_code = "voice_refused"
        if wanted != DEMO:
            with contextlib.suppress(APIError):
                await self._opened(DEMO)

    async def _opened(self, voice: VoiceTarget) -> None:
        key = f"first-{voice.name}"
        self.engine.stand(key, voice, await self.engine.opened(key, voice))
