"""ElevenLabs' names of formats: each decodes at its rate, streamed in chunks."""

import io

import numpy as np
import pytest
import soundfile

from api.errors import APIError
from extras.streams.output_format import output_format
from xtts import mp3_frames
from xtts.encoding import RATE
from xtts.marks import UNNAMED

SECONDS = 2
TONE = np.sin(2 * np.pi * 440 * np.arange(SECONDS * RATE) / RATE)
PCM = np.rint(TONE * 8_000).astype("<i2").tobytes()


def encoded(name: str) -> bytes:
    encoder = output_format(name).encoder(UNNAMED)
    chunks = [encoder.add(PCM[at : at + 4_800]) for at in range(0, len(PCM), 4_800)]
    return b"".join([*chunks, encoder.end()])


def pitch(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples))
    return float(spectrum.argmax() * rate / len(samples))


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000])
def test_samples_have_the_rate_of_the_name(rate):
    samples = np.frombuffer(encoded(f"pcm_{rate}"), "<i2")
    assert len(samples) == pytest.approx(SECONDS * rate, abs=1)
    assert pitch(samples, rate) == pytest.approx(440, abs=1)
    assert samples.max() == pytest.approx(8_000, rel=0.02)


@pytest.mark.parametrize(
    ("name", "rate", "kilobits"),
    [("mp3_22050_32", 22_050, 32), ("mp3_24000_48", 24_000, 48)]
    + [(f"mp3_44100_{kilobits}", 44_100, kilobits) for kilobits in (32, 64, 96, 128, 192)],
)
def test_an_mp3_has_the_rate_and_the_bit_rate_of_the_name(name, rate, kilobits):
    file = encoded(name)
    samples, found = soundfile.read(io.BytesIO(file))
    assert found == rate and len(samples) / rate == pytest.approx(SECONDS, abs=0.08)
    assert pitch(samples, rate) == pytest.approx(440, abs=1)
    frames = len(file) - mp3_frames.end_of_tags(file)
    assert frames * 8 / (len(samples) / rate) / 1000 == pytest.approx(kilobits, rel=0.03)


@pytest.mark.parametrize(
    "name", ["ulaw_8000", "mp3", "pcm_11025", "mp3_44100_100", "mp3_12000_32", "", "pcm"]
)
def test_other_names_are_refused_with_those_that_are_there(name):
    with pytest.raises(APIError, match="mp3_44100_128") as refused:
        output_format(name)
    assert (refused.value.status, refused.value.param) == (400, "output_format")
