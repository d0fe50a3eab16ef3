"""From an empty machine to a voice, with the page and its keys alone: sentences are read into the
microphone, checked, kept, trained on, heard, served and exported. Service and trainer are real.

The test prints the time it takes and makes the pictures of docs/page.md, in the folder
SOTAQUE_PICTURES. flite reads the built-in sentences. If SOTAQUE_CLIPS names an English dataset, its
speaker reads the sentences of its clips.
"""

import io
import os
import shutil
import subprocess
import sys
import time
import wave
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

import xtts
from api.voices.samples import resampled
from extras.studio.datasets.prompts import prompts_from
from tests.api.page import desk
from tests.api.page.desk import go, until
from tests.api.page.hearing import browser_hearing
from tests.api.page.pictures import picture
from tests.api.page.world import RATE, wav
from tests.extras.studio.datasets.takes import RATE as SPOKEN_RATE
from tests.extras.studio.datasets.takes import spoken
from tests.ports import free_port
from tests.processes import gone
from train.dataset.metadata import read_entries

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed"),
]
ROOT = Path(__file__).parents[4]
SENTENCES = 30
# On a busy machine a take may begin after the sentence.
MAX_AGAIN = 15
# Silence before and after a sentence, in seconds.
BEFORE, AFTER = 1.5, 0.7
CHECKED = "/^[0-9]+ clips/.test(document.getElementById('check-info').textContent)"
TRAININGS = "document.getElementById('trainings').textContent"
VERDICT = "document.getElementById('verdict').textContent"
FOLDERS = ("OUTPUT_DIR", "QUEUE_DIR", "VOICES_DIR", "DATASETS_DIR", "RUNS_DIR", "CACHE_DIR")


