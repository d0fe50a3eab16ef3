"""The mark of synthetic speech: one line of text that every sound of a voice carries.

`xtts.encoding` and `xtts.wav` write it into the file, and the service into the header
`X-AI-Generated`. Recordings of people have no mark. docs/synthetic-sound.md shows how to read it.
"""

from dataclasses import dataclass
from urllib.parse import quote

from machine import commands

HEADER = "X-AI-Generated"
# IPTC's term for media that a trained model generated, https://cv.iptc.org/newscodes/digitalsourcetype.
SOURCE = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"


@dataclass(frozen=True)
class Mark:
    """voice: the name of the voice that speaks; "" if it is not known."""

    voice: str = ""

    @property
    def text(self) -> str:
        """The line, in ASCII: LAME's tags and HTTP headers are Latin-1, so other characters of a
        name are percent-encoded."""
        voice = f"voice: {quote(self.voice, safe=_PLAIN)}" if self.voice else ""
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


_PLAIN = " !#$&'()*+,-./:=?@[]_~"
UNNAMED = Mark()
