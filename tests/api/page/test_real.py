"""The page with the real service and a real training, without doubles.

`python -m train` trains the demo for two epochs, `python -m api` follows the same folder, and the
page is open before the first epoch.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.page import desk
from tests.api.page.conftest import Open
from tests.api.page.desk import until
from tests.api.page.pictures import picture
from tests.ports import free_port

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
LONGEST_SECONDS = 900
# The pictures of docs/page.md show the number of epochs of a default run.
EPOCHS = 4 if "SOTAQUE_PICTURES" in os.environ else 2
# The first of four is pruned.
EARLIER = EPOCHS - 1
# A picture is at most this high, so that the text below it is seen.
HEIGHT = 800
SHOWN = r"""[
  ...new Set([...document.querySelectorAll("tr[data-epoch], tr[data-candidate^='epoch_']")]
    .map((row) => row.dataset.epoch ?? row.dataset.candidate.split("_")[1])
    .map((epoch) => `row ${epoch}`)),
  ...(document.getElementById("training").hidden ? [] : ["training"]),
  ...(/^Epoch 2 of \d, step \d+ of \d+; (about \d+ min|less than a minute) left\.$/
    .test(document.getElementById("progress-info").textContent) ? ["progress"] : []),
  ...(document.getElementById("charts").hidden ? [] : ["curves"]),
]"""


class Service:
    """The API's process, its address and its run folder."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.folder, self.output = folder, folder / "output"
        self.address = f"http://127.0.0.1:{port}"
        self.api = self.started("api", f"--api-port={port}", f"--voices-dir={folder / 'voices'}")

    def started(self, program: str, *options: str) -> "subprocess.Popen[bytes]":
        log = (self.folder / f"{program}.log").open("wb")
        command = [sys.executable, "-m", program, f"--output-dir={self.output}", *options]
        names = ("PATH", "HOME", "LANG", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
        clean = {name: os.environ[name] for name in names if name in os.environ}
        return subprocess.Popen(command, cwd=ROOT, env=clean, stdout=log, stderr=log)

    def train(self) -> "subprocess.Popen[bytes]":
        return self.started(
            "train", f"--runs-dir={self.folder / 'runs'}", f"--num-epochs={EPOCHS}", "--tensorboard=off"
        )

    def said(self, program: str) -> str:
        return (self.folder / f"{program}.log").read_text(encoding="utf-8", errors="replace")

    def asks(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path, timeout=60) as answer:
            return json.load(answer)

    def close(self) -> None:
        self.api.terminate()
        try:
            self.api.wait(60)
        except subprocess.TimeoutExpired:
            self.api.kill()
            self.api.wait()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    started = Service(tmp_path_factory.mktemp("service"))
    try:
        wait(lambda: started.asks("/status")["ready"], started)
        yield started
    finally:
        started.close()


def wait(true: Callable[[], Any], service: Service, seconds: float = LONGEST_SECONDS) -> None:
    end = time.monotonic() + seconds
    while True:
        assert service.api.poll() is None, service.said("api")
        try:
            if true():
                return
        except OSError:
            pass  # It does not listen yet.
        assert time.monotonic() < end, service.said("api")
        time.sleep(0.5)


@pytest.fixture(scope="module")
def trained(service: Service, chromium: Any) -> Iterator[list[tuple[float, str]]]:
    """A page open during the whole training: each text it showed, with the time."""
    context = chromium.new_context()
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda told: faults.append(told.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{service.address}/#/compare")
    page.wait_for_selector("#epochs-empty:not([hidden])")
    training = service.train()
    shown: list[tuple[float, str]] = []
    try:
        end = time.monotonic() + LONGEST_SECONDS
        while training.poll() is None or len({what for _, what in shown}) < 5:
            for what in page.evaluate(SHOWN):
                if what not in [seen for _, seen in shown]:
                    shown.append((training.poll(), what))
            assert time.monotonic() < end, (shown, service.said("train"), service.said("api"))
            page.wait_for_timeout(250)
        assert training.returncode == 0, service.said("train")
        assert faults == []
        put_aside(service)
        yield shown
    finally:
        if training.poll() is None:
            training.terminate()
            training.wait(120)
        context.close()


def put_aside(service: Service) -> None:
    """Hides the evaluation, so the run counts as not evaluated."""
    (service.output / "evaluation.json").rename(service.folder / "evaluation.json")
    wait(lambda: service.asks("/v1/runs")["runs"][0]["evaluation"] is None, service)


@pytest.fixture
def evaluated(trained: Any, service: Service) -> Iterator[Any]:
    """The run with the trainer's evaluation, as /v1/runs returns it."""
    (service.folder / "evaluation.json").rename(service.output / "evaluation.json")
    wait(lambda: service.asks("/v1/runs")["runs"][0]["evaluation"], service)
    yield service.asks("/v1/runs")["runs"][0]["evaluation"]
    put_aside(service)


@pytest.fixture
def page(trained: Any, service: Service, open_page: Open) -> Any:
    """The view that compares after the run, with the newest epoch on its desk."""
    return open_page(service.address, view="compare", ready=desk.DESK)


def test_epochs_and_curves_appear_while_training_runs(trained):
    during = {what for ended, what in trained if ended is None}
    assert {"training", "curves", "progress", "row 1"} <= during
    rows = {f"row {epoch}" for epoch in range(1, EPOCHS + 1)}
    assert {what for _, what in trained} == {"training", "curves", "progress", *rows}


def test_both_players_play_and_promoting_an_epoch_changes_what_speaks(page, service):
    for track in ("output", "reference"):
        desk.play(page, track, 0.3)
    wait(lambda: service.asks("/v1/runs")["served"]["epoch"] == EPOCHS, service)
    page.click(f"tr[data-epoch='{EARLIER}'] button:has-text('Serve')")
    desk.shows_serving(page, EARLIER)
    assert service.asks("/v1/runs")["served"]["epoch"] == EARLIER
    page.click("#follow")
    desk.shows_serving(page, EPOCHS)


def test_the_speak_box_speaks(page):
    desk.say(page, "Good morning, and welcome.")
    until(page, f"{desk.SECONDS} > 0.1")
    until(page, desk.DONE)
    told = page.text_content("#spoken-info")
    assert re.match(r"First sound after \d+\.\d\d s; \d+\.\d s spoken in", told)
    loud = page.evaluate("""(() => {
      const sheet = document.getElementById("sheet-spoken");
      const { data } = sheet.getContext("2d").getImageData(0, 0, sheet.width, sheet.height);
      return new Set(data.filter((_, i) => i % 4 === 0).map((red) => red >> 4)).size;
    })()""")
    assert loud > 6


JUDGED = "#judgement:not([hidden])"


def test_a_run_that_was_evaluated_is_compared_and_heard(evaluated, service, open_page):
    ids = [candidate["id"] for candidate in evaluated["candidates"]]
    assert ids[:1] == ["base"] and {"epoch_1", "epoch_2"} <= set(ids)
    page = open_page(service.address, view="compare", ready=JUDGED)
    until(page, desk.WORKS)
    told = f"{page.text_content('#verdict')} {page.text_content('#verdict-why')}"
    assert told.strip() == evaluated["verdict"]["reason"]
    page.click(f"tr[data-candidate='epoch_{EARLIER}'] .epoch")
    page.select_option("#against", "base")
    until(page, desk.WORKS)
    desk.play(page)
    page.keyboard.press("x")
    assert page.get_attribute("#play-reference", "aria-label") == "Pause the base"
    before = service.asks("/status")["voice"]
    desk.go(page, "speak")
    for candidate in (f"epoch_{EARLIER}", "base"):
        page.select_option("#voice", f"/v1/runs/current/candidates/{candidate}/speech")
        desk.speak(page, "Hello.")
        assert page.is_hidden("#speak-fault"), page.text_content("#speak-fault")
        assert float(page.evaluate(desk.SECONDS)) > 0.1
    assert service.asks("/status")["voice"] == before


@desk.LOOKS
def test_an_evaluated_run_can_be_shown(evaluated, service, open_page, width, scheme, tmp_path):
    size = {"width": width, "height": HEIGHT}
    page = open_page(service.address, view="compare", ready=JUDGED, color_scheme=scheme, viewport=size)
    until(page, desk.WORKS)
    page.wait_for_timeout(500)
    picture(page, tmp_path, "page-evaluation")


@desk.LOOKS
def test_it_can_be_shown(trained, service, open_page, width, scheme, tmp_path):
    size = {"width": width, "height": HEIGHT}
    page = open_page(service.address, color_scheme=scheme, viewport=size)
    desk.speak(page, "The rain has stopped, and the boats go out again.")
    page.click("#take")
    until(page, f"{desk.DONE} && document.querySelectorAll('#take-list > li').length === 2")
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    picture(page, tmp_path, "page")
