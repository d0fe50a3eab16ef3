"""OpenAI's custom voices and consents: /v1/audio/voices and /v1/audio/voice_consents.

    VOICES_DIR/.consents/<id>.wav   the recording in which a person consents to a copy of the voice
    VOICES_DIR/.consents/<id>.json  its label, language and time; written last

A consent has no effect on a voice. It is kept as evidence until it is deleted.
"""

import asyncio
import re
import secrets
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Query, Request, Response, UploadFile
from pydantic import BaseModel

from api.errors import APIError
from api.routes.uploads import (
    UPLOAD_FORMATS,
    decode_uploads,
    store_voice,
    takes_recordings,
    upload_schema,
    visible_name,
)
from api.routes.voices import remove_voice
from api.schemas import MAX_NAME, PROBLEMS, NameText
from api.shared_folder import changing, now, read, read_all
from api.state import AppState, Shared
from machine.storage.files import remove_stale, replace_file, write_json

MAX_CONSENTS = 1_000
_CONSENT_ID = re.compile(r"cons_[0-9a-f]{12}")
_STALE_SECONDS = 3600.0

router = APIRouter(prefix="/v1/audio", tags=["voices"], responses=PROBLEMS)
Name = Annotated[str, Form(min_length=1, max_length=MAX_NAME)]


class CreatedVoice(BaseModel):
    """A new voice as OpenAI describes it."""

    id: str
    object: Literal["audio.voice"] = "audio.voice"
    created_at: int
    name: str
    type: Literal["audio_sample"] = "audio_sample"


class DeletedVoice(BaseModel):
    """What OpenAI answers to a deletion."""

    id: str
    object: Literal["audio.voice.deleted"] = "audio.voice.deleted"
    deleted: Literal[True] = True


class ConsentRow(BaseModel):
    """A consent as OpenAI lists it."""

    id: str
    object: Literal["audio.voice_consent"] = "audio.voice_consent"
    created_at: int
    language: str
    name: str


class ConsentList(BaseModel):
    """A page of consents, the newest first."""

    object: Literal["list"] = "list"
    data: list[ConsentRow]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedConsent(BaseModel):
    """What OpenAI answers to a deletion."""

    id: str
    object: Literal["audio.voice_consent"] = "audio.voice_consent"
    deleted: Literal[True] = True


class ConsentChange(BaseModel):
    """A consent's new label."""

    name: NameText


@router.post("/voices", openapi_extra=upload_schema("audio_sample"))
@takes_recordings
async def create_voice(
    request: Request,
    response: Response,
    state: Shared,
    audio_sample: Annotated[UploadFile, File(description=UPLOAD_FORMATS)],
    name: Name,
    consent: Annotated[str, Form(max_length=1024, description="Without effect.")] = "",
) -> CreatedVoice:
    """Makes a voice from a recording, as /v1/voices does. Clone a voice only with its owner's
    consent."""
    state.check_rate(request)
    if consent:
        response.headers["X-Ignored-Fields"] = "consent"
    decoded = await decode_uploads(state, [audio_sample])
    voice = await store_voice(state, visible_name(name), decoded)
    return CreatedVoice(id=voice.id, created_at=_unix_seconds(voice.created), name=voice.name)


@router.delete("/voices/{voice_id}")
async def delete_voice(voice_id: str, state: Shared) -> DeletedVoice:
    """Deletes a voice, as /v1/voices does."""
    await remove_voice(voice_id, state)
    return DeletedVoice(id=voice_id)


@router.post("/voice_consents", openapi_extra=upload_schema("recording"))
@takes_recordings
async def create_consent(
    request: Request,
    state: Shared,
    recording: Annotated[UploadFile, File(description=UPLOAD_FORMATS)],
    name: Name,
    language: Annotated[str, Form(min_length=1, max_length=35, description="BCP 47: en-US")],
) -> ConsentRow:
    """Keeps the recording of a consent."""
    state.check_rate(request)
    label = visible_name(name)
    decoded = (await decode_uploads(state, [recording]))[0]
    consent = Consent(f"cons_{secrets.token_hex(6)}", label, language, now())
    await asyncio.to_thread(_consents(state).add, consent, decoded.wav)
    return consent.row()


