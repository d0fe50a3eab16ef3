"""The endings of recordings: those that libsndfile reads, and those that need FFmpeg's decoder.

Importing this module does not import torch.
"""

import importlib.util
import shlex
from pathlib import Path

DECODED = (".wav", ".wave", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".caf", ".w64")
# AAC, AMR, WMA, and the audio of videos: the package `av` reads them, if it is installed.
FOREIGN = (".m4a", ".m4b", ".aac", ".mp4", ".webm", ".weba", ".wma", ".mka", ".mkv", ".mov", ".3gp", ".amr")
SOUND_ENDINGS = (*DECODED, *FOREIGN)


def ending_of(name: str | Path) -> str:
    """The ending of a recording's name in lower case; "" for other files."""
    ending = Path(name).suffix.lower()
    return ending if ending in SOUND_ENDINGS else ""


def is_recording(path: Path) -> bool:
    """Whether a file is a recording by its name; hidden files are not."""
    # macOS adds files such as ._1.wav to 1.wav, which are not sound.
    return bool(ending_of(path)) and not path.name.startswith(".") and path.is_file()


def av_is_installed() -> bool:
    """Whether FFmpeg is installed, which reads FOREIGN and writes aac and m4a."""
    return importlib.util.find_spec("av") is not None


def how_to_convert(path: Path) -> str:
    """The command that converts a file to a WAV file in the same folder."""
    wav = shlex.quote(str(converted_name(path)))
    return f"ffmpeg -i {shlex.quote(str(path))} -vn -ac 1 -ar 22050 {wav}"


def converted_name(path: Path) -> Path:
    """The name of a converted file, which differs from that of an M4A called `a.wav`."""
    wav = path.with_suffix(".wav")
    return path.with_name(f"{path.stem}-converted.wav") if wav == path else wav
