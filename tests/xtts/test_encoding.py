"""The output of an encoder, piece by piece: each format holds the sound, no header lies, and a file is
whole or absent."""

import errno
import io
import os
import wave

import av
import numpy as np
import pytest
import soundfile
import torch

from machine.storage.files import DiskFull, WriteError
from tests.api.decoding import decoded
from tests.machine.storage.test_files import full_after
from xtts import encoding
from xtts.encoding import MEDIA_TYPES, RATE, Encoder, encode, wav_header, without_length
from xtts.marks import UNNAMED
from xtts.mp3_frames import end_of_tags

SAMPLES = (8000 * np.sin(np.arange(RATE) / RATE * 2 * np.pi * 330)).astype("<i2")
PCM = SAMPLES.tobytes()
# AAC's silence at the start, which ADTS cannot declare, and a last frame.
PRIMING, MAX_PADDING = 1024, 2048


def streamed(form: str, step: int = 4_800) -> bytes:
    encoder = Encoder(form)
    pieces = [PCM[at : at + step] for at in range(0, len(PCM), step)]
    return b"".join(map(encoder.add, pieces)) + encoder.end()


def heard(data: bytes) -> np.ndarray:
    sound, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert rate == RATE
    return sound


@pytest.mark.parametrize("encoded", [encode("wav", PCM), encode("flac", PCM)])
def test_what_loses_nothing_holds_every_sample(encoded):
    assert np.array_equal(heard(encoded), SAMPLES)
    assert streamed("pcm") == encode("pcm", PCM) == PCM


@pytest.mark.parametrize(
    "encoded", [encode("mp3", PCM), encode("opus", PCM), streamed("opus")], ids=["mp3", "opus", "stream"]
)
def test_what_loses_something_holds_the_sound(encoded):
    sound = heard(encoded).astype(float)
    assert abs(len(sound) - len(SAMPLES)) <= 0.1 * RATE
    strongest = np.abs(np.fft.rfft(sound)).argmax() * RATE / len(sound)
    assert strongest == pytest.approx(330, abs=5)


def test_a_header_says_how_long_a_wav_is_where_that_is_known():
    file, stream = encode("wav", PCM), streamed("wav")
    begin = len(file) - len(PCM)
    assert file[begin:] == stream[begin:] == PCM
    assert int.from_bytes(file[begin - 4 : begin], "little") == len(PCM)
    assert int.from_bytes(file[4:8], "little") == len(file) - 8
    assert stream[begin - 4 : begin] == stream[4:8] == b"\xff" * 4
    # A stream without sound is only a header.
    assert stream[:begin] == wav_header(None, mark=UNNAMED) == Encoder("wav").end()
    assert Encoder("pcm").end() == b""


@pytest.mark.parametrize("rate", [RATE, 8_000])
def test_every_field_of_a_wav_header_is_that_of_the_standard_library(rate):
    """Some players derive the length from the byte rate alone."""
    file = io.BytesIO()
    with wave.open(file, "wb") as standard:
        standard.setparams((1, 2, rate, 0, "NONE", ""))
        standard.writeframes(PCM)
    assert wav_header(len(PCM), rate) == file.getvalue()[:44]
    unknown = wav_header(None, rate)
    assert unknown[8:40] == file.getvalue()[8:40]


@pytest.mark.parametrize("form", MEDIA_TYPES)
def test_sound_is_sent_before_the_end(form):
    encoder = Encoder(form)
    assert sum(len(encoder.add(PCM)) for _ in range(5)) > 500


def test_an_mp3_stream_does_not_tell_a_length():
    encoded = encode("mp3", PCM)
    tag = end_of_tags(encoded)
    assert b"Info" in encoded[tag:][:200] or b"Xing" in encoded[tag:][:200]
    cut = without_length(encoded)
    assert cut[:tag] == encoded[:tag] and encoded.endswith(cut[tag:])
    assert 0 < len(encoded) - len(cut) < 2_000
    assert cut[tag] == 0xFF and without_length(cut) == cut
    # The tag may be sent before the first frame.
    for sent in (streamed("mp3"), streamed("mp3", 100)):
        assert end_of_tags(sent) == tag and sent[tag] == 0xFF
        assert b"Info" not in sent[tag:][:200] and b"Xing" not in sent[tag:][:200]


def players_length(data: bytes) -> float:
    """The length in seconds that a player shows before it decodes the file."""
    with av.open(io.BytesIO(data)) as file:
        return file.duration / 1e6


@pytest.mark.parametrize("form", ["mp3", "opus", "flac", "m4a", "wav"])
@pytest.mark.parametrize("seconds", [0.7, 8.28])
def test_a_whole_file_shows_its_length(form, seconds):
    pcm = quiet_then_loud(seconds)
    assert players_length(encode(form, pcm)) == pytest.approx(seconds, abs=0.06)


