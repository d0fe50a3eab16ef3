"""Features are computed once, equal the model's, and survive damage and kills."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from machine.devices.selection import Choice
from tests.datasets import make_dataset
from tests.forked import in_child
from tests.models import tiny_base
from tests.train.checkpointing.test_damage import DAMAGES, grown, missing
from train.dataset import dataset, features
from train.dataset.dataset import Dataset
from train.settings import TrainSettings
from xtts import audio
from xtts.audio import CODE_RATE
from xtts.model.config import ModelConfig
from xtts.model.loading import load_dvae, mel_stats, read_tensors
from xtts.text.tokenizer import Tokenizer


class Place:
    """A dataset, a base model and a cache folder."""

    def __init__(self, folder: Path, base: Path, clips: int = 5) -> None:
        self.data_folder = make_dataset(folder / "data", clips=clips, rate=16_000)
        self.base = base
        self.cache = folder / "cache"
        self.config = ModelConfig.read(base)
        self.data = self.read()

    def read(self) -> Dataset:
        settings = TrainSettings(dataset_dir=self.data_folder, cache_dir=self.cache)
        return dataset.read(settings, Tokenizer(self.config, self.base), self.config.gpt)

    def build(self, place: Choice = features.ON_CPU) -> features.FeatureCache:
        return features.build(self.data, self.base, self.config, self.cache, place)

    def repair(self) -> list[str]:
        return self.build().repair()

    @property
    def folder(self) -> Path:
        return features.folder_of(self.base, self.cache)

    def shards(self) -> list[Path]:
        return sorted(self.folder.glob("*.bin"))


@pytest.fixture
def place(tmp_path: Path, base_folder: Path) -> Place:
    return Place(tmp_path, base_folder)


def contents(found: features.FeatureCache) -> list[bytes]:
    """The features of the five clips, copied because the file under a map may change."""
    return [found.codes(i).tobytes() + found.mel(i).tobytes() for i in range(5)]


def test_features_are_what_the_model_computes(place):
    found = place.build()
    dvae = load_dvae(place.base, place.config)
    stats = mel_stats(place.base, read_tensors(place.base / "model.pth"))
    for number, clip in enumerate(place.data.clips):
        waveform = audio.read(clip.path, CODE_RATE)[None]
        codes, mel = found.codes(number), found.mel(number)
        assert (codes.dtype, len(codes)) == (np.int16, -(-waveform.shape[1] // 1024))
        expected = dvae.get_codebook_indices(audio.dvae_mel(waveform, stats))[0]
        np.testing.assert_array_equal(codes, expected[: len(codes)].numpy())
        assert (mel.dtype, mel.shape) == (np.float16, (80, 1 + waveform.shape[1] // 256))
        exact = audio.conditioning_mel(waveform, stats)[0].numpy()
        np.testing.assert_allclose(mel, exact, atol=2e-3, rtol=1e-3)
    assert len({found.codes(i).tobytes() for i in range(5)}) == 5


def test_a_second_start_decodes_nothing(place, monkeypatch):
    monkeypatch.setattr(dataset, "RACY_SECONDS", -1.0)
    place.data = place.read()
    first = contents(place.build())
    monkeypatch.setattr(soundfile, "SoundFile", lambda path: pytest.fail(f"{path} decoded again"))
    monkeypatch.delattr(features, "load_dvae")
    assert place.read() == place.data
    assert contents(place.build()) == first


def test_only_a_new_clip_is_computed(place, monkeypatch):
    place.build()
    make_dataset(place.data_folder, clips=6, rate=16_000)
    place.data = place.read()
    computed, read = [], features.read
    monkeypatch.setattr(features, "read", lambda one, *rest: computed.append(one) or read(one, *rest))
    found = place.build()
    assert [path.name for path in computed] == ["clip-5.wav"] and found.damaged_clips() == []


@pytest.mark.parametrize(
    ("file", "tensor"), [("dvae.pth", "codebook.embed"), ("model.pth", "mel_stats"), ("model.pth", "")]
)
def test_another_dvae_or_other_statistics_have_another_cache(place, tmp_path, file, tensor):
    other = tiny_base(tmp_path / "other")
    content = torch.load(other / file, weights_only=True)
    if tensor:
        content.get("model", content)[tensor] += 1
        torch.save(content, other / file)
    assert (features.folder_of(other, place.cache) != place.folder) is bool(tensor)


# The CPU under another name takes the GPU's code path and computes the same numbers.
AS_A_GPU = Choice("cpu:0", "stands for a GPU")


def by(place: Place, folder: str, where: Choice) -> list[bytes]:
    place.cache = place.cache.with_name(folder)
    return contents(place.build(where))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The device of each computation, in order; "cpu:0" takes the GPU's code path."""
    seen: list[str] = []
    original = features.Extractor.of

    def of(self, waveform):
        seen.append(str(self._device))
        return original(self, waveform)

    monkeypatch.setattr(features.Extractor, "of", of)
    yield seen


