"""The end that a recording lacks; test_sound_file.py has its length."""

from tests.bad_audio import encoded
from tests.datasets import a_sound
from xtts import audio
from xtts.recording_facts import declared_bytes

RATE = 22_050


def test_declared_bytes_show_what_was_cut_off(tmp_path):
    whole = encoded(a_sound(1.0, RATE))
    path = tmp_path / "a.wav"
    path.write_bytes(whole[: len(whole) // 2])
    assert declared_bytes(path) == len(whole)
    streamed = whole[:4] + b"\xff\xff\xff\xff" + whole[8:40] + b"\xff\xff\xff\xff" + whole[44:]
    path.write_bytes(streamed)
    assert declared_bytes(path) is None
    assert len(audio.read(path, RATE)) == RATE
    path.write_bytes(encoded(a_sound(1.0, RATE), "FLAC"))
    assert declared_bytes(path) is None
