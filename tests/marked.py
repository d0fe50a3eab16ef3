"""Reads the mark of synthetic speech back from a sound."""

import io
from pathlib import Path

import av


def comment(sound: bytes | Path) -> str:
    """The comment of a file, as FFmpeg reads it; "" without one."""
    with av.open(str(sound) if isinstance(sound, Path) else io.BytesIO(sound)) as file:
        found = {**file.metadata, **file.streams.audio[0].metadata}
    return {key.lower(): value for key, value in found.items()}.get("comment", "")
