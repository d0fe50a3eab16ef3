"""Coqui's own classes, as they stand, on the same files: what we are measured against."""

from pathlib import Path
from typing import Any


def load(folder: Path) -> Any:
    """Coqui's `Xtts` from a folder in the published layout, on the CPU."""
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.models.xtts import Xtts

    config = XttsConfig()
    config.load_json(str(folder / "config.json"))
    xtts = Xtts(config)
    xtts.load_checkpoint(config, checkpoint_dir=str(folder), eval=True, strict=True)
    return xtts


def never_stop(xtts: Any, codes: int) -> None:
    """Makes it say exactly so many codes."""
    xtts.gpt.mel_head.bias.data[xtts.gpt.stop_audio_token] = -1e4
    xtts.gpt.max_gen_mel_tokens = codes
