"""Several recordings take turns: in order, with a share for each; a single one is unchanged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from tests.datasets import a_sound
from xtts.arguments import ArgumentError
from xtts.inference import voice
from xtts.inference.defaults import ConditioningParams
from xtts.joined_reference import for_conditioning, join, reference_of, trim_silence, turn_seconds
from xtts.model.config import ModelConfig
from xtts.voices.base_models import DEMO

RATE = 1_000
CONFIG = replace(ModelConfig.read(DEMO), conditioning=ConditioningParams())


def level(value: float, seconds: float) -> np.ndarray:
    """A recording whose samples differ from those of others."""
    count = int(seconds * RATE)
    return (value + 0.5 * np.sin(np.arange(count))).astype(np.float32)


def test_recordings_take_turns_until_all_are_used():
    sound = join([level(10, 2.0), level(20, 0.5), level(30, 3.5)], RATE, 1.0, 60.0)
    assert len(sound) == 6_000
    whose = [int(round(float(np.median(sound[at : at + 400])), -1)) for at in range(50, 6_000, 500)]
    # The last remaining recording continues alone.
    assert whose == [10, 10, 20, 30, 30, 10, 10, 30, 30, 30, 30, 30]


def test_a_joint_fades_but_nobody_is_faded_inside():
    sound = join([level(10, 1.0), level(20, 4.0)], RATE, 1.0, 60.0)
    assert np.abs(sound[[999, 1_000]]).max() < 3 and np.abs(sound[[0, -1]]).max() < 3
    assert sound[1_010:4_990].min() > 19
    assert np.array_equal(sound[1_010:4_990], level(20, 4.0)[10:3_990])


def test_it_ends_where_no_more_is_heard():
    sound = join([level(10, 9.0), level(20, 9.0)], RATE, 2.0, 5.0)
    assert len(sound) == 5_000
    assert [float(np.median(sound[a : a + 900])) for a in (50, 2_050, 4_050)] == pytest.approx(
        [10, 20, 10], abs=0.5
    )


def test_one_recording_is_itself():
    alone = np.concatenate([np.zeros(2_000, np.float32), level(10, 1.0)])
    assert join([alone], RATE, 1.0, 0.1) is alone


@pytest.mark.parametrize(
    ("count", "turn"), [(1, 4.0), (2, 4.0), (7, 4.0), (8, 2.0), (10, 2.0), (15, 2.0), (16, 4 / 3)]
)
def test_a_turn_is_a_chunk_or_a_whole_part_of_one_with_which_all_are_heard(count, turn):
    assert turn_seconds(count, 4.0, 30.0) == pytest.approx(turn)


@pytest.mark.parametrize("count", [2, 8, 31, 100])
def test_every_recording_is_heard_by_latents_and_embedding(count):
    recordings = [level(10 * (number + 1), 6.0) for number in range(count)]
    sound = for_conditioning(recordings, RATE, ConditioningParams(12.0, 4.0, 30.0))
    assert len(sound) == 30_000 or count * 6 < 30
    levels, samples = np.unique(np.round(sound[:12_000], -1), return_counts=True)
    # A fade passes through the levels of others, for a few samples.
    heard = {int(level) for level, count in zip(levels, samples, strict=True) if count > 50}
    assert {10 * (number + 1) for number in range(count)} <= heard


def test_long_silence_at_the_ends_takes_no_turn():
    spoken = a_sound(2.0, 22_050)
    silence = np.zeros(22_050, np.float32)
    cut = trim_silence(np.concatenate([silence, spoken, silence]), 22_050)
    assert len(cut) / 22_050 == pytest.approx(2.2, abs=0.05)
    short = np.concatenate([silence[:4_410], spoken, silence[:4_410]])
    assert np.array_equal(trim_silence(short, 22_050), short)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten different recordings, and files that do not belong to them."""
    person = tmp_path / "anna"
    (person / "below").mkdir(parents=True)
    for number in range(10):
        sound = a_sound(4.0, 16_000, seed=number, pitch=90.0 + 9 * number)
        soundfile.write(person / f"{number}.wav", sound, 16_000)
    soundfile.write(person / "below" / "other.wav", a_sound(1.0, 16_000), 16_000)
    (person / "notes.txt").write_text("x")
    (person / "._0.wav").write_bytes(b"x")
    return person


def test_a_folder_is_its_recordings_by_name(folder):
    every = [folder / f"{number}.wav" for number in range(10)]
    assert reference_of([folder]) == tuple(every)
    assert reference_of([every[3], folder])[:2] == (every[3], every[0])
    assert reference_of([every[3]]) == every[3] and isinstance(reference_of([every[3]]), Path)
    for path in every[1:]:
        path.unlink()
    assert reference_of([folder]) == every[0]


def test_what_names_no_recordings_or_too_many_is_refused(tmp_path, folder):
    empty = tmp_path / "empty"
    empty.mkdir()
    for named, words in (
        ([empty], "contains no recording"),
        ([], "an empty list"),
        ([folder] * 10 + [folder / "0.wav"], "101 recordings; at most 100"),
    ):
        with pytest.raises(ArgumentError, match=words):
            reference_of(named)
    assert len(reference_of([folder] * 10)) == 100  # type: ignore[arg-type]


def test_several_files_are_read_as_one_recording_and_one_as_ever(folder):
    alone = voice.read_reference(CONFIG, folder / "3.wav")
    assert torch.equal(alone, voice.read_reference(CONFIG, (folder / "3.wav",)))
    sound = voice.read_reference(CONFIG, reference_of([folder]))
    assert len(sound) == 30 * 22_050
    third = sound[3 * 44_100 + 200 : 4 * 44_100 - 200]
    assert torch.equal(third, alone[200 : 44_100 - 200])


def test_a_bad_recording_among_several_is_named(folder):
    soundfile.write(folder / "3.wav", np.zeros(16_000), 16_000)
    with pytest.raises(voice.VoiceError, match=r"The reference .*3\.wav is silent"):
        voice.read_reference(CONFIG, reference_of([folder]))
