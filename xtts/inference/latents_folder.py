"""Where cached latents are kept, so that all of a recording's can be deleted.

    FOLDER/<SHA-256 of the recording>/<key>.safetensors     one for each model that listened to it

Knows neither torch nor what latents are (`xtts.inference.latents_file` does).
"""

import contextlib
import hashlib
import shutil
from pathlib import Path


def path_of(folder: Path, weights: str, recording: str) -> Path:
    """The file of a recording's latents in a model. weights, recording: the SHA-256 of each.

    Latents depend on both: the conditioning encoder learns with the rest of the GPT.
    """
    key = hashlib.sha256(f"latents 1 {weights} {recording}".encode()).hexdigest()
    return folder / recording / f"{key}.safetensors"


def delete(folder: Path, recording: str) -> None:
    """Deletes every model's latents of a recording, and those that do not say whose they are: an
    earlier version kept them in `folder` itself. All are made again when they are needed.

    Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder / recording)
    for path in folder.glob("*.safetensors"):
        path.unlink(missing_ok=True)
