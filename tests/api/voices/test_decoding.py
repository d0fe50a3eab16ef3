"""The decoding child reads all of an upload, whatever length its header states."""

import pytest

from api.voices.decoding import decode_mono
from tests import pipe_audio
from tests.api.sounds import speech
from tests.pipe_audio import FILES, RATE, SECONDS
from xtts import encoding


@pytest.mark.parametrize("name", FILES)
def test_a_header_without_a_true_length_refuses_nothing(name):
    make, more = FILES[name]
    mono, rate = decode_mono(make(), 60.0)
    assert rate == RATE and SECONDS <= len(mono) / rate <= SECONDS + more
    assert pipe_audio.correlation(mono) > 0.98


@pytest.mark.parametrize("name", FILES)
def test_a_header_without_a_true_length_hides_no_length(name):
    with pytest.raises(ValueError, match=r"is 3 s long|is longer than 2 s"):
        decode_mono(FILES[name][0](), 2.0)


def test_what_this_service_streams_can_be_a_voice():
    sound = speech(20.0, RATE)
    pcm = (sound * 32_767).astype("<i2").tobytes()
    for form, container in (("flac", None), ("mp3", None), ("wav", None), ("aac", "aac")):
        encoder = encoding.Encoder(form)
        data = encoder.add(pcm) + encoder.end()
        # FFmpeg estimates the length of ADTS from its first frames, so no refusal depends on it.
        mono, rate = decode_mono(data, 21.0, container)  # type: ignore[arg-type]
        assert len(mono) / rate == pytest.approx(20.0, abs=0.2), form
