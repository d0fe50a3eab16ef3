"""Chooses the served voice: the promoted epoch, else by the setting VOICE; polls the folders."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Literal

from api.engine.child import VoiceTarget
from api.engine.engine import Engine
from api.errors import APIError
from api.events import Events
from api.runs import exports, listing, promotion, rows, targets
from api.runs.listing import CURRENT, RunSummary
from api.runs.promotion import Promotion
from api.schemas import RunList, RunRow, Served
from api.settings import ApiSettings
from api.voices.adapters import Adapters
from machine import commands
from xtts.voices.evaluation_file import BASE_DECODER_ID, BASE_ID, Verdict, candidate_id
from xtts.voices.learned_decoder import digest_beside

log = logging.getLogger("api")

POLL_SECONDS = 2.0


class VoiceFollower:
    """Keeps the engine on the voice that should be served, and holds the list of runs.

    Attributes:
        runs: The runs by id, as of the last `read_folders`.
        promotion: The promoted epoch or blend; None if VOICE decides.
    """

    def __init__(self, settings: ApiSettings, engine: Engine, events: Events, adapters: Adapters) -> None:
        self.settings = settings
        self.engine = engine
        self.events = events
        self.adapters = adapters
        self.runs: dict[str, RunSummary] = {}
        self.promotion: Promotion | None = None
        # SHA-256 -> whether the content of the checkpoint has it.
        self._verified: dict[str, bool] = {}
        self._refused_names: set[str] = set()
        self._changing = asyncio.Lock()
        # A change of the promotion that could not be written: the promotion on disk at that time, and
        # the one that counts until the disk has another.
        self._unwritten: tuple[Promotion | None, Promotion | None] | None = None

    # ---- for the routes ----

    def run_list(self) -> RunList:
        """The answer to /v1/runs."""
        served = self.served_epoch()
        return RunList(
            runs=[
                rows.run_row(
                    run,
                    served=served if served and served.run == run.id else None,
                    verified=self._verified,
                    speakable=targets.speakable_targets(self.settings, run),
                )
                for run in self.runs.values()
            ],
            served=served,
            promoted=self.promotion is not None,
            follows=self.follows,
        )

    def find(self, run_id: str) -> RunSummary:
        """The run with this id. Raises APIError (404)."""
        if run_id not in self.runs:
            raise APIError(404, "no_run", "There is no run with this id. /v1/runs lists them.")
        return self.runs[run_id]

    @property
    def follows(self) -> Literal["best", "latest", "fixed"]:
        """The rule that applies while no epoch is promoted: `best`, `latest`, or `fixed` (VOICE
        names a voice)."""
        if self.settings.voice is None:
            current = self.runs.get(CURRENT)
            return "best" if current and current.evaluation else "latest"
        if self.settings.voice == "best":
            return "best"
        return "latest" if self.settings.voice == "latest" else "fixed"

    def served_epoch(self) -> Served | None:
        """The served epoch, base (epoch 0) or blend; None if the voice belongs to no run."""
        for run in self.runs.values():
            for target in targets.speakable_targets(self.settings, run).values():
                if self.is_served(target):
                    return Served(run=target.run, epoch=target.epoch, candidate=target.candidate)
        sha256 = self.engine.served_sha256
        for name, run in self.runs.items():
            for epoch in run.epochs.values():
                if sha256 and sha256 == epoch.sampled_sha256:  # pruned since
                    candidate = candidate_id("epoch", epoch.number)
                    return Served(run=name, epoch=epoch.number, candidate=candidate)
        return None

    @property
    def served_reason(self) -> str:
        """Why the served voice was chosen; "" while another one is being opened."""
        target = self.choose_target()
        return target.reason if self.is_served(target) else ""

    async def promote(self, target: VoiceTarget) -> None:
        """Serves an epoch or a blend from now on, also after a restart. Raises APIError."""
        async with self._changing:
            await self._serve(target)
            promoted = Promotion(target.run, target.epoch, target.sha256, target.share)
            try:
                await self._store(promoted, Path(str(target.spec["name"])))
            finally:
                self.tell_pages()

    async def demote(self) -> None:
        """Follows VOICE again. Raises APIError."""
        async with self._changing:
            try:
                await self._store(None)
            finally:
                await self.read_folders()
                await self._serve(self.choose_target())
                self.tell_pages()

    async def _store(self, promoted: Promotion | None, weights: Path | None = None) -> None:
        """Promotes in this process, and on disk. Raises APIError if it cannot be written."""
        folder, self.promotion = self.settings.voices_dir, promoted
        try:  # a copy of 2 GB takes a while
            await asyncio.to_thread(promotion.store, folder, promoted, weights)
        except APIError:
            on_disk = await asyncio.to_thread(promotion.read, folder)
            self._unwritten = None if on_disk == promoted else (on_disk, promoted)
            raise
        self._unwritten = None

    async def remove(self, run_id: str) -> None:
        """Deletes a run that is neither served nor being trained. Raises APIError."""
        async with self._changing:
            await self.read_folders()
            run = self.find(run_id)
            if reason := self.why_kept(run):
                raise APIError(409, "run_in_use", reason)
            await asyncio.to_thread(exports.remove_run, run)
            await self.read_folders()
        self.tell_pages()

    def why_kept(self, run: RunSummary) -> str:
        """Why a run cannot be deleted, as a sentence; "" if it can."""
        served = self.served_epoch()
        if run.kind == "current":
            return (
                "It is OUTPUT_DIR itself. A new run with RESUME=never moves it to the archive, "
                "where it can be deleted."
            )
        if run.is_training and listing.has_trainer(run.folder):  # it may have ended since it was read
            return "It is being trained. Cancel that first."
        if (served and served.run == run.id) or self.choose_target().run == run.id:
            return "It is served. Serve another voice first."
        if self.promotion and self.promotion.run == run.id:
            return "One of its epochs was promoted. End the promotion first."
        return ""

    # ---- the polling loop ----

    async def read_folders(self) -> None:
        """Reads the runs and the promotion on disk; does not change the served voice."""
        on_disk = await asyncio.to_thread(promotion.read, self.settings.voices_dir)
        if self._unwritten and on_disk != self._unwritten[0]:
            self._unwritten = None  # another replica has changed it since
        self.promotion = self._unwritten[1] if self._unwritten else on_disk
        self.runs = await asyncio.to_thread(listing.read_runs, self.settings.output_dir)

    async def choose_first_voice(self) -> None:
        """Chooses the voice to start with; called before the engine runs."""
        await asyncio.to_thread(self.adapters.read_folders)
        await self.read_folders()
        self.engine.target = self.choose_target()

    async def poll(self) -> None:
        """Polls adapters and runs every two seconds until it is cancelled."""
        told: tuple[list[RunRow], list[int]] | None = None
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                for path in await asyncio.to_thread(self.adapters.read_folders):
                    self.engine.forget(path)
                # Under the lock, so that a promotion stored during the read is not lost.
                async with self._changing:
                    await self.read_folders()
                    await self._serve_target()
                await self._verify_next()
                sizes = [run.metrics_bytes for run in self.runs.values()]
                current = self.run_list().runs, sizes
                if current != told:
                    self.tell_pages()
                told = current
            except Exception:  # keep polling
                log.exception("Reading the runs or the adapters failed.")

    def tell_pages(self) -> None:
        """Tells every open page that the runs have changed."""
        if self.events.listeners:
            self.events.tell("epoch", self.run_list())
            current = self.runs.get(CURRENT)
            if current is not None:
                self.events.tell("metrics", {"run": CURRENT, "next": current.metrics_bytes})

    def choose_target(self) -> VoiceTarget:
        """The voice to serve, as of the last `read_folders`: the promoted epoch, else VOICE's.

        Without VOICE: the best of the current run if it was judged, else its newest epoch, else the
        demo voice.
        """
        if self.promotion and (target := self._promoted_target(self.promotion)):
            return replace(target, reason=f"{self.promotion.name} was promoted.")
        name = self.settings.voice
        if name not in (None, "latest", "best"):
            return replace(targets.voice_at(self.settings, name), reason="VOICE names it.")
        run = self.runs.get(CURRENT)
        target, reason = None, ""
        if run is not None and name != "latest":
            target, reason = self._best_target(run, by_loss=name == "best")
        if run is not None and target is None:
            target, reason = self._newest_target(run, reason)
        target = target or targets.voice_at(self.settings, "demo")
        return replace(target, reason=f"VOICE={name}: {reason}" if name else reason)

    def _best_target(self, run: RunSummary, *, by_loss: bool) -> tuple[VoiceTarget | None, str]:
        """The candidate that the verdict names, with the reason; or None, with the reason why it
        cannot be served. by_loss: without an evaluation, the epoch with the lowest validation
        loss."""
        epoch_targets = self._epoch_targets(run)
        if run.evaluation is None:
            best_epoch = listing.lowest_loss_epoch(run.epochs[number] for number in epoch_targets)
            if best_epoch is None or not by_loss:
                return None, ""
            reason = f"Epoch {best_epoch} has the lowest validation loss. There is no evaluation."
            return epoch_targets[best_epoch], reason
        if (verdict := run.evaluation.verdict) is None:
            return None, "The evaluation has no verdict yet."
        best = run.evaluation.best
        name = best.name if best else "the candidate of its verdict"
        target = targets.best_target(self.settings, run)
        if target is None:
            reason = _why_missing(run, name, verdict)
            epoch = epoch_targets.get(verdict.epoch)
            if epoch and epoch.sha256 == verdict.checkpoint_sha256:
                how_long = "until then" if run.is_training else "instead"
                reason += f" Epoch {verdict.epoch}, which is part of that blend, speaks {how_long}."
                return epoch, reason
            return None, reason
        if not self._can_open(target):
            return None, f"The best by the evaluation, {name}, cannot be opened."
        return target, f"By the run's evaluation. {verdict.summary}"

    def _newest_target(self, run: RunSummary, why_not_best: str) -> tuple[VoiceTarget | None, str]:
        if not (epoch_targets := self._epoch_targets(run)):
            return None, "There is no epoch that can speak."
        number = max(epoch_targets)
        return epoch_targets[number], f"Epoch {number} is the newest. {why_not_best}".strip()

    def _epoch_targets(self, run: RunSummary) -> dict[int, VoiceTarget]:
        """The epochs with a checkpoint that is not known to fail, by number."""
        return {
            target.epoch: target
            for target in targets.speakable_targets(self.settings, run).values()
            if target.candidate == candidate_id("epoch", target.epoch) and self._can_open(target)
        }

    def _can_open(self, target: VoiceTarget) -> bool:
        return target.name not in self._refused_names and not self.engine.is_deadly(target.name)

    def _promoted_target(self, record: Promotion) -> VoiceTarget | None:
        """Finds the promoted weights by their hash: the run may have moved to the archive since, or
        the trainer may have pruned the epoch or written another blend."""
        for run in self.runs.values():
            for target in targets.speakable_targets(self.settings, run).values():
                if target.sha256 == record.sha256:
                    return target
        if copy := promotion.stored_checkpoint(self.settings.voices_dir, record):
            name = targets.epoch_name(record.epoch, record.sha256, record.share)
            voice = targets.voice_at(self.settings, str(copy), name)
            return replace(voice, decoder=digest_beside(copy), sha256=record.sha256)
        return None

    async def _serve_target(self) -> None:
        """Serves the target, unless it is served already or was refused before."""
        target = self.choose_target()
        if self.engine.served_voice is None or self.engine.child is None or self.is_served(target):
            self.engine.target = target  # the same weights may have another path now
            return
        if target.name in self._refused_names:
            return
        try:
            await self._serve(target)
        except APIError as refusal:
            if refusal.status == 503:
                return  # the child died or has not started yet: tried again at the next poll
            self._refused_names.add(target.name)
            self.engine.report_refused_voice(target, refusal)

    def is_served(self, target: VoiceTarget) -> bool:
        """Whether `target` is already served: the same weights with the same learned decoder.

        The base is compared by name, because any epoch's checkpoint can lead to it. A voice that is
        not a checkpoint is compared by its specification.
        """
        served_voice = self.engine.served_voice
        if served_voice is None:
            return False
        if target.candidate in (BASE_ID, BASE_DECODER_ID):
            served = served_voice.voice
            return (target.name, target.decoder) == (served.name, served.decoder)
        if target.sha256 and served_voice.sha256 == target.sha256:
            return served_voice.voice.decoder == target.decoder
        return served_voice.voice == target

    async def _serve(self, target: VoiceTarget) -> None:
        if self.is_served(target):
            return
        await self.engine.open(target)
        log.info("The served voice is %s.", target.name)

    async def _verify_next(self) -> None:
        """Verifies one checkpoint, once per poll: a run has many, of 2 GB each."""
        for run in self.runs.values():
            for epoch in reversed(list(run.epochs.values())):
                if epoch.sha256 and epoch.sha256 not in self._verified:
                    checkpoint = await asyncio.to_thread(run.folder.verify, epoch.number)
                    self._verified[epoch.sha256] = not isinstance(checkpoint, str)
                    return


def _why_missing(run: RunSummary, name: str, verdict: Verdict) -> str:
    """Why the verdict's candidate `name` cannot speak, as a sentence."""
    subject = f"The best by the evaluation, {name},"
    if verdict.kind == "epoch":
        return f"{subject} no longer has its checkpoint, or has another one than was judged."
    if verdict.kind == "base" and verdict.decoder and run.is_training:
        return f"{subject} is written when the run ends."
    if verdict.kind == "base":
        return f"{subject} needs an epoch's checkpoint and its recording, and one of them is missing."
    if run.is_training:
        return f"{subject} is written when the run ends."
    return f"{subject} was not written. `{commands.program('train evaluate')}` writes it."
