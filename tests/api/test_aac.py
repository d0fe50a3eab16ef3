"""aac and m4a: decodable, whole and recognisable, streamed as well as whole; refused where there is
no encoder."""

import importlib.util
import io

import av
import numpy as np
import pytest

from api import encoding
from api.encoding import RATE, Encoder, whole
from tests.api.conftest import Running

# The encoder's own silence in front, which ADTS cannot tell of, and a last frame.
FRAME, PRIMING = 1024, 1024


def tones() -> np.ndarray:
    """Two seconds of which each tenth has a frequency of its own; -1 to 1."""
    at = np.arange(2 * RATE) / RATE
    return 0.4 * np.sin(2 * np.pi * (300 + 100 * (at // 0.1)) * at)


def decoded(sound: bytes) -> np.ndarray:
    """Samples of -1 to 1, of one channel at 24 kHz."""
    with av.open(io.BytesIO(sound)) as file:
        stream = file.streams.audio[0]
        found = np.concatenate([frame.to_ndarray() for frame in file.decode(stream)], axis=1)
        assert (stream.codec_context.sample_rate, len(found)) == (RATE, 1)
    return found[0]


def streamed(form: str, pcm: bytes, size: int) -> bytes:
    encoder = Encoder(form)
    parts = [encoder.add(pcm[at : at + size]) for at in range(0, len(pcm), size)]
    assert sum(map(bool, parts)) > len(parts) / 2 or len(parts) < 3  # it comes as it is made
    return b"".join([*parts, encoder.end()])


@pytest.mark.parametrize("form", encoding.AAC_FORMATS)
@pytest.mark.parametrize("size", [9602, 960_000, None])
def test_it_is_whole_and_the_same_sound(form: str, size: int | None) -> None:
    wave = tones()
    pcm = (wave * 32767).astype("<i2").tobytes()
    found = decoded(whole(form, pcm) if size is None else streamed(form, pcm, size))
    assert 0 <= len(found) - len(wave) <= PRIMING + FRAME
    shifts = [found[shift : shift + len(wave)] for shift in (0, PRIMING) if
              shift + len(wave) <= len(found)]  # fmt: skip
    assert max(float(np.corrcoef(one, wave)[0, 1]) for one in shifts) > 0.99


def test_a_whole_m4a_says_how_long_it_is() -> None:
    pcm = bytes(2 * RATE)
    with av.open(io.BytesIO(whole("m4a", pcm))) as file:
        assert file.duration == pytest.approx(1_000_000, abs=1_000)


@pytest.mark.parametrize(
    ("form", "kind", "body"),
    [
        ("aac", "audio/aac", {}),
        ("m4a", "audio/mp4", {}),
        ("aac", "audio/aac", {"stream": False}),
        ("m4a", "audio/mp4", {"stream": True}),
    ],
)
def test_it_is_answered(service: Running, form: str, kind: str, body: dict[str, bool]) -> None:
    """m4a as a whole where nothing is said: its header holds its length."""
    answer = service.say("hello " * 10, response_format=form, **body)
    assert answer.status_code == 200 and answer.headers["content-type"] == kind
    assert ("content-length" in answer.headers) == (not body.get("stream", form == "aac"))
    assert 0 <= len(decoded(answer.content)) - 60 * 480 <= PRIMING + FRAME


def test_without_the_encoder_it_says_what_to_type(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "av" else find(name, *more)
    )
    for form in encoding.AAC_FORMATS:
        answer = service.say("hello", response_format=form)
        told = answer.json()
        assert (answer.status_code, told["code"], told["param"]) == (
            400, "unsupported", "response_format",
        )  # fmt: skip
        assert "sotaque[aac]" in told["detail"] and told["error"]["code"] == "unsupported"
    assert service.say("hello", response_format="mp3").status_code == 200
