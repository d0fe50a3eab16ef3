"""The candidates of a run that can speak: an epoch, the base with a recording, the best blend.

The sources are the run as `api.runs.listing` read it, the blend's manifest, and the recordings on
disk.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.engine.voices import DEMO, VoiceTarget
from api.errors import APIError
from api.runs import listing
from api.runs.listing import EpochSummary, RunSummary
from api.settings import ApiSettings
from machine.storage.checksums import ManifestError, read_manifest
from xtts.voices.run_folder import reference_beside


@dataclass(frozen=True)
class FollowTarget:
    """A voice to serve.

    Attributes:
        voice: The paths and options to open it with.
        sha256: The SHA-256 of the weights file; "" for a voice that is not a checkpoint.
        run, candidate: The ids of its run and of the candidate; "" for a voice without a run.
        epoch: 0 for the base.
        share: The epoch's share of a blend; 1 for the epoch itself.
        reason: Why this voice was chosen, as a sentence.
    """

    voice: VoiceTarget
    sha256: str = ""
    run: str = ""
    candidate: str = ""
    epoch: int = 0
    share: float = 1.0
    reason: str = ""


def epoch_target(settings: ApiSettings, run_id: str, epoch: EpochSummary) -> FollowTarget:
    """The target that serves an epoch's own weights."""
    name = epoch_name(epoch.number, epoch.sha256)
    voice = voice_at(settings, str(epoch.checkpoint), name, decoder=epoch.decoder)
    candidate = listing.candidate_id("epoch", epoch.number)
    return FollowTarget(voice, epoch.sha256, run_id, candidate, epoch.number)


def base_target(settings: ApiSettings, run: RunSummary) -> FollowTarget | None:
    """The run's base with the person's recording, as before fine-tuning. None if the run has no
    checkpoint that names its base, or no recording."""
    whole = [epoch for epoch in run.epochs.values() if epoch.checkpoint and epoch.manifest]
    recording = reference_beside(run.folder.best_blend)
    if not whole or recording is None or whole[-1].manifest is None:
        return None
    sha256 = whole[-1].manifest.base.get("sha256", "")
    voice = voice_at(
        settings, str(whole[-1].checkpoint), f"base of {run.id} ({sha256[:8]})",
        decoder=run.learned.digest if run.learned and run.learned.share == 0 else "",
        base_only=True, reference=str(recording),
    )  # fmt: skip
    return FollowTarget(voice, "", run.id, listing.BASE)


def blend_target(settings: ApiSettings, run: RunSummary) -> FollowTarget | None:
    """`best.pt`, if the verdict names a blend and the file is that blend by its manifest."""
    verdict = run.evaluation.verdict if run.evaluation else None
    if verdict is None or verdict.kind != "blend":
        return None
    path = run.folder.best_blend
    with contextlib.suppress(ManifestError, OSError, KeyError):
        manifest = read_manifest(run.folder.best_blend_manifest)
        written = manifest.files[path.name]
        if manifest.blend != verdict.weights or path.stat().st_size != written.bytes:
            return None
        name = epoch_name(verdict.epoch, written.sha256, verdict.share)
        learned = run.learned and run.learned.weights == manifest.blend
        voice = voice_at(
            settings, str(path), name,
            decoder=run.learned.digest if run.learned and learned else "",
        )  # fmt: skip
        candidate = listing.candidate_id("blend", verdict.epoch, verdict.share)
        return FollowTarget(voice, written.sha256, run.id, candidate, verdict.epoch, verdict.share)
    return None


def best_target(settings: ApiSettings, run: RunSummary) -> FollowTarget | None:
    """The candidate that the run's verdict names; None without a verdict or without its files."""
    verdict = run.evaluation.verdict if run.evaluation else None
    if verdict is None:
        return None
    if verdict.kind == "base":
        return base_target(settings, run)
    if verdict.kind == "blend":
        return blend_target(settings, run)
    epoch = run.epochs.get(verdict.epoch)
    if epoch and epoch.checkpoint and epoch.sha256 == verdict.checkpoint_sha256:
        return epoch_target(settings, run.id, epoch)
    return None


def find_target(settings: ApiSettings, run: RunSummary, candidate: str) -> FollowTarget:
    """The candidate with this id, judged or not. Raises APIError if it cannot speak."""
    if candidate == listing.BASE:
        if target := base_target(settings, run):
            return target
        text = "The base needs an epoch's checkpoint and its recording of the person, "
        raise APIError(409, "no_checkpoint", f"{text}but this run has no epoch with both.")
    for epoch in run.epochs.values():
        if candidate == listing.candidate_id("epoch", epoch.number):
            if epoch.checkpoint is None:
                raise no_checkpoint(epoch)
            return epoch_target(settings, run.id, epoch)
    best = blend_target(settings, run)
    if best is not None and best.candidate == candidate:
        return best
    if (known := listing.find_candidate(run, candidate)) is not None:
        if known.kind == "blend":
            text = "Only the best blend is kept, in best.pt."
            raise APIError(409, "no_checkpoint", f"{text} You can play the sentences of this one.")
        raise APIError(
            409, "no_checkpoint", f"{_of(known.epoch)} is gone. You can still play its sentences."
        )
    raise APIError(404, "no_candidate", "The run has no such candidate. /v1/runs lists them.")


def can_speak(settings: ApiSettings, run: RunSummary, candidate: str) -> bool:
    """Whether `find_target` returns a target rather than raise."""
    with contextlib.suppress(APIError):
        return bool(find_target(settings, run, candidate))
    return False


def no_checkpoint(epoch: EpochSummary) -> APIError:
    """The error for an epoch that cannot speak, with the reason."""
    name = _of(epoch.number)
    if epoch.state == "damaged":
        text = f"{name} is damaged: it changed after it was saved. Serve another epoch."
        return APIError(409, "damaged_checkpoint", text)
    if epoch.state == "unfinished":
        text = f"{name} is being saved, or was not saved completely. Serve another epoch."
        return APIError(409, "unfinished_checkpoint", text)
    text = f"{name} was pruned. Its sample stays. KEEP_CHECKPOINTS sets how many are kept."
    return APIError(409, "no_checkpoint", text)


def _of(epoch: int) -> str:
    return f"The checkpoint of epoch {epoch}"


def epoch_name(epoch: int, sha256: str, share: float = 1.0) -> str:
    """The name of an epoch's voice, or a blend's, in /status and the log."""
    return f"epoch {epoch}" + (f" at {share:.0%}" if share != 1 else "") + f" ({sha256[:8]})"


def voice_at(
    settings: ApiSettings, where: str, name: str = "", decoder: str = "", **more: Any
) -> VoiceTarget:
    """The voice at the path `where`, as the speaking process opens it. more: fields of
    VoiceSpec."""
    lists = {"pronunciations": settings.pronunciations} if settings.pronunciations else {}
    if where == "demo":
        return VoiceTarget(DEMO.name, {**DEMO.wanted, **lists})
    base = None if settings.base_model in ("demo", "xtts_v2") else settings.base_model
    wanted = {
        "name": where, "base": base, "xtts_v2": str(settings.xtts_v2_dir),
        "tos_agreed": settings.coqui_tos_agreed, **lists, **more,
    }  # fmt: skip
    return VoiceTarget(name or Path(where).name, wanted, decoder)
