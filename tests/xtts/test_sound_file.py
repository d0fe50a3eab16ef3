"""The length of a recording is that of its samples, whatever its header says."""

import io
import sys

import numpy as np
import pytest
import soundfile

from tests import pipe_audio
from tests.bad_audio import encoded
from tests.pipe_audio import FILES, RATE, SECONDS, SOUND
from xtts import audio, sound_file
from xtts.audio import AudioError, facts


@pytest.mark.parametrize("name", FILES)
def test_a_header_without_a_true_length_costs_no_second(tmp_path, name):
    make, more = FILES[name]
    path = tmp_path / name
    path.write_bytes(make())
    assert SECONDS <= facts(path).seconds <= SECONDS + more
    samples = audio.read(path, RATE).numpy()
    assert len(samples) == facts(path).frames
    assert pipe_audio.correlation(samples) > 0.98
    with sound_file.open_sound(path.read_bytes()) as sound:  # as the service reads an upload
        assert sum(map(len, sound.blocks())) == len(samples)
    assert len(audio.read(path, RATE, max_seconds=1.0)) == RATE
    rest = audio.read(path, RATE, start_seconds=1.0, max_seconds=1.0).numpy()
    assert np.array_equal(rest, samples[RATE : 2 * RATE])


def test_joined_mp3_files_are_as_long_as_both(tmp_path):
    """The Xing header of the first file covers only that file."""
    file = encoded(SOUND, "MP3", "MPEG_LAYER_III", RATE)
    path = tmp_path / "both.mp3"
    path.write_bytes(file + file)
    assert facts(path).seconds == pytest.approx(2 * SECONDS, abs=0.2)
    assert len(audio.read(path, RATE)) == facts(path).frames


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_ogg_streams_in_a_row_are_read_to_the_end(tmp_path, subtype):
    """Radios and `cat` make such files; libsndfile reads only the first stream."""
    stream = encoded(SOUND, "OGG", subtype, RATE)
    path = tmp_path / "both.ogg"
    path.write_bytes(stream + encoded(SOUND[: RATE // 2], "OGG", subtype, RATE) + stream)
    assert facts(path).seconds == pytest.approx(2 * SECONDS + 0.5, abs=0.05)
    samples = audio.read(path, RATE).numpy()
    assert len(samples) == facts(path).frames
    assert pipe_audio.correlation(samples[-len(SOUND) :]) > 0.98


def test_ogg_streams_of_several_rates_are_refused(tmp_path):
    path = tmp_path / "both.ogg"
    streams = [encoded(SOUND, "OGG", "VORBIS", rate) for rate in (RATE, 2 * RATE)]
    path.write_bytes(b"".join(streams))
    with pytest.raises(AudioError, match="sample rate or its channels change"):
        facts(path)


@pytest.mark.parametrize("form", ["AU", "CAF"])
def test_a_recorder_that_wrote_no_length_loses_nothing(tmp_path, form):
    """An AU then has 0xFFFFFFFF as its length, a CAF -1."""
    content = encoded(SOUND, form, "PCM_16", RATE)
    at = 8 if form == "AU" else content.index(b"data") + 4
    size = 4 if form == "AU" else 8
    path = tmp_path / f"piped.{form.lower()}"
    path.write_bytes(content[:at] + size * b"\xff" + content[at + size :])
    assert facts(path).frames == len(SOUND)
    assert pipe_audio.correlation(audio.read(path, RATE).numpy()) > 0.98


def test_a_length_that_is_true_is_believed(tmp_path, monkeypatch):
    """Samples are not counted: that would decode a whole hour."""
    monkeypatch.setattr(sound_file.Sound, "blocks", lambda self: pytest.fail("counted"))
    for form, subtype in (("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")):
        path = tmp_path / f"whole.{form}"
        path.write_bytes(encoded(SOUND, form, subtype, RATE))
        assert facts(path).frames == len(SOUND)


@pytest.mark.parametrize("tail", [b"", b"LIST\x04\0\0\0INFO", b"LIST\x03\0\0\0INF\0"])
def test_an_empty_wav_stays_empty(tmp_path, tail):
    path = tmp_path / "empty.wav"
    path.write_bytes(encoded(SOUND[:0]) + tail)
    with pytest.raises(AudioError, match="no samples"):
        facts(path)


def test_what_follows_the_samples_is_not_heard(tmp_path):
    """Neither a trailing chunk nor a few stray bytes."""
    whole = encoded(SOUND, rate=RATE)
    for tail in (b"LIST\x04\0\0\0INFO", bytes(1000)):
        path = tmp_path / "tail.wav"
        path.write_bytes(whole + tail)
        assert facts(path).frames == len(SOUND)


@pytest.mark.parametrize("name", ["memo.webm", "memo.WEBM", "memo.m4a"])
def test_what_messengers_write_is_read_where_ffmpeg_is(tmp_path, name):
    path = tmp_path / name
    forms = {"webm": ("webm", "libopus", 48_000), "m4a": ("ipod", "aac", RATE)}
    path.write_bytes(pipe_audio.by_av(*forms[name[5:].lower()]))
    assert facts(path).seconds == pytest.approx(SECONDS, abs=0.1)
    assert pipe_audio.correlation(audio.read(path, RATE).numpy()) > 0.98


@pytest.mark.parametrize("change", [(b"OpusHead\1", b"OpusHead\x20"), (b"A_OPUS", b"A_XYZQ")])
def test_sound_that_ffmpeg_does_not_know_is_refused_with_the_line_that_converts(tmp_path, change):
    path = tmp_path / "memo.webm"
    path.write_bytes(pipe_audio.webm().replace(*change))
    with pytest.raises(AudioError, match=r"ffmpeg -i .*memo\.webm"):
        audio.read(path, RATE)


def test_without_ffmpeg_the_line_that_converts_is_shown(tmp_path, monkeypatch):
    path = tmp_path / "my memo.webm"
    path.write_bytes(pipe_audio.webm())
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.setattr(sound_file, "av_is_installed", lambda: False)
    with pytest.raises(AudioError, match=r"ffmpeg -i '.*my memo\.webm' -vn .*my memo\.wav'"):
        audio.read(path, RATE)


def test_opus_is_read_without_ffmpeg(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    path = tmp_path / "voice.opus"
    file = io.BytesIO()
    soundfile.write(file, SOUND, RATE, format="OGG", subtype="OPUS")
    path.write_bytes(file.getvalue())
    assert facts(path).seconds == pytest.approx(SECONDS, abs=0.1)


def test_an_mp3_file_in_blocks_is_the_sound_of_the_whole_file():
    """A seek between two blocks loses the bits that a frame takes from earlier ones."""
    noise = np.random.default_rng(0).normal(0.0, 0.2, 7 * RATE).astype(np.float32)
    data = encoded(noise, "MP3", "MPEG_LAYER_III", RATE)
    whole, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    with sound_file.open_sound(data) as sound:
        assert np.allclose(np.concatenate(list(sound.blocks())), whole, rtol=0, atol=1e-6)


# The same sound in many formats.
CONTENTS = {
    "wav": lambda: encoded(SOUND, "WAV", "PCM_16", RATE),
    "mp3": lambda: encoded(SOUND, "MP3", "MPEG_LAYER_III", RATE),
    "flac": lambda: encoded(SOUND, "FLAC", "PCM_16", RATE),
    "ogg": lambda: encoded(SOUND, "OGG", "VORBIS", RATE),
    "m4a": lambda: pipe_audio.by_av("ipod", "aac", RATE),
    "mov": lambda: pipe_audio.by_av("mov", "pcm_s16le", RATE),
    "aac": lambda: pipe_audio.by_av("adts", "aac", RATE),
    "webm": pipe_audio.webm,
    "wma": lambda: pipe_audio.by_av("asf", "pcm_s16le", RATE),
}


@pytest.mark.parametrize("form", CONTENTS)
def test_the_content_decides_and_not_the_ending(tmp_path, form):
    content = CONTENTS[form]()
    for ending in ("wav", "mp3", "opus", "m4a"):
        path = tmp_path / f"a.{ending}"
        path.write_bytes(content)
        assert facts(path).seconds == pytest.approx(SECONDS, abs=0.2)
        assert audio.read(path, RATE, max_seconds=1.0).abs().max() > 0.1


def test_without_av_a_wrong_ending_gets_the_command_that_converts(tmp_path, monkeypatch):
    monkeypatch.setattr(sound_file, "av_is_installed", lambda: False)
    path = tmp_path / "a.wav"
    path.write_bytes(CONTENTS["m4a"]())
    with pytest.raises(AudioError) as caught:
        facts(path)
    assert str(caught.value) == (
        f"{path} is not a WAV, FLAC, OGG or MP3 file. Convert it: ffmpeg -i {path} -vn -ac 1 "
        f"-ar 22050 {tmp_path / 'a-converted.wav'}"
    )


def test_a_wav_whose_samples_look_like_mp3_frames_stays_a_wav(tmp_path):
    """libsndfile would decode those, and nothing else of the file."""
    stream = pipe_audio.mp3()
    samples = np.frombuffer(stream[: len(stream) // 2 * 2], "<i2")
    path = tmp_path / "a.wav"
    path.write_bytes(encoded(samples.astype(np.float32) / 32_768, "WAV", "PCM_16", RATE))
    assert facts(path).frames == len(samples)