@pytest.mark.parametrize("seconds", [2.0, 8.28])
def test_a_saved_mp3_stream_shows_its_length(seconds):
    """OpenAI's clients write the default format to a file as it arrives."""
    pcm = quiet_then_loud(seconds)
    encoder = Encoder("mp3")
    data = b"".join(encoder.add(pcm[at : at + 9_600]) for at in range(0, len(pcm), 9_600))
    data += encoder.end()
    assert players_length(data) == pytest.approx(seconds, abs=0.12)
    assert soundfile.info(io.BytesIO(data)).duration == pytest.approx(seconds, abs=0.12)


def quiet_then_loud(seconds: float) -> bytes:
    """With a variable bit rate, the first frames say little about the rest."""
    size = int(seconds * RATE)
    loud = np.random.default_rng(0).normal(0, 0.2, size) * (np.arange(size) > size // 2)
    return encoding.pcm16(loud)


@pytest.mark.parametrize("other", [b"", b"\xff", b"RIFF0000", b"\xff\xfb\x00\x00", b"\xff\xfb\xfc0"])
def test_what_is_no_frame_is_left_as_it_is(other):
    assert without_length(other) == other


@pytest.mark.parametrize("installed", [False, True])
def test_aac_is_offered_only_where_it_can_be_made(monkeypatch, installed):
    monkeypatch.setattr(encoding, "av_is_installed", lambda: installed)
    aac = ["aac", "m4a"] if installed else []
    assert encoding.offered_formats() == ["wav", "pcm", "flac", "mp3", "opus", *aac]


@pytest.mark.parametrize("form", encoding.AAC_FORMATS)
@pytest.mark.parametrize("step", [9602, 960_000, None])
def test_aac_is_whole_and_the_same_sound(form, step):
    encoded = decoded(encode(form, PCM) if step is None else streamed(form, step))
    assert 0 <= len(encoded) - RATE <= MAX_PADDING
    shifts = [encoded[shift:][:RATE] for shift in (0, PRIMING) if shift + RATE <= len(encoded)]
    assert max(float(np.corrcoef(shifted, SAMPLES)[0, 1]) for shifted in shifts) > 0.99


def test_a_whole_m4a_says_how_long_it_is():
    with av.open(io.BytesIO(encode("m4a", bytes(2 * RATE)))) as file:
        assert file.duration == pytest.approx(1_000_000, abs=1_000)


@pytest.mark.parametrize("form", ["wav", "pcm", "mp3"])
def test_sound_may_have_another_rate(form):
    """Streamed and whole: the same samples, or the same bit rate."""
    tone = np.rint(8_000 * np.sin(np.arange(RATE) / 10)).astype("<i2").tobytes()
    stream = Encoder(form, rate=16_000, kilobits=48)
    sent = b"".join([*(stream.add(tone[at : at + 4_800]) for at in range(0, len(tone), 4_800)), stream.end()])
    file = encode(form, tone, rate=16_000, kilobits=48)
    if form == "mp3":
        assert (
            soundfile.info(io.BytesIO(file)).samplerate
            == soundfile.info(io.BytesIO(sent)).samplerate
            == 16_000
        )
        assert len(sent) - end_of_tags(sent) == pytest.approx(48_000 / 8, rel=0.15)
    else:
        streamed, at_once = (np.frombuffer(sound[-32_000:], "<i2").astype(int) for sound in (sent, file))
        assert abs(streamed - at_once).max() <= 3  # soxr adds dither to 16-bit samples
        assert len(file) - 32_000 == (0 if form == "pcm" else len(wav_header(0, 16_000, UNNAMED)))


def test_a_written_wav_says_24000_hz_and_is_whole_or_absent(tmp_path, monkeypatch):
    path = tmp_path / "new" / "sample.wav"
    encoding.write_wav(path, torch.tensor([0.0, 0.5, -0.5, 2.0, -3.0]))
    samples, rate = soundfile.read(path)
    assert (rate, soundfile.info(path).subtype) == (RATE, "PCM_16")
    np.testing.assert_allclose(samples, [0, 0.5, -0.5, 1, -1], atol=1e-4)
    before = path.read_bytes()

    def fails(*_args, **_kwargs):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(WriteError, match="could not be written"):
        encoding.write_wav(path, torch.ones(4))
    with pytest.raises(WriteError, match="Not a directory"):
        encoding.write_wav(path / "deep" / "sample.wav", torch.ones(4))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["sample.wav"]


@pytest.mark.parametrize("taken", [0, 1, 43, 44, 45, 4000])
def test_a_wav_for_which_no_space_is_left_is_told_with_74(tmp_path, monkeypatch, taken):
    full_after(monkeypatch, taken)
    with pytest.raises(DiskFull, match=r"48,044 bytes needed") as raised:
        encoding.write_wav(tmp_path / "sample.wav", torch.zeros(24_000))
    assert raised.value.exit_code == 74
    assert list(tmp_path.iterdir()) == []


def test_a_wav_outlives_a_power_cut(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: calls.append(name) or real(*args))
    encoding.write_wav(tmp_path / "sample.wav", torch.zeros(10))
    assert calls == ["fsync", "replace", "fsync"]
