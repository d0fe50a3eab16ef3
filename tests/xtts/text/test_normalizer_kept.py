"""The choice of normaliser: the newest for new models, Coqui's for those that began with it."""

import json
from dataclasses import replace

import pytest
import torch

from tests.models import tiny_base
from train.run_context import run_config
from train.settings import TrainSettings
from xtts.model.config import EXPORT_FILES, ConfigError, ModelConfig, with_normalizer
from xtts.text.normalization.registry import COQUI, NEWEST, SOTAQUE_1
from xtts.voices.base_models import DEMO
from xtts.voices.run_folder import RunFolder, normalizer_of
from xtts.voices.voice_files import VoiceFiles


def test_base_models_are_read_by_the_newest_rules(base_folder):
    assert ModelConfig.read(DEMO).normalizer == ModelConfig.read(base_folder).normalizer == NEWEST


@pytest.mark.parametrize("name", EXPORT_FILES)
def test_an_export_that_names_none_began_with_coquis(tmp_path, name):
    folder = tiny_base(tmp_path)
    (folder / name).write_text("{}")
    assert ModelConfig.read(folder).normalizer == COQUI
    config = folder / "config.json"
    config.write_text(json.dumps(with_normalizer(json.loads(config.read_text()), SOTAQUE_1)))
    assert ModelConfig.read(folder).normalizer == SOTAQUE_1


def test_a_normaliser_of_a_later_version_is_refused(tmp_path):
    config = tiny_base(tmp_path) / "config.json"
    config.write_text(json.dumps(with_normalizer(json.loads(config.read_text()), "sotaque-9")))
    with pytest.raises(ConfigError, match="'sotaque-9'; this version knows coqui and sotaque-1"):
        ModelConfig.read(tmp_path)


def test_a_checkpoint_that_names_none_began_with_coquis():
    assert normalizer_of({}) == COQUI and normalizer_of({"normalizer": SOTAQUE_1}) == SOTAQUE_1


def test_a_voice_is_read_as_its_checkpoint_was_trained_else_as_its_folder_says(base_folder):
    files = VoiceFiles(base_folder, base_folder / "model.pth", None, None)
    assert files.tokenizer.normalizer == NEWEST
    assert replace(files, normalizer=COQUI).tokenizer.normalizer == COQUI


@pytest.mark.parametrize(("provenance", "normalizer"), [({}, COQUI), ({"normalizer": NEWEST}, NEWEST)])
def test_a_run_goes_on_with_what_it_began_with(tmp_path, base_folder, provenance, normalizer):
    settings, config = TrainSettings(output_dir=tmp_path), ModelConfig.read(base_folder)
    assert run_config(settings, config).normalizer == NEWEST
    saved = RunFolder(tmp_path).checkpoint_path(2)
    saved.parent.mkdir()
    torch.save({"model": {}, "provenance": provenance}, saved)
    assert run_config(settings, config).normalizer == normalizer
    assert run_config(replace(settings, resume="never"), config).normalizer == NEWEST
    elsewhere = replace(settings, output_dir=tmp_path / "new", resume=str(saved))
    assert run_config(elsewhere, config).normalizer == normalizer
