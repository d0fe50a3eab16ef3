"""The voices that were not uploaded: the served one, its speakers and adapters, imported ones."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from api.errors import APIError, excerpt
from api.schemas import SERVED, VoiceRow
from api.state import AppState
from xtts.voices.speakers import normalized_name


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def served_row(state: AppState) -> VoiceRow:
    """The served voice, as /v1/voices lists it."""
    return VoiceRow(
        id=SERVED,
        name=state.served_name,
        created=_iso_time(state.served_at),
        duration_seconds=None,
        origin="served",
        quality=None,
        recordings=None,
        preview=None,
    )


class NamedVoice(NamedTuple):
    """A voice that was not uploaded: a speaker of the served voice, with its recording (in an ONNX
    voice its latents), or an adapter or imported voice, with its folder."""

    name: str
    path: Path

    @property
    def recording(self) -> Path | None:
        """The recording to play; None if the voice has none."""
        recordings = [self.path]
        if self.path.is_dir():
            # The maker of a voice file may have left the reference out.
            recordings = [self.path / "reference.wav", self.path / "preview.wav"]
        return next((path for path in recordings if path.suffix == ".wav" and path.is_file()), None)

    def row(self, state: AppState) -> VoiceRow:
        """As /v1/voices lists it."""
        origin = "adapter" if self.path.is_dir() else "speaker"
        created = float(state.served_at)
        with contextlib.suppress(OSError):  # a speaker, or deleted meanwhile
            # Written by the import or by the copy of an adapter; its `made_at` is the time of the export.
            created = (self.path / "bundle.json").stat().st_mtime
        return served_row(state).model_copy(
            update={
                "id": self.name,
                "name": self.name,
                "created": _iso_time(created),
                "origin": "imported" if state.adapters.is_imported(self.path) else origin,
                "preview": f"/v1/voices/{quote(self.name, safe='')}/preview.wav" if self.recording else None,
            }
        )


def named_voices(state: AppState) -> list[NamedVoice]:
    """The speakers of the served voice, its adapters, and the imported voices of other weights."""
    paths = {**state.adapters.of_other_weights(state.engine.served_sha256), **state.speakers}
    return [NamedVoice(name, Path(path)) for name, path in paths.items()]


def find_named(voice_id: str, state: AppState) -> NamedVoice | None:
    """The named voice with this name, in any spelling."""
    plain = normalized_name(voice_id)
    return next((voice for voice in named_voices(state) if normalized_name(voice.name) == plain), None)


def refuse_named(name: str, state: AppState) -> None:
    """Raises APIError (409) if an upload must not have this name, which would hide another voice."""
    if find_named(name, state) is not None:
        text = f"There is already a voice {excerpt(name)}, which was not uploaded. Choose another name."
        raise APIError(409, "name_taken", text, param="name")
