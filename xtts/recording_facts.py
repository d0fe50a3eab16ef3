"""The length, rate and channels of a recording, and whether its end is missing."""

from dataclasses import dataclass
from pathlib import Path

from xtts import audio
from xtts.audio import AudioError

_STREAMED_BYTES = 0x7FFF_0000


@dataclass(frozen=True)
class AudioFacts:
    """The properties of a recording. frames: from the header, or counted if that is not
    plausible."""

    seconds: float
    rate: int
    channels: int
    frames: int


def facts(path: Path, *, by_av: bool = True) -> AudioFacts:
    """The properties of a recording. by_av: as in `xtts.audio.opened`.

    Raises AudioError.
    """
    with audio.opened(path, by_av=by_av) as sound:
        frames = sound.declared_frames
        frames = sum(map(len, sound.blocks())) if frames is None else frames
        if not frames:
            raise AudioError(f"{path} contains no samples.")
        return AudioFacts(frames / sound.rate, sound.rate, sound.channels, frames)


def declared_bytes(path: Path) -> int | None:
    """The size that a WAV file declares, in bytes; None for other files and streamed ones.

    libsndfile reads a truncated WAV file without an error. A program that writes to a pipe does not
    know the size and declares 0, or almost 2 or 4 GiB.
    """
    with path.open("rb") as file:
        head = file.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return None
    size = int.from_bytes(head[4:8], "little")
    return size + 8 if 0 < size < _STREAMED_BYTES else None
