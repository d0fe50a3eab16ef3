"""Where cached latents are kept, so that all of a recording's can be deleted.

    FOLDER/<SHA-256 of the recording>/<key>.safetensors     one for each model that encoded it

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


def adopt_earlier(path: Path) -> None:
    """Moves latents to `path` (as `path_of` names it) from where earlier versions kept them: in
    FOLDER itself, under the same name."""
    earlier = path.parent.parent / path.name
    if earlier.is_file() and not path.exists():
        with contextlib.suppress(OSError):  # a folder that may only be read: they are made again
            path.parent.mkdir(exist_ok=True)
            earlier.replace(path)


def delete(folder: Path, recording: str) -> None:
    """Deletes every model's latents of a recording, and those that do not say whose they are: an
    earlier version kept them in `folder` itself. All are made again when they are needed.

    Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder / recording)
    for path in folder.glob("*.safetensors"):
        path.unlink(missing_ok=True)
