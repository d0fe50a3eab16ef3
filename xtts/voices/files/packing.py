"""Packs an exported voice's folder into a voice file.

The folder is loaded first: the latents of its speaker become a member, so that the recording can be
left out, and the voice speaks its preview.
"""

import contextlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from machine import commands
from machine.errors import SotaqueError
from machine.storage.files import WriteError, make_folder, require_space, writing_to
from xtts import encoding
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.marks import Mark
from xtts.model.config import ModelConfig
from xtts.text.pronunciations import PRONUNCIATIONS_FILE
from xtts.voices import adapter_file, bundle, learned_decoder, speakers
from xtts.voices.files import archive, model_card, tensors
from xtts.voices.files import manifest as manifests
from xtts.voices.files.manifest import Base, Consent, Kind, Manifest, Preview
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceFiles

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.inference.speech import Voice

_KIND_OF_BUNDLE: Mapping[str, Kind] = {
    bundle.VOICE: "weights",
    bundle.ADAPTER: "adapter",
    bundle.LATENTS: "latents",
}


@dataclass(frozen=True)
class PackingOptions:
    """The content of a voice file besides the voice.

    Attributes:
        name: The voice's name.
        preview: The text that preview.wav speaks; its language "" is the first of the model.
        with_reference: Whether the file contains the recordings.
        consent: The consent of the recorded person, as the user states it.
        evaluation: The figures of the evaluation, for the manifest and the card.
    """

    name: str
    preview: Preview
    with_reference: bool = True
    consent: Consent | None = None
    evaluation: Mapping[str, object] = field(default_factory=dict)


def pack(files: VoiceFiles, folder: Path, to: Path, options: PackingOptions) -> Manifest:
    """Writes the voice file `to`.

    Args:
        files: Those of the exported voice in `folder`, as `find_voice` returns them.

    Raises SotaqueError for a voice without a recording, and the errors of `load_voice` and of
    speaking.
    """
    exported, options = bundle.read(folder), _with_imported_metadata(options, folder)
    if not options.with_reference and len(files.speakers) > 1:
        raise SotaqueError(
            f"{folder} has {len(files.speakers)} named speakers, whose recordings are the voice. "
            "They cannot be left out."
        )
    loaded = load_voice(files)
    if (voice := loaded.own_voice) is None:
        raise SotaqueError(
            f"{folder} holds no recording of the person, which a voice needs. Run "
            f"`{commands.program('train sample')}`, and export it again."
        )
    preview = options.preview
    if not preview.language:
        preview = Preview(preview.text, loaded.languages[0], preview.seed)
    waveform = loaded.synthesize(SynthesisRequest(preview.text, preview.language, preview.seed))
    del loaded  # its memory is needed for the tensors of the file
    languages = tuple(ModelConfig.read(files.folder).languages)
    manifest = _new_manifest(exported, options, languages, preview)
    members: dict[str, Path | bytes] = {
        manifests.CARD_FILE: model_card.render(manifest, options.consent).encode(),
        manifests.PREVIEW_FILE: encoding.encode("wav", encoding.pcm16(waveform), Mark(options.name)),
    }
    if options.consent is not None:
        members[manifests.CONSENT_FILE] = _consent_bytes(options.consent)
    members |= _copied_members(folder, manifest.kind, options.with_reference)
    make_folder(to.parent)
    with contextlib.ExitStack() as stack:
        with writing_to(to):
            tensors_file = stack.enter_context(
                tempfile.NamedTemporaryFile(dir=to.parent, prefix=".", suffix=".sotaque-part")
            )
        _write_tensors(Path(tensors_file.name), folder, manifest, voice)
        members[manifests.TENSORS_FILE] = Path(tensors_file.name)
        return archive.write(to, manifest, members)


def _new_manifest(
    exported: bundle.Bundle, options: PackingOptions, languages: tuple[str, ...], preview: Preview
) -> Manifest:
    """The manifest of the file, without its members."""
    return Manifest(
        format=1,
        kind=_KIND_OF_BUNDLE[exported.kind],
        name=options.name,
        created=exported.made_at,
        made_by=commands.version(),
        base=Base(manifests.short_base(exported.base["name"]), exported.base["sha256"]),
        languages=languages,
        licence=manifests.spdx_of(exported.licence),
        licence_text=exported.licence,
        data_sha256=exported.data_sha256,
        epoch=exported.epoch,
        evaluation=dict(options.evaluation),
        preview=preview,
    )


def _with_imported_metadata(options: PackingOptions, folder: Path) -> PackingOptions:
    """Adds the consent and the figures of the file from which the voice was imported, if any."""
    consent, evaluation = options.consent, options.evaluation
    if consent is None and (folder / manifests.CONSENT_FILE).is_file():
        consent = manifests.consent_in((folder / manifests.CONSENT_FILE).read_bytes(), folder)
    if not evaluation and (folder / manifests.MANIFEST_FILE).is_file():
        evaluation = manifests.parse((folder / manifests.MANIFEST_FILE).read_bytes(), folder).evaluation
    return replace(options, consent=consent, evaluation=evaluation)


def _consent_bytes(consent: Consent) -> bytes:
    """The content of consent.json."""
    return (json.dumps(asdict(consent), indent=2, ensure_ascii=False) + "\n").encode()


def _copied_members(folder: Path, kind: Kind, with_reference: bool) -> dict[str, Path | bytes]:
    """The files of the folder that are members as they are. Coqui's file of speakers, which is a
    pickle, is left out."""
    names = [PRONUNCIATIONS_FILE]
    if with_reference:
        names.append(manifests.REFERENCE_FILE)
    if kind == "weights":
        speaker_files = sorted((folder / speakers.FOLDER).glob("*")) if with_reference else []
        names += ["config.json", "vocab.json", *(f"{speakers.FOLDER}/{file.name}" for file in speaker_files)]
    return {
        name: folder / name
        for name in names
        if (folder / name).is_file() and manifests.max_bytes(name, kind) is not None
    }


def _write_tensors(path: Path, folder: Path, manifest: Manifest, voice: "Voice") -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    from xtts.model.loading import read_tensors

    metadata, saved = manifest.metadata, dict[str, "Tensor"]()
    if manifest.kind == "weights":
        saved = {name: tensor.contiguous() for name, tensor in read_tensors(folder / "model.pth").items()}
    if manifest.kind == "adapter":
        header, saved = adapter_file.read(folder / adapter_file.FILE_NAME)
        base = {"name": manifest.base.name, "sha256": manifest.base.sha256}
        metadata[adapter_file.METADATA_KEY] = adapter_file.header_text(header, base)
    if manifest.kind != "weights" and (folder / bundle.DECODER_FILE).is_file():
        saved |= learned_decoder.read_tensors(folder / bundle.DECODER_FILE)
    latents = {tensors.LATENTS_TENSOR: voice.latents, tensors.SPEAKER_TENSOR: voice.speaker}
    saved |= {name: tensor.detach().float().cpu().contiguous() for name, tensor in latents.items()}
    num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in saved.values())
    require_space(path.parent, 2 * num_bytes, "the voice file")  # here, and in the archive
    try:
        save_file(saved, path, metadata=metadata)
    except SafetensorError as error:
        raise WriteError(f"{path} could not be written ({error}).") from error
