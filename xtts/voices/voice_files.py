"""Finds and verifies the files of a voice by name, folder or checkpoint.

Importing this module does not import torch.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xtts import arguments
from xtts.download import xtts_v2 as published
from xtts.joined_reference import Reference, reference_of
from xtts.marks import Mark
from xtts.model.config import ModelConfig
from xtts.text.errors import excerpt
from xtts.text.pronunciations import PRONUNCIATIONS_FILE
from xtts.text.tokenizer import TokenizerSpec
from xtts.voices import adapter_file, bundle, formats, learned_decoder, speakers
from xtts.voices.base_models import DEMO, BundleError, require_consent, verified_base_folder
from xtts.voices.files.manifest import SUFFIX, is_voice_file
from xtts.voices.run_folder import (
    RunFolder,
    newest_reference,
    normalizer_of,
    read_checkpoint,
    reference_beside,
)

if TYPE_CHECKING:
    from torch import Tensor

AnyPath = str | os.PathLike[str]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VoiceSpec:
    """The specification of a voice.

    Attributes:
        name: `demo`, a folder (exported voice or adapter, base model, run), a voice file
            (`NAME.sotaque`) or a checkpoint.
        base: The folder of the base model of a checkpoint or adapter, if it has moved.
        xtts_v2: The folder of XTTS-v2, for voices that were trained from it.
        tos_agreed: Whether the user has agreed to XTTS-v2's licence (COQUI_TOS_AGREED).
        reference: One or several recordings of the speaker; None for the voice's own.
        latents: Stored latents of the speaker, for an ONNX voice.
        speaker: The named speaker of the voice; "" is the first one.
        pronunciations: A list for all voices (PRONUNCIATIONS); the voice's list takes precedence.
        allow_base_reference: Whether a checkpoint whose run lacks a recording uses its base's. The
            service allows it, so that it can speak at all.
        base_only: Whether to replace a checkpoint of a run by the run's base.
        base_decoder: Whether a run's base speaks with the decoder that the run trained for it.
    """

    name: str
    base: str | Path | None = None
    xtts_v2: str = "train/xtts_v2"
    tos_agreed: bool = False
    reference: Reference | None = None
    latents: Path | None = None
    speaker: str = ""
    pronunciations: str | Path | None = None
    allow_base_reference: bool = False
    base_only: bool = False
    base_decoder: bool = True

    @staticmethod
    def from_arguments(
        name: "str | os.PathLike[str]",
        *,
        tos_agreed: bool = False,
        speaker: str = "",
        reference: "AnyPath | Sequence[AnyPath] | None" = None,
        **paths: "AnyPath | None",
    ) -> "VoiceSpec":
        """Makes a specification from a user's arguments in Python or on the command line.
        reference: files and folders; paths: further fields. Raises ArgumentError for an invalid
        path or boolean."""
        fields: dict[str, Any] = {
            key: arguments.path(key, value) for key, value in paths.items() if value is not None
        }
        if reference is not None:
            recordings: Any = reference if isinstance(reference, list | tuple) else [reference]
            fields["reference"] = reference_of(
                [arguments.path("reference", recording) for recording in recordings]
            )
        return VoiceSpec(
            str(arguments.path("name", name)),
            tos_agreed=arguments.switch("tos_agreed", tos_agreed),
            speaker=arguments.text("speaker", speaker),
            **fields,
        )

    @property
    def path(self) -> Path:
        """The path of `name`, which need not exist."""
        return DEMO if self.name == "demo" else Path(self.name).expanduser()


@dataclass(frozen=True)
class VoiceFiles:
    """The verified files of a voice.

    Attributes:
        folder: The model's folder; for a checkpoint, that of its base model.
        weights: The file with the GPT: `model.pth` or the checkpoint.
        reference: The voice's recording, if there is one.
        licence: The licence of an export; None for other voices.
        state: The GPT's tensors of a checkpoint; None for a folder.
        normalizer: The normaliser of a checkpoint's training; None for that of config.json.
        pronunciations: Pronunciation lists; a later one wins.
        decoder: The tensors of a decoder that was trained for these weights; None if another
            recording is requested, or without such a decoder.
        provenance: For a run: `epoch` (0 for the base), `base` and `fingerprint`, as in a
            checkpoint; empty for a folder.
        onnx: Whether the folder is an ONNX voice. It is verified when it is opened, because only
            the needed graphs are read.
        requested_reference: The requested recordings, if they replace the voice's.
        latents: The requested stored latents, or else those in the voice's folder.
        speakers: The voice's named speakers (`xtts.voices.speakers`).
        adapter: The LoRA adapter (`xtts.voices.adapter_file`) if the weights are its base's.
        own_name: The speaker who is used if the text names none; "" for another recording.
        speaker_decoders: The tensors of a speaker's decoder, by the speaker's recording; speakers
            without one use the model's.
    """

    folder: Path
    weights: Path
    reference: Path | None
    licence: str | None
    state: "Mapping[str, Tensor] | None" = None
    normalizer: str | None = None
    pronunciations: tuple[Path, ...] = ()
    decoder: Path | None = None
    provenance: "Mapping[str, Any]" = field(default_factory=dict)
    onnx: bool = False
    requested_reference: Reference | None = None
    latents: Path | None = None
    speakers: "Mapping[str, Path]" = field(default_factory=dict)
    own_name: str = ""
    adapter: Path | None = None
    speaker_decoders: "Mapping[Path, Path]" = field(default_factory=dict)

    @property
    def mark(self) -> Mark:
        """The mark of its speech, with the name of the speaker, recording, folder or checkpoint."""
        if self.own_name:
            return Mark(self.own_name)
        if (reference := self.requested_reference) is not None:
            return Mark((reference if isinstance(reference, Path) else reference[0]).stem)
        if self.adapter is not None:
            return Mark(self.adapter.parent.name)
        if self.latents is not None and self.latents.name == bundle.LATENTS_FILE:
            return Mark(self.latents.parent.name)
        return Mark(self.folder.name if self.weights.parent == self.folder else self.weights.stem)

    @property
    def tokenizer(self) -> TokenizerSpec:
        """The specification of the voice's tokenizer. Raises ConfigError."""
        normalizer = self.normalizer or ModelConfig.read(self.folder).normalizer
        return TokenizerSpec(self.folder, normalizer, self.pronunciations)


