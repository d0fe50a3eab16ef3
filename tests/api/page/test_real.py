"""The page on the true service beside a true training: nothing of it is a double.

`python -m train` learns the demo for two epochs, `python -m api` looks at the same folder, and the
page was open before the first epoch.
"""

import io
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
from PIL import Image

from tests.api.page.conftest import Open, add_voice, say, says, speak, until
from tests.ports import free_port

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
POSITION = "document.getElementById('position').valueAsNumber"
SECONDS = "Number(document.getElementById('spoken-playhead').dataset.seconds)"
LONGEST_SECONDS = 900
SHOWN = r"""[
  ...new Set([...document.querySelectorAll("tr[data-epoch], tr[data-candidate^='epoch_']")]
    .map((row) => row.dataset.epoch ?? row.dataset.candidate.split("_")[1])
    .map((epoch) => `row ${epoch}`)),
  ...(document.getElementById("training").hidden ? [] : ["training"]),
  ...(/^Epoch 2 of 2, step \d+ of \d+; (about \d+ min|less than a minute) left\.$/
    .test(document.getElementById("progress-told").textContent) ? ["progress"] : []),
  ...(document.getElementById("charts").hidden ? [] : ["curves"]),
]"""


class Service:
    """The API's process, its address, and the run folder that it looks at."""

    def __init__(self, folder: Path, output: Path | None = None, **settings: str) -> None:
        port = free_port()
        self.folder = folder
        self.address = f"http://127.0.0.1:{port}"
        self.output = output or folder / "output"
        self.settings = settings
        self.api = self.started("api", f"--api-port={port}", f"--voices-dir={folder / 'voices'}")

    def started(self, program: str, *options: str) -> "subprocess.Popen[bytes]":
        log = (self.folder / f"{program}.log").open("wb")
        command = [sys.executable, "-m", program, f"--output-dir={self.output}", *options]
        clean = {
            name: value for name, value in os.environ.items()
            if name in ("PATH", "HOME", "LANG", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
        }  # fmt: skip
        return subprocess.Popen(
            command, cwd=ROOT, env=clean | self.settings, stdout=log, stderr=subprocess.STDOUT
        )

    def train(self) -> "subprocess.Popen[bytes]":
        return self.started(
            "train", f"--runs-dir={self.folder / 'runs'}", "--num-epochs=2", "--tensorboard=off"
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
    found = Service(tmp_path_factory.mktemp("service"))
    try:
        wait(lambda: found.asks("/status")["ready"], found)
        yield found
    finally:
        found.close()


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
    """A page that was open during the whole training: when it showed what, by the desk's clock."""
    context = chromium.new_context()
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda told: faults.append(told.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(service.address)
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
    """Without its evaluation the run is one that nothing was judged of."""
    (service.output / "evaluation.json").rename(service.folder / "evaluation.json")
    wait(lambda: service.asks("/v1/runs")["runs"][0]["evaluation"] is None, service)


@pytest.fixture
def evaluated(trained: Any, service: Service) -> Iterator[Any]:
    """The run with what the trainer judged of it: its evaluation, as /v1/runs tells it."""
    (service.folder / "evaluation.json").rename(service.output / "evaluation.json")
    wait(lambda: service.asks("/v1/runs")["runs"][0]["evaluation"], service)
    yield service.asks("/v1/runs")["runs"][0]["evaluation"]
    put_aside(service)


@pytest.fixture
def page(trained: Any, service: Service, open_page: Open) -> Any:
    """The page after the run, the newest epoch on its desk."""
    return open_page(service.address, ready="#desk-works:not([hidden])")


def test_epochs_and_curves_appear_while_training_runs(trained: list[tuple[float, str]]) -> None:
    during = {what for ended, what in trained if ended is None}
    assert {"training", "curves", "progress", "row 1"} <= during
    assert {what for _, what in trained} == {"training", "curves", "progress", "row 1", "row 2"}


def test_the_page_is_served_under_a_policy_that_allows_nothing_inline(service: Service) -> None:
    asked = urllib.request.Request(service.address + "/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert answer.headers["Content-Type"].startswith("text/html")
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy


@pytest.mark.parametrize("track", ["output", "reference"])
def test_both_players_play(page: Any, track: str) -> None:
    page.click(f"#play-{track}")
    until(page, f"{POSITION} > 0.3")


def test_promoting_an_epoch_changes_what_speaks(page: Any, service: Service) -> None:
    wait(lambda: service.asks("/v1/runs")["served"]["epoch"] == 2, service)
    page.click("tr[data-epoch='1'] button:has-text('Serve')")
    until(page, "document.querySelector('tr[data-epoch=\"1\"] .serving').textContent === 'Serving'")
    assert service.asks("/v1/runs")["served"]["epoch"] == 1
    page.click("#follow")
    until(page, "document.querySelector('tr[data-epoch=\"2\"] .serving').textContent === 'Serving'")


def test_the_speak_box_speaks(page: Any) -> None:
    say(page, "Good morning, and welcome.")
    until(page, f"{SECONDS} > 0.1")
    until(page, "!document.getElementById('again').disabled")
    told = page.text_content("#spoken-told")
    assert re.match(r"First sound after \d+\.\d\d s; \d+\.\d s spoken in", told)
    loud = page.evaluate("""(() => {
      const sheet = document.getElementById("sheet-spoken");
      const { data } = sheet.getContext("2d").getImageData(0, 0, sheet.width, sheet.height);
      return new Set(data.filter((_, i) => i % 4 === 0).map((red) => red >> 4)).size;
    })()""")
    assert loud > 6


def test_a_voice_is_added_from_a_recording_and_speaks(page: Any, service: Service) -> None:
    recording = service.output / "samples" / "epoch_1_reference.wav"
    add_voice(page, recording, "Anna")
    page.wait_for_selector("#voice-list li:has-text('Anna')")
    speak(page, "Hello.")
    remove = page.get_by_role("button", name="Remove Anna")
    remove.click()
    remove.click()
    page.wait_for_selector("#voice-list li:has-text('Anna')", state="detached")


def test_with_a_key_the_page_asks_for_it_and_then_hears_everything(
    trained: Any, service: Service, open_page: Open, tmp_path: Path
) -> None:
    keyed = Service(tmp_path, service.output, API_KEY="correct horse battery")
    try:
        wait(lambda: urllib.request.urlopen(keyed.address + "/livez", timeout=60), keyed)
        page = open_page(keyed.address, ready="#key-dialog[open]")
        page.provoked.append("401")
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-fault:not([hidden])")
        page.fill("#key", "correct horse battery")
        page.keyboard.press("Enter")
        page.wait_for_selector("#desk-works:not([hidden])")
        says(page, "live", "Live")
        page.click("#play-output")
        until(page, f"{POSITION} > 0.3")
    finally:
        keyed.close()


JUDGED = "#judgement:not([hidden])"
WORKS = "!document.getElementById('desk-works').hidden"


def test_a_run_that_was_evaluated_is_compared_and_heard(
    evaluated: Any, service: Service, open_page: Open
) -> None:
    ids = [one["id"] for one in evaluated["candidates"]]
    assert ids[:1] == ["base"] and {"epoch_1", "epoch_2"} <= set(ids)
    page = open_page(service.address, ready=JUDGED)
    until(page, WORKS)
    assert page.text_content("#verdict") == evaluated["verdict"]["reason"]
    page.click("tr[data-candidate='epoch_1'] .epoch")
    page.select_option("#against", "base")
    until(page, WORKS)
    page.click("#play-output")
    until(page, f"{POSITION} > 0.3")
    page.keyboard.press("x")
    assert page.get_attribute("#play-reference", "aria-label") == "Pause the base"
    before = service.asks("/status")["voice"]
    for candidate in ("epoch_1", "base"):
        page.select_option("#voice", f"/v1/runs/current/candidates/{candidate}/speech")
        say(page, "Hello.")
        says(page, "say", "Stop")
        says(page, "say", "Speak")
        assert page.is_hidden("#speak-fault"), page.text_content("#speak-fault")
        assert float(page.evaluate(SECONDS)) > 0.1
    assert service.asks("/status")["voice"] == before


LOOKS = pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
)


def picture(page: Any, folder: Path, name: str, **options: Any) -> None:
    """One of the docs' pictures: SOTAQUE_PICTURES names the folder that they are to be put into."""
    size, dark = (
        page.viewport_size,
        page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches"),
    )
    ending = f"{'' if size['width'] == 1280 else '-phone'}{'-dark' if dark else ''}.png"
    path = Path(os.environ.get("SOTAQUE_PICTURES", folder)) / f"{name}{ending}"
    taken = page.screenshot(full_page=True, animations="disabled", **options)
    # 256 colours are enough for one accent, and make a third of the size.
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(256).save(path, optimize=True)
    assert path.stat().st_size < 300_000


@LOOKS
def test_an_evaluated_run_can_be_shown(
    evaluated: Any, service: Service, open_page: Open, width: int, scheme: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    page = open_page(service.address, ready=JUDGED, color_scheme=scheme,
                     viewport={"width": width, "height": 900})  # fmt: skip
    until(page, WORKS)
    page.wait_for_timeout(500)
    foot = page.evaluate("document.getElementById('desk').getBoundingClientRect().bottom + scrollY")
    clip = {"x": 0, "y": 0, "width": width, "height": foot + 16}
    picture(page, tmp_path, "page-evaluation", clip=clip)


@LOOKS
def test_it_can_be_shown(
    trained: Any, service: Service, open_page: Open, width: int, scheme: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    page = open_page(
        service.address, ready="#desk-works:not([hidden])", color_scheme=scheme,
        viewport={"width": width, "height": 900},
    )  # fmt: skip
    speak(page, "The rain has stopped, and the boats go out again.")
    page.evaluate("document.getElementById('position').value = 0.9")
    page.dispatch_event("#position", "input")
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    picture(page, tmp_path, "page")
