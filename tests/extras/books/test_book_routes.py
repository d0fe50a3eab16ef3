"""/v1/books for a client: upload, plan, names, reading, download and refusals."""

import asyncio
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.engine.engine import SELF_TEST
from api.engine.queue import SpeechStream
from extras.books.uploads.book_store import UploadedBook
from extras.books.uploads.part import Library
from tests.api.conftest import Running, running, settings_in
from tests.api.heard import refused
from tests.api.sounds import file_of, speech, upload
from tests.extras.books.uploads.fake_reader import KEY, WAV
from tests.xtts.voices.adapters import exported_adapter
from xtts.voices.base_models import DEMO
from xtts.voices.files.unpacking import ADAPTERS_FOLDER

TEXT = b"Chapter 1\n\nThe ship left the port. Nobody had seen Qxyz.\n"


class Book:
    """A book uploaded to a service."""

    def __init__(self, service: Running, name: str = "A Small Book.txt") -> None:
        self.service = service
        answer = service.client.post("/v1/books", params={"name": name}, content=TEXT)
        assert answer.status_code == 201, answer.text
        self.id = str(answer.json()["id"])

    @property
    def folder(self) -> Path:
        return self.service.state.part(Library).books.folder / self.id

    def ask(self, method: str, path: str = "", **more: Any) -> httpx.Response:
        return self.service.client.request(method, f"/v1/books/{self.id}{path}", **more)

    def details(self) -> dict[str, Any]:
        answer = self.ask("GET")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def ended(self) -> dict[str, Any]:
        states = ("queued", "running")
        self.service.wait_until(lambda: self.details()["reading"]["state"] not in states, 200)
        return self.details()

    def read(self, **options: Any) -> dict[str, Any]:
        answer = self.ask("POST", "/reading", json=options)
        assert answer.status_code == 202, answer.text
        return self.ended()

    def given(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "given.json").read_text()))

    def hanging(self) -> None:
        """Starts a reading and waits for its first progress report."""
        self.ended()
        assert self.ask("POST", "/reading", json={}).status_code == 202
        self.service.wait_until(lambda: "25.0 %" in self.details()["reading"]["told"], 60)


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_READER", "hang")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """For tests that do not change the books of other tests."""
    with running(settings_in(tmp_path_factory.mktemp("books"))) as found:
        yield found


def test_a_book_lives_from_upload_to_deletion(shared):
    book = Book(shared)
    assert book.id == "a-small-book"
    planned = book.ended()
    assert planned["reading"]["state"] == "done" and planned["reading"]["plan_only"]
    assert [row["title"] for row in planned["plan"]["chapters"]] == ["One", "Two"]
    assert planned["plan"]["names"] == [{"word": "Qxyz", "count": 3, "said": ""}]
    (sample,) = planned["plan"]["samples"]
    assert shared.client.get(sample["sound"]).content == WAV
    assert planned["files"] == [] and planned["report"] is None
    assert "--called=A Small Book.txt" in book.given()["others"]
    names = {"Qxyz": "kicks us", "port": " "}
    assert book.ask("PUT", "/names", json={"names": names}).json() == {"names": {"Qxyz": "kicks us"}}
    found = book.read(
        chapters="1-2", formats=["mp3", "m4b"], captions=["srt"], retakes=3, seed=7, again=[KEY]
    )
    assert found["reading"]["state"] == "done" and found["progress"] is None
    given = book.given()
    assert given["pronunciations"] == "Qxyz = kicks us\n" and given["spec"]["name"] == "demo"
    assert "reference" not in given["spec"]
    assert {"--chapters=1-2", "--captions=srt", "--retakes=3", "--seed=7", f"--again={KEY}"} <= set(
        given["others"]
    )
    assert found["reading"]["plan_only"] is False
    assert found["plan"]["names"][0]["said"] == "kicks us"
    assert found["report"]["worst"][0]["key"] == KEY and found["report"]["faulty"] == 1
    files = {row["name"]: row for row in found["files"]}
    assert set(files) == {"01 One.m4b", "01 One.mp3", "report.html"}
    answer = shared.client.get(files["01 One.m4b"]["address"], headers={"Range": "bytes=0-3"})
    assert answer.status_code == 206 and answer.content == b"RIFF"
    assert files["01 One.m4b"]["address"] == f"/v1/books/{book.id}/files/01%20One.m4b"
    for name, media_type in (("01 One.m4b", "audio/mp4"), ("01 One.mp3", "audio/mpeg")):
        saved = shared.client.get(files[name]["address"])
        assert saved.headers["content-type"] == media_type
        assert "attachment" in saved.headers["content-disposition"]
    report = shared.client.get(files["report.html"]["address"])
    # It is downloaded, never shown as a page of this service.
    assert "attachment" in report.headers["content-disposition"]
    assert report.headers["content-type"] == "application/octet-stream"
    (row,) = shared.client.get("/v1/books").json()["books"]
    assert (row["id"], row["title"], row["state"]) == (book.id, "A Small Book", "done")
    assert row["plan_only"] is False
    assert book.ask("DELETE").status_code == 204 and book.ask("GET").status_code == 404
    left = {path.name for path in shared.state.part(Library).books.folder.rglob("*")}
    assert left == {".reading.lock", ".lock"}


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("book.pdf", TEXT, "not_a_book"),
        ("book", TEXT, "not_a_book"),
        ("book.txt", b"", "not_a_book"),
        ("\x00\x01", TEXT, "no_name"),
    ],
)
def test_what_is_no_book_is_refused_and_leaves_nothing(shared, name, content, code):
    answer = shared.client.post("/v1/books", params={"name": name}, content=content)
    assert refused(answer) == (422, code)
    assert not list(shared.state.part(Library).books.folder.glob(".arriving-*"))


def test_what_is_wrong_with_a_request_is_told(shared):
    book = Book(shared, "Wrong.md")
    book.ended()
    for body in ({"chapters": "one"}, {"retakes": 10}, {"formats": ["ogg"]}, {"again": ["x"]}, {"other": 1}):
        assert refused(book.ask("POST", "/reading", json=body)) == (422, "invalid_request")
    assert refused(book.ask("POST", "/reading", json={"voice": "nobody"})) == (404, "no_voice")
    for names in (
        {"a=b": "c"},
        {"a\nb": "c"},
        {"a": "c\nd"},
        {"a": "/NO SUCH/"},
        {"[pt]": "x"},
        {"a\u2028b": "c"},
        {"a": "c\x85d"},
        {"a\x0bb": "c"},
    ):
        answer = book.ask("PUT", "/names", json={"names": names})
        assert refused(answer) == (422, "invalid_request"), names
    # Every second chapter of the longest book.
    chapters = ",".join(map(str, range(1, 5_001, 2)))
    assert book.read(chapters=chapters)["report"]["chapters"] == [1]
    assert f"--chapters={chapters}" in book.given()["others"]
    for path in ("/files/plan.json", "/files/..%2fbook.json", f"/sentences/{'0' * 40}.wav"):
        assert book.ask("GET", path).status_code == 404
    book.ask("DELETE")


def test_an_uploaded_voice_reads_on_this_machine(shared, monkeypatch):
    """The voice is found as in /v1/audio/speech; the served one is `default`. A cluster is not
    used: it would not pause during speech."""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.7:6379")
    voice = upload(shared, file_of(speech())).json()["id"]
    book = Book(shared, "Voices.txt")
    book.ended()
    assert book.read(voice=voice)["reading"]["state"] == "done"
    kept = shared.state.voices.reference_path(shared.state.voices.get(voice))
    given = book.given()
    assert given["spec"]["reference"] == str(kept) and given["steps"] == "Steps"
    book.ask("DELETE")


def test_an_adapter_reads_with_the_weights_in_its_folder(shared):
    folder = exported_adapter(
        shared.state.settings.voices_dir / ADAPTERS_FOLDER / "Ben", DEMO, 1, base_sha256="0" * 64
    )
    shared.wait_until(lambda: "Ben" in shared.state.speakers)
    book = Book(shared, "Adapters.txt")
    book.ended()
    assert book.read(voice="ben")["reading"]["state"] == "done"
    spec = book.given()["spec"]
    assert spec["name"] == str(folder) and "reference" not in spec
    book.ask("DELETE")
    shutil.rmtree(folder)


def test_books_may_not_take_more_than_they_may(shared, monkeypatch):
    monkeypatch.setattr("extras.books.uploads.book_store.MAX_BOOKS", 0)
    answer = shared.client.post("/v1/books", params={"name": "a.txt"}, content=TEXT)
    assert refused(answer) == (409, "too_many_books")
    monkeypatch.setattr("extras.books.uploads.book_store.Books.used_bytes", lambda _: 21 * 10**9)
    answer = shared.client.post("/v1/books", params={"name": "a.txt"}, content=TEXT)
    assert refused(answer) == (507, "no_space") and "BOOKS_MAX_GB" in answer.json()["detail"]


def test_on_a_full_disk_no_book_is_taken_or_read(shared, monkeypatch):
    book = Book(shared, "Full.txt")
    book.ended()
    monkeypatch.setattr("api.arriving.free_bytes", lambda _: 1_000_000)
    before = {path.name for path in shared.state.part(Library).books.folder.iterdir()}
    answer = shared.client.post("/v1/books", params={"name": "a.txt"}, content=TEXT)
    assert refused(answer) == (507, "no_space")
    assert "1,000,000 bytes left" in answer.json()["detail"]
    assert refused(book.ask("POST", "/reading", json={})) == (507, "no_space")
    assert {path.name for path in shared.state.part(Library).books.folder.iterdir()} == before
    monkeypatch.undo()
    book.ask("DELETE")


@pytest.mark.parametrize(
    ("how", "said"), [("refuse", "protection (DRM)"), ("crash", "ended with exit code 1")]
)
def test_a_reading_that_fails_says_why(service, monkeypatch, how, said):
    monkeypatch.setenv("FAKE_READER", how)
    found = Book(service).ended()
    assert found["reading"]["state"] == "failed" and said in found["reading"]["message"]
    assert str(service.state.part(Library).books.folder) not in json.dumps(found)


@pytest.mark.usefixtures("hangs")
def test_it_is_followed_stopped_and_continued(service):
    book = Book(service)
    book.hanging()
    told = book.details()
    assert told["progress"] == {
        "chapter": 1,
        "share": 0.25,
        "seconds_left": 90.0,
        "audio_seconds_a_second": 2.5,
    }
    assert refused(book.ask("PUT", "/names", json={"names": {}})) == (409, "being_read")
    assert refused(book.ask("POST", "/reading", json={})) == (409, "being_read")
    other = Book(service)
    assert other.details()["reading"]["ahead"] == 1
    assert other.ask("DELETE", "/reading").json()["state"] == "stopped"
    stopped = book.ask("DELETE", "/reading").json()
    assert stopped["state"] == "stopped" and "continue" in stopped["message"]
    assert book.read()["reading"]["state"] == "done"


@pytest.mark.usefixtures("hangs")
def test_it_stands_still_while_somebody_speaks(service, monkeypatch):
    monkeypatch.setattr("extras.common.work_queue._QUIET_SECONDS", 0.3)
    book = Book(service)
    book.hanging()
    steps = book.folder / "spoken/steps"
    waiting = service.state.engine.requests
    speaking, unread = waiting.speaking, SpeechStream(SELF_TEST, name="unread", is_held=True)
    waiting.queue.append(unread)  # its caller does not read, so it does not count as waiting
    service.wait_until(lambda: not book.details()["reading"]["paused"], 30)
    speaking["somebody"] = SpeechStream(SELF_TEST, name="somebody")
    try:
        service.wait_until(lambda: book.details()["reading"]["paused"], 30)
        time.sleep(0.1)
        before = steps.stat().st_size
        time.sleep(0.5)
        assert steps.stat().st_size == before
    finally:
        speaking.pop("somebody")
        waiting.queue.remove(unread)
    service.wait_until(lambda: steps.stat().st_size > before, 30)
    assert book.ask("DELETE").status_code == 204  # also while it is paused


@pytest.mark.usefixtures("hangs")
def test_a_reading_ends_where_it_has_used_up_the_room(service, monkeypatch):
    monkeypatch.setattr("extras.common.work_queue._CHECKS_UNTIL_ROOM", 2)
    book = Book(service)
    book.hanging()
    monkeypatch.setattr("extras.books.uploads.book_store.Books.used_bytes", lambda _: 21 * 10**9)
    found = book.ended()["reading"]
    assert found["state"] == "failed" and "BOOKS_MAX_GB" in found["message"]


@pytest.mark.usefixtures("hangs")
def test_a_book_that_another_replica_deletes_does_not_come_back(service):
    book = Book(service)
    book.hanging()
    (book.folder / "book.json").unlink()
    queue = service.state.part(Library).readings
    asyncio.run_coroutine_threadsafe(
        queue.stop(UploadedBook(book.folder, book.id, "", "")), service.state.loop
    ).result(30)
    assert not book.folder.exists()


def test_a_reader_that_loads_its_voice_is_not_stopped(service, monkeypatch):
    """It may hold locks that speech waits for."""
    monkeypatch.setenv("FAKE_READER", "load")
    speaking = service.state.engine.requests.speaking
    speaking["somebody"] = SpeechStream(SELF_TEST, name="somebody")
    try:
        book = Book(service)  # starts the reader, for its plan
        steps = book.folder / "spoken/steps"
        service.wait_until(steps.is_file, 30)
        before = steps.stat().st_size
        service.wait_until(lambda: steps.stat().st_size > before + 20, 30)
        assert not book.details()["reading"]["paused"]
    finally:
        speaking.pop("somebody")
    book.ask("DELETE")


@pytest.mark.slow
@pytest.mark.usefixtures("hangs")
def test_a_service_that_ends_leaves_its_reading_to_the_next(tmp_path):
    with running(settings_in(tmp_path)) as service:
        book = Book(service)
        book.hanging()
        running_now = service.state.part(Library).readings._running
        assert running_now is not None and running_now[1] is not None
        child = running_now[1].pid
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    with running(settings_in(tmp_path)) as book.service:
        assert book.ended()["reading"]["state"] == "done"


@pytest.mark.slow
def test_a_real_child_reads_a_book_with_the_served_voice(real):
    """Planned and spoken with the embedded voice, as by `xtts read`."""
    real.state.part(Library).readings.module = "extras.books.book_child"
    text = b"Chapter 1\n\nThe ship left the port in the morning. Nobody had seen the captain.\n"
    answer = real.client.post("/v1/books", params={"name": "sea.txt"}, content=text)
    book = Book.__new__(Book)
    book.service, book.id = real, answer.json()["id"]
    planned = book.ended()
    assert planned["reading"]["state"] == "done", planned["reading"]
    assert planned["plan"]["samples"] and planned["plan"]["rate"] > 0
    found = book.read(formats=["flac"], captions=["json"])
    assert found["reading"]["state"] == "done", found["reading"]
    assert {row["name"] for row in found["files"]} >= {"01 Chapter 1.flac", "01 Chapter 1.json"}
    assert found["report"]["sentences"] == 3  # including the heading
    book.ask("DELETE")


def test_the_types_of_a_books_files_are_documented(service):
    document = service.client.get("/openapi.json").json()
    found = document["paths"]["/v1/books/{book}/files/{file}"]["get"]["responses"]
    types = {"application/octet-stream", "audio/mpeg", "audio/mp4", "text/vtt", "application/json"}
    assert types <= found["200"]["content"].keys() & found["206"]["content"].keys()
