"""XTTS-v2 as a voice: `speak --voice xtts_v2`, VOICE=xtts_v2 and `xtts.load_voice("xtts_v2")`."""

from machine.settings.loading import SharedSettings
from xtts.download.model_source import ModelSource, provide_xtts_v2
from xtts.voices.base_models import require_consent

NAME = "xtts_v2"


def provide(voice: str, settings: SharedSettings) -> str:
    """The voice as `VoiceSpec.name`: for xtts_v2 its folder, once every file is there and verified.

    Raises BundleError before the user has agreed to its licence, and the errors of
    `provide_xtts_v2`.
    """
    if voice != NAME:
        return voice
    made_from, agreed = {"base": {"name": NAME}}, settings.coqui_tos_agreed
    require_consent("The voice xtts_v2", settings.xtts_v2_dir, made_from, tos_agreed=agreed)
    return str(provide_xtts_v2(ModelSource.of(settings)))
