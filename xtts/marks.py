"""The marks of synthetic speech: a line of text in every file, and a watermark in the sound.

`xtts.encoding` writes the line into the file, and the service into the header `X-AI-Generated`.
`extras/watermark` computes the watermark, if WATERMARK asks for one. Recordings of people have
neither. docs/synthetic-sound.md shows how to read them. Importing this module does not import torch.
"""

from dataclasses import dataclass
from types import ModuleType
from urllib.parse import quote

from machine import commands, extras
from machine.errors import SotaqueError
from xtts.model.streaming_vocoder import Samples

HEADER = "X-AI-Generated"
# IPTC's term for media that a trained model generated, https://cv.iptc.org/newscodes/digitalsourcetype.
SOURCE = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"


@dataclass(frozen=True)
class Mark:
    """The mark of speech with a voice. voice: its name; "" if it is not known."""

    voice: str = ""

    @property
    def text(self) -> str:
        """The line, in ASCII: LAME's tags and HTTP headers are Latin-1, so other characters of a
        name are percent-encoded."""
        voice = f"voice: {quote(self.voice, safe=_UNESCAPED)}" if self.voice else ""
        parts = ["AI-generated speech", voice, commands.version(), SOURCE]
        return "; ".join(part for part in parts if part)

    @property
    def headers(self) -> dict[str, str]:
        """The header of a response with this sound."""
        return {HEADER: self.text}

    @property
    def wav_chunk(self) -> bytes:
        """The LIST chunk of a WAV file with this comment."""
        text = self.text.encode() + b"\0"
        info = b"INFOICMT" + len(text).to_bytes(4, "little") + text + b"\0" * (len(text) % 2)
        return b"LIST" + len(info).to_bytes(4, "little") + info


_UNESCAPED = " !#$&'()*+,-./:=?@[]_~"
UNNAMED = Mark()


# The module of the watermark in use, or nothing. Like torch's threads, it applies to a whole process.
_watermark_modules: list[ModuleType] = []


def use_watermark(kind: str) -> None:
    """Adds the watermark to all later speech of this process; `off` changes nothing. Raises
    SotaqueError if the extra or its weights are missing."""
    if kind == "off" or _watermark_modules:
        return
    module = extras.first("WATERMARK")
    if module is None:
        raise SotaqueError(f"WATERMARK={kind} needs extras/watermark, which this copy of Sotaque lacks.")
    module.load()
    _watermark_modules.append(module)


def watermarked(chunk: Samples) -> Samples:
    """Sound `[samples]` at 24 kHz, a tensor on the CPU or an array, with the watermark in use."""
    return _watermark_modules[0].mark(chunk) if _watermark_modules else chunk
