"""The state of books in the service: the shelf, and the queue that reads."""

from collections.abc import Coroutine
from typing import Any

from api.state import AppState
from extras.books.uploads.reading import BookQueue, Reader
from extras.books.uploads.store import Books
from machine.devices.selection import Place


class Library:
    """What its routes share."""

    def __init__(self, state: AppState) -> None:
        self._engine = state.engine
        self.books = Books(state.settings.books_dir, state.settings.books_max_gb * 10**9)
        self.readings = BookQueue(
            self.books, lambda book: state.events.tell("book", {"id": book}),
            self._reader, self._somebody_speaks, check_room=self.books.check_room,
        )  # fmt: skip

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """Reading, as long as the service runs."""
        return [self.readings.work()]

    def _reader(self) -> Reader:
        """The served voice where it speaks, or the one that is being opened."""
        engine = self._engine
        voice = engine.standing.voice if engine.standing else engine.wanted
        place = engine.place or Place("cpu", "")
        return Reader(voice.wanted, engine.how.compute.at(place))

    def _somebody_speaks(self) -> bool:
        waiting = self._engine.waiting
        # A request whose caller does not read takes no turn, and may stay for long.
        return bool(waiting.speaking) or any(not job.held for job in waiting.queue)