def find_voice(spec: VoiceSpec) -> VoiceFiles:
    """Finds and verifies the files of a voice. Loads only a checkpoint.

    Raises BundleError, FilesError or RunError.
    """
    if is_voice_file(spec.path) and spec.path.is_file():
        # Imported here because other voices do not need the code that checks strangers' files.
        from xtts.voices.files import unpacking

        spec = replace(spec, name=str(unpacking.cached_folder(spec.path)))
    files = _find_files(spec)
    own_latents = None if spec.reference else files.latents
    files = replace(files, requested_reference=spec.reference, latents=spec.latents or own_latents)
    return _with_speakers(files, spec)


def _find_files(spec: VoiceSpec) -> VoiceFiles:
    path = spec.path
    run = path.parent.parent if spec.base_only else path
    is_run = (run / "checkpoints").is_dir() and not (run / "config.json").is_file()
    if is_run or spec.base_only:
        return _files_of_run(RunFolder(run), spec)
    if path.is_dir():
        return _files_of_folder(path, spec)
    if path.is_file():
        return _files_of_checkpoint(path, spec)
    _check_published(path, spec)
    from xtts.voices.files.unpacking import IMPORTED_FOLDER

    raise BundleError(
        f"There is no voice at {spec.name}. Allowed are demo, xtts_v2, a {SUFFIX} file, an imported "
        f"voice (VOICES_DIR/{IMPORTED_FOLDER}/NAME), the folder of an exported voice or of a run, or a "
        "checkpoint_epoch_N.pt from OUTPUT_DIR/checkpoints."
    )


