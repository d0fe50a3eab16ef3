"""Writes speech to a file in the format of its ending."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import commands
from machine.errors import SotaqueError
from machine.storage.atomic import Written, make_folder, replace_file
from xtts import encoding

if TYPE_CHECKING:
    import numpy as np

ENDINGS = {
    ".wav": "wav", ".mp3": "mp3", ".flac": "flac", ".opus": "opus", ".ogg": "opus",
    ".m4a": "m4a", ".aac": "aac",
}  # fmt: skip


class EncodingError(SotaqueError):
    """A file cannot be written in the format of its name."""


def form_of(path: Path) -> str:
    """The format of a file by its ending. Raises EncodingError, which lists the possible
    endings."""
    form = ENDINGS.get(path.suffix.lower(), "")
    known = encoding.offered()
    if form in known:
        return form
    can = ", ".join(ending for ending, one in ENDINGS.items() if one in known)
    if form:
        raise EncodingError(
            f"{path} needs FFmpeg's encoder, which is not installed here. Install it with: "
            f"{commands.install_extra('aac')}, or use one of these endings: {can}."
        )
    ending = f"ends in {path.suffix}" if path.suffix else "has no ending"
    raise EncodingError(f"{path} {ending}, which is not a known format. Use one of these: {can}.")


def write(path: Path, samples: "np.ndarray[Any, Any]") -> Written:
    """Writes `[samples]` in -1..1 at 24 kHz atomically, in the format of the path's ending.

    Raises EncodingError as `form_of`, DiskFull (exit 74), and WriteError for a folder that cannot
    be written.
    """
    file = encoding.whole(form_of(path), encoding.pcm16(samples))
    make_folder(path.parent)
    return replace_file(path, lambda out: out.write(file))
