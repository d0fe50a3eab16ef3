"""Audio formats that are not supported, and the command that converts them.

Importing this module does not import torch.
"""

import shlex
from pathlib import Path

# libsndfile does not read AAC, AMR, WMA, or the audio of videos.
FOREIGN_EXTENSIONS = (
    ".m4a", ".aac", ".mp4", ".webm", ".wma", ".mka", ".mkv", ".mov", ".amr"
)  # fmt: skip


def how_to_convert(path: Path) -> str:
    """The command that converts such a file to a WAV file beside it."""
    wav = shlex.quote(str(path.with_suffix(".wav")))
    return f"ffmpeg -i {shlex.quote(str(path))} -vn -ac 1 -ar 22050 {wav}"
