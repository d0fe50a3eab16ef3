"""Kinds of recordings that are not read, and the command that converts them. Imports no torch."""

import shlex
from pathlib import Path

# libsndfile reads none of these: AAC, AMR, WMA, and the sound of films.
FOREIGN_EXTENSIONS = (
    ".m4a", ".aac", ".mp4", ".webm", ".wma", ".mka", ".mkv", ".mov", ".amr"
)  # fmt: skip


def how_to_convert(path: Path) -> str:
    """A line to type that makes a WAV file of such a recording, beside it."""
    wav = shlex.quote(str(path.with_suffix(".wav")))
    return f"ffmpeg -i {shlex.quote(str(path))} -vn -ac 1 -ar 22050 {wav}"
