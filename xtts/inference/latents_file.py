"""Caches voice latents on disk as safetensors, by recording and model.

    FOLDER/<SHA-256 of the recording>/<key>.safetensors     one for each model that encoded it

A recording has a folder, so that all of its latents can be deleted. Files are written atomically.
Importing this module imports neither torch nor numpy, because the API only deletes latents.
"""

import contextlib
import hashlib
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from machine.storage.checksums import sha256_of
from machine.storage.files import WriteError, Written, make_folder, replace_file

if TYPE_CHECKING:
    from xtts.inference.speech import Voice
    from xtts.joined_reference import Reference
    from xtts.model.loading import Model

log = logging.getLogger(__name__)


def latents_of_recording(
    model: "Model", weights: str, recording: "Reference", folder: Path | None
) -> "Voice":
    """The voice of one or several recordings in `model`, whose GPT has the SHA-256 `weights`.

    folder: the cache; None disables it. Latents of several recordings are never cached, and a
    folder that cannot be written is only logged. Raises AudioError or VoiceError.
    """
    from xtts.inference import voice

    path = None
    if folder is not None and isinstance(recording, Path) and recording.is_file():
        path = path_of(folder, weights, sha256_of(recording))
        if (cached := read(path, model)) is not None:
            return cached
    computed = voice.voice_from_reference(model, voice.read_reference(model.config, recording))
    if path is not None:
        try:
            write(path, computed)
        except WriteError as error:
            log.warning("The latents could not be cached: %s", error)
        # The recording may have been deleted meanwhile, with its latents, before these were written.
        if isinstance(recording, Path) and not recording.is_file():
            shutil.rmtree(path.parent, ignore_errors=True)
    return computed


def write(path: Path, voice: "Voice") -> Written:
    """Writes the latents of a voice. Raises DiskFull or WriteError."""
    from safetensors.torch import save

    make_folder(path.parent)
    data = save(
        {
            "latents": voice.latents.detach().float().cpu().contiguous(),
            "speaker": voice.speaker.detach().float().cpu().contiguous(),
        }
    )
    return replace_file(path, lambda file: file.write(data))


def read(path: Path, model: "Model") -> "Voice | None":
    """Reads latents; None if the file is missing, damaged, or does not fit the model."""
    import torch
    from safetensors.torch import load

    from xtts.inference.speech import Voice

    try:
        tensors = load(path.read_bytes())
        latents, speaker = tensors["latents"], tensors["speaker"]
    except FileNotFoundError:
        return None
    except Exception as error:
        log.warning("%s cannot be read and will be computed again (%s).", path.name, error)
        return None
    fits = latents.shape[::2] == (1, model.config.gpt.width)
    fits = fits and speaker.shape == (1, model.vocoder.speaker_width, 1)
    is_finite = bool(torch.isfinite(latents).all() and torch.isfinite(speaker).all())
    if not fits or not is_finite:
        log.warning("%s is of another model, or damaged; it will be computed again.", path.name)
        return None
    return Voice(latents.to(model.device), speaker.to(model.device))


def path_of(folder: Path, weights: str, recording: str) -> Path:
    """The file of a recording's latents in a model. weights, recording: the SHA-256 of each.

    Latents depend on both, because the conditioning encoder is trained with the rest of the GPT. In
    version 1 they included the silence before the speech.
    """
    key = hashlib.sha256(f"latents 2 {weights} {recording}".encode()).hexdigest()
    return folder / recording / f"{key}.safetensors"


def delete(folder: Path, recording: str) -> None:
    """Deletes all latents of a recording, and the files in `folder` itself, where an earlier
    version stored latents without naming their recording.

    Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder / recording)
    for path in folder.glob("*.safetensors"):
        path.unlink(missing_ok=True)
