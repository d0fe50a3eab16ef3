"""The options for the voice and the device, and loading the selected voice."""

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from machine.errors import SotaqueError
from xtts.arguments import PRECISIONS

if TYPE_CHECKING:
    from machine.settings.loading import SharedSettings
    from xtts.inference.loaded_voice import LoadedVoice
    from xtts.voices.voice_files import VoiceFiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the voice and the device."""
    parser.add_argument(
        "--voice",
        help="demo, xtts_v2, a .sotaque file, the folder of an exported or imported voice or of an "
        "adapter, a checkpoint, or the folder of a run (its best weights); by default the voice that "
        "`serve` speaks with",
    )
    parser.add_argument("--base", help="the base model of a checkpoint or adapter, if it has moved")
    parser.add_argument(
        "--reference",
        type=Path,
        nargs="+",
        action="extend",
        metavar="PATH",
        help="a recording of the speaker, 3 to 30 s; several, or a folder of recordings, are combined",
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed gives another take")
    parser.add_argument("--device", default="cpu", help="cpu, gpu, cuda:N or auto (default: cpu)")
    parser.add_argument(
        "--precision", choices=PRECISIONS, help="precision of the computation (default: SPEAK_PRECISION)"
    )
    parser.add_argument("--latents", type=Path, help="stored latents, for an ONNX voice")
    parser.add_argument("--low-memory", action="store_true", help="use less memory and more time")
    parser.add_argument("--speaker", default="", help="a named speaker of the voice: anna, or anna:whisper")
    parser.add_argument("--pronunciations", type=Path, help="a list of pronunciations")


def take_settings(arguments: argparse.Namespace) -> None:
    """Adds the shared settings of the environment and .env to the options, for Ray workers on other
    machines. Downloads XTTS-v2 if it is the voice. Prints which voice speaks if none is named."""
    from machine.settings.loading import load
    from xtts.voices.served_voice import ServedVoiceSettings, served_voice

    settings, _ = load(ServedVoiceSettings)
    if arguments.voice is None:
        arguments.voice, reason = served_voice(settings)
        if getattr(arguments, "out", True) is not None:  # --show-text alone does not speak
            print(f"Voice: {arguments.voice} ({reason}). --voice names another one.")
    guard = getattr(arguments, "guard", None) or ("on" if settings.guard else "off")
    arguments.guard, arguments.threads = guard, settings.num_threads
    arguments.watermark = settings.watermark
    arguments.precision = arguments.precision or settings.speak_precision
    arguments.xtts_v2, arguments.tos_agreed = settings.xtts_v2_dir, settings.coqui_tos_agreed
    _download_voice(arguments, settings)


def _download_voice(arguments: argparse.Namespace, settings: "SharedSettings") -> None:
    """Downloads XTTS-v2 if it is the voice, and shows the progress. Raises SotaqueError, and does so
    before the download (2.1 GB) if there is no recording to speak with."""
    from xtts.voices import published_voice

    if arguments.voice != published_voice.NAME:
        return
    if not arguments.reference:
        raise SotaqueError(
            "xtts_v2 does not include a speaker. Add --reference FILE.wav, 3 to 30 s of clear speech."
        )
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    arguments.voice = published_voice.provide(arguments.voice, settings)


def voice_files_of(arguments: argparse.Namespace) -> "VoiceFiles":
    """Finds and verifies the files of the selected voice. Raises as `find_voice`."""
    from xtts.voices.voice_files import VoiceSpec, find_voice

    return find_voice(
        VoiceSpec.from_arguments(
            arguments.voice,
            reference=arguments.reference,
            base=arguments.base,
            latents=arguments.latents,
            pronunciations=arguments.pronunciations,
            tos_agreed=arguments.tos_agreed,
            speaker=arguments.speaker,
            xtts_v2=arguments.xtts_v2,
        )
    )


def load_voice(arguments: argparse.Namespace, files: "VoiceFiles") -> "LoadedVoice":
    """Loads a voice on the selected device, or prints why on another one."""
    from xtts.voices import loading

    compute, reason = loading.compute_config(
        files,
        arguments.device,
        arguments.precision,
        low_memory=arguments.low_memory,
        guard=arguments.guard == "on",
        threads=arguments.threads,
        watermark=arguments.watermark,
    )
    if reason:
        print(f"Device: {compute.device} ({reason})")
    return loading.load_voice(files, compute)