def _check_published(folder: Path, spec: VoiceSpec) -> None:
    """Raises BundleError if this is the folder for XTTS-v2 and lacks a file that speaking needs."""
    if folder.name != published.FOLDER.name and folder != Path(spec.xtts_v2).expanduser():
        return
    missing = [name for name in ("config.json", "vocab.json", "model.pth") if not (folder / name).is_file()]
    if missing:
        raise BundleError(f"{folder} does not hold XTTS-v2 ({', '.join(missing)}). {published.DOWNLOAD}")


def _with_speakers(files: VoiceFiles, spec: VoiceSpec) -> VoiceFiles:
    """Adds the named speakers of the voice, and selects the requested one."""
    folder = spec.path.parent.parent if spec.path.is_file() else spec.path
    speaker_files = speakers.read(folder)
    own_name = "" if spec.reference or spec.latents else next(iter(speaker_files), "")
    decoders = _speaker_decoders(folder, files, speaker_files)
    files = replace(files, speakers=speaker_files, own_name=own_name, speaker_decoders=decoders)
    if not spec.speaker or (name := speakers.find_speaker(spec.speaker, own_name, speaker_files)) == "":
        return files
    if name is None:
        names = ", ".join(speaker_files) or "no named speaker"
        raise BundleError(f"{spec.name} lacks the speaker {excerpt(spec.speaker)}; it has {names}.")
    path = speaker_files[name]
    if path.suffix == ".safetensors":
        return replace(files, latents=path, own_name=name)
    # The decoder of the first speaker is not used for others.
    return replace(files, reference=path, requested_reference=path, decoder=decoders.get(path), own_name=name)


def _speaker_decoders(
    folder: Path, files: VoiceFiles, speaker_files: "Mapping[str, Path]"
) -> dict[Path, Path]:
    """The speakers' decoders, by recording: in a run those that were trained for these weights, in
    an exported voice those in its folder."""
    recordings = [path for path in speaker_files.values() if path.suffix == ".wav"]
    if not recordings:
        return {}
    first, *further = recordings
    decoders: dict[Path, Path | None] = {}
    if (folder / "checkpoints").is_dir():
        run, checkpoint = RunFolder(folder), files.weights if files.state is not None else None
        decoders[first] = learned_decoder.decoder_for(run, checkpoint)
        for path in further:
            tensors = speakers.decoder_of(path)
            decoders[path] = learned_decoder.decoder_for(run, checkpoint, of_speaker=tensors)
    else:
        base_decoder = _existing(folder / speakers.FOLDER / speakers.BASE_DECODER)
        decoders = {path: _existing(speakers.decoder_of(path)) or base_decoder for path in further}
    return {path: tensors for path, tensors in decoders.items() if tensors}


def _files_of_run(run: RunFolder, spec: VoiceSpec) -> VoiceFiles:
    """The best weights of a run, which may be the base with the person's recording."""
    best, manifest = run.best_weights(), run.newest_manifest()
    if best is None or manifest is None:
        raise BundleError(f"{run.folder} does not contain a usable epoch.")
    if best.weights is not None and not spec.base_only:
        if best.fallback:
            log.warning("%s", best.fallback)
        return _files_of_checkpoint(best.weights, spec)
    # A checkpoint is not needed, only the name of the run's base.
    provenance = {"epoch": 0, "base": manifest.base, "fingerprint": manifest.fingerprint}
    folder = verified_base_folder(run.folder, provenance, spec.base, spec.xtts_v2, tos_agreed=spec.tos_agreed)
    # A decoder that the run trained for its base is only used with the run's recordings.
    reference = spec.reference
    is_of_run = reference is None or (isinstance(reference, Path) and reference.parent == run.samples)
    return VoiceFiles(
        folder,
        folder / "model.pth",
        newest_reference(run),
        None,
        pronunciations=_pronunciation_lists(spec, run.folder),
        decoder=learned_decoder.decoder_for(run, None) if is_of_run and spec.base_decoder else None,
        provenance=provenance,
    )


