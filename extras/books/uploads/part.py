"""The state of the books in the service: the stored books and the reading queue."""

from collections.abc import Coroutine
from pathlib import Path

from api.runs.targets import voice_at
from api.state import AppState
from extras.books.settings import BooksSettings
from extras.books.uploads.book_store import Books
from extras.books.uploads.reading_queue import BookQueue, Reader
from machine.devices.selection import Place


class Library:
    """The state that the routes of books share."""

    def __init__(self, state: AppState) -> None:
        self._engine = state.engine
        self._settings = settings = state.settings
        assert isinstance(settings, BooksSettings)
        self.books = Books(settings.books_dir, settings.books_max_gb * 10**9)
        self.readings = BookQueue(
            self.books,
            lambda book: state.events.tell("book", {"id": book}),
            self._reader,
            self._somebody_speaks,
            check_room=self.books.check_room,
        )

    def works(self) -> list[Coroutine[object, object, None]]:
        """The background task that reads queued books."""
        return [self.readings.work()]

    def _reader(self, recording: str | None) -> Reader:
        """The served voice, or the one that is being opened, with another reference; or the adapter or
        imported voice in a folder. recording: the reference or the folder; None for the served
        voice's own reference."""
        engine = self._engine
        compute = engine.options.compute.at(engine.place or Place("cpu", ""))
        if recording is not None and Path(recording).is_dir():
            return Reader(voice_at(self._settings, recording).spec, compute)
        voice = engine.served_voice.voice if engine.served_voice else engine.target
        reference = {} if recording is None else {"reference": recording}
        return Reader({**voice.spec, **reference}, compute)

    def _somebody_speaks(self) -> bool:
        waiting = self._engine.requests
        # Requests whose client does not read do not count, because they may stay for long.
        return bool(waiting.speaking) or any(not job.is_held for job in waiting.queue)