class Studio:
    """`make studio` in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, port = folder, free_port()
        kept = ("PATH", "HOME", "LANG", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment |= {name: str(folder / name.lower()) for name in FOLDERS}
        self.log = folder / "studio.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "extras.studio"],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env=environment | {"API_PORT": str(port)},
            )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False)

    @property
    def address(self) -> str:
        return str(self.client.base_url)

    def asks(self, path: str) -> Any:
        return self.client.get(path, timeout=60).raise_for_status().json()

    def wait(self, path: str, name: str) -> None:
        """Until an answer has this field."""
        end = time.monotonic() + 300
        while True:
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            try:
                if self.asks(path)[name]:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.5)

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(400)
        assert gone(self.process.pid, 20)


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    found = Studio(tmp_path)
    try:
        found.wait("/status", "ready")
        found.wait("/v1/trainings", "trainer")
        yield found
    finally:
        found.close()


# The speech for a text: samples `[n]` at RATE.
Voice = Callable[[str], np.ndarray]


def flites(text: str) -> np.ndarray:
    return resampled(spoken(text), SPOKEN_RATE, RATE)


def of_clips(folder: Path) -> tuple[list[str], Voice]:
    """The sentences of a dataset's clips, and their speaker. Clips with several sentences, or with
    one that the page would cut, are left out."""
    paths = {
        entry.text: entry.path
        for entry in read_entries(folder, "auto", "en")
        if prompts_from(entry.text, "en") == (entry.text,)
    }
    assert paths, f"{folder} holds no clip of one short sentence"

    def voice(text: str) -> np.ndarray:
        sound, rate = soundfile.read(paths[text], dtype="float32")
        return resampled(sound, rate, RATE)

    return list(paths)[:SENTENCES], voice


class Person:
    """Reads the sentences of the page into its microphone, and presses keys. own: the sentences of
    a dataset, if given; seconds: time spent reading; checking: time spent waiting for checks;
    again: the findings in takes that were read again."""

    def __init__(self, page: Any, said: Path) -> None:
        self.page, self.said = page, said
        self.own: list[str] = []
        self.voice: Voice = flites
        if clips := os.environ.get("SOTAQUE_CLIPS"):
            self.own, self.voice = of_clips(Path(clips))
        self.sentences = len(self.own) or SENTENCES
        self.seconds = self.checking = 0.0
        self.again: list[str] = []

    def press(self, element: str, key: str = "Enter") -> None:
        self.page.focus(element)
        self.page.keyboard.press(key)

    def fill(self, element: str, text: str) -> None:
        self.page.focus(element)
        self.page.keyboard.type(text)

    def reads_one(self) -> None:
        """Reads a sentence until a take has no finding, or in a fixed recording the same ones
        twice; does not keep it."""
        before = None
        while (found := self._take()) and not (self.own and found == before):
            before = found
            self.again.append(found)
            assert len(self.again) < MAX_AGAIN, self.again

    def _take(self) -> str:
        """Reads a take; returns its findings."""
        sound = self.voice(self.page.text_content("#reading-text"))
        room = np.random.default_rng(1).normal(0, 2e-4, int((BEFORE + 30) * RATE) + len(sound))
        room[int(BEFORE * RATE) :][: len(sound)] += sound
        self.said.write_bytes(wav(room.astype(np.float32)))
        self._looks_away()
        began = time.monotonic()
        self.press("#reading-works", "Space")
        until(self.page, "document.getElementById('reading-record').textContent[1] === 't'")
        self.page.wait_for_timeout(1000 * (BEFORE + len(sound) / RATE + AFTER))
        self.page.keyboard.press("Space")
        until(self.page, "document.getElementById('reading-record').textContent[1] === 'e'")
        ended = time.monotonic()
        until(self.page, "/keep|again/.test(document.getElementById('reading-state').textContent)")
        self.seconds += ended - began
        self.checking += time.monotonic() - ended
        return str(self.page.text_content("#reading-found"))

    def _looks_away(self) -> None:
        """Makes the page close its microphone, so that it opens with this sentence."""
        self.page.evaluate("""() => {
          Object.defineProperty(document, "hidden", { value: true, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
          delete document.hidden;
        }""")


def film(page: Any, folder: Path, name: str, first: str, last: str = "") -> None:
    """A picture of a step."""
    picture(page, folder, name, first, last)


def loudness(sound: bytes) -> float:
    """Root mean square of a wav; 1 is full scale."""
    with wave.open(io.BytesIO(sound)) as opened:
        samples = np.frombuffer(opened.readframes(opened.getnframes()), "<i2") / 32768
    return float(np.sqrt(np.mean(samples**2)))


def test_from_an_empty_machine_to_a_voice(studio, chromium, tmp_path):
    said = tmp_path / "said.wav"
    said.write_bytes(wav(np.zeros(RATE, np.float32)))
    with browser_hearing(chromium, said) as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(desk.PATIENCE_MILLISECONDS)
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda told: complaints.append(told.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        began = time.monotonic()
        page.goto(f"{studio.address}/#/train/reading")
        person = Person(page, said)
        record(page, person, studio, tmp_path)
        recorded = time.monotonic() - began
        train(page, person, studio, tmp_path)
        hear(page, studio)
        heard = time.monotonic() - began
        print(
            f"\nfrom opening the page to one's own voice: {heard / 60:.1f} min; "
            f"{person.seconds / 60:.1f} of it reading {person.sentences} sentences, "
            f"{person.checking / 60:.1f} checking them, {(heard - recorded) / 60:.1f} from the "
            f"last sentence to the first sample; {os.cpu_count()} CPU cores, load "
            f"{os.getloadavg()[0]:.1f}; read again: {person.again}"
        )
        serve(page, person, studio, tmp_path)
        print(f"trained, judged and served after {(time.monotonic() - began) / 60:.1f} min")
        export(page, person, tmp_path)
        assert complaints == []


def record(page: Any, person: Person, studio: Studio, folder: Path) -> None:
    until(page, "document.getElementById('reading-language').value === 'en'")
    if person.own:
        person.press("#reading-form summary")
        person.fill("#reading-own", "\n".join(person.own))
    person.fill("#reading-name", "Ana")
    page.keyboard.press("Enter")
    page.wait_for_selector("#reading-works:not([hidden])")
    for number in range(1, person.sentences + 1):
        person.reads_one()
        if number == 4:
            film(page, folder, "page-record", "reading")
        page.keyboard.press("Enter")
        until(page, f"document.getElementById('reading-count').textContent.startsWith('{number} ')")
    clips = studio.folder / "datasets_dir/ana/clips"
    assert len((clips / "metadata.csv").read_text().splitlines()) == person.sentences


def train(page: Any, person: Person, studio: Studio, folder: Path) -> None:
    go(page, "train/trains")
    until(page, "document.getElementById('train-dataset').value === 'ana'")
    person.press("#check")
    until(page, f"{CHECKED} || !document.getElementById('train-fault').hidden", 600)
    assert page.evaluate(CHECKED), page.text_content("#train-fault")
    person.fill("#train-form [name=epochs]", "2")
    film(page, folder, "studio-2-check", "trains")
    person.press("#train")
    # A short training can be over between two looks of the page; its judging is not.
    until(page, f"/Epoch [12] of 2/.test({TRAININGS})", 900)
    film(page, folder, "studio-3-train", "trains")


def hear(page: Any, studio: Studio) -> None:
    """Plays the sample of the first epoch."""
    go(page, "compare")
    page.wait_for_selector(desk.DESK, timeout=1_200_000)
    page.focus("#desk")
    page.keyboard.press("Space")
    until(page, f"{desk.POSITION} > 0.3")
    page.keyboard.press("Space")
    for which in ("output", "reference"):
        answer = studio.client.get(f"/v1/runs/ana/epochs/1/{which}.wav")
        assert loudness(answer.content) > 0.01


def serve(page: Any, person: Person, studio: Studio, folder: Path) -> None:
    until(page, f"/Done|Failed/.test({TRAININGS})", 1500)
    assert "Done." in page.evaluate(TRAININGS), page.evaluate(TRAININGS)
    (run,) = [run for run in studio.asks("/v1/runs")["runs"] if run["id"] == "ana"]
    assert [epoch["epoch"] for epoch in run["epochs"]] == [1, 2]
    until(page, f"{run['evaluation']['verdict']['reason']!r}.startsWith({VERDICT}) && {VERDICT}")
    person.press("[aria-label='Serve epoch 2']")
    until(page, "document.getElementById('served').textContent.startsWith('Serving epoch 2 of ana')")
    film(page, folder, "studio-5-serve", "epochs", "judged-table")
    desk.speak(page, "This is my own voice, and nobody else has it.")
    assert float(page.evaluate(desk.SECONDS)) > 0.5
    body = {"input": "This is my own voice.", "response_format": "wav"}
    assert loudness(studio.client.post("/v1/audio/speech", json=body, timeout=120).content) > 0.01
    assert studio.asks("/status")["voice"].startswith("epoch 2 ")


def export(page: Any, person: Person, folder: Path) -> None:
    until(page, "document.getElementById('run-list').textContent.includes('It is served.')")
    go(page, "compare")
    with page.expect_download(timeout=600_000) as got:
        person.press("[aria-label='Export ana']")
    with zipfile.ZipFile(got.value.path()) as archive:
        assert archive.testzip() is None
        archive.extractall(folder / "exported")
    voice = xtts.load_voice(str(folder / "exported/ana"))
    waveform = xtts.synthesize(voice, "Good morning.")
    assert float(np.abs(np.asarray(waveform)).max()) > 0.05
