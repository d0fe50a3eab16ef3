"""What all stores of the service have in common, in one table: voices, and the extras' stores.

A new one is a row of `STORES` in `tests/extras/EXTRA/stores.py`.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.heard import refusal
from tests.api.stores import VOICES, Store
from tests.installed import tables

APART, COMPOSED = "E\u0301lodie", "\u00c9lodie"
FULL = OSError(errno.ENOSPC, "No space left on device")
STORES = [VOICES, *(store for table in tables("stores") for store in table.STORES)]


def each(stores: list[Store]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("store", stores, ids=lambda store: store.word)


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service for tests that leave no data."""
    with running(settings_in(tmp_path_factory.mktemp("common"))) as service:
        yield service


def left_in(folder: Path) -> set[str]:
    """The files and folders in a folder, except locks, which stay."""
    if not folder.is_dir():
        return set()
    every = folder.rglob("*")
    return {str(path.relative_to(folder)) for path in every if not path.name.endswith(".lock")}


@each(STORES)
def test_what_is_not_there_is_404_for_every_method(common, store):
    gone = f"{store.path}/0123456789ab"
    assert refusal(common.client.get(gone))[:2] == (404, f"no_{store.word}")
    if store.deletes:
        assert refusal(common.client.delete(gone))[:2] == (404, f"no_{store.word}")


@each(STORES)
def test_a_full_disk_is_507_and_leaves_nothing_behind(service, tmp_path, monkeypatch, store):
    """While the record is written, the last step; afterwards a retry is accepted."""
    store.prepare(service)
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


@each(STORES)
def test_a_folder_that_cannot_be_written_is_507(service, tmp_path, store):
    store.prepare(service)
    folder = tmp_path / store.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_bytes(b"a file stands in its place")
    answer = store.add(service, "one")
    assert refusal(answer)[0] == 507 and str(tmp_path) not in answer.text


@each([store for store in STORES if store.grow])
def test_the_last_gigabyte_stays_free(service, monkeypatch, store):
    assert store.add(service, "one").is_success
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=(1 << 30) - 1))
    assert refusal(store.grow(service))[:2] == (507, "no_space")


@each([store for store in STORES if store.named])
def test_a_name_is_kept_with_its_letters_composed(common, store):
    made = store.add(common, APART).json()
    assert made["name"].removesuffix(".txt") == COMPOSED


def test_a_new_name_of_a_voice_is_kept_so_too(common):
    made = VOICES.add(common, "Anna").json()
    named = common.client.patch(f"/v1/voices/{made['id']}", json={"name": f"{APART} 2"})
    assert named.json()["name"] == f"{COMPOSED} 2"


@each(STORES)
def test_a_body_above_the_limit_is_413_and_keeps_nothing(common, store):
    before = count_of(common, store)
    content = bytes(store.max_bytes)
    answer = common.client.post(store.path, content=content, params={"name": "a.txt"})
    assert refusal(answer)[:2] == (413, "too_large")
    assert count_of(common, store) == before


def count_of(service: Running, store: Store) -> int:
    (rows,) = (value for value in service.client.get(store.path).json().values() if type(value) is list)
    return len(rows)


@each([store for store in STORES if store.changing])
def test_what_may_be_another_thing_next_time_is_not_stored(common, store):
    """The address of a sound or a table is constant, but its content is not."""
    for path in store.changing(common):
        answer = common.client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "no-store", path
