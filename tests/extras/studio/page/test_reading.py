"""Sentences are read aloud into the page of the real service; the microphone plays a WAV file."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from api.voices.samples import resampled
from extras.studio.part import Studio
from tests.api.conftest import Running
from tests.api.page.desk import EVIL, LOOKS, PHONE, faults, go, is_only_words, says, too_small, until
from tests.api.page.hearing import browser_hearing
from tests.api.page.world import RATE, speech, wav
from tests.extras.studio.datasets.calls import Dataset
from tests.extras.studio.datasets.takes import RATE as SPOKEN_RATE
from tests.extras.studio.datasets.takes import spoken
from train.dataset.metadata import read_entries
from xtts.evaluation.recogniser import can_hear_english

pytestmark = pytest.mark.system
# In Portuguese, so that the test does not need a recogniser.
TEXT = "O barco voltou tarde. A chuva parou. Vamos embora."


def hiss(seconds: float) -> np.ndarray:
    noise = np.random.default_rng(1).normal(0, 2e-4, int(seconds * RATE))
    return noise.astype(np.float32)


def heard(chromium: Any, folder: Path, *parts: np.ndarray) -> Any:
    said = folder / "said.wav"
    said.write_bytes(wav(np.concatenate(parts)))
    return browser_hearing(chromium, said)


@pytest.fixture(scope="module")
def reader(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser whose microphone plays one sentence between long silences."""
    folder = tmp_path_factory.mktemp("reader")
    with heard(chromium, folder, hiss(1.2), speech(2.0, 150), hiss(30)) as browser:
        yield browser


