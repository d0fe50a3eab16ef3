"""Runs as folders: the space that a deletion frees, protected runs, and the export as a zip."""

import contextlib
import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import httpx
import pytest

from api.runs.exports import MAX_COPIES, Exports
from machine.storage import locks
from machine.storage.files import SPACE_MARGIN
from tests.api.conftest import Running, settings_in
from tests.api.heard import refused
from tests.api.raw import connected, request
from tests.api.run_folders import write_epoch


@pytest.fixture
def run(service: Running, output: Path) -> Path:
    """A run of the training queue."""
    folder = output / "runs" / "ana"
    write_epoch(folder, 7)

    def whole() -> bool:
        run = service.state.follower.runs.get("ana")
        return run is not None and 7 in run.epochs and run.epochs[7].checkpoint is not None

    service.wait_until(whole)
    return folder


def delete(service: Running, name: str = "ana") -> httpx.Response:
    return service.client.delete(f"/v1/runs/{name}")


def test_a_run_that_disappears_while_its_size_is_read_is_told_as_it_was(service, run, monkeypatch):
    def sizes(folder: Path) -> tuple[int, int]:
        del service.state.follower.runs["ana"]
        return 1, 1

    monkeypatch.setattr("api.routes.runs.exports.folder_sizes", sizes)
    assert service.client.get("/v1/runs/ana").json()["run"]["id"] == "ana"


def test_what_a_deletion_frees_is_told_first(service, run):
    told = service.client.get("/v1/runs/ana").json()
    size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert told["bytes"] == told["frees"] == size and told["why_kept"] == ""
    assert told["run"]["id"] == "ana" and told["run"]["kind"] == "named"
    checkpoint = run / "checkpoints" / "checkpoint_epoch_7.pt"
    os.link(checkpoint, run.parents[1] / "kept.pt")
    told = service.client.get("/v1/runs/ana").json()
    assert told["bytes"] - told["frees"] == checkpoint.stat().st_size


def test_a_run_is_deleted_with_what_an_earlier_deletion_left(service, run):
    rest = run.parent / ".deleted-1234"
    (rest / "checkpoints").mkdir(parents=True)
    answer = delete(service)
    assert answer.status_code == 204, answer.text
    assert list(run.parent.iterdir()) == []
    assert "ana" not in {run["id"] for run in service.client.get("/v1/runs").json()["runs"]}
    assert delete(service).json()["code"] == "no_run"


def test_an_archived_run_can_be_deleted(service, output):
    folder = output / "archive" / "20260101T000000Z"
    write_epoch(folder, 5)
    service.wait_until(lambda: folder.name in service.state.follower.runs)
    assert delete(service, folder.name).status_code == 204
    assert not folder.exists()


def test_the_current_run_is_never_deleted(service, output):
    answer = delete(service, "current")
    assert (answer.status_code, answer.json()["code"]) == (409, "run_in_use")
    assert (output / "checkpoints").is_dir()


def test_what_is_served_or_promoted_is_never_deleted(service, run):
    service.client.post("/v1/runs/ana/epochs/7/promote").raise_for_status()
    answer = delete(service)
    assert answer.status_code == 409 and "served" in answer.json()["detail"]
    assert "served" in service.client.get("/v1/runs/ana").json()["why_kept"]
    assert run.is_dir()
    service.client.delete("/v1/promotion").raise_for_status()
    answer = delete(service)
    assert answer.status_code == 204, answer.text


def test_what_is_trained_is_never_deleted(service, run):
    with locks.exclusive(run / ".lock"):
        answer = delete(service)
        assert answer.status_code == 409 and "trained" in answer.json()["detail"]


def test_an_export_is_a_zip_with_the_bundle_its_licence_and_a_card(service, run):
    answer = service.client.post("/v1/runs/ana/export")
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Disposition"] == 'attachment; filename="ana.zip"'
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    assert set(archive.namelist()) == {"ana/CARD.md", "ana/bundle.json", "ana/model.pth"}
    assert json.loads(archive.read("ana/bundle.json"))["licence"] == "CPML"
    card = archive.read("ana/CARD.md").decode()
    assert "Licence: CPML" in card and "Base model: demo" in card and "--voice ana" in card
    exports = service.state.settings.voices_dir / ".exports"
    service.wait_until(lambda: list(exports.iterdir()) == [])


def copies(service: Running) -> list[Path]:
    folder = service.state.settings.voices_dir / ".exports"
    return list(folder.iterdir()) if folder.is_dir() else []


EXPORT = request("POST /v1/runs/ana/export")


def test_an_export_whose_client_leaves_while_it_is_made_goes_at_once(service, run, monkeypatch):
    monkeypatch.setenv("FAKE_TRAIN", "wait")
    for _ in range(2):
        with connected(service.port, EXPORT):
            service.wait_until(lambda: any(copy.glob("ana") for copy in copies(service)), 20)
        service.wait_until(lambda: copies(service) == [], 20)


def test_an_export_whose_client_leaves_while_it_is_sent_goes_at_once(service, run, monkeypatch):
    monkeypatch.setenv("FAKE_TRAIN_BYTES", str(64 << 20))
    with connected(service.port, EXPORT) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert len(copies(service)) == 1
    service.wait_until(lambda: copies(service) == [], 20)


def test_the_copies_that_slow_readers_hold_are_bounded(service, run, monkeypatch):
    monkeypatch.setenv("FAKE_TRAIN_BYTES", str(64 << 20))
    with contextlib.ExitStack() as held:
        for _ in range(MAX_COPIES):
            connection = held.enter_context(connected(service.port, EXPORT))
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        answer = service.client.post("/v1/runs/ana/export")
        assert refused(answer) == (503, "export_busy") and "downloaded" in answer.text
        assert len(copies(service)) == MAX_COPIES
    service.wait_until(lambda: copies(service) == [], 20)


def test_an_export_asks_for_room_first(service, run, monkeypatch):
    checkpoint = run / "checkpoints" / "checkpoint_epoch_7.pt"
    needed = int(checkpoint.stat().st_size * SPACE_MARGIN)
    usage = shutil.disk_usage(run)._replace(free=needed - 1)
    monkeypatch.setattr("machine.storage.files.shutil.disk_usage", lambda _folder: usage)
    assert refused(service.client.post("/v1/runs/ana/export")) == (507, "no_space")
    assert copies(service) == []
    usage = usage._replace(free=needed)
    assert service.client.post("/v1/runs/ana/export").status_code == 200


def test_the_copies_of_a_killed_service_go_at_the_next_start_and_those_in_use_stay(tmp_path):
    exports = Exports(settings_in(tmp_path))
    left, used = (tmp_path / "voices" / ".exports" / name for name in ("left", "used"))
    for folder in (left, used):
        folder.mkdir(parents=True)
        (folder / "model.pth").write_bytes(b"x")
    (left / ".lock").touch()
    with locks.exclusive(used / ".lock"):
        exports.remove_leftovers()
        assert not left.exists() and (used / "model.pth").is_file()


def test_a_run_without_a_voice_is_a_409_without_paths(service, run, monkeypatch):
    monkeypatch.setenv("FAKE_TRAIN", "refuse")
    answer = service.client.post("/v1/runs/ana/export")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_export")
    assert "/some/where" not in answer.text
    assert list((service.state.settings.voices_dir / ".exports").iterdir()) == []
    shutil.rmtree(run)
