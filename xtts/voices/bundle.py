"""The schema of bundle.json, an exported voice's manifest: provenance, licence, files.

A voice of kind `adapter` holds a LoRA adapter (`xtts.voices.adapter_file`) of the base model that it
names; one of kind `latents` speaks with the unchanged base. `train.export` writes the file, and so
does importing a voice file (`xtts.voices.files`).
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from machine.storage.checksums import fault_of
from machine.storage.files import Written, write_json
from machine.text import enumeration
from xtts.voices.base_models import BundleError

SCHEMA = 1
VOICE, ADAPTER, LATENTS = "voice", "adapter", "latents"
KINDS_WITH_BASE_WEIGHTS = frozenset({ADAPTER, LATENTS})
# The tensors of a learned decoder; optional in every kind that speaks with its base's weights.
DECODER_FILE = "decoder.safetensors"
# The latents of the speaker, from a voice file. They replace those of reference.wav.
LATENTS_FILE = "latents.safetensors"
_FILES_OF_KIND: dict[str, set[str]] = {
    VOICE: {"config.json", "model.pth", "vocab.json"},
    ADAPTER: {"adapter.safetensors"},
    LATENTS: set(),
}


@dataclass(frozen=True)
class Bundle:
    """The content of bundle.json.

    Attributes:
        files: Name -> size and SHA-256.
        base: The `name` of the base model, and the `sha256` of its model.pth.
        data_sha256: The hash of the dataset; "" for a voice of a recording alone.
        epoch: 0 for the base.
    """

    files: dict[str, Written]
    base: dict[str, str]
    data_sha256: str
    epoch: int
    licence: str
    made_at: str
    speaks_in_coqui: bool
    kind: str = VOICE
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
        field_path = ".".join(str(part) for part in first["loc"])
        raise BundleError(f"{path} is damaged: {field_path} {first['msg']}. Export it again.") from error
    if bundle.schema != SCHEMA:
        raise BundleError(f"{path} has schema {bundle.schema}; this version reads {SCHEMA}.")
    return bundle


def verify(folder: Path) -> Bundle:
    """As `read`, and checks every file. Raises BundleError for a damaged or missing one."""
    bundle = read(folder)
    if bundle.kind not in _FILES_OF_KIND:
        kinds = enumeration(list(_FILES_OF_KIND))
        raise BundleError(f"{folder} is of kind {bundle.kind}; this version reads {kinds}. Update Sotaque.")
    if missing_names := _needed_files(bundle) - bundle.files.keys():
        raise BundleError(
            f"{folder / 'bundle.json'} does not name {min(missing_names)}. Export the voice again."
        )
    if fault := fault_of(bundle.files, folder):
        raise BundleError(f"{fault} Copy the voice again, or export it.")
    return bundle


def _needed_files(bundle: Bundle) -> set[str]:
    """The files that the voice needs to speak; with its base's weights, a recording or latents."""
    needs_recording = bundle.kind in KINDS_WITH_BASE_WEIGHTS and LATENTS_FILE not in bundle.files
    return _FILES_OF_KIND[bundle.kind] | ({"reference.wav"} if needs_recording else set())
