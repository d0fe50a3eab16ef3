"""An uploaded voice as a voice file: its recording, and its latents for the served base.

The served voice speaks the preview, which also computes the latents. This process does not import
torch.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from api.engine.child import DEMO, OpenedVoiceState
from api.errors import APIError
from api.speech import speaking
from api.state import AppState
from api.voices.store import UploadedVoice
from machine import commands
from xtts import encoding
from xtts.inference import latents_file
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.marks import Mark
from xtts.model.config import EXPORT_FILES
from xtts.voices.files import archive, model_card
from xtts.voices.files import manifest as manifests
from xtts.voices.files.manifest import Base, Manifest, Preview

_PREVIEW_TEXT = "The sun had set behind the hill, and the road was dark."


async def write(
    state: AppState, caller: str, voice: UploadedVoice, target: Path, *, with_reference: bool
) -> None:
    """Writes the file of a voice. Raises APIError: 409 if the served voice is not a base model that
    another machine can have, and the errors of speech."""
    opened = state.engine.served_voice
    base = _served_base(state, opened)
    assert opened is not None
    languages = opened.languages or ("en",)
    preview = Preview(_PREVIEW_TEXT, "en" if "en" in languages else languages[0])
    request = SynthesisRequest(preview.text, preview.language, preview.seed, whole=True)
    stream = await speaking.start_stream(state, caller, request, voice.id)
    try:
        pcm = b"".join([chunk async for chunk in stream])
    finally:
        state.engine.cancel(stream)
    manifest = Manifest(
        format=1,
        kind="latents",
        name=voice.name,
        base=base,
        languages=languages,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        made_by=commands.version(),
        licence=manifests.spdx_of(opened.licence),
        licence_text=opened.licence,
        data_sha256="",
        epoch=0,
        preview=preview,
    )
    await asyncio.to_thread(_write_archive, state, voice, manifest, pcm, target, with_reference)


def _served_base(state: AppState, opened: OpenedVoiceState | None) -> Base:
    """The served base model. Raises APIError (409) for any other voice: its weights exist only here,
    and latents belong to weights."""
    served_name = opened.voice.spec["name"] if opened else ""
    folder = Path(str(served_name)).expanduser()
    is_base = folder.is_dir() and not any((folder / name).is_file() for name in EXPORT_FILES)
    is_base = is_base and (folder / "config.json").is_file()
    if opened is None or state.settings.backend == "onnx" or (served_name != "demo" and not is_base):
        text = (
            "A voice file holds latents of the base model, and the served voice is none that other "
            "machines have. Serve the base itself (VOICE=demo or VOICE=xtts_v2), or send the recording: "
            "/v1/voices names its address as `preview`."
        )
        raise APIError(409, "no_base", text)
    is_published = served_name == DEMO.name or folder == state.settings.xtts_v2_dir
    name = ("demo" if served_name == DEMO.name else "xtts_v2") if is_published else folder.name
    return Base(name, opened.sha256)


def _write_archive(
    state: AppState, voice: UploadedVoice, manifest: Manifest, pcm: bytes, target: Path, with_reference: bool
) -> None:
    from safetensors.numpy import load, save

    path = latents_file.path_of(state.voices.latents_folder, manifest.base.sha256, voice.sha256)
    try:
        tensors = load(path.read_bytes())
    except OSError as error:
        text = "The latents of the voice could not be stored, so they cannot be sent."
        raise APIError(507, "not_kept", text) from error
    members: dict[str, Path | bytes] = {
        manifests.CARD_FILE: model_card.render(manifest, None).encode(),
        manifests.PREVIEW_FILE: encoding.encode("wav", pcm, Mark(manifest.name)),
        manifests.TENSORS_FILE: save(tensors, manifest.metadata),
    }
    if with_reference:
        members[manifests.REFERENCE_FILE] = state.voices.reference_path(voice)
    archive.write(target, manifest, members)
