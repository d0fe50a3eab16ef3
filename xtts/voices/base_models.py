"""Locates BASE_MODEL on disk and checks that it can be trained.

A base folder has Coqui's layout: `config.json model.pth vocab.json dvae.pth mel_stats.pth`.
"""

import contextlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from machine.errors import SotaqueError
from machine.storage.hashes import sha256_of
from machine.text import load_error
from xtts.download import xtts_v2 as published
from xtts.download.xtts_v2 import ModelSource
from xtts.model.config import CPML, ConfigError, ModelConfig, short_name

if TYPE_CHECKING:
    from machine.settings.loading import SharedSettings

DEMO = Path(__file__).parent.parent / "assets" / "demo"
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


# The addresses of the terms, by the names of licences in config.json and exports.
_TERMS = {"MIT": "https://spdx.org/licenses/MIT.html", CPML: published.LICENCE_URL}
_ASK = (
    f"Its licence ({published.LICENCE}, {published.LICENCE_URL}) is non-commercial, "
    "for the model and its output. Read it, and set COQUI_TOS_AGREED=1 if you agree; in "
    "Python, pass tos_agreed=True."
)


class BundleError(SotaqueError):
    """A voice or base model cannot be used; the message names file and reason."""


def chosen_base(settings: "SharedSettings") -> Path:
    """The folder of BASE_MODEL, checked for training. Raises the errors of `locate_base` and
    `check_base`."""
    source = ModelSource.of(settings)
    base = locate_base(settings.base_model, source, tos_agreed=settings.coqui_tos_agreed)
    check_base(base)
    return base


def locate_base(name: str, source: ModelSource | None = None, *, tos_agreed: bool = False) -> Path:
    """The folder of BASE_MODEL; downloads xtts_v2 if necessary. Raises BundleError.

    source: the folder and the download address of xtts_v2; None = its default folder, no download.
    tos_agreed: the user has set COQUI_TOS_AGREED=1; Coqui's published weights need it. For xtts_v2
    raises the errors of `published.provide_xtts_v2` too.
    """
    check_choice(name, tos_agreed=tos_agreed)
    if name == "demo":
        return DEMO
    if name == "xtts_v2":
        return published.provide_xtts_v2(source or ModelSource())
    return Path(name).expanduser()


def licence_in_brief(licence: str) -> str:
    """The name of a licence and, if known, the address of its terms. Leaves out the training data,
    which config.json and CARD.md name."""
    name = short_name(licence)
    return f"{name}, {_TERMS[name]}" if name in _TERMS else name


def require_consent(
    subject: str, folder: Path | None, provenance: Mapping[str, object], *, tos_agreed: bool
) -> None:
    """Refuses XTTS-v2, and models made from it, unless the user has agreed to its licence.

    They are recognised by the size of the published weights, by `base` and `licence` in the
    provenance, and by the licence in config.json, which defaults to Coqui's because Coqui's trainer
    does not write one. Must be called before weights are read. Does not report a folder that cannot
    be read.

    Args:
        subject: The name of the model in the message.
        folder: The model's folder, if it is known.
        provenance: The provenance of a checkpoint or an export; may be empty.

    Raises:
        BundleError: The licence applies and tos_agreed is False.
    """
    if tos_agreed:
        return
    weights = published.XTTS_V2["model.pth"]
    base = provenance.get("base")
    made_from = base if isinstance(base, dict) else {}
    found = made_from.get("name") == "xtts_v2" or made_from.get("sha256") == weights.sha256
    licences = [str(provenance.get("licence", ""))]
    if folder is not None:
        with contextlib.suppress(OSError):
            found = found or (folder / "model.pth").stat().st_size == weights.bytes
        with contextlib.suppress(ConfigError):
            licences.append(ModelConfig.read(folder).licence)
    if found or any(short_name(one) == CPML for one in licences):
        raise BundleError(f"{subject} is Coqui's XTTS-v2 or was made from it. {_ASK}")


def check_choice(name: str, *, tos_agreed: bool) -> None:
    """Checks that BASE_MODEL names a base model and that the user has agreed to its licence.
    Downloads nothing.

    Raises BundleError.
    """
    if name == "demo":
        return
    if name == "xtts_v2":
        if not tos_agreed:
            raise BundleError(f"BASE_MODEL=xtts_v2 is Coqui's XTTS-v2. {_ASK}")
        return
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise BundleError(
            f"BASE_MODEL={name} is not a folder. Allowed are demo, xtts_v2, or a folder in Coqui's "
            f"layout ({', '.join(BASE_FILES)})."
        )
    require_consent(f"BASE_MODEL={name}", folder, {}, tos_agreed=tos_agreed)


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


def base_of(
    checkpoint: Path,
    provenance: Mapping[str, object],
    folder: str | Path | None,
    xtts_v2: str | Path = published.FOLDER,
    *,
    tos_agreed: bool = False,
) -> Path:
    """The base folder of a checkpoint, verified by hash.

    folder: the current path; None = the path in the checkpoint. xtts_v2: XTTS_V2_DIR. tos_agreed:
    as in `locate_base`. Raises BundleError, or FilesError if XTTS-v2 is missing; nothing is
    downloaded.
    """
    known = provenance.get("base")
    base = known if isinstance(known, dict) else {}
    # Asked again, because the speaking user may not be the one who agreed before the training.
    given = Path(folder) if folder else None
    require_consent(checkpoint.name, given, provenance, tos_agreed=tos_agreed)
    source = ModelSource(Path(xtts_v2))
    located = given or locate_base(str(base.get("name")), source, tos_agreed=tos_agreed)
    weights = located / "model.pth"
    if not weights.is_file():
        raise BundleError(f"{weights} is missing; {checkpoint.name} was made from it. Use --base.")
    if (sha256 := sha256_of(weights)) != base.get("sha256"):
        raise BundleError(
            f"{checkpoint.name} was made from {base.get('name')} with SHA-256 "
            f"{str(base.get('sha256'))[:12]}…, but {weights} has {sha256[:12]}…. "
            "Name the folder of the right base with --base."
        )
    return located


def _check_tensors(path: Path, config: ModelConfig, state: Mapping[str, tuple[int, ...]]) -> None:
    """Checks the shapes of the GPT and of one tensor of each frozen part, to detect files of
    another model."""
    from xtts.model.empty_weights import without_weights
    from xtts.model.gpt import GPT, to_coqui

    with without_weights():
        gpt = to_coqui(GPT(config.gpt).state_dict())
    expected = {name: tuple(tensor.shape) for name, tensor in gpt.items()}
    decoder, encoder = "hifigan_decoder.waveform_decoder.", "hifigan_decoder.speaker_encoder."
    initial, width = config.vocoder.upsample_initial_channel, config.gpt.width
    expected[f"{decoder}conv_pre.weight"] = (initial, width, 7)
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
        raise ConfigError(
            f"{path} cannot be read as a DVAE ({load_error(error)}). Copy it again."
        ) from error
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

    return {
        name: tuple(tensor.shape) for name, tensor in read_tensors(folder / "model.pth").items()
    }
