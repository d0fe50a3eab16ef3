"""Voice latents on disk as safetensors, cached by recording and model.

Files are whole or absent, and named by what they depend on (`xtts.inference.latents_folder`).
"""

import contextlib
import logging
from pathlib import Path

import torch

from machine.storage.atomic import WriteError, make_folder, replace_file
from machine.storage.hashes import sha256_of
from xtts import audio
from xtts.inference import latents_folder, voice
from xtts.inference.voice import Voice
from xtts.model.loading import Model

log = logging.getLogger(__name__)


def latents_of_recording(model: Model, weights: str, recording: Path, folder: Path | None) -> Voice:
    """The voice of a recording in `model`, whose learning part has the SHA-256 `weights`.

    folder: where latents are kept; None keeps nothing. A folder that cannot be written costs time
    only. Raises AudioError or VoiceError.
    """
    path = None
    if folder is not None and recording.is_file():
        path = latents_folder.path_of(folder, weights, sha256_of(recording))
        latents_folder.adopt_earlier(path)
        if (found := read(path, model)) is not None:
            return found
    made = voice.voice_from_reference(
        model, audio.read(recording, audio.CODE_RATE, max_seconds=60.0)
    )
    if path is not None:
        try:
            write(path, made)
        except WriteError as error:
            log.warning("Latents are not kept: %s", error)
        if not recording.is_file():
            _unkeep(path)
    return made


def _unkeep(path: Path) -> None:
    """The voice was deleted while it was listened to: whoever did so, before or after us, looks
    for latents after the recording is gone, and so do we."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def write(path: Path, made: Voice) -> None:
    """Raises DiskFull or WriteError."""
    from safetensors.torch import save

    make_folder(path.parent)
    data = save({
        "latents": made.latents.detach().float().cpu().contiguous(),
        "speaker": made.speaker.detach().float().cpu().contiguous(),
    })  # fmt: skip
    replace_file(path, lambda file: file.write(data))


def read(path: Path, model: Model) -> Voice | None:
    """None for a file that is missing, damaged, or of another model's shape."""
    from safetensors.torch import load

    try:
        found = load(path.read_bytes())
        latents, speaker = found["latents"], found["speaker"]
    except FileNotFoundError:
        return None
    except Exception as error:
        log.warning("%s cannot be read and is made again (%s).", path.name, error)
        return None
    shaped = latents.shape[::2] == (1, model.config.gpt.width) and speaker.shape[::2] == (1, 1)
    finite = bool(torch.isfinite(latents).all() and torch.isfinite(speaker).all())
    if not shaped or not finite:
        log.warning("%s is of another model, or damaged; it is made again.", path.name)
        return None
    return Voice(latents.to(model.device), speaker.to(model.device))
