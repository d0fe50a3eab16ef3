"""Finding a row's recording: its name in any case, with any extension that a decoder reads."""

from pathlib import Path

import pytest

from tests import pipe_audio
from tests.bad_audio import encoded
from tests.datasets import a_sound, make_dataset
from train.dataset.dataset import RejectedClip, decode_clip
from train.dataset.entries import TranscriptEntry, find_recording, why_unsafe
from train.dataset.metadata import read_entries
from xtts.sound_endings import SOUND_ENDINGS

RATE = 22_050


class Forgetful:
    """A cache of sounds that is always empty."""

    def get(self, _key: str) -> None:
        return None

    def put(self, _key: str, _value: object) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wavs").mkdir()
    return tmp_path


def found(folder: Path, name: str) -> str:
    return find_recording([folder / "wavs", folder], name).relative_to(folder).as_posix()


@pytest.mark.parametrize(
    ("there", "name"),
    [
        ("wavs/ZOOM0001.WAV", "ZOOM0001"),
        ("wavs/ZOOM0001.WAV", "zoom0001.wav"),
        ("wavs/A.Wav", "a.wav"),
        ("Wavs/a.wav", "wavs/a.wav"),
        ("wavs/Über.FLAC", "über"),
        ("wavs/u\u0308ber.wav", "ÜBER.WAV"),
        ("wavs/a.opus", "a"),
        ("wavs/a.mp3", "a.wav"),
        ("wavs/a.OGG", "a.m4a"),
        ("wavs/a.m4a.wav", "a.m4a"),
        ("wavs/PTT-1.OPUS", "ptt-1.opus"),
        ("wavs/1.5.wav", "1.5"),
    ],
)
def test_one_file_that_fits_is_found(folder, there, name):
    (folder / "wavs").rmdir()
    (folder / there).parent.mkdir()
    (folder / there).touch()
    assert found(folder, name) == there


@pytest.mark.parametrize("ending", SOUND_ENDINGS)
def test_every_ending_of_the_one_list_is_found(folder, ending):
    (folder / "wavs" / f"A{ending.upper()}").touch()
    assert found(folder, "a") == found(folder, "A") == f"wavs/A{ending.upper()}"


def test_the_exact_name_comes_first_and_two_that_fit_are_none(folder):
    for name in ("A.WAV", "A.wav"):
        (folder / "wavs" / name).touch()
    assert found(folder, "A.wav") == "wavs/A.wav" and found(folder, "A.WAV") == "wavs/A.WAV"
    assert found(folder, "a.wav") == "wavs/a.wav"  # does not exist
    (folder / "wavs" / "a.txt").touch()
    assert found(folder, "b") == "wavs/b.wav"


def refusal(folder: Path, name: str) -> str:
    path = find_recording([folder / "wavs"], name)
    entry = TranscriptEntry(name, path, "a", "speaker", "en")
    seen = decode_clip(entry, Forgetful(), 11.6)  # type: ignore[arg-type]
    assert isinstance(seen, RejectedClip)
    return seen.seen


def test_a_refusal_names_the_file_of_that_name_and_how_to_convert_it(folder):
    (folder / "wavs" / "A.spx").write_bytes(b"Speex   ")
    path = folder / "wavs" / "A.spx"
    assert refusal(folder, "a") == (
        f"no file {folder / 'wavs' / 'a.wav'}. The folder has A.spx. Convert it: ffmpeg -i {path} "
        f"-vn -ac 1 -ar 22050 {path.with_suffix('.wav')}"
    )
    for name in ("B.WAV", "B.wav"):
        (folder / "wavs" / name).touch()
    assert "The folder has B.WAV, B.wav: keep one" in refusal(folder, "b")
    assert refusal(folder, "c") == f"no file {folder / 'wavs' / 'c.wav'}"
    (folder / "wavs" / "d.amr").write_bytes(b"#!AMR\n")
    assert f"ffmpeg -i {folder / 'wavs' / 'd.amr'} -vn" in refusal(folder, "d")


def test_clips_of_recorders_messengers_and_pipes_are_used(tmp_path):
    folder = make_dataset(tmp_path, clips=4)
    wavs = folder / "wavs"
    one, two, three, four = sorted(wavs.iterdir())
    one.rename(one.with_suffix(".WAV"))
    two.unlink()
    two.with_suffix(".webm").write_bytes(pipe_audio.webm())
    three.unlink()
    three.with_suffix(".opus").write_bytes(encoded(a_sound(2.0, 48_000), "OGG", "OPUS", 48_000))
    four.unlink()
    four.with_suffix(".Flac").write_bytes(pipe_audio.flac())
    entries = read_entries(folder, "auto", "en")
    decoded = [decode_clip(entry, Forgetful(), 11.6) for entry in entries]  # type: ignore[arg-type]
    assert not [one for one in decoded if isinstance(one, RejectedClip)]
    assert decoded[3][0] == pytest.approx(pipe_audio.SECONDS)  # type: ignore[index]


def test_a_lone_surrogate_from_json_cannot_be_a_file_name():
    assert why_unsafe("a\ud800.wav") == "this cannot be a file name"
