"""Packs an exported voice's folder into a voice file.

The folder is loaded first: the latents of its speaker become a member, so that the recording can be
left out, and the voice speaks its preview.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from machine import commands
from machine.errors import SotaqueError
from machine.storage.files import make_folder
from xtts import encoding
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.marks import Mark
from xtts.model.config import ModelConfig
from xtts.text.pronunciations import NAME as PRONUNCIATIONS
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
class Packing:
    """What goes into a file beside the voice.

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


def pack(files: VoiceFiles, folder: Path, to: Path, packing: Packing) -> Manifest:
    """Writes the voice file `to`.

    Args:
        files: Those of the exported voice in `folder`, as `find_voice` returns them.

    Raises SotaqueError for a voice without a recording, and the errors of `load_voice` and of
    speaking.
    """
    header, packing = bundle.read(folder), _with_earlier(packing, folder)
    if not packing.with_reference and len(files.speakers) > 1:
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
    preview = packing.preview
    if not preview.language:
        preview = Preview(preview.text, loaded.languages[0], preview.seed)
    waveform = loaded.synthesize(SynthesisRequest(preview.text, preview.language, preview.seed))
    del loaded  # its memory is needed for the tensors of the file
    config = ModelConfig.read(files.folder)
    licence = header.licence
    manifest = Manifest(
        format=1,
        kind=_KIND_OF_BUNDLE[header.kind],
        name=packing.name,
        created=header.made_at,
        made_by=commands.version(),
        base=Base(manifests.short_base(header.base["name"]), header.base["sha256"]),
        languages=tuple(config.languages),
        licence=manifests.spdx_of(licence),
        licence_text=licence,
        data_sha256=header.data_sha256,
        epoch=header.epoch,
        evaluation=dict(packing.evaluation),
        preview=preview,
    )
    members: dict[str, Path | bytes] = {
        manifests.CARD_FILE: model_card.card(manifest, packing.consent).encode(),
        manifests.PREVIEW_FILE: encoding.whole("wav", encoding.pcm16(waveform), Mark(packing.name)),
    }
    if packing.consent is not None:
        members[manifests.CONSENT_FILE] = _consent_bytes(packing.consent)
    members |= _kept_files(folder, manifest.kind, packing.with_reference)
    make_folder(to.parent)
    with tempfile.NamedTemporaryFile(dir=to.parent, prefix=".", suffix=".sotaque-part") as tensors_file:
        _write_tensors(Path(tensors_file.name), folder, manifest, voice)
        members[manifests.TENSORS_FILE] = Path(tensors_file.name)
        return archive.write(to, manifest, members)


def _with_earlier(packing: Packing, folder: Path) -> Packing:
    """With the consent and the figures of the file from which the voice was imported, if any."""
    consent, evaluation = packing.consent, packing.evaluation
    if consent is None and (folder / manifests.CONSENT_FILE).is_file():
        consent = manifests.consent_in((folder / manifests.CONSENT_FILE).read_bytes(), folder)
    if not evaluation and (folder / manifests.MANIFEST_FILE).is_file():
        evaluation = manifests.parse((folder / manifests.MANIFEST_FILE).read_bytes(), folder).evaluation
    return replace(packing, consent=consent, evaluation=evaluation)


def _consent_bytes(consent: Consent) -> bytes:
    """The content of consent.json."""
    return (json.dumps(asdict(consent), indent=2, ensure_ascii=False) + "\n").encode()


def _kept_files(folder: Path, kind: Kind, with_reference: bool) -> dict[str, Path | bytes]:
    """The files of the folder that are members as they are. Coqui's own voices, which are a
    pickle, stay behind."""
    names = [PRONUNCIATIONS]
    if with_reference:
        names.append(manifests.REFERENCE_FILE)
    if kind == "weights":
        recordings = sorted((folder / speakers.FOLDER).glob("*")) if with_reference else []
        names += ["config.json", "vocab.json", *(f"{speakers.FOLDER}/{file.name}" for file in recordings)]
    return {
        name: folder / name
        for name in names
        if (folder / name).is_file() and manifests.max_bytes(name, kind) is not None
    }


def _write_tensors(path: Path, folder: Path, manifest: Manifest, voice: "Voice") -> None:
    from safetensors.torch import save_file

    from xtts.model.loading import read_tensors

    metadata, saved = manifest.metadata, dict[str, "Tensor"]()
    if manifest.kind == "weights":
        saved = {name: tensor.contiguous() for name, tensor in read_tensors(folder / "model.pth").items()}
    if manifest.kind == "adapter":
        header, saved = adapter_file.read(folder / adapter_file.NAME)
        base = {"name": manifest.base.name, "sha256": manifest.base.sha256}
        metadata[adapter_file.KEY] = adapter_file.text_of(header, base)
    if manifest.kind != "weights" and (folder / bundle.DECODER_FILE).is_file():
        saved |= learned_decoder.read_tensors(folder / bundle.DECODER_FILE)
    latents = {tensors.LATENTS_TENSOR: voice.latents, tensors.SPEAKER_TENSOR: voice.speaker}
    saved |= {name: tensor.detach().float().cpu().contiguous() for name, tensor in latents.items()}
    save_file(saved, path, metadata=metadata)
