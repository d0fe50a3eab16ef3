"""Runs on the page, with the real service: export, deletion, blind comparison of two runs."""

import asyncio
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.conftest import PATIENT, Running, running, settings_in
from tests.api.page import desk
from tests.api.page.conftest import Open
from tests.api.page.desk import LOOKS, faults, says, too_small, until
from tests.api.run_folders import candidate, write_epoch, write_evaluated
from xtts.voices.run_folder import RunFolder

pytestmark = pytest.mark.system
LIST = "document.getElementById('run-list').textContent"


def write_run(output: Path, name: str, epochs: int, best: int) -> Path:
    """Writes an evaluated run of the training queue."""
    folder = output / "runs" / name
    for number in range(1, epochs + 1):
        write_epoch(folder, number, content=f"{name} {number}".encode() * 1000)
    judged = [candidate(folder, "epoch", number, 1.0) for number in range(1, epochs + 1)]
    write_evaluated(folder, judged[best - 1], *judged)
    return folder


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A service with two runs of the queue, neither of them served."""
    monkeypatch.setattr("api.runs.following.POLL_SECONDS", 0.1)
    write_run(tmp_path / "output", "ana", 1, best=1)
    write_run(tmp_path / "output", "ben", 2, best=2)
    with running(settings_in(tmp_path, voice="demo"), limits=PATIENT) as opened:
        yield opened


def opened(service: Running, open_page: Open, **options: Any) -> Any:
    """The page once it shows the size of both runs."""
    page = open_page(service.address, view="compare", **options)
    until(page, f"({LIST}.match(/on disk/g) ?? []).length === 2")
    return page


def pressed(page: Any, button: str) -> None:
    page.focus(f"[aria-label='{button}']")
    page.keyboard.press("Enter")


def test_a_run_is_deleted_by_keyboard_after_it_is_told_what_that_frees(service, open_page):
    page = opened(service, open_page)
    folder = service.state.settings.output_dir / "runs/ben"
    told = page.text_content("[data-run='ben']")
    assert "2 epochs, 3.5 minutes; " in told and "It speaks best." in told
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert f"{size / 1e3 + 0.5:.0f} kB on disk, a deletion frees" in told
    pressed(page, "Delete ben")
    assert folder.is_dir()
    page.keyboard.press("Enter")  # Confirms.
    until(page, "document.querySelectorAll('#run-list > li').length === 1")
    assert page.evaluate("document.activeElement.id") == "runs" and not folder.exists()


def test_a_run_that_is_being_deleted_is_not_measured_again(service, open_page, monkeypatch):
    """It would be missing, and the browser would log an error."""
    page = opened(service, open_page)
    remove, asked = service.state.follower.remove, list[str]()

    async def slowly(run: str) -> None:
        RunFolder(service.state.settings.output_dir / "runs" / run).checkpoint_path(1).unlink()
        await asyncio.sleep(1.5)  # meanwhile it is listed with one epoch fewer
        await remove(run)

    monkeypatch.setattr(service.state.follower, "remove", slowly)
    page.on("request", lambda request: asked.append(f"{request.method} {urlsplit(request.url).path}"))
    pressed(page, "Delete ben")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('#run-list > li').length === 1")
    assert "GET /v1/runs" in asked[asked.index("DELETE /v1/runs/ben") :]
    assert "GET /v1/runs/ben" not in asked


def test_what_is_served_cannot_be_deleted(service, open_page):
    page = opened(service, open_page)
    pressed(page, "Listen to epoch 1")
    page.click("tr[data-candidate='epoch_1'] button:has-text('Serve')")
    until(page, f"{LIST}.includes('It cannot be deleted. It is served.')")
    assert "frees" not in page.text_content("[data-run='ana']")
    assert "frees" in page.text_content("[data-run='ben']")
    assert page.is_hidden("[data-run='ana'] button:has-text('Delete')")


def test_a_run_is_exported_as_a_zip_file(service, open_page, monkeypatch):
    page = opened(service, open_page)
    with page.expect_download() as got:
        pressed(page, "Export ben")
    assert got.value.suggested_filename == "ben.zip"
    with zipfile.ZipFile(io.BytesIO(Path(got.value.path()).read_bytes())) as archive:
        assert archive.testzip() is None
        assert {"ben/bundle.json", "ben/CARD.md"} <= set(archive.namelist())
    until(page, "!document.querySelector('[aria-label=\"Export ben\"]').disabled")
    monkeypatch.setenv("FAKE_TRAIN", "refuse")
    page.provoked.append("409")
    pressed(page, "Export ana")
    page.wait_for_selector("#runs-fault:not([hidden])")
    assert "could not be exported" in page.text_content("#runs-fault")


def test_a_run_is_saved_as_a_voice_file(service, open_page):
    page = opened(service, open_page)
    with page.expect_download() as got:
        pressed(page, "Save as file ben")
    assert got.value.suggested_filename == "ben.sotaque"
    assert Path(got.value.path()).stat().st_size > 0
    until(page, "!document.querySelector('[aria-label=\"Save as file ben\"]').disabled")


def test_two_runs_are_compared_blind(service, open_page):
    page = opened(service, open_page)
    pressed(page, "Listen ben")
    says(page, "desk-title", "Epoch 2 and the base")
    page.select_option("#against", label="Epoch 1 of ana")
    until(page, desk.WORKS)
    says(page, "desk-title", "Epoch 2 and epoch 1 of ana")
    page.check("#blind")
    says(page, "desk-title", "Blind comparison")
    until(page, f"{desk.WORKS} && !document.getElementById('play-reference').disabled")
    desk.play(page, "output", 0.1)
    page.keyboard.press("x")
    page.keyboard.press("2")
    until(page, "document.getElementById('judged-info').textContent.startsWith('Noted: B')")
    page.keyboard.press("r")
    until(page, "document.getElementById('judged-info').textContent.includes('epoch 1 of ana')")
    page.click("#notes summary")
    assert "Epoch 1 of ana against epoch 2: " in page.text_content("#tally")
    page.keyboard.press("n")  # The second sentence is the last one kept.
    says(page, "desk-text", "The second one.")


@LOOKS
def test_it_can_be_read_and_touched_at_every_width(service, open_page, scheme, width):
    page = opened(
        service,
        open_page,
        color_scheme=scheme,
        has_touch=width < 400,
        viewport={"width": width, "height": 844},
    )
    assert faults(page, width, 60) == []
    if width < 400:
        assert too_small(page, "#runs :is(button, input, select, summary)") == []