def test_a_gpu_that_says_what_the_cpu_says_computes_the_features(place, gpu, caplog):
    assert by(place, "gpu", AS_A_GPU) == by(place, "cpu", features.ON_CPU)
    assert gpu == ["cpu:0"] * 5 + ["cpu"] * 5
    assert "once, on cpu:0 (stands for a GPU)" in caplog.text
    assert "no GPU was requested" in caplog.text


MEMORY = "cpu:0: CUDA error: out of memory."


def out_of_memory(*_: np.ndarray) -> None:
    raise RuntimeError("CUDA error: out of memory")


@pytest.mark.parametrize(
    ("good", "wrong", "words"),
    [
        (0, lambda codes, mel: (codes, mel * np.float16(np.nan)), "non-finite values"),
        (2, out_of_memory, MEMORY),
        *(pytest.param(good, out_of_memory, MEMORY, marks=pytest.mark.slow) for good in (0, 4)),
    ],
)
def test_a_gpu_that_fails_leaves_the_rest_to_the_cpu(place, gpu, monkeypatch, caplog, good, wrong, words):
    """The GPU fails after `good` clips."""
    expected = by(place, "cpu", features.ON_CPU)
    gpu.clear()
    right = features.Extractor.of

    def of(self, waveform):
        found = right(self, waveform)
        return wrong(*found) if gpu[-1] == "cpu:0" and gpu.count("cpu:0") > good else found

    monkeypatch.setattr(features.Extractor, "of", of)
    assert by(place, "gpu", AS_A_GPU) == expected
    assert gpu.count("cpu:0") == good + 1
    assert "Features are computed on the CPU from here on: cpu:0" in caplog.text
    assert words in caplog.text


def test_a_bug_of_ours_is_not_a_gpus_fault(place, monkeypatch):
    def of(self, waveform):
        raise IndexError("not a device's words")

    monkeypatch.setattr(features.Extractor, "of", of)
    with pytest.raises(IndexError, match="not a device's"):
        place.build(AS_A_GPU)


def test_a_start_reads_no_record_and_each_is_compared_before_its_first_use(place, monkeypatch):
    kept = contents(place.build())
    compared, original = [], features.FeatureCache._whole
    monkeypatch.setattr(
        features.FeatureCache,
        "_whole",
        lambda self, record: compared.append(record) or original(self, record),
    )
    found = place.build()
    assert compared == []
    assert contents(found) == kept and len(compared) == 5
    assert contents(found) == kept and len(compared) == 5


def test_a_shard_that_shrinks_under_a_run_is_computed_again(place, caplog):
    kept = contents(place.build())
    found = place.build()
    os.truncate(place.shards()[0], 100)
    assert contents(found) == kept and "is damaged" in caplog.text
    assert place.repair() == []


def test_a_damaged_record_whose_recording_has_gone_says_so(place, monkeypatch, caplog):
    monkeypatch.setattr(features, "LARGEST_LOST_SHARE", 0.2)
    found = place.build()
    shard = place.shards()[0]
    shard.write_bytes(bytes(1) + shard.read_bytes()[1:])
    place.data.clips[0].path.unlink()
    with pytest.raises(features.FeaturesError, match=r"clip-0 are damaged.*last checkpoint"):
        found.codes(0)


