"""config.json: Coqui's keys, ours under "sotaque", and an error for impossible values."""

import json
from pathlib import Path
from typing import Any

import pytest

from xtts.model.config import ConfigError, ModelConfig
from xtts.model.shapes import VocoderShape
from xtts.voices import base_models


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("config.json", "vocab.json"):
        (tmp_path / name).write_bytes((base_models.DEMO / name).read_bytes())
    return tmp_path


def with_own(folder: Path, **keys: Any) -> Path:
    config = json.loads((folder / "config.json").read_text())
    config["sotaque"].update(keys)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_without_our_key_every_size_is_xtts_v2s(folder):
    config = json.loads((folder / "config.json").read_text())
    del config["sotaque"]
    (folder / "config.json").write_text(json.dumps(config))
    read_config = ModelConfig.read(folder)
    assert read_config.vocoder == VocoderShape() and read_config.speaks_in_coqui
    assert (read_config.vocoder.hop, read_config.vocoder.steps_per_code) == (256, 4)
    assert read_config.licence.startswith("CPML")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"vocodr": {}}, "unknown name 'vocodr'; remove it"),
        ({"vocoder": {"upsample_rates": [8, 8, 3]}}, "192, which does not divide the 1024 samples"),
        ({"weights": 3}, "weights is 3"),
        ({"alignment_heads": [[0, 0], [0, 99]]}, "head 99 of layer 0; this model has"),
    ],
)
def test_what_cannot_be_is_told_with_file_and_key(folder, keys, told):
    with pytest.raises(ConfigError, match=r'config\.json, key "sotaque"') as caught:
        ModelConfig.read(with_own(folder, **keys))
    assert told in str(caught.value)


def test_a_vocoder_may_take_one_step_for_each_code(folder):
    shape = {"upsample_rates": [8, 8, 4, 4], "upsample_kernel_sizes": [16, 16, 8, 8]}
    read = ModelConfig.read(with_own(folder, vocoder=shape)).vocoder
    assert (read.hop, read.steps_per_code) == (1024, 1)


def test_an_impossible_size_is_named_as_in_the_file(folder):
    config = json.loads((folder / "config.json").read_text())
    config["model_args"]["gpt_layers"] = "many"
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=r"config\.json: gpt_layers is 'many'"):
        ModelConfig.read(folder)


@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
@pytest.mark.parametrize("content", [b"<html>404</html>", '{"a": "é"}'.encode("latin-1")])
def test_a_file_that_is_no_json_or_of_another_encoding_is_named(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{name} cannot be read as JSON"):
        ModelConfig.read(folder)