def _files_of_folder(folder: Path, spec: VoiceSpec) -> VoiceFiles:
    extra_format, provenance = formats.format_of(folder), dict[str, object]()
    has_bundle = extra_format is None and (folder / "bundle.json").is_file()
    exported = bundle.read(folder) if has_bundle else None
    if exported is not None:
        provenance = {"base": exported.base, "licence": exported.licence}
    elif extra_format is not None:
        provenance = {"licence": extra_format.licence_of(folder)}
    # Consent is required before the files are read to compare their hashes.
    require_consent(f"The voice {folder}", folder, provenance, tos_agreed=spec.tos_agreed)
    if exported is not None:
        bundle.verify(folder)
        if exported.kind in bundle.KINDS_WITH_BASE_WEIGHTS:
            return _files_beside_base(folder, exported, spec)
    if exported is None and extra_format is None:
        _check_published(folder, spec)
    return VoiceFiles(
        folder,
        folder / "model.pth",
        None if extra_format is not None else _existing(folder / "reference.wav"),
        exported.licence if exported else None,
        pronunciations=_pronunciation_lists(spec, folder),
        onnx=extra_format is not None,
        latents=None if exported is None else _existing(folder / bundle.LATENTS_FILE),
    )


def _files_beside_base(folder: Path, exported: bundle.Bundle, spec: VoiceSpec) -> VoiceFiles:
    """The files of an exported voice that speaks with its base's weights."""
    provenance = {"base": exported.base, "licence": exported.licence}
    base = verified_base_folder(folder, provenance, spec.base, spec.xtts_v2, tos_agreed=spec.tos_agreed)
    uses_decoder = spec.reference is None and bundle.DECODER_FILE in exported.files
    return VoiceFiles(
        base,
        base / "model.pth",
        _existing(folder / "reference.wav"),
        exported.licence,
        pronunciations=_pronunciation_lists(spec, folder),
        decoder=folder / bundle.DECODER_FILE if uses_decoder else None,
        adapter=folder / adapter_file.FILE_NAME if exported.kind == bundle.ADAPTER else None,
        latents=_existing(folder / bundle.LATENTS_FILE),
    )


def _files_of_checkpoint(path: Path, spec: VoiceSpec) -> VoiceFiles:
    checkpoint, run = read_checkpoint(path), RunFolder(path.parent.parent)
    folder = verified_base_folder(
        path, checkpoint.provenance, spec.base, spec.xtts_v2, tos_agreed=spec.tos_agreed
    )
    reference = reference_beside(path)
    if reference is None and spec.allow_base_reference:
        reference = _existing(folder / "reference.wav")
    return VoiceFiles(
        folder,
        path,
        reference,
        None,
        state=checkpoint.model,
        normalizer=normalizer_of(checkpoint.provenance),
        pronunciations=_pronunciation_lists(spec, run.folder),
        decoder=None if spec.reference else learned_decoder.decoder_beside(path),
        provenance=checkpoint.provenance,
    )


def _pronunciation_lists(spec: VoiceSpec, folder: Path) -> tuple[Path, ...]:
    """The existing lists: the one for all voices, and the one in the voice's folder.

    Raises BundleError if PRONUNCIATIONS names a file that does not exist.
    """
    shared_list = Path(spec.pronunciations).expanduser() if spec.pronunciations else None
    if shared_list is not None and not shared_list.is_file():
        raise BundleError(f"PRONUNCIATIONS names {shared_list}, which does not exist.")
    voice_list = _existing(folder / PRONUNCIATIONS_FILE)
    return tuple(path for path in (shared_list, voice_list) if path is not None)


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None
