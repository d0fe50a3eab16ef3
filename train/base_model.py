"""Locates BASE_MODEL, downloads it if necessary, and checks that it can be trained.

A base folder has Coqui's layout: `config.json model.pth vocab.json dvae.pth mel_stats.pth`.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from machine.text import load_error
from xtts.download.model_source import ModelSource, provide_xtts_v2
from xtts.model.config import ConfigError, ModelConfig
from xtts.voices.base_models import BundleError, base_named, require_consent

if TYPE_CHECKING:
    from machine.settings.loading import SharedSettings

_PUBLISHED = "It is published with XTTS-v2"
_BESIDE = "It is published in the same repository as XTTS-v2's model.pth"
# The files of a base folder, and where to get a missing one.
BASE_FILES = {
    "config.json": f"{_PUBLISHED}: the sizes of the model.",
    "vocab.json": f"{_PUBLISHED}: the tokens of the text.",
    "model.pth": f"{_PUBLISHED}: the weights, 1.9 GB.",
    "dvae.pth": f"{_BESIDE}; Coqui's downloader leaves it out, because only training needs it.",
    "mel_stats.pth": f"{_BESIDE}; Coqui's downloader leaves it out.",
}


def chosen_base(settings: "SharedSettings") -> Path:
    """The folder of BASE_MODEL, checked for training; downloads xtts_v2 if necessary.

    Raises the errors of `named_base`, `check_base` and `provide_xtts_v2`.
    """
    base = named_base(settings)
    if settings.base_model == "xtts_v2":
        provide_xtts_v2(ModelSource.of(settings))
    check_base(base)
    return base


def named_base(settings: "SharedSettings") -> Path:
    """The folder that BASE_MODEL names; that of xtts_v2 may not exist yet. Raises BundleError if
    there is no such folder, or if the user has not agreed to its licence."""
    name = settings.base_model
    folder = base_named(name, settings.xtts_v2_dir)
    if name != "xtts_v2" and not folder.is_dir():
        raise BundleError(
            f"BASE_MODEL={name} is not a folder. Allowed are demo, xtts_v2, or a folder in Coqui's "
            f"layout ({', '.join(BASE_FILES)})."
        )
    made_from = {"base": {"name": name}}
    agreed = settings.coqui_tos_agreed
    require_consent(f"BASE_MODEL={name}", folder, made_from, tos_agreed=agreed)
    return folder


def check_base(folder: Path) -> None:
    """Checks that a base folder can be trained. Takes less than a second.

    Raises BundleError, which names each missing file and its source, and ConfigError if the files
    do not fit each other.
    """
    missing = [name for name in BASE_FILES if not (folder / name).is_file()]
    if missing == ["mel_stats.pth"] and "mel_stats" in _tensors(folder):
        missing = []
    if missing:
        lines = "\n".join(f"  {name}: {BASE_FILES[name]}" for name in missing)
        raise BundleError(
            f"{folder} is not a complete base model. Missing:\n{lines}\nCopy the missing files "
            "to this folder, or set BASE_MODEL=demo for the model in the package."
        )
    config = ModelConfig.read(folder)
    _check_tensors(folder / "model.pth", config, _tensors(folder))
    _check_dvae(folder / "dvae.pth", config)


def _check_tensors(path: Path, config: ModelConfig, state: Mapping[str, tuple[int, ...]]) -> None:
    """Checks the shapes of the GPT and of one tensor of each frozen part, to detect files of
    another model."""
    from xtts.model.empty_weights import without_weights
    from xtts.model.gpt import GPT, to_coqui

    with without_weights():
        gpt = to_coqui(GPT(config.gpt).state_dict())
    expected = {name: tuple(tensor.shape) for name, tensor in gpt.items()}
    decoder, encoder = "hifigan_decoder.waveform_decoder.", "hifigan_decoder.speaker_encoder."
    first, shape = config.vocoder.first_weight(config.gpt.width)
    expected[f"{decoder}{first}"] = shape
    expected[f"{encoder}conv1.weight"] = (config.speaker_encoder.num_filters[0], 1, 3, 3)
    for name, shape in expected.items():
        if name not in state:
            raise ConfigError(f"{path} lacks the tensor {name}; it is not an XTTS-v2 model.")
        _check_shape(path, name, state[name], shape)


def _check_dvae(path: Path, config: ModelConfig) -> None:
    import torch

    try:
        mapped = zipfile.is_zipfile(path)
        dvae = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        codebook = tuple(dvae["codebook.embed"].shape)
    except Exception as error:
        raise ConfigError(f"{path} cannot be read as a DVAE ({load_error(error)}). Copy it again.") from error
    shape = (config.dvae.codebook_dim, config.dvae.num_codes)
    _check_shape(path, "codebook.embed", codebook, shape)


def _check_shape(path: Path, name: str, actual: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if actual != expected:
        raise ConfigError(
            f"{path}: {name} is {list(actual)}, but config.json and vocab.json require "
            f"{list(expected)}. Use files of one model."
        )


def _tensors(folder: Path) -> dict[str, tuple[int, ...]]:
    from xtts.model.loading import read_tensors

    return {name: tuple(tensor.shape) for name, tensor in read_tensors(folder / "model.pth").items()}
