"""Decides which voice is served: the promoted epoch, else what VOICE says; polls the run."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.engine.engine import Engine
from api.engine.options import DEMO, VoiceTarget
from api.errors import APIError, without_paths
from api.events import Events
from api.runs import listing as runs
from api.runs import promotion
from api.runs.listing import CURRENT, EpochSummary, LossCurves, RunSummary
from api.runs.promotion import Promotion
from api.settings import ApiSettings
from xtts.hub.run_folder import BestWeights, newest_reference

log = logging.getLogger("api")

LOOK_SECONDS = 2.0


@dataclass(frozen=True)
class FollowTarget:
    """What is to speak. sha256: of the epoch's checkpoint; "" for a voice that is no epoch."""

    voice: VoiceTarget
    sha256: str = ""


class VoiceFollower:
    """Keeps the engine at the voice that is wanted, and knows the runs."""

    def __init__(self, settings: ApiSettings, engine: Engine, events: Events) -> None:
        self.settings = settings
        self.engine = engine
        self.events = events
        self.runs: dict[str, RunSummary] = {}
        self.promotion: Promotion | None = None
        self.curves = LossCurves()
        self._verified: dict[str, bool] = {}
        self._refused: set[str] = set()
        self._best: BestWeights | None = None
        self._best_stamp: object = None
        self._changing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    # ---- what routes ask ----

    def listing(self) -> dict[str, Any]:
        """/v1/runs."""
        served = self.served_epoch()
        listed = [
            runs.listed(
                run,
                served=served["epoch"] if served and served["run"] == name else None,
                verified=self._is_verified,
                train_losses=self.curves.losses(run.folder.metrics),
            )
            for name, run in self.runs.items()
        ]
        return {"runs": listed, "served": served, "promoted": self.promotion is not None}

    def served_epoch(self) -> dict[str, Any] | None:
        """The epoch that speaks; None where it is no epoch."""
        sha256 = self.engine.standing.sha256 if self.engine.standing else ""
        for name, run in self.runs.items():
            for epoch in run.epochs.values():
                if sha256 and sha256 in (epoch.sha256, epoch.sampled):
                    return {"run": name, "epoch": epoch.number}
        return None

    async def promote(self, run_id: str, epoch: EpochSummary) -> None:
        """Speaks with an epoch, and goes on with it after a restart. Raises APIError."""
        async with self._changing:
            target = _of_epoch(self.settings, epoch)
            if not self._speaks_already(target):
                await self._turn_to(target)
            self.promotion = Promotion(run_id, epoch.number, epoch.sha256)
            self.tell()
            # A copy of 2 GB takes a while.
            await asyncio.to_thread(
                promotion.keep, self.settings.voices_dir, self.promotion, epoch.checkpoint
            )

    async def demote(self) -> None:
        """Follows VOICE again. Raises APIError."""
        async with self._changing:
            self.promotion = None
            await asyncio.to_thread(promotion.keep, self.settings.voices_dir, None)
            await self.look()
            target = self.wanted()
            if not self._speaks_already(target):
                await self._turn_to(target)
        self.tell()

    # ---- its own life ----

    async def look(self) -> None:
        """Reads what is on disk, without turning to anything: before the first child."""
        self.promotion = await asyncio.to_thread(promotion.read, self.settings.voices_dir)
        self.runs = await asyncio.to_thread(runs.scan, self.settings.output_dir)
        self._best = await asyncio.to_thread(self._look_for_best)
        for run in self.runs.values():
            await asyncio.to_thread(self.curves.read, run.folder.metrics)

    async def first(self) -> None:
        """What to speak with at first."""
        await self.look()
        self.engine.wanted = self.wanted().voice

    def start(self) -> None:
        """In the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _follow(self) -> None:
        seen: dict[str, Any] = {}
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                # Inside: a promotion that is kept while the file is read must not be forgotten.
                async with self._changing:
                    await self.look()
                    await self._turn_if_needed()
                await self._verify_one()
                now = {row["id"]: row for row in self.listing()["runs"]}
                if now != seen:
                    self.tell()
                seen = now
            except Exception:  # it must go on; the next look is in two seconds
                log.exception("Looking at the runs failed.")

    def tell(self) -> None:
        """Tells whoever listens that runs have changed."""
        if self.events.heard:
            self.events.tell("epoch", self.listing())
            current = self.runs.get(CURRENT)
            if current is not None:
                end = self.curves.end(current.folder.metrics)
                self.events.tell("metrics", {"run": CURRENT, "next": end})

    def wanted(self) -> FollowTarget:
        """Pure over what `look` found: the promoted epoch, else VOICE, else the demo voice."""
        if self.promotion and (found := self._promoted(self.promotion)):
            return found
        name = self.settings.voice
        if name in (None, "best") and (found := self._judged_best()):
            return found
        if name in (None, "latest", "best"):
            return self._newest(best=name == "best") or FollowTarget(_voice(self.settings, "demo"))
        return FollowTarget(_voice(self.settings, name))

    def _look_for_best(self) -> BestWeights | None:
        """What the evaluation of the current run says is best, read where a file of it changed."""
        run = self.runs.get(CURRENT)
        if run is None or self.settings.voice not in (None, "best"):
            return None
        files = (run.folder.evaluation_file, run.folder.best_blend_manifest)
        stamp = (*map(_changed, files), tuple(run.epochs))
        if stamp != self._best_stamp:
            known = run.folder.evaluation()
            judged = known is not None and known.verdict is not None
            self._best = run.folder.best_weights() if judged else None
            self._best_stamp = stamp
        return self._best

    def _judged_best(self) -> FollowTarget | None:
        best, run = self._best, self.runs.get(CURRENT)
        if best is None or run is None:
            return None
        if best.weights is None:
            return _base_as_person(self.settings, run)
        share = f" at {best.share:.0%}" if best.kind == "blend" else ""
        name = _name(best.epoch, best.sha256, share)
        if name in self._refused or self.engine.openings.deadly(name):
            return None
        return FollowTarget(_voice(self.settings, str(best.weights), name), best.sha256)

    def _newest(self, *, best: bool) -> FollowTarget | None:
        run = self.runs.get(CURRENT)
        epochs = [epoch for epoch in run.epochs.values() if epoch.checkpoint] if run else []
        epochs = [one for one in epochs if self._opens(one)]
        if best:
            losses = [(loss, epoch) for epoch in epochs if (loss := _loss(epoch)) is not None]
            epochs = [min(losses, key=lambda one: one[0])[1]] if losses else epochs
        return _of_epoch(self.settings, epochs[-1]) if epochs else None

    def _opens(self, epoch: EpochSummary) -> bool:
        name = _name(epoch.number, epoch.sha256)
        return name not in self._refused and not self.engine.openings.deadly(name)

    def _promoted(self, wanted: Promotion) -> FollowTarget | None:
        """By its hash: the run may have moved to the archive since, or the trainer pruned it."""
        for run in self.runs.values():
            epoch = run.epochs.get(wanted.epoch)
            if epoch and epoch.checkpoint and epoch.sha256 == wanted.sha256:
                return _of_epoch(self.settings, epoch)
        if kept := promotion.kept(self.settings.voices_dir, wanted):
            name = _name(wanted.epoch, wanted.sha256)
            return FollowTarget(_voice(self.settings, str(kept), name), wanted.sha256)
        return None

    async def _turn_if_needed(self) -> None:
        target = self.wanted()
        if self.engine.standing is None or self.engine.child is None:
            self.engine.wanted = target.voice
            return
        if self._speaks_already(target):
            self.engine.wanted = target.voice  # the same weights may lie elsewhere now
            return
        if target.voice.name in self._refused:
            return
        try:
            await self._turn_to(target)
            self.engine.problem = self.engine.problem_code = ""
        except APIError as refusal:
            if refusal.status == 503:
                return  # the child died or is not there yet: asked again
            self._refused.add(target.voice.name)
            log.warning("%s is not spoken with: %s", target.voice.name, refusal)
            self.engine.problem = without_paths(
                f"{target.voice.name} cannot be opened: {refusal.detail}"
            )
            self.engine.problem_code = "voice_refused"

    def _speaks_already(self, target: FollowTarget) -> bool:
        standing = self.engine.standing
        if standing is None:
            return False
        same = bool(target.sha256) and standing.sha256 == target.sha256
        return same or standing.voice == target.voice

    async def _turn_to(self, target: FollowTarget) -> None:
        await self.engine.open(target.voice)
        log.info("Speaks as %s.", target.voice.name)

    def _is_verified(self, epoch: EpochSummary) -> bool | None:
        return self._verified.get(epoch.sha256) if epoch.sha256 else None

    async def _verify_one(self) -> None:
        """Reads one checkpoint through, a look at a time: a run has many, of 2 GB each."""
        for run in self.runs.values():
            for epoch in reversed(list(run.epochs.values())):
                if epoch.sha256 and epoch.sha256 not in self._verified:
                    fault = await asyncio.to_thread(run.folder.verify, epoch.number)
                    self._verified[epoch.sha256] = fault is None
                    return


def _of_epoch(settings: ApiSettings, epoch: EpochSummary) -> FollowTarget:
    name = _name(epoch.number, epoch.sha256)
    return FollowTarget(_voice(settings, str(epoch.checkpoint), name), epoch.sha256)


def _base_as_person(settings: ApiSettings, run: RunSummary) -> FollowTarget | None:
    """The base's own weights with the run's recording of the person; None without one."""
    reference = newest_reference(run.folder)
    if reference is None:
        return None
    base = str(settings.xtts_v2_dir) if settings.base_model == "xtts_v2" else settings.base_model
    found = _voice(settings, base)
    wanted = {**found.wanted, "name": base, "reference": str(reference)}
    return FollowTarget(VoiceTarget("the base as the person", wanted))


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _name(epoch: int, sha256: str, share: str = "") -> str:
    return f"epoch {epoch}{share} ({sha256[:8]})"


def _loss(epoch: EpochSummary) -> float | None:
    return runs.losses_of(epoch).get("validation_audio_loss")


def _voice(settings: ApiSettings, where: str, name: str = "") -> VoiceTarget:
    lists = {"pronunciations": settings.pronunciations} if settings.pronunciations else {}
    if where == "demo":
        return VoiceTarget(DEMO.name, {**DEMO.wanted, **lists})
    base = None if settings.base_model in ("demo", "xtts_v2") else settings.base_model
    wanted = {
        "name": where, "base": base, "xtts_v2": str(settings.xtts_v2_dir),
        "tos_agreed": settings.coqui_tos_agreed,
        **lists,
    }  # fmt: skip
    return VoiceTarget(name or Path(where).name, wanted)
