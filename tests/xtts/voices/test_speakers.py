"""The named speakers of a voice: read, found by name, used for speech."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

import xtts
from machine.storage.checksums import sha256_of
from machine.storage.files import Written
from tests.models import tiny_voice
from xtts.text.errors import TextError
from xtts.voices import speakers
from xtts.voices.base_models import BundleError
from xtts.voices.speakers import Speaker


def named(folder: Path, *names: str) -> Path:
    """Gives the voice in `folder` speakers, each with a different tone."""
    rows = []
    (folder / speakers.FOLDER).mkdir(parents=True)
    for number, name in enumerate(names, start=1):
        path = folder / speakers.FOLDER / f"{number}.wav"
        soundfile.write(path, 0.3 * np.sin(np.arange(44_100) / (5.0 * number)), 22_050)
        written = Written(sha256_of(path), path.stat().st_size)
        rows.append(Speaker(name, path.name, written, ["a.wav"]))
    speakers.write(folder, rows)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return named(tiny_voice(tmp_path / "base"), "anna", "anna:whisper", "Ben")


def test_speakers_are_read_in_their_order(folder):
    files = speakers.read(folder)
    assert list(files) == ["anna", "anna:whisper", "Ben"]
    assert files["Ben"] == folder / "speakers" / "3.wav"


@pytest.mark.parametrize("damage", ["missing", "changed", "no json", "other json"])
def test_speakers_that_cannot_be_used_are_left_out_with_a_line(folder, caplog, damage):
    path = folder / "speakers" / "3.wav"
    if damage == "missing":
        path.unlink()
    elif damage == "changed":
        path.write_bytes(path.read_bytes()[::-1])
    else:
        (folder / "speakers" / speakers.LIST_FILE).write_text("{" if damage == "no json" else "{}")
    assert speakers.read(folder) == {}
    assert "speakers.json cannot be used" in caplog.text


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("anna", ""),
        ("Anna", ""),
        ("default", ""),
        ("BEN", "Ben"),
        ("anna : Whisper", "anna:whisper"),
        (":whisper", "anna:whisper"),
        ("default:whisper", "anna:whisper"),
        ("ben:whisper", None),
        ("bob", None),
    ],
)
def test_a_speaker_is_found_by_any_way_to_write_the_name(folder, written, name):
    assert speakers.find_speaker(written, "anna", speakers.read(folder)) == name


def test_a_voice_speaks_as_each_of_its_speakers(folder):
    """By argument and by a tag in the text, with the same bits; the first one is the default."""
    say = {"seed": 3}
    voice = xtts.load_voice(folder)
    ben = xtts.load_voice(folder, speaker="ben")
    assert (voice.files.own_name, ben.files.own_name) == ("anna", "Ben")
    hers, his = xtts.synthesize(voice, "hello", **say), xtts.synthesize(ben, "hello", **say)
    assert not np.array_equal(hers[: len(his)], his[: len(hers)])
    assert np.array_equal(xtts.synthesize(voice, "[voice:ben]hello", **say), his)
    assert np.array_equal(xtts.synthesize(ben, "[voice:default]hello", **say), his)
    whisper = xtts.synthesize(xtts.load_voice(folder, speaker="anna:whisper"), "hello", **say)
    assert np.array_equal(xtts.synthesize(voice, "[style:whisper]hello", **say), whisper)
    streamed = np.concatenate(list(xtts.stream(voice, "[voice:ben]hello", **say)))
    assert np.allclose(streamed, his, atol=1e-4)


def test_a_speaker_that_is_not_there_is_refused_with_those_there_are(folder, tmp_path):
    with pytest.raises(BundleError, match=r"the speaker 'bob'; it has anna, anna:whisper, Ben"):
        xtts.load_voice(folder, speaker="bob")
    with pytest.raises(TextError, match=r"the voice 'bob'; there is Ben, anna, anna:whisper"):
        xtts.synthesize(xtts.load_voice(folder), "[voice:bob]hello")
    alone = tiny_voice(tmp_path / "alone")
    with pytest.raises(BundleError, match="no named speaker"):
        xtts.load_voice(alone, speaker="anna")
