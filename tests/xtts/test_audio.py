"""Reading and writing sound; tests/peers compares the mels with Coqui's."""

import numpy as np
import pytest
import soundfile
import torch

from tests import pipe_audio
from tests.bad_audio import encoded, write_all
from tests.datasets import a_sound
from xtts import audio, sound_file
from xtts.audio import CODE_RATE, AudioError, AudioFacts, facts

RATE = 22_050


@pytest.mark.parametrize(
    ("ending", "form", "subtype"),
    [
        ("wav", "WAV", "PCM_16"),
        ("wav", "WAV", "FLOAT"),
        ("flac", "FLAC", "PCM_24"),
        ("ogg", "OGG", "VORBIS"),
        ("mp3", "MP3", "MPEG_LAYER_III"),
    ],
)
def test_every_form_is_read(tmp_path, ending, form, subtype):
    sound = a_sound(1.5, RATE)
    path = tmp_path / f"sound.{ending}"
    path.write_bytes(encoded(sound, form, subtype))
    assert facts(path) == AudioFacts(1.5, RATE, 1, len(sound))
    samples = audio.read(path, CODE_RATE)
    assert samples.dtype == torch.float32
    assert abs(len(samples) - len(sound)) <= 2400
    assert np.corrcoef(samples[: len(sound)].numpy(), sound[: len(samples)])[0, 1] > 0.95


def test_channels_are_averaged(tmp_path):
    left, right = a_sound(0.6, RATE, seed=1), a_sound(0.6, RATE, seed=2)
    path = tmp_path / "stereo.wav"
    soundfile.write(path, np.stack([left, right], 1), RATE, subtype="FLOAT")
    torch.testing.assert_close(audio.read(path, RATE), torch.from_numpy((left + right) / 2))


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000, 192_000])
def test_every_usual_rate_is_resampled(tmp_path, rate):
    time = np.arange(rate) / rate
    path = tmp_path / "tone.wav"
    soundfile.write(path, np.sin(2 * np.pi * 1000 * time), rate)
    samples = audio.read(path, CODE_RATE)
    assert abs(len(samples) - CODE_RATE) <= 1
    spectrum = torch.fft.rfft(samples).abs()
    assert int(spectrum.argmax()) == 1000


def test_a_filter_is_made_once_and_says_the_same_bits(monkeypatch):
    from torchaudio import functional, transforms

    made = []
    build = transforms._transforms._get_sinc_resample_kernel
    monkeypatch.setattr(
        transforms._transforms,
        "_get_sinc_resample_kernel",
        lambda *given, **more: made.append(given[:2]) or build(*given, **more),
    )
    audio._windowed_sinc.cache_clear()
    for number in range(3):
        sound = torch.from_numpy(a_sound(0.3, RATE, seed=number))
        resampled = audio.resample(sound, RATE, 16_000)
        assert torch.equal(resampled, functional.resample(sound, RATE, 16_000))
    assert made == [(RATE, 16_000)]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of samples requested from libsndfile, for each call."""
    asked, original = list[int](), soundfile.SoundFile.read
    monkeypatch.setattr(
        soundfile.SoundFile, "read", lambda self, n, **k: asked.append(n) or original(self, n, **k)
    )
    return asked


def test_only_so_many_seconds_are_decoded(tmp_path, decoded):
    """A small FLAC may hold an hour: only the needed part is decoded."""
    path = tmp_path / "hour.flac"
    soundfile.write(path, np.zeros(3600 * 8000, dtype=np.int16), 8000)
    assert len(audio.read(path, 8000, max_seconds=12)) == 12 * 8000
    assert sum(decoded) == 12 * 8000


def test_a_header_reserves_no_memory(tmp_path, decoded):
    """A FLAC that declares 36 bits of samples must not make us reserve 275 GB."""
    write_all(tmp_path)
    with pytest.raises(AudioError, match="cannot be decoded"):
        audio.read(tmp_path / "years.flac", CODE_RATE)
    assert max(decoded) <= 1 << 16


def test_missing_files_folders_raw_data_and_odd_rates_are_refused(tmp_path):
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "data.raw").write_bytes(b"1234")
    # A rate without a common factor with ours.
    soundfile.write(tmp_path / "odd.wav", a_sound(0.5, 22_051), 22_051)
    for name, seen in (
        ("none.wav", "does not exist"),
        ("folder.wav", "does not exist"),
        ("data.raw", "cannot be decoded"),
        ("odd.wav", "22051 Hz"),
    ):
        with pytest.raises(AudioError, match=seen):
            audio.read(tmp_path / name, CODE_RATE)


def test_films_and_phones_recordings_get_the_line_that_converts(tmp_path):
    path = tmp_path / "note one.m4a"
    path.write_bytes(b"\0\0\0\x20ftypM4A ")
    with pytest.raises(audio.AudioError) as caught:
        facts(path)
    wav = path.with_suffix(".wav")
    assert f"Convert it: ffmpeg -i '{path}' -vn -ac 1 -ar 22050 '{wav}'" in str(caught.value)


def test_declared_bytes_show_what_was_cut_off(tmp_path):
    whole = encoded(a_sound(1.0, RATE))
    path = tmp_path / "a.wav"
    path.write_bytes(whole[: len(whole) // 2])
    assert audio.declared_bytes(path) == len(whole)
    streamed = whole[:4] + b"\xff\xff\xff\xff" + whole[8:40] + b"\xff\xff\xff\xff" + whole[44:]
    path.write_bytes(streamed)
    assert audio.declared_bytes(path) is None
    assert len(audio.read(path, RATE)) == RATE
    path.write_bytes(encoded(a_sound(1.0, RATE), "FLAC"))
    assert audio.declared_bytes(path) is None


def test_a_recording_is_measured_in_one_reading(tmp_path, monkeypatch):
    """Without a length in its header, it is decoded once to count the samples and to hear them."""
    path, opened = tmp_path / "a.flac", []
    path.write_bytes(pipe_audio.FILES["piped.flac"][0]())
    original = sound_file.open_sound
    monkeypatch.setattr(
        sound_file, "open_sound", lambda *given, **more: opened.append(1) or original(*given, **more)
    )
    mono, rate, seconds = audio.measure(path, 1.0)
    assert (len(mono), len(opened)) == (rate, 1)
    assert seconds == audio.facts(path).seconds
    assert np.array_equal(mono, audio.read(path, rate, max_seconds=1.0).numpy())
