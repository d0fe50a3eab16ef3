"""Routes /v1/books: upload a book, plan it, correct names, read it aloud, and download it."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import FileResponse, Response

from api.arriving import body_file, free_bytes
from api.errors import APIError, excerpt
from api.gate import takes_upload
from api.routes.ranged_file import SPOKEN, WAV_RESPONSES, RangedFile, ranged_responses
from api.routes.uploads import visible_name
from api.schemas import PROBLEMS
from api.speech.speaking import recording_of
from api.state import AppState, Shared
from api.voices import imported
from extras.books.formats.book_reader import FORMATS
from extras.books.uploads import book_store, schemas
from extras.books.uploads.book_store import UploadedBook
from extras.books.uploads.part import Library
from extras.common.disk_space import DiskSpace
from machine.storage.files import read_json
from xtts.encoding import MEDIA_TYPES
from xtts.text.errors import TextError
from xtts.text.pronunciations import check_entry

Row = TypeVar("Row", bound=BaseModel)

router = APIRouter(prefix="/v1/books", tags=["books"], responses=PROBLEMS)
# The interface for `api.parts`.
ROUTERS, Part = (router,), Library
_NO_STORE = {"Cache-Control": "no-store"}
_FILE_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
# HTML has a generic type, so that browsers save it instead of showing it as a page of the service.
_GENERIC_TYPE = "application/octet-stream"
_TYPE_OF_ENDING = {
    **{f".{form}": media_type for form, media_type in MEDIA_TYPES.items()},
    ".m4b": "audio/mp4",
    ".epub": "application/epub+zip",
    ".srt": "application/x-subrip",
    ".vtt": "text/vtt; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
_SPOKEN_ENDINGS = frozenset({*(f".{form}" for form in MEDIA_TYPES), ".m4b", ".epub"})
_FILE_RESPONSES = ranged_responses(_GENERIC_TYPE, *_TYPE_OF_ENDING.values())


@router.get("")
def list_books(state: Shared) -> schemas.BookList:
    """Lists the books, the newest first, and the available space."""
    rows = []
    for book in state.part(Library).books.all():
        job = book.job
        rows.append(
            schemas.BookRow(
                id=book.id,
                name=book.name,
                created=book.created,
                state=job.state,
                plan_only=job.plan_only,
                title=book.title,
            )
        )
    books = state.part(Library).books
    space = DiskSpace(used=books.used_bytes(), most=books.max_bytes, free=free_bytes(books.folder))
    return schemas.BookList(books=rows, space=space)


@router.post("", status_code=201, openapi_extra=_FILE_BODY)
@takes_upload(128 << 20, seconds=300.0)  # pictures make an EPUB large; they are not read
async def upload_book(
    request: Request,
    state: Shared,
    name: Annotated[
        str,
        Query(
            min_length=1,
            max_length=schemas.MAX_FILE_NAME,
            description=f"The name of the file, with its ending: {', '.join(FORMATS)}.",
        ),
    ],
) -> schemas.BookDetails:
    """Adds a book and queues its plan. The body is the file, at most 128 MiB. Upload only books
    that you may read aloud."""
    state.check_rate(request)
    plain = visible_name(name)
    if not book_store.ending_of(plain):
        text = f"{excerpt(name)} does not have the ending of a book. Use {', '.join(FORMATS)}."
        raise APIError(422, "not_a_book", text, param="name")
    books = state.part(Library).books
    await asyncio.to_thread(books.check_room)
    async with body_file(request, books.folder, "book") as path:
        book = await asyncio.to_thread(books.add, plain, path)
    reading = schemas.ReadingRequest(plan_only=True)
    await asyncio.to_thread(state.part(Library).readings.ask, book, reading.model_dump(), None)
    state.part(Library).readings.wake()
    state.events.tell("book", {"id": book.id})
    return await asyncio.to_thread(_book_details, state, book)


@router.get("/{book}")
def read_book(book: str, state: Shared) -> schemas.BookDetails:
    """Returns the plan of a book, the state and progress of its reading, its files and its
    report."""
    return _book_details(state, state.part(Library).books.find(book))


@router.delete("/{book}", status_code=204, response_class=Response)
async def remove_book(book: str, state: Shared) -> Response:
    """Deletes a book with all its files, and stops its reading."""
    uploaded = state.part(Library).books.find(book)
    await state.part(Library).readings.stop(uploaded, deleted=True)
    await asyncio.to_thread(state.part(Library).books.remove, uploaded)
    state.events.tell("book", {"id": uploaded.id})
    return Response(status_code=204)


@router.put("/{book}/names")
def put_names(book: str, body: schemas.NamesRequest, state: Shared) -> schemas.NamesRow:
    """Sets the pronunciation of words in a book. Only sentences with these words are spoken
    again."""
    uploaded = state.part(Library).books.find(book)
    _check_names(body.names)
    book_store.put_names(uploaded, body.names)
    return schemas.NamesRow(names=book_store.names_of(uploaded))


@router.post("/{book}/reading", status_code=202)
async def ask_for_reading(
    book: str, body: schemas.ReadingRequest, request: Request, state: Shared
) -> schemas.ReadingRow:
    """Queues the reading, or the plan, of a book. One book is read at a time, and only while the
    service is idle. Sentences that are already spoken are reused."""
    state.check_rate(request)
    uploaded = state.part(Library).books.find(book)
    served = state.engine.served_voice
    imported_voice = imported.target_of(
        state.settings, state.adapters, body.voice, state.engine.served_sha256
    )
    if imported_voice is None:
        recording = await recording_of(state, served, body.voice)
    else:
        recording = str(imported_voice.spec["name"])
    await asyncio.to_thread(state.part(Library).books.check_room)
    await asyncio.to_thread(state.part(Library).readings.ask, uploaded, body.model_dump(), recording)
    state.part(Library).readings.wake()
    state.events.tell("book", {"id": uploaded.id})
    return await asyncio.to_thread(_reading_row, state, uploaded)


@router.delete("/{book}/reading")
async def stop_reading(book: str, state: Shared) -> schemas.ReadingRow:
    """Stops the reading of a book, or removes it from the queue. Spoken sentences are kept."""
    uploaded = state.part(Library).books.find(book)
    await state.part(Library).readings.stop(uploaded)
    return await asyncio.to_thread(_reading_row, state, uploaded)


@router.get("/{book}/files/{file}", response_class=FileResponse, responses=_FILE_RESPONSES)
def download_file(book: str, file: str, state: Shared) -> FileResponse:
    """Downloads a file: a chapter, the audiobook, captions or the report. Supports range
    requests."""
    path = state.part(Library).books.find(book).file(file)
    media_type = _TYPE_OF_ENDING.get(path.suffix, _GENERIC_TYPE)
    headers = _NO_STORE | (SPOKEN if path.suffix in _SPOKEN_ENDINGS else {})
    return RangedFile(path, media_type=media_type, headers=headers, filename=path.name)


@router.get("/{book}/sentences/{take}.wav", response_class=FileResponse, responses=WAV_RESPONSES)
def hear_sentence(book: str, take: str, state: Shared) -> FileResponse:
    """Returns the sound of a sentence in the plan or the report. Supports range requests."""
    path = state.part(Library).books.find(book).take(take)
    return RangedFile(path, media_type="audio/wav", headers=_NO_STORE | SPOKEN)


def _check_names(names: dict[str, str]) -> None:
    """Raises APIError (422) for entries that are not allowed in a list of pronunciations."""
    for word, spoken in names.items():
        try:
            if spoken.strip():
                check_entry(word, spoken)
        except TextError as error:
            raise APIError(422, "invalid_request", str(error), param="names") from error


def _book_details(state: AppState, book: UploadedBook) -> schemas.BookDetails:
    progress = read_json(book.spoken / "progress.json")
    return schemas.BookDetails(
        id=book.id,
        name=book.name,
        created=book.created,
        reading=_reading_row(state, book),
        progress=_validated(schemas.ReadingProgress, progress) if progress else None,
        plan=_plan_row(book),
        report=_report_row(book),
        files=[
            schemas.BookFile(
                name=path.name,
                bytes=path.stat().st_size,
                address=f"/v1/books/{book.id}/files/{quote(path.name)}",
            )
            for path in book.files()
        ],
    )


def _plan_row(book: UploadedBook) -> schemas.BookPlan | None:
    corrections = book_store.names_of(book)
    plan = read_json(book.spoken / "plan.json")
    with contextlib.suppress(KeyError, TypeError):
        words = {row["word"] for row in plan["names"]}
        corrected = [{"word": word, "count": 0} for word in corrections if word not in words]
        names = [{**row, "said": corrections.get(row["word"], "")} for row in [*corrected, *plan["names"]]]
        samples = [{**row, "sound": _sentence_address(book, row["key"])} for row in plan["samples"]]
        return _validated(schemas.BookPlan, {**plan, "names": names, "samples": samples})
    return None


def _report_row(book: UploadedBook) -> schemas.BookReport | None:
    report = read_json(book.spoken / "report.json")
    with contextlib.suppress(KeyError, TypeError):
        worst = [{**row, "sound": _sentence_address(book, row["key"])} for row in report["worst"]]
        return _validated(schemas.BookReport, {**report, "worst": worst})
    return None


def _validated(schema: type[Row], fields: Mapping[str, object]) -> Row | None:
    """A response from a file of the child process; None if the file is of another version."""
    with contextlib.suppress(ValueError):
        return schema.model_validate(fields)
    return None


def _sentence_address(book: UploadedBook, key: str) -> str:
    return f"/v1/books/{book.id}/sentences/{key}.wav"


def _reading_row(state: AppState, book: UploadedBook) -> schemas.ReadingRow:
    job = book.job
    row = asdict(job)
    return schemas.ReadingRow(
        **{name: row[name] for name in ("state", "message", "asked", "started", "ended")},
        plan_only=job.plan_only,
        ahead=state.part(Library).readings.place(book) if job.state == "queued" else 0,
        paused=state.part(Library).readings.is_paused(book),
        told=state.part(Library).readings.told(book),
    )
