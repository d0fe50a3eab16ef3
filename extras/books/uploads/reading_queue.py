"""Reads queued books aloud with the served voice, one at a time, while the service is idle.

The child process is `extras.books.book_child`, which works like `xtts read`, so after a kill the
service resumes at the same sentence. The child is paused during speech requests.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.arriving import bytes_below
from api.shared_folder import now
from extras.books.uploads.book_store import BookJob, Books, UploadedBook, changing
from extras.common.work_queue import WorkQueue, write_job
from machine.process import module_command
from machine.storage.files import read_json, replace_file
from xtts.inference.compute_config import ComputeConfig

# The module of the child process; tests replace it.
MODULE = "extras.books.book_child"


@dataclass(frozen=True)
class Reader:
    """The voice that reads. spec: fields of `xtts.voices.voice_files.VoiceSpec`; compute: its
    configuration."""

    spec: Mapping[str, Any]
    compute: ComputeConfig


class BookQueue(WorkQueue[UploadedBook]):
    """The queue of readings.

    Args:
        changed: Called with a book's id when the state of its reading has changed.
        reader: Returns the voice that reads, by a job's `recording`.
        busy: Returns whether a speech request is active or waiting.
        check_room: As in `WorkQueue`.
    """

    work_name, lock_name = "reading", ".reading.lock"

    def __init__(
        self,
        books: Books,
        changed: Callable[[str], None],
        reader: Callable[[str | None], Reader],
        busy: Callable[[], bool],
        module: str = MODULE,
        check_room: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(books, changed, module, busy, check_room)
        self._reader = reader

    def ask(self, book: UploadedBook, reading: Mapping[str, object], recording: str | None) -> BookJob:
        """Queues a reading (blocking). Raises APIError if the book is already queued."""
        with changing(book, refuse_while_read=True):
            return write_job(
                book.folder,
                book.job,
                state="queued",
                asked=now(),
                started=None,
                ended=None,
                message="",
                wanted=dict(reading),
                recording=recording,
                bytes=None,
            )

    def _repair(self) -> None:
        self._store.remove_leftovers()

    def _environment(self) -> Mapping[str, str]:
        # Without a cluster, which would continue while the child is paused.
        return {"RAY_ADDRESS": ""}

    def _prepare(self, book: UploadedBook) -> tuple[str, ...]:
        (book.spoken / "progress.json").unlink(missing_ok=True)
        job = book.job
        reader = self._reader(job.recording)
        spec = {**reader.spec, "allow_base_reference": True}
        if (names_list := _write_pronunciations(book, spec.get("pronunciations"))) is not None:
            spec["pronunciations"] = str(names_list)
        return module_command(
            self.module,
            str(book.source.resolve()),
            "--to",
            str(book.spoken.resolve()),
            "--spec",
            json.dumps(spec, default=str),
            *reader.compute.command_line(),
            f"--called={book.name}",
            *options_of(job.wanted),
        )

    def _store_results(self, book: UploadedBook, state: str) -> None:
        (book.spoken / "progress.json").unlink(missing_ok=True)
        write_job(book.folder, book.job, bytes=bytes_below(book.folder))


def options_of(reading: Mapping[str, Any]) -> list[str]:
    """A `extras.books.uploads.schemas.ReadingRequest` as arguments of `xtts read`."""
    values = {
        "format": ",".join(reading.get("formats", ())),
        "chapters": reading.get("chapters", ""),
        "captions": ",".join(reading.get("captions", ())),
        "language": reading.get("language", ""),
        "seed": reading.get("seed", 0),
        "retakes": reading.get("retakes", 1),
    }
    words = [f"--{name}={value}" for name, value in values.items()]
    words += [f"--again={key}" for key in reading.get("again", ())]
    switches = {"footnotes": "--footnotes", "plan_only": "--plan"}
    return words + [flag for name, flag in switches.items() if reading.get(name)]


def _write_pronunciations(book: UploadedBook, common: str | None) -> Path | None:
    """Writes a list that consists of the common pronunciations and the book's; None if the book has
    none."""
    if not book.names_list.is_file():
        return None
    common_list = Path(common).read_bytes() + b"\n" if common else b""
    # A section of the common list may be for another language.
    language = str(read_json(book.spoken / "plan.json").get("language", "")).split("-")[0]
    section = f"[{language}]\n".encode() if common_list and language else b""
    content = common_list + section + book.names_list.read_bytes()
    path = book.folder / "pronunciations.txt"
    replace_file(path, lambda file: file.write(content))
    return path
