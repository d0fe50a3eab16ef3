"""Runs as folders: the space that a deletion frees, protected runs, and the export as a zip."""

import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import httpx
import pytest

from machine.storage import locks
from tests.api.conftest import Running
from tests.api.run_folders import write_epoch


@pytest.fixture
def run(service: Running, output: Path) -> Path:
    """A run of the training queue."""
    folder = output / "runs" / "ana"
    write_epoch(folder, 7)

    def whole() -> bool:
        found = service.state.follower.runs.get("ana")
        return found is not None and 7 in found.epochs and found.epochs[7].checkpoint is not None

    service.wait_until(whole)
    return folder


def delete(service: Running, name: str = "ana") -> httpx.Response:
    return service.client.delete(f"/v1/runs/{name}")


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
    assert "ana" not in {one["id"] for one in service.client.get("/v1/runs").json()["runs"]}
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


def test_a_run_without_a_voice_is_a_409_without_paths(service, run, monkeypatch):
    monkeypatch.setenv("FAKE_TRAIN", "refuse")
    answer = service.client.post("/v1/runs/ana/export")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_export")
    assert "/some/where" not in answer.text
    assert list((service.state.settings.voices_dir / ".exports").iterdir()) == []
    shutil.rmtree(run)
