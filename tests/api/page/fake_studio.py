"""The routes of the studio and of books with their state, for the page's fake server."""

import json
from typing import Any
from urllib.parse import urlsplit

from tests.api.page.filled import filled
from tests.api.page.world import World


class FakeStudio:
    """Datasets that are read aloud, trainings and a book. Every take is good."""

    def __init__(self, world: World, sentences: int) -> None:
        self.world = world
        # A row of each kind, with every field.
        self.rows = filled(World(), "tape").answers
        self.space = self.rows["/v1/books"]["space"]
        self.sentences = sentences
        self.datasets: dict[str, list[str]] = {}
        self.trainings: list[dict[str, Any]] = []
        self.has_book = self.is_read = False

    def __call__(self, method: str, path: str, body: bytes) -> Any:
        """The answer to a request; None if the path is none of these."""
        told = self._answer(method, path, body)
        if told is not None and method != "GET":
            for event in ("dataset", "training", "book"):
                self.world.tell(event)
        return told

    def _answer(self, method: str, path: str, body: bytes) -> Any:
        address = urlsplit(path)
        match [method, *address.path.split("/")[2:]]:
            case ["GET", "datasets"]:
                return {"datasets": [self._row(one) for one in self.datasets], "space": self.space}
            case ["POST", "datasets"]:
                name = json.loads(body)["name"]
                self.datasets[name] = ["open"] * self.sentences
                return self._row(name)
            case ["GET", "datasets", name]:
                clips = {"kept": self.datasets[name].count("kept")}
                details = self.rows["/v1/datasets/read"]
                return details | self._row(name) | {"clips": details["clips"] | clips}
            case ["GET", "datasets", _, "clips"]:
                return {"clips": [], "total": 0, "offset": 0}
            case ["GET" | "PUT", "datasets", name, "prompts"]:
                return self._sheet(name)
            case ["PUT", "datasets", name, "prompts", number, "take"]:
                if address.query == "keep=true":
                    self.datasets[name][int(number) - 1] = "kept"
                return {"findings": [], "usable": True, "seconds": 3.0, "levels": [], "heard": ""}
        return self._of_trainings(method, address.path, body) or self._of_books(method, address.path)

    def _of_trainings(self, method: str, path: str, body: bytes) -> Any:
        match [method, *path.split("/")[2:]]:
            case ["GET", "trainings"]:
                return {"trainings": self.trainings, "allowed": True, "trainer": True, "message": ""}
            case ["POST", "trainings"]:
                row = self.rows["/v1/trainings"]["trainings"][1]
                self.trainings.insert(0, row | {"progress": None, "run": json.loads(body)["run"]})
                return self.trainings[0]
        return None

    def _of_books(self, method: str, path: str) -> Any:
        match [method, *path.split("/")[2:]]:
            case ["GET", "books"]:
                return {"books": [self._book()] if self.has_book else [], "space": self.space}
            case ["POST", "books"]:
                self.has_book = True
                return self._book()
            case ["POST", "books", _, "reading"]:
                self.is_read = True
                return self._book()
            case ["GET", "books", _]:
                return self._book()
        return None

    def _row(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = self.rows["/v1/datasets"]["datasets"][1]
        return row | {"id": name, "name": name}

    def _sheet(self, name: str) -> dict[str, Any]:
        states = self.datasets[name]
        given: dict[str, Any] = self.rows["/v1/datasets/read/prompts"]
        prompts = [
            given["prompts"][0] | {"number": number, "text": f"{number} boats came in.", "state": state}
            for number, state in enumerate(states, start=1)
        ]
        left = states.index("open") + 1 if "open" in states else None
        return given | {"prompts": prompts, "kept": states.count("kept"), "next": left}

    def _book(self) -> dict[str, Any]:
        book: dict[str, Any] = self.rows["/v1/books/book"]
        if self.is_read:
            return book
        return book | {"reading": book["reading"] | {"plan_only": True}, "report": None, "files": []}
