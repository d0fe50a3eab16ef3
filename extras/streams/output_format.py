"""ElevenLabs' names of audio formats: `pcm_16000`, `mp3_44100_128`, `wav_24000`."""

import re
from dataclasses import dataclass

from api.errors import APIError, excerpt
from xtts.encoding import Encoder
from xtts.marks import Mark

DEFAULT = "mp3_44100_128"
_RATES = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
# LAME's bit rates, for rates of MPEG-2 (below 32 kHz) and of MPEG-1.
_LOW_RATE, _HIGH_RATE = (24, 32, 48, 64, 96, 128), (32, 48, 64, 96, 128, 192)
_NAME = re.compile(r"(pcm|wav)_(\d{4,5})|(mp3)_(\d{5})_(\d{2,3})")


@dataclass(frozen=True)
class OutputFormat:
    """form: as in `xtts.encoding`; rate: samples a second; kilobits: the bit rate of an mp3."""

    form: str
    rate: int
    kilobits: int | None = None

    def encoder(self, mark: Mark) -> Encoder:
        """A new stream of this format."""
        return Encoder(self.form, mark=mark, rate=self.rate, kilobits=self.kilobits)


def output_format(name: str) -> OutputFormat:
    """The format of this name. Raises APIError (400)."""
    if match := _NAME.fullmatch(name):
        form, rate = match[1] or match[3], int(match[2] or match[4])
        if form != "mp3" and rate in _RATES:
            return OutputFormat(form, rate)
        if form == "mp3" and rate in _RATES and int(match[5]) in (_LOW_RATE, _HIGH_RATE)[rate >= 32_000]:
            return OutputFormat(form, rate, int(match[5]))
    rates = ", ".join(map(str, _RATES))
    text = (
        f"output_format is {excerpt(name)}. It may be pcm_RATE or wav_RATE with a rate of {rates}, or "
        f"mp3_RATE_KILOBITS such as {DEFAULT}."
    )
    raise APIError(400, "unsupported", text, param="output_format")
