"""The voice that speaks if none is named, for the service and for `speak` alike."""

from pathlib import Path
from typing import Annotated

from pydantic.dataclasses import dataclass as settings_class

from machine.settings.loading import SharedSettings
from machine.settings.types import CONFIG, Folder, Means, PathOrWord
from xtts.voices import promoted
from xtts.voices.run_folder import RunFolder


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class ServedVoiceSettings(SharedSettings):
    """The settings that choose the voice."""

    voice: Annotated[
        PathOrWord | None,
        Means("latest, best, demo, xtts_v2, an export, a voice file, a run or a checkpoint"),
    ] = None
    """The voice that speaks. Empty takes the best voice of OUTPUT_DIR according to its evaluation,
    which can be the base; without an evaluation the latest epoch; without a run the demo voice.
    xtts_v2 is downloaded once (2.1 GB), needs COQUI_TOS_AGREED, and speaks as uploaded voices."""
    voices_dir: Folder = Path("voices")
    """The folder of uploaded voices, of adapters and of the promoted epoch. Replicas share it."""


def served_voice(settings: ServedVoiceSettings) -> tuple[str, str]:
    """The voice as `VoiceSpec.name`, and why it is this one, as the service chooses
    (`api.runs.following`): the promoted epoch, else VOICE, else the best or the newest of
    OUTPUT_DIR, else the demo."""
    promotion = promoted.read(settings.voices_dir)
    if promotion and (weights := promoted.stored_checkpoint(settings.voices_dir, promotion)):
        return str(weights), f"{promotion.name} was promoted"
    voice = settings.voice
    if voice is not None and voice not in ("latest", "best"):
        return voice, "VOICE names it"
    run = RunFolder(settings.output_dir)
    if voice == "best" or (voice is None and run.verdict() is not None):
        best = run.best_weights()
        if best is not None and run.newest_manifest() is not None:
            return str(run.folder), f"the best of the run: {best.reason.rstrip('.')}"
    if (newest := run.newest_weights()) is not None:
        return str(newest.checkpoint), "the newest of the run"
    return "demo", f"{run.folder} has no run"
