"""A client's calls on a dataset: upload, cut, look, correct."""

import json
from pathlib import Path
from typing import Any

import httpx

from extras.studio.part import Studio
from tests.api.conftest import Running

TAPE = bytes(range(256)) * 40  # Not a recording: the fake cut does not need one.


class Dataset:
    """A dataset made at a service."""

    def __init__(self, service: Running, name: str = "Anna", language: str = "en") -> None:
        self.service = service
        answer = service.client.post("/v1/datasets", json={"name": name, "language": language})
        assert answer.status_code == 201, answer.text
        self.id = str(answer.json()["id"])

    @property
    def folder(self) -> Path:
        return self.service.state.part(Studio).datasets.folder / self.id

    @property
    def metadata(self) -> str:
        """The table that training reads."""
        return (self.folder / "clips/metadata.csv").read_text()

    def ask(self, method: str, path: str = "", **more: Any) -> httpx.Response:
        return self.service.client.request(method, f"/v1/datasets/{self.id}{path}", **more)

    def details(self) -> dict[str, Any]:
        answer = self.ask("GET")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def upload(self, name: str, data: bytes = TAPE) -> httpx.Response:
        return self.ask("POST", "/recordings", params={"name": name}, content=data)

    def uploaded(self, name: str, data: bytes = TAPE) -> dict[str, Any]:
        answer = self.upload(name, data)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def cut(self) -> dict[str, Any]:
        """Starts a cut and waits for its end."""
        answer = self.ask("POST", "/cut")
        assert answer.status_code == 202, answer.text
        return self.ended()

    def ended(self) -> dict[str, Any]:
        states = ("queued", "running")
        self.service.wait_until(lambda: self.details()["cut"]["state"] not in states, 200)
        return self.details()

    def running_child(self) -> int:
        """The process id of the cut, once it reports progress."""
        self.service.wait_until(lambda: "320 of 640" in self.details()["cut"]["told"], 30)
        found = self.service.state.part(Studio).cuts._running
        assert found is not None and found[1] is not None
        return found[1].pid

    def given_to(self) -> dict[str, Any]:
        """The arguments of the cut, and how it ran."""
        return dict(json.loads((self.folder / "clips/given.json").read_text()))

    def clips(self, query: str = "order=time") -> list[dict[str, Any]]:
        return list(self.ask("GET", f"/clips?{query}").json()["clips"])

    def correct(self, clip: str, **change: Any) -> httpx.Response:
        return self.ask("PATCH", f"/clips/{clip}", json=change)


def with_tape(service: Running, name: str = "Anna", text: bytes = b"") -> Dataset:
    """A dataset with a recording, tape.wav, and with its text if given."""
    found = Dataset(service, name)
    found.uploaded("tape.wav")
    if text:
        found.ask("PUT", "/text", content=text).raise_for_status()
    return found