@pytest.mark.parametrize("damage", ["[]", '{"abc": [1, 2]}', '{"abc": 3}', "a wrong number"])
def test_a_wrong_index_is_computed_again(place, damage):
    kept, index = contents(place.build()), place.shards()[0].with_suffix(".json")
    if damage == "a wrong number":
        entries = json.loads(index.read_text())
        entries[place.data.clips[0].audio_sha256][1] -= 1
        damage = json.dumps(entries)
    index.write_text(damage, encoding="utf-8")
    assert contents(place.build()) == kept and place.repair() == []


@pytest.mark.slow
def test_a_build_killed_half_way_goes_on(place, monkeypatch):
    """Killed after the first shard's data was written, before its index."""
    monkeypatch.setattr(features, "CLIPS_PER_SHARD", 2)
    assert in_child(place.build, crash_at="after replace") == -signal.SIGKILL
    assert len(place.shards()) == 1 and list(place.folder.glob("*.json")) == []
    found = place.build()
    assert (found.damaged_clips(), len(found.records)) == ([], 5)


def test_two_builds_at_once_fill_as_many_shards_as_one_needs_or_two(place, monkeypatch):
    whole = contents(place.build())
    place.cache = place.cache.with_name("cache-2")
    monkeypatch.setattr(features, "CLIPS_PER_SHARD", 2)
    threads = [threading.Thread(target=place.build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Three each, unless one starts late and finds some already written.
    assert 3 <= len(place.shards()) <= 6
    found = place.build()
    assert (found.damaged_clips(), len(found.records)) == ([], 5) and contents(found) == whole


@pytest.mark.parametrize("damage", DAMAGES[:-1])
@pytest.mark.parametrize("suffix", [".bin", ".json"])
def test_every_damage_is_found_and_mended(place, tmp_path, caplog, suffix, damage):
    kept = contents(place.build())
    folder = place.folder
    path = place.shards()[0].with_suffix(suffix)
    for number, what in enumerate(damage(path)):
        place.cache = tmp_path / f"cache-{number}"
        shutil.copytree(folder, place.folder)
        caplog.clear()
        assert contents(place.build()) == kept, what
        # A byte after the last record does no harm; a shard without its index is ignored.
        assert damage in (grown, missing) or "damaged" in caplog.text, what


def test_shards_that_were_swapped_are_found_and_mended(place, monkeypatch, caplog):
    monkeypatch.setattr(features, "CLIPS_PER_SHARD", 2)
    kept = contents(place.build())
    one, other, _ = place.shards()
    one.rename(place.folder / "aside")
    other.rename(one)
    (place.folder / "aside").rename(other)
    assert contents(place.build()) == kept
    assert "damaged" in caplog.text


def test_an_index_that_is_lost_under_a_run_is_mended_with_the_damaged_record(place, monkeypatch):
    """Computing the damaged record reads every index again, and so loses the clips of this one."""
    monkeypatch.setattr(features, "CLIPS_PER_SHARD", 2)
    kept = contents(place.build())
    found = place.build()
    first, other, _ = place.shards()
    first.write_bytes(bytes(1) + first.read_bytes()[1:])
    other.with_suffix(".json").write_text("[]")
    assert contents(found) == kept


# A clip that became damaged or was deleted after it was checked


@pytest.mark.parametrize("where", [features.ON_CPU, AS_A_GPU], ids=["one by one", "read ahead"])
def test_one_clip_in_a_hundred_may_be_lost(place, caplog, monkeypatch, where):
    monkeypatch.setattr(features, "LARGEST_LOST_SHARE", 0.2)
    place.data.clips[3].path.write_bytes(b"no sound")
    found = place.build(where)
    assert found.present((4, 3, 0)) == (4, 0)
    assert f"{place.data.clips[3].name} is left out of this run" in caplog.text
    assert "cannot be decoded" in caplog.text


def test_more_lost_clips_stop_the_run_and_are_named(place):
    place.data.clips[3].path.unlink()
    with pytest.raises(features.FeaturesError, match=r"clip-3\.wav does not exist.*one in a hund"):
        place.build()


def test_what_killed_builds_left_goes_after_a_day(place):
    place.build()
    old, new = (place.folder / f".{n}.bin.{n}.sotaque-part" for n in (1, 2))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    place.build()
    assert not old.exists() and new.exists()  # another trainer may be writing it