@router.get("/voice_consents")
def list_consents(
    state: Shared,
    after: Annotated[str, Query(max_length=64)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> ConsentList:
    """The consents, the newest first. after: the last id of the page before."""
    rows = [consent.row() for consent in _consents(state).all()]
    ids = [row.id for row in rows]
    first_row = ids.index(after) + 1 if after in ids else 0
    page = rows[first_row : first_row + limit]
    return ConsentList(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=first_row + limit < len(rows),
    )


@router.get("/voice_consents/{consent_id}")
def read_consent(consent_id: str, state: Shared) -> ConsentRow:
    """One consent."""
    return _consents(state).find(consent_id).row()


@router.post("/voice_consents/{consent_id}")
def rename_consent(consent_id: str, body: ConsentChange, state: Shared) -> ConsentRow:
    """Changes the label of a consent."""
    return _consents(state).rename(consent_id, visible_name(body.name)).row()


@router.delete("/voice_consents/{consent_id}")
def delete_consent(consent_id: str, state: Shared) -> DeletedConsent:
    """Deletes a consent with its recording."""
    _consents(state).remove(consent_id)
    return DeletedConsent(id=consent_id)


@dataclass(frozen=True)
class Consent:
    """A person's consent. language: the BCP 47 tag that the caller gave."""

    id: str
    name: str
    language: str
    created: str

    def row(self) -> ConsentRow:
        """As OpenAI lists it."""
        return ConsentRow(
            id=self.id, created_at=_unix_seconds(self.created), language=self.language, name=self.name
        )


class Consents:
    """The folder of consents, read again for each call because replicas change it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Consent]:
        """The newest first."""
        consents = read_all(self.folder, self._get, ".json")
        return sorted(consents, key=lambda consent: (consent.created, consent.id), reverse=True)

    def _get(self, identity: str) -> Consent | None:
        is_valid = _CONSENT_ID.fullmatch(identity)
        return read(Consent, self.folder / f"{identity}.json", identity) if is_valid else None

    def find(self, identity: str) -> Consent:
        """The consent with this id. Raises APIError (404), also for an invalid id."""
        if (consent := self._get(identity)) is not None:
            return consent
        text = "There is no consent with this id. /v1/audio/voice_consents lists them."
        raise APIError(404, "no_consent", text)

    def add(self, consent: Consent, wav: bytes) -> None:
        """Keeps a consent. Raises APIError if there are too many, or the disk is full."""
        with changing(self.folder):
            if len(self.all()) >= MAX_CONSENTS:
                text = f"There are already {MAX_CONSENTS} consents, the limit. Delete one."
                raise APIError(409, "too_many_consents", text)
            remove_stale(self.folder, older_than_seconds=_STALE_SECONDS)
            path = self.folder / f"{consent.id}.wav"
            try:
                replace_file(path, lambda file: file.write(wav))
                write_json(path.with_suffix(".json"), asdict(consent))
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def rename(self, identity: str, name: str) -> Consent:
        """Changes the label. Raises APIError."""
        with changing(self.folder):
            renamed = replace(self.find(identity), name=name)
            write_json(self.folder / f"{identity}.json", asdict(renamed))
        return renamed

    def remove(self, identity: str) -> None:
        """Deletes a consent, its recording last. Raises APIError."""
        with changing(self.folder):
            self.find(identity)
            for ending in ("json", "wav"):
                (self.folder / f"{identity}.{ending}").unlink(missing_ok=True)


def _consents(state: AppState) -> Consents:
    return Consents(state.voices.folder / ".consents")


def _unix_seconds(created: str) -> int:
    return int(datetime.fromisoformat(created).timestamp())
