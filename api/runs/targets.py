"""The candidates of a run that can speak: an epoch, the base with a recording, the best blend.

All functions are pure: the source is the run as `api.runs.listing` read it.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from api.engine.child import DEMO, VoiceTarget
from api.errors import APIError
from api.runs import listing
from api.runs.listing import EpochSummary, RunSummary
from api.settings import ApiSettings
from xtts.voices.evaluation_file import BASE_DECODER_ID, BASE_ID, candidate_id


def speakable_targets(settings: ApiSettings, run: RunSummary) -> dict[str, VoiceTarget]:
    """Every candidate that can speak, by id: the epochs, the best blend, the base."""
    epochs = [_epoch_target(settings, run.id, epoch) for epoch in run.epochs.values() if epoch.checkpoint]
    others = (_blend_target(settings, run), *_base_targets(settings, run))
    return {target.candidate: target for target in (*epochs, *filter(None, others))}


def _epoch_target(settings: ApiSettings, run_id: str, epoch: EpochSummary) -> VoiceTarget:
    name = epoch_name(epoch.number, epoch.sha256)
    return replace(
        voice_at(settings, str(epoch.checkpoint), name),
        decoder=epoch.decoder,
        sha256=epoch.sha256,
        run=run_id,
        candidate=candidate_id("epoch", epoch.number),
        epoch=epoch.number,
    )


def _base_targets(settings: ApiSettings, run: RunSummary) -> list[VoiceTarget]:
    """The run's base with the person's recording, as before fine-tuning; and with the decoder that
    learned the clips, if the two are separate candidates. Empty if the run has no checkpoint that
    names its base, or no recording."""
    with_base = [epoch for epoch in run.epochs.values() if epoch.checkpoint and epoch.manifest]
    if not with_base or run.recording is None or with_base[-1].manifest is None:
        return []
    sha256 = with_base[-1].manifest.base.get("sha256", "")
    run_name = "the current run" if run.id == listing.CURRENT else f"run {run.id}"
    base_voice = partial(
        voice_at, settings, str(with_base[-1].checkpoint), base_only=True, reference=str(run.recording)
    )
    name, decoder = f"base of {run_name} ({sha256[:8]})", ""
    if run.learned_decoder and run.learned_decoder.share == 0:
        decoder = run.learned_decoder.digest
    if not decoder or listing.find_candidate(run, BASE_DECODER_ID) is None:
        return [replace(base_voice(name), decoder=decoder, run=run.id, candidate=BASE_ID)]
    return [
        replace(base_voice(name, base_decoder=False), run=run.id, candidate=BASE_ID),
        replace(base_voice(f"{name} with decoder"), decoder=decoder, run=run.id, candidate=BASE_DECODER_ID),
    ]


def _blend_target(settings: ApiSettings, run: RunSummary) -> VoiceTarget | None:
    """`best.pt`, if the verdict names a blend and the file is that blend by its manifest."""
    verdict = run.evaluation.verdict if run.evaluation else None
    if verdict is None or verdict.kind != "blend":
        return None
    manifest, learned = run.blend_manifest, run.learned_decoder
    if manifest is None or manifest.blend != verdict.weights:
        return None
    path = run.folder.best_blend
    sha256 = manifest.files[path.name].sha256
    name = epoch_name(verdict.epoch, sha256, verdict.share)
    return replace(
        voice_at(settings, str(path), name),
        sha256=sha256,
        decoder=learned.digest if learned and learned.weights == manifest.blend else "",
        run=run.id,
        candidate=candidate_id("blend", verdict.epoch, verdict.share),
        epoch=verdict.epoch,
        share=verdict.share,
    )


def best_target(settings: ApiSettings, run: RunSummary) -> VoiceTarget | None:
    """The candidate that the run's verdict names; None without a verdict or without its files."""
    verdict = run.evaluation.verdict if run.evaluation else None
    if verdict is None:
        return None
    target = speakable_targets(settings, run).get(verdict.candidate)
    if target and verdict.kind == "epoch" and target.sha256 != verdict.checkpoint_sha256:
        return None
    return target


def find_target(settings: ApiSettings, run: RunSummary, candidate: str) -> VoiceTarget:
    """The candidate with this id, judged or not. Raises APIError if it cannot speak."""
    if target := speakable_targets(settings, run).get(candidate):
        return target
    no_weights = partial(APIError, 409, "no_checkpoint")
    if candidate in (BASE_ID, BASE_DECODER_ID):
        text = "The base needs an epoch's checkpoint and its recording of the person, "
        raise no_weights(f"{text}but this run has no epoch with both.")
    for epoch in run.epochs.values():
        if candidate == candidate_id("epoch", epoch.number):
            raise missing_checkpoint(epoch)
    if (judged := listing.find_candidate(run, candidate)) is None:
        raise APIError(404, "no_candidate", "The run has no such candidate. /v1/runs lists them.")
    if judged.kind == "blend":
        text = "Only the best blend is kept, in best.pt. You can play the sentences of this one."
        raise no_weights(text)
    raise no_weights(f"{_checkpoint_name(judged.epoch)} is gone. You can still play its sentences.")


def missing_checkpoint(epoch: EpochSummary) -> APIError:
    """The error for an epoch that cannot speak, with the reason."""
    name = _checkpoint_name(epoch.number)
    if epoch.state == "damaged":
        text = f"{name} is damaged: it changed after it was saved. Serve another epoch."
        return APIError(409, "damaged_checkpoint", text)
    if epoch.state == "unfinished":
        text = f"{name} is being saved, or was not saved completely. Serve another epoch."
        return APIError(409, "unfinished_checkpoint", text)
    text = f"{name} was pruned. Its sample stays. KEEP_CHECKPOINTS sets how many are kept."
    return APIError(409, "no_checkpoint", text)


def _checkpoint_name(epoch: int) -> str:
    return f"The checkpoint of epoch {epoch}"


def epoch_name(epoch: int, sha256: str, share: float = 1.0) -> str:
    """The name of an epoch's voice, or a blend's, in /status and the log."""
    return f"epoch {epoch}" + (f" at {share:.0%}" if share != 1 else "") + f" ({sha256[:8]})"


def voice_at(settings: ApiSettings, path: str, name: str = "", **spec_fields: object) -> VoiceTarget:
    """The voice at a path, or `demo`, as the speaking process opens it. spec_fields: further fields
    of VoiceSpec."""
    lists = {"pronunciations": settings.pronunciations} if settings.pronunciations else {}
    if path == "demo":
        return replace(DEMO, spec={**DEMO.spec, **lists})
    base = None if settings.base_model in ("demo", "xtts_v2") else settings.base_model
    spec = {
        "name": path,
        "base": base,
        "xtts_v2": str(settings.xtts_v2_dir),
        "tos_agreed": settings.coqui_tos_agreed,
        **lists,
        **spec_fields,
    }
    return VoiceTarget(name or Path(path).name, spec)
