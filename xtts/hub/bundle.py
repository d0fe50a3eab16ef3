"""Bundles: a voice folder with weights, recording and bundle.json; write, read, verify.

bundle.json says what the voice was made from, under which licence, and the hash of each file.
Written by `train.export`, read by `speak` and the API.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from machine.storage.atomic import Written, write_json
from machine.storage.checksums import Manifest, fault_of
from xtts.hub.base_models import DEMO, BundleError, base_of, check_base, locate_base

if TYPE_CHECKING:
    from xtts.model.loading import Model

__all__ = [
    "Bundle", "BundleError", "OpenedVoice", "check_base", "locate_base", "open_voice", "read",
    "verify", "write",
]  # fmt: skip

SCHEMA = 1


@dataclass(frozen=True)
class Bundle:
    """What bundle.json says. base: {name, sha256 of its model.pth}."""

    files: dict[str, Written]
    base: dict[str, str]
    data_sha256: str
    epoch: int
    licence: str
    made_at: str
    speaks_in_coqui: bool
    kind: str = "voice"
    schema: int = SCHEMA


@dataclass(frozen=True)
class OpenedVoice:
    """A model that speaks as a voice; reference: a recording of it, where one is kept."""

    model: "Model"
    reference: Path | None


def write(folder: Path, bundle: Bundle) -> None:
    """Writes bundle.json, after everything that it names."""
    write_json(folder / "bundle.json", asdict(bundle))


def read(folder: Path) -> Bundle:
    """Raises BundleError for a folder without a readable bundle.json."""
    path = folder / "bundle.json"
    try:
        bundle = TypeAdapter(Bundle).validate_json(path.read_bytes())
    except OSError as error:
        raise BundleError(f"{path} cannot be read ({error.strerror}); it makes a voice.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BundleError(f"{path} is damaged: {where} {first['msg']}. Export it again.") from error
    if bundle.schema != SCHEMA:
        raise BundleError(f"{path} has schema {bundle.schema}; this version reads {SCHEMA}.")
    return bundle


def verify(folder: Path) -> str | None:
    """None when every file of the bundle is whole, else the sentence that says which is not."""
    bundle = read(folder)
    names = {"config.json", "model.pth", "vocab.json"} - bundle.files.keys()
    if names:
        return f"{folder / 'bundle.json'} does not name {min(names)}. Export it again."
    return fault_of(Manifest(epoch=bundle.epoch, step=0, files=bundle.files), folder)


def open_voice(
    name: str,
    *,
    base: str | None = None,
    device: str = "cpu",
    precision: str = "fp32",
    low_memory: bool = False,
) -> OpenedVoice:
    """Opens `demo`, a bundle's or base model's folder, or a checkpoint, verified.

    base: the folder of a checkpoint's base model, where the checkpoint's own word for it is no
    longer right. precision: as `xtts.model.loading.load_model`; low_memory: by
    `xtts.model.low_memory`.

    Raises BundleError, ConfigError or RunError.
    """
    path = DEMO if name == "demo" else Path(name).expanduser()
    if path.is_dir():
        return _open_folder(path, device, precision, low_memory)
    if path.is_file():
        return _open_checkpoint(path, base, device, precision, low_memory)
    raise BundleError(
        f"There is no voice at {name}. Allowed are demo, the folder of a bundle, or a "
        "checkpoint_epoch_N.pt out of OUTPUT_DIR/checkpoints."
    )


def _open_folder(folder: Path, device: str, precision: str, low_memory: bool) -> OpenedVoice:
    if (folder / "bundle.json").is_file() and (fault := verify(folder)):
        raise BundleError(f"{fault} Export or copy the voice again.")
    reference = folder / "reference.wav"
    opened = _load(folder, device, precision, low_memory)
    return OpenedVoice(opened, reference if reference.is_file() else None)


def _open_checkpoint(
    path: Path, base: str | None, device: str, precision: str, low_memory: bool
) -> OpenedVoice:
    from xtts.hub.run_folder import read_checkpoint, reference_beside

    checkpoint = read_checkpoint(path)
    folder = base_of(path, checkpoint.provenance, Path(base) if base else None)
    opened = _load(folder, device, precision, low_memory)
    opened.load_gpt(checkpoint.model)
    return OpenedVoice(opened, reference_beside(path))


def _load(folder: Path, device: str, precision: str, low_memory: bool) -> "Model":
    from xtts.model import loading as model
    from xtts.model import low_memory as lean

    loading = lean.load_low_memory if low_memory else model.load_model
    return loading(folder, device, precision=precision)
