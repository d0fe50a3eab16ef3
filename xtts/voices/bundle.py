"""The schema of bundle.json, an exported voice's manifest: provenance, licence, files.

In a voice of kind `adapter`, the weights are a LoRA adapter (`xtts.voices.adapter_file`) of the
base model that it names; a voice of kind `latents` has those of its base. `train.export`
writes it, and so does an imported voice file (`xtts.voices.files`).
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from machine.storage.checksums import fault_of
from machine.storage.files import Written, write_json
from xtts.voices.base_models import BundleError

SCHEMA = 1
ADAPTER, LATENTS = "adapter", "latents"
# The kinds that speak with the weights of their base.
OF_A_BASE = frozenset({ADAPTER, LATENTS})
# Beside them: the tensors of a learned decoder, if there is one.
DECODER = "decoder.safetensors"
# The latents of the speaker, from a voice file. They replace those of reference.wav.
OWN_LATENTS = "latents.safetensors"
_NEEDED: dict[str, set[str]] = {
    "voice": {"config.json", "model.pth", "vocab.json"},
    ADAPTER: {"adapter.safetensors"},
    LATENTS: set(),
}


@dataclass(frozen=True)
class Bundle:
    """The content of bundle.json. base: {name, sha256 of its model.pth}."""

    files: dict[str, Written]
    base: dict[str, str]
    data_sha256: str
    epoch: int
    licence: str
    made_at: str
    speaks_in_coqui: bool
    kind: str = "voice"
    schema: int = SCHEMA


def write(folder: Path, bundle: Bundle) -> None:
    """Writes bundle.json; call it after writing the files that it names."""
    write_json(folder / "bundle.json", asdict(bundle))


def read(folder: Path) -> Bundle:
    """Reads bundle.json. Raises BundleError if it is missing or damaged."""
    path = folder / "bundle.json"
    try:
        bundle = TypeAdapter(Bundle).validate_json(path.read_bytes())
    except OSError as error:
        raise BundleError(f"{path} cannot be read ({error.strerror}); a voice needs it.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BundleError(f"{path} is damaged: {where} {first['msg']}. Export it again.") from error
    if bundle.schema != SCHEMA:
        raise BundleError(f"{path} has schema {bundle.schema}; this version reads {SCHEMA}.")
    return bundle


def verify(folder: Path) -> Bundle:
    """As `read`, and checks every file that it names. Raises BundleError for a damaged one."""
    bundle = read(folder)
    if bundle.kind not in _NEEDED:
        kinds = ", ".join(_NEEDED)
        fault: str | None = f"{folder} is of kind {bundle.kind}; this version reads {kinds}."
    elif names := _needed_files(bundle) - bundle.files.keys():
        fault = f"{folder / 'bundle.json'} does not name {min(names)}."
    else:
        fault = fault_of(bundle.files, folder)
    if fault:
        raise BundleError(f"{fault} Export or copy the voice again.")
    return bundle


def _needed_files(bundle: Bundle) -> set[str]:
    """The files without which it cannot speak. A voice of a base has its recording or latents."""
    recording = bundle.kind in OF_A_BASE and OWN_LATENTS not in bundle.files
    return _NEEDED[bundle.kind] | ({"reference.wav"} if recording else set())