@pytest.fixture(scope="module")
def babbler(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser whose microphone plays an endless voice, far too loud."""
    folder = tmp_path_factory.mktemp("babbler")
    loud = (speech(6.0, 150) * 20).clip(-1, 1)
    with heard(chromium, folder, loud) as browser:
        yield browser


def reading(service: Running, text: str = TEXT) -> Dataset:
    made = Dataset(service, "Ana", "pt")
    made.ask("PUT", "/prompts", json={"text": text}).raise_for_status()
    return made


def record(page: Any, seconds: float) -> None:
    """Records a take of `seconds` with the keyboard."""
    page.focus("#reading-works")
    page.keyboard.press("Space")
    until(page, "document.getElementById('reading-record').textContent.startsWith('Stop')")
    end_take(page, seconds)


def end_take(page: Any, seconds: float) -> None:
    """Ends a take after `seconds` with the keyboard, and waits until it is checked."""
    page.wait_for_timeout(1000 * seconds)
    page.keyboard.press("Space")
    until(page, "document.getElementById('reading-record').textContent.startsWith('Record')")
    until(page, "!['', 'Checking.'].includes(document.getElementById('reading-state').textContent)")


def test_sentences_are_read_by_keyboard_and_go_on_after_a_reload(service, open_page, reader):
    page = open_page(service.address, view="train/reading", browser=reader)
    until(page, "document.getElementById('reading-language').value === 'en'")
    page.focus("#reading-name")
    page.keyboard.type("Ana")
    page.select_option("#reading-language", "pt")
    page.click("#reading-form summary")
    page.fill("#reading-own", TEXT)
    page.focus("#reading-form [type=submit]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#reading-works:not([hidden])")
    until(page, "document.activeElement.id === 'reading-works'")
    assert page.text_content("#reading-text") == "O barco voltou tarde."
    assert page.get_attribute("#reading-text", "lang") == "pt"
    record(page, 3.9)
    assert page.text_content("#reading-state").endswith("Nothing is wrong with it: keep it.")
    assert page.is_visible("#reading-wave")
    metadata = service.state.part(Studio).datasets.folder / "ana/clips/metadata.csv"
    assert not metadata.exists()
    page.check("#reading-on")
    page.focus("#reading-works")
    page.keyboard.press("Enter")
    says(page, "reading-text", "A chuva parou.")
    # The next sentence is recorded without another press.
    until(page, "document.getElementById('reading-record').textContent.startsWith('Stop')")
    end_take(page, 1.0)
    # It is on disk at once, in a dataset that training can read.
    assert metadata.read_text().endswith("|O barco voltou tarde.\n")
    (entry,) = read_entries(metadata.parent, "auto", "pt")
    assert entry.path.is_file()
    page.keyboard.press("s")
    says(page, "reading-text", "Vamos embora.")
    page.reload()
    says(page, "reading-text", "Vamos embora.")
    assert "1 sentence of 3 recorded, 1 skipped." in page.text_content("#reading-count")
    record(page, 3.9)
    # Enter would also work during the check; here each key has one effect.
    page.keyboard.press("Enter")
    until(page, "document.getElementById('reading-count').textContent.startsWith('2 sentences')")
    assert len(metadata.read_text().splitlines()) == 2
    assert "About" in page.text_content("#reading-more")
    go(page, "train/recordings")
    page.wait_for_selector("#clip-list li >> nth=1")
    assert page.is_hidden("#cut-works") and page.is_visible("#train-line")


def test_a_bad_take_is_named_and_read_again(service, open_page, babbler):
    dataset = reading(service)
    page = open_page(
        service.address, view="train/reading", ready="#reading-works:not([hidden])", browser=babbler
    )
    record(page, 2.0)
    found = page.text_content("#reading-found")
    assert "clipped" in found and "middle of speech" in found
    assert "clipped" in page.text_content("#reading-level-info")
    page.keyboard.press("r")
    until(page, "document.getElementById('reading-record').textContent.startsWith('Stop')")
    until(page, "document.getElementById('reading-level-info').textContent.includes('Clipping')")
    page.wait_for_timeout(1500)
    page.keyboard.press("Space")
    until(page, "document.getElementById('reading-found').childElementCount > 0")
    assert dataset.ask("GET", "/prompts").json()["kept"] == 0
    page.keyboard.press("Enter")  # Keep it anyway.
    says(page, "reading-text", "A chuva parou.")
    page.keyboard.press("ArrowLeft")
    assert "Recorded" in page.text_content("#reading-number")
    assert "clipped" in page.text_content("#reading-found")
    page.click("#reading-delete")
    page.click("#reading-delete")
    until(page, "document.getElementById('reading-count').textContent.startsWith('0 sentences')")
    assert dataset.metadata == ""


def test_a_page_that_is_closed_in_a_take_leaves_whole_takes_alone(service, open_page, reader):
    """Five times: during the recording, during the check or while it is stored."""
    dataset = reading(service, " ".join(f"Esta é a frase {n}." for n in range(1, 9)))
    drawn, kept = random.Random(3), 0

    def is_whole() -> bool:
        """Each reported take has a row and a file; the service may need a moment."""
        entries = read_entries(dataset.folder / "clips", "auto", "pt") if dataset.metadata else []
        there = [entry for entry in entries if entry.path.is_file()]
        return len(there) == len(entries) == int(dataset.ask("GET", "/prompts").json()["kept"])

    dataset.ask("PUT", "/prompts/8/take?keep=1", content=wav(speech(2.0, 150))).raise_for_status()
    for moment in [drawn.uniform(0, 3.9) for _ in range(3)] + [drawn.uniform(4, 5) for _ in "ab"]:
        page = open_page(
            service.address, view="train/reading", ready="#reading-works:not([hidden])", browser=reader
        )
        page.focus("#reading-works")
        page.keyboard.press("Space")
        page.wait_for_timeout(1000 * min(moment, 3.9))
        if moment > 3.9:
            page.keyboard.press("Space")
            page.keyboard.press("Enter")
            page.wait_for_timeout(1000 * (moment - 3.9))
        page.context.close()
        service.wait_until(is_whole)
        before, kept = kept, len(dataset.metadata.splitlines())
        assert kept in (max(before, 1), before + (moment > 3.9))
    page = open_page(
        service.address, view="train/reading", ready="#reading-works:not([hidden])", browser=reader
    )
    says_kept = f"{kept} sentence{'s' * (kept != 1)} of 8 recorded"
    until(page, f"document.getElementById('reading-count').textContent.startsWith('{says_kept}')")


@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
@pytest.mark.skipif(not can_hear_english(), reason="pocketsphinx is not installed")
def test_other_words_are_told_with_what_was_heard(service, open_page, chromium, tmp_path):
    said = resampled(spoken("Nobody knew why the bell rang twice."), SPOKEN_RATE, RATE)
    dataset = Dataset(service, "Ana", "en")
    texts = "My cousin usually takes a long bath. Nobody knew why the bell rang twice."
    dataset.ask("PUT", "/prompts", json={"text": texts}).raise_for_status()
    ready = "#reading-works:not([hidden])"
    with heard(chromium, tmp_path, hiss(1.2), said, hiss(30)) as browser:
        page = open_page(service.address, view="train/reading", ready=ready, browser=browser)
        record(page, 4.5)
        found = page.text_content("#reading-found")
        assert "not the words of the sentence" in found and "bell rang twice" in found
        # In a new page the microphone plays from the beginning.
        page = open_page(service.address, view="train/reading", ready=ready, browser=browser)
        page.click("#reading-after")
        record(page, 4.5)
        assert page.text_content("#reading-found") == ""


def test_letters_do_nothing_outside_of_it(service, open_page, reader):
    dataset = reading(service)
    page = open_page(
        service.address, view="train/reading", ready="#reading-works:not([hidden])", browser=reader
    )
    page.click("#reading-new > summary")
    page.focus("#reading-name")
    page.keyboard.type("rs ")
    page.focus("#reading-record")
    page.keyboard.press("Space")  # This presses the button.
    until(page, "document.getElementById('reading-record').textContent.startsWith('Stop')")
    page.keyboard.press("s")
    page.keyboard.press("Space")
    until(page, "document.getElementById('reading-record').textContent.startsWith('Record')")
    assert dataset.ask("GET", "/prompts").json()["skipped"] == 0


@LOOKS
def test_it_is_accessible_and_fits(service, open_page, reader, width, scheme):
    dataset = reading(service, f"{EVIL} {TEXT}")
    dataset.ask("POST", "/prompts/2/skip").raise_for_status()
    page = open_page(
        service.address,
        view="train/reading",
        ready="#reading-works:not([hidden])",
        browser=reader,
        viewport={"width": width, "height": 844},
        color_scheme=scheme,
        has_touch=width == PHONE["width"],
    )
    assert faults(page, width, 30) == [] and is_only_words(page)
    if width == PHONE["width"]:
        assert (
            too_small(page, "#reading :is(button, select, .check), #reading input:not([type=checkbox])") == []
        )
