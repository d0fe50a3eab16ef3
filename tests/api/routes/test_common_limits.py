"""What every store of the service has in common, in one table: voices, datasets, books, jobs of
training. A new one is a row of `STORES`."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from extras.studio.part import Studio
from tests.api.conftest import Running, running, settings_in
from tests.api.heard import refusal
from tests.api.sounds import file_of, speech, upload
from tests.extras.studio.datasets.calls import with_tape

APART, COMPOSED = "E\u0301lodie", "\u00c9lodie"
FULL = OSError(errno.ENOSPC, "No space left on device")


@dataclass(frozen=True)
class Store:
    """path: of its list; word: in codes; add: makes one of a name; folder: where it is kept; body:
    the path below which one takes a body, and how large that may be."""

    path: str
    word: str
    add: Callable[[Running, str], httpx.Response]
    folder: str


def add_voice(service: Running, name: str) -> httpx.Response:
    return upload(service, file_of(speech()), name=name)


def add_dataset(service: Running, name: str) -> httpx.Response:
    return service.client.post("/v1/datasets", json={"name": name, "language": "en"})


def add_book(service: Running, name: str) -> httpx.Response:
    return service.client.post(
        "/v1/books", params={"name": f"{name}.txt"}, content=b"One two three."
    )


def add_job(service: Running, name: str) -> httpx.Response:
    dataset = service.parts.part(Studio).datasets.all() or [None]
    if dataset[0] is None:
        add_dataset(service, "spoken")
        dataset = service.parts.part(Studio).datasets.all()
        clips = dataset[0].clips
        (clips / "wavs").mkdir(parents=True)
        (clips / "wavs" / "a.wav").write_bytes(file_of(speech()))
        (clips / "metadata.csv").write_text("a|one two three\n")
    body = {"run": "my-run", "dataset": dataset[0].id, "settings": {}}
    return service.client.post("/v1/trainings", json=body)


VOICES = Store("/v1/voices", "voice", add_voice, "voices")
DATASETS = Store("/v1/datasets", "dataset", add_dataset, "datasets")
BOOKS = Store("/v1/books", "book", add_book, "books")
JOBS = Store("/v1/trainings", "training", add_job, "queue")
STORES = [VOICES, DATASETS, BOOKS, JOBS]
every_store = pytest.mark.parametrize("store", STORES, ids=lambda one: one.word)


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """For what leaves nothing behind."""
    with running(settings_in(tmp_path_factory.mktemp("common"))) as found:
        yield found


def left_in(folder: Path) -> set[str]:
    """What is kept in a folder, without its lock."""
    if not folder.is_dir():
        return set()
    return {str(one.relative_to(folder)) for one in folder.rglob("*") if one.name != ".lock"}


@every_store
def test_what_is_not_there_is_404_for_every_method(common, store):
    gone = f"{store.path}/0123456789ab"
    assert refusal(common.client.get(gone))[:2] == (404, f"no_{store.word}")
    if store is not JOBS:  # a job is cancelled and stays
        assert refusal(common.client.delete(gone))[:2] == (404, f"no_{store.word}")


@every_store
def test_a_full_disk_is_507_and_leaves_nothing_behind(service, tmp_path, monkeypatch, store):
    """While the record is written, the last thing of all; then it is accepted as before."""
    if store is JOBS:
        add_job(service, "x")
        shutil.rmtree(tmp_path / "queue")
    folder = tmp_path / store.folder
    before = left_in(folder)

    def full(*_: Any) -> None:
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        patch.setattr(Path, "replace", full)
        answer = store.add(service, "one")
    assert answer.status_code == 507, answer.text
    assert refusal(answer)[0] == 507 and str(tmp_path) not in answer.text
    assert left_in(folder) - {store.folder} == before
    assert store.add(service, "one").status_code in (201, 202), "afterwards it is kept"


@every_store
def test_a_folder_that_cannot_be_written_is_507(service, tmp_path, store):
    if store is JOBS:
        add_job(service, "x")
        shutil.rmtree(tmp_path / "queue")
    folder = tmp_path / store.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_bytes(b"a file stands in its place")
    answer = store.add(service, "one")
    assert refusal(answer)[0] == 507 and str(tmp_path) not in answer.text


@pytest.mark.parametrize("store", [DATASETS, BOOKS], ids=lambda one: one.word)
def test_the_last_gigabyte_stays_free(service, monkeypatch, store):
    """Books and datasets grow; voices and jobs are small."""
    made = store.add(service, "one").json()
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=(1 << 30) - 1))
    if store is BOOKS:
        answer = store.add(service, "two")
    else:
        path = f"/v1/datasets/{made['id']}/recordings"
        answer = service.client.post(path, json={"name": "tape.wav", "bytes": 1000})
    assert refusal(answer)[:2] == (507, "no_space")


@pytest.mark.parametrize("store", [VOICES, DATASETS, BOOKS], ids=lambda one: one.word)
def test_a_name_is_kept_with_its_letters_composed(common, store):
    made = store.add(common, APART).json()
    assert made["name"].removesuffix(".txt") == COMPOSED
    if store is VOICES:
        named = common.client.patch(f"/v1/voices/{made['id']}", json={"name": f"{APART} 2"})
        assert named.json()["name"] == f"{COMPOSED} 2"


@every_store
def test_a_body_above_the_limit_is_413_and_keeps_nothing(common, store):
    before = count_of(common, store)
    content = bytes((128 << 20) + 1) if store is BOOKS else bytes(21 << 20)
    answer = common.client.post(store.path, content=content, params={"name": "a.txt"})
    assert refusal(answer)[:2] == (413, "too_large")
    assert count_of(common, store) == before


def count_of(service: Running, store: Store) -> int:
    (rows,) = (one for one in service.client.get(store.path).json().values() if type(one) is list)
    return len(rows)


def test_what_may_be_another_thing_next_time_is_not_stored(common):
    """A clip, a dataset's table, a book's file and sentence, a voice's recording: their addresses
    stay, their content not."""
    voice, book = add_voice(common, "Anna").json(), add_book(common, "read").json()
    cut = with_tape(common, "cut")
    cut.cut()
    clip, address = cut.clips()[0], f"/v1/books/{book['id']}"
    common.wait_until(lambda: bool(common.client.get(address).json()["plan"]))
    sample = common.client.get(address).json()["plan"]["samples"][0]
    paths = [
        voice["preview"], clip["sound"],
        f"/v1/datasets/{cut.id}/account.csv", sample["sound"],
    ]  # fmt: skip
    for path in paths:
        answer = common.client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "no-store", path
