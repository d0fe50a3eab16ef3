"""A FLAC whose header declares fewer samples than it has is read to its end."""

import io

import numpy as np
import pytest
import soundfile

from xtts import audio, sound_file
from xtts.audio import facts

RATE = 22_050


def flac(seconds: float, channels: int = 1, rate: int = RATE) -> bytes:
    noise = np.random.default_rng(1).uniform(-0.3, 0.3, (round(seconds * rate), channels))
    file = io.BytesIO()
    soundfile.write(file, noise, rate, format="FLAC")
    return file.getvalue()


def with_total(data: bytes, total: int) -> bytes:
    place = data.index(b"fLaC") + 8 + 13
    head = bytes([data[place] & 0xF0 | total >> 32])
    return data[:place] + head + (total & 0xFFFFFFFF).to_bytes(4, "big") + data[place + 5 :]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, RATE, 96_000])
@pytest.mark.parametrize("declared", [1, 1000, 7999])
def test_a_total_that_is_too_small(tmp_path, channels, rate, declared):
    path = tmp_path / "a.flac"
    path.write_bytes(with_total(flac(1.0, channels, rate), declared))
    assert facts(path).frames == rate
    assert len(audio.read(path, rate)) == rate
    with sound_file.open_sound(path.read_bytes()) as sound:
        assert sound.declared_frames is None and sum(map(len, sound.blocks())) == rate


def test_tags_before_a_flac_and_other_lengths(tmp_path):
    path, tag = tmp_path / "a.flac", b"ID3\x03\0\0\0\0\0\x0a" + bytes(10)
    for seconds in (0.02, 0.5, 6.1):
        path.write_bytes(tag + with_total(flac(seconds), 100))
        assert facts(path).seconds == pytest.approx(seconds, abs=1e-4)


@pytest.mark.parametrize("channels", [1, 2])
def test_a_right_total_is_believed(channels):
    for seconds in (0.02, 0.1, 1.0, 5.3):
        assert declared(flac(seconds, channels)) == round(seconds * RATE)
    # A count that is too large belongs to a truncated file, which is refused elsewhere.
    whole = flac(2.0, channels)
    assert declared(whole[: len(whole) // 2]) == 2 * RATE
    assert declared(with_total(whole, 0)) is None


def declared(data: bytes) -> int | None:
    with sound_file.open_sound(data) as sound:
        return sound.declared_frames


@pytest.mark.parametrize("data", [b"", b"fLaC", b"RIFF" + bytes(100), b"fLaC" + b"1" * 200])
def test_other_bytes(data):
    with pytest.raises(sound_file.UNDECODABLE), sound_file.open_sound(data):
        pass
