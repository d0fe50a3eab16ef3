"""The state of the books in the service: the stored books and the reading queue."""

from collections.abc import Coroutine

from api.state import AppState
from extras.books.settings import BooksSettings
from extras.books.uploads.book_store import Books
from extras.books.uploads.reading_queue import BookQueue, Reader
from machine.devices.selection import Place


class Library:
    """The state that the routes of books share."""

    def __init__(self, state: AppState) -> None:
        self._engine = state.engine
        settings = state.settings
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

    def _reader(self) -> Reader:
        """The served voice, or the one that is being opened."""
        engine = self._engine
        voice = engine.served_voice.voice if engine.served_voice else engine.target
        place = engine.place or Place("cpu", "")
        return Reader(voice.spec, engine.options.compute.at(place))

    def _somebody_speaks(self) -> bool:
        waiting = self._engine.requests
        # Requests whose client does not read do not count, because they may stay for long.
        return bool(waiting.speaking) or any(not job.is_held for job in waiting.queue)
