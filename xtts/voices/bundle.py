"""Bundles: a voice folder with weights, recording and bundle.json; write, read, verify.

bundle.json says what the voice was made from, under which licence, and the hash of each file.
Written by `train.export`; `xtts.workers.voice_registry` opens it.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from machine.storage.atomic import Written, write_json
from machine.storage.checksums import Manifest, fault_of
from xtts.text.pronunciations import NAME as PRONUNCIATIONS
from xtts.voices import learned_speaker
from xtts.voices.base_models import DEMO, BundleError, base_of, locate_base

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.voices.run_folder import RunFolder

log = logging.getLogger(__name__)

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
class VoiceSpec:
    """Which voice is wanted.

    Attributes:
        name: `demo`, a folder (bundle, base model, ONNX voice) or a checkpoint.
        base: The folder of a checkpoint's base model, where it has moved.
        xtts_v2: The folder of XTTS-v2, for a checkpoint that was made from it.
        tos_agreed: Whether the user has agreed to XTTS-v2's licence (COQUI_TOS_AGREED).
        reference: A recording of who is to speak; None is the voice's own.
        latents: Stored latents of who is to speak, for an ONNX voice.
        pronunciations: A list for all voices (PRONUNCIATIONS); the voice's own wins over it.
        allow_base_reference: Whether a checkpoint whose run kept no recording speaks as its base
            does. A service does so: better than no word at all.
        base_only: Whether the base model that a checkpoint was made from is wanted in its place;
            with a recording of the run, also what the run learned for it.
    """

    name: str
    base: str | None = None
    xtts_v2: str = "train/xtts_v2"
    tos_agreed: bool = False
    reference: Path | None = None
    latents: Path | None = None
    pronunciations: str | None = None
    allow_base_reference: bool = False
    base_only: bool = False

    @property
    def path(self) -> Path:
        """Where `name` is on disk; nothing need be there."""
        return DEMO if self.name == "demo" else Path(self.name).expanduser()


@dataclass(frozen=True)
class VoiceFiles:
    """The files of a voice that were found and verified.

    Attributes:
        folder: The model's folder; of a checkpoint, its base model's.
        weights: The file of the learning part: `model.pth` or the checkpoint.
        reference: A recording of the voice, if there is one.
        licence: What the bundle says; None where there is no bundle.
        state: The learning part of a checkpoint, read; None for a folder.
        normalizer: What a checkpoint learned to read by; None is what config.json says.
        pronunciations: Lists of pronunciations; a later one wins.
        speaker: A speaker embedding that was learned for these weights; None where another
            recording is asked for, or there is none.
        provenance: Of a run: `epoch` (0 for the base), `base` and `fingerprint`, as a checkpoint
            has them; empty for a folder.
    """

    folder: Path
    weights: Path
    reference: Path | None
    licence: str | None
    state: "Mapping[str, Tensor] | None" = None
    normalizer: str | None = None
    pronunciations: tuple[Path, ...] = ()
    speaker: Path | None = None
    provenance: "Mapping[str, Any]" = field(default_factory=dict)


def pronunciation_lists(spec: VoiceSpec, folder: Path) -> tuple[Path, ...]:
    """The list for all voices, and the one that lies in a voice's folder, where there are such.

    Raises BundleError where the former is named and is no file.
    """
    general = Path(spec.pronunciations).expanduser() if spec.pronunciations else None
    if general is not None and not general.is_file():
        raise BundleError(f"PRONUNCIATIONS names {general}, and there is no such file.")
    own = _existing(folder / PRONUNCIATIONS)
    return tuple(path for path in (general, own) if path is not None)


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


def find_voice(spec: VoiceSpec) -> VoiceFiles:
    """Where the files of a voice are: of `demo`, of a folder (a bundle or a base model) or of a
    checkpoint. They are verified, and nothing is loaded but a checkpoint.

    Raises BundleError, FilesError or RunError.
    """
    path = spec.path
    if (path / "checkpoints").is_dir() and not (path / "config.json").is_file():
        return _find_best_of_run(path, spec)
    if path.is_dir():
        return _find_in_folder(path, spec)
    if path.is_file():
        return _find_of_checkpoint(path, spec)
    raise BundleError(
        f"There is no voice at {spec.name}. Allowed are demo, the folder of a bundle or of an ONNX "
        "voice, or a checkpoint_epoch_N.pt out of OUTPUT_DIR/checkpoints."
    )


def _find_best_of_run(folder: Path, spec: VoiceSpec) -> VoiceFiles:
    """What is best in the run of an OUTPUT_DIR, be it the base with the person's recording."""
    from xtts.voices.run_folder import RunFolder, newest_reference

    run = RunFolder(folder)
    best, made_from = run.best_weights(), run.made_from()
    if best is None or made_from is None:
        raise BundleError(f"{folder} holds no epoch that can be spoken with.")
    if best.fallback:
        log.warning("%s", best.fallback)
    if best.weights is not None:
        return _find_of_checkpoint(best.weights, spec)
    # No checkpoint is needed, only the name of what the run was made from.
    provenance = {"epoch": 0, "base": made_from.base, "fingerprint": made_from.fingerprint}
    base = Path(spec.base) if spec.base else None
    found = base_of(folder, provenance, base, Path(spec.xtts_v2))
    return VoiceFiles(
        found, found / "model.pth", spec.reference or newest_reference(run), None,
        pronunciations=pronunciation_lists(spec, folder),
        speaker=None if spec.reference else learned_speaker.base_speaker(run),
        provenance=provenance,
    )  # fmt: skip


def _find_in_folder(folder: Path, spec: VoiceSpec) -> VoiceFiles:
    licence = None
    if (folder / "bundle.json").is_file():
        if fault := verify(folder):
            raise BundleError(f"{fault} Export or copy the voice again.")
        licence = read(folder).licence
    elif folder != DEMO:
        locate_base(str(folder), tos_agreed=spec.tos_agreed)
    reference = spec.reference or _existing(folder / "reference.wav")
    return VoiceFiles(
        folder, folder / "model.pth", reference, licence,
        pronunciations=pronunciation_lists(spec, folder),
        speaker=None if spec.reference else _existing(folder / learned_speaker.NAME),
    )  # fmt: skip


def _find_of_checkpoint(path: Path, spec: VoiceSpec) -> VoiceFiles:
    from xtts.voices.run_folder import RunFolder, normalizer_of, read_checkpoint, reference_beside

    checkpoint = read_checkpoint(path)
    base = Path(spec.base) if spec.base else None
    folder = base_of(path, checkpoint.provenance, base, Path(spec.xtts_v2))
    reference = spec.reference or reference_beside(path)
    if reference is None and spec.allow_base_reference:
        reference = _existing(folder / "reference.wav")
    lists = pronunciation_lists(spec, path.parent.parent)  # OUTPUT_DIR's
    if spec.base_only:
        weights = folder / "model.pth"
        speaker = _speaker_of_base(RunFolder(path.parent.parent), spec.reference)
        return VoiceFiles(folder, weights, reference, None, pronunciations=lists, speaker=speaker)
    normalizer = normalizer_of(checkpoint.provenance)
    speaker = None if spec.reference else learned_speaker.speaker_beside(path)
    return VoiceFiles(
        folder, path, reference, None, checkpoint.model, normalizer, lists, speaker,
        checkpoint.provenance,
    )  # fmt: skip


def _speaker_of_base(run: "RunFolder", reference: Path | None) -> Path | None:
    """What the run learned for its base; None for a recording that is not of the run."""
    own = reference is None or reference.parent == run.samples
    return learned_speaker.base_speaker(run) if own else None


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None
