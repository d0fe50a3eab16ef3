"""A run speaks from the person's best clips, none of which says what is spoken."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from machine.storage.checksums import sha256_of
from tests.datasets import a_sound, make_dataset
from train.dataset import dataset
from train.dataset.dataset import Clip, Dataset
from train.sampling import reference
from train.sampling.reference import (
    best_indices,
    compared_clips,
    reference_clips,
    reference_of_run,
    reference_path,
    sample_text_clip,
)
from train.settings import TrainSettings
from xtts.audio import VOCODER_RATE
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer
from xtts.voices.run_folder import RunFolder


def clip(number: int, text: str = "", speaker: str = "ana") -> Clip:
    name = f"clip {number}"
    return Clip(name, Path(name), text or f"text {number}", speaker, "en", 4.0, name, (1,))


def data_of(count: int, held_out: int = 0) -> Dataset:
    clips = tuple(map(clip, range(count)))
    return Dataset(clips, (), tuple(range(held_out, count)), tuple(range(held_out)))


@pytest.mark.parametrize(
    ("count", "held_out", "compared", "left"),
    [(1, 0, 0, 1), (2, 0, 1, 1), (3, 0, 2, 1), (4, 0, 2, 2), (12, 2, 6, 6), (64, 5, 8, 56)],
)
def test_clips_are_compared_with_or_spoken_from_but_never_both(count, held_out, compared, left):
    data = data_of(count, held_out)
    against, of = compared_clips(data, "ana"), reference_clips(data, "ana")
    assert (len(against), len(of)) == (compared, left)
    assert not {one.text for one in against} & {one.text for one in of}
    # What a sample says is among them, and so is what the run does not learn from.
    assert count == 1 or sample_text_clip(data) in against
    assert {f"clip {n}" for n in range(held_out)} <= {one.name for one in against}


def test_a_copy_and_the_same_text_again_are_no_reference_either():
    data = data_of(8)
    first = compared_clips(data, "ana")[0]
    copies = (
        Clip("copy", Path("copy"), "another", "ana", "en", 4.0, first.audio_sha256, (1,)),
        clip(20, first.text),
        clip(21, speaker="ben"),
    )
    clips = (*data.clips, *copies)
    more = Dataset(clips, (), tuple(range(len(clips))), ())
    against = compared_clips(more, "ana")
    for reference_clip in reference_clips(more, "ana"):
        assert reference_clip.speaker == "ana"
        for other in against:
            assert other.text != reference_clip.text and other.audio_sha256 != reference_clip.audio_sha256


def sound(level: float, seconds: float = 2.0, seed: int = 0) -> np.ndarray:
    """A recording whose embedding is `level`."""
    spoken = a_sound(seconds, VOCODER_RATE, seed=seed)
    return (level * spoken / np.abs(spoken).max()).astype(np.float32)


def embed(samples: np.ndarray) -> np.ndarray:
    """An angle that grows with the peak."""
    angle = float(np.abs(samples).max())
    return np.array([np.cos(angle), np.sin(angle)])


def test_the_recordings_nearest_to_all_others_are_taken_until_they_fill_the_time():
    recordings = [sound(level) for level in (0.9, 0.48, 0.52, 0.1, 0.5)]
    found = best_indices(recordings, embed, 30.0)
    assert set(found[:3]) == {1, 2, 4} and set(found) == set(range(5))
    assert best_indices(recordings, embed, 3.9) == found[:2]
    assert best_indices(recordings, embed, 0.5) == found[:1]


def test_short_and_clipped_recordings_are_the_last_resort():
    short, fine = sound(0.5, 0.6), sound(0.3)
    clipped = np.clip(3 * sound(0.5), -0.5, 0.5)
    assert best_indices([short, clipped, clipped, fine], embed, 30.0) == [3]
    assert set(best_indices([short, clipped, clipped], embed, 30.0)) == {1, 2}
    assert best_indices([short[:100], short], embed, 30.0) == [1]


@pytest.fixture
def ground(tmp_path: Path, base_folder: Path) -> Any:
    """A dataset of twelve clips, its base and a run without files."""
    folder, config = make_dataset(tmp_path / "data", 12, 2.0), ModelConfig.read(base_folder)
    settings = TrainSettings(dataset_dir=folder, cache_dir=tmp_path / "cache")
    data = dataset.read(settings, Tokenizer(config, base_folder), config.gpt)
    context: Any = SimpleNamespace(base=base_folder, config=config, data=data)
    return SimpleNamespace(
        settings=settings, context=context, run=RunFolder(tmp_path / "output"), folder=folder
    )


def test_a_run_keeps_its_recording_and_a_damaged_one_is_made_again_to_the_bit(ground, monkeypatch):
    before = torch.get_rng_state()
    made = reference_of_run(ground.settings, ground.context, ground.run)
    assert torch.equal(before, torch.get_rng_state())
    path = reference_path(ground.run)
    assert made.path == path and soundfile.info(path).samplerate == VOCODER_RATE
    wanted = ground.context.config.conditioning
    most = max(wanted.total_seconds, wanted.speaker_seconds)
    assert 2.0 < soundfile.info(path).duration <= most
    first = sha256_of(path)
    told = json.loads(path.with_suffix(".json").read_text())
    of = {one.sha256: one for one in ground.context.data.clips}
    assert made.text not in {of[one].text for one in told["clips"]}
    path.write_bytes(b"damaged")
    assert reference_of_run(ground.settings, ground.context, ground.run) == made
    assert sha256_of(path) == first
    # It is not made again while it is intact.
    monkeypatch.setattr(reference, "base_embedder", lambda _: pytest.fail("made again"))
    assert reference_of_run(ground.settings, ground.context, ground.run) == made


def test_a_clip_that_cannot_be_read_is_left_out_of_it(ground):
    reference_of_run(ground.settings, ground.context, ground.run)
    path = reference_path(ground.run)
    record = path.with_suffix(".json")
    best = json.loads(record.read_text())["clips"][0]
    lost = next(one for one in ground.context.data.clips if one.sha256 == best)
    lost.path.unlink()
    record.unlink()
    reference_of_run(ground.settings, ground.context, ground.run)
    assert best not in json.loads(record.read_text())["clips"]
