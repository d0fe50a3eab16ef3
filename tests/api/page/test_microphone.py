"""A voice recorded with the page's microphone: recording, trimming, playing, adding, and refusals.

Chromium's fake device plays our wav, so the upload can be compared with it.
"""

import io
import re
import wave
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.api.page.conftest import Open
from tests.api.page.desk import PHONE, go, says, until
from tests.api.page.hearing import browser_hearing
from tests.api.page.world import RATE, World, speech, wav

pytestmark = pytest.mark.system

SAID_SECONDS, SILENT_SECONDS = 2.0, 1.5


@pytest.fixture(scope="module")
def with_microphone(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser whose microphone records two seconds of speech between silences, in a loop."""
    recording = tmp_path_factory.mktemp("microphone") / "said.wav"
    silence = np.zeros(int(SILENT_SECONDS * RATE), np.float32)
    recording.write_bytes(wav(np.concatenate((silence, speech(SAID_SECONDS, 150), silence))))
    with browser_hearing(chromium, recording) as browser:
        yield browser


@pytest.fixture
def hearing(opened: Open, with_microphone: Any) -> Any:
    """The page in that browser."""
    return opened(view="voices", browser=with_microphone)


def recorded(page: Any, seconds: float) -> None:
    """Makes a recording by keyboard alone."""
    page.focus("#record")
    page.keyboard.press("Enter")
    says(page, "record", "Stop recording")
    # The level is shown; -60 dB is silence.
    until(page, "document.getElementById('record-level').value > -50")
    until(page, f"parseFloat(document.getElementById('record-time').textContent) >= {seconds}")
    page.keyboard.press("Enter")
    page.wait_for_selector("#trim:not([hidden])")


def kept_seconds(page: Any) -> float:
    return float(
        page.evaluate(
            "document.getElementById('trim-end').valueAsNumber"
            " - document.getElementById('trim-start').valueAsNumber"
        )
    )


def uploaded(world: World) -> np.ndarray:
    """The samples of the last upload, -1..1."""
    body = world.uploads[-1]
    assert b'name="file"; filename="microphone.wav"' in body
    with wave.open(io.BytesIO(body[body.index(b"RIFF") :])) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32_768


def test_a_voice_is_recorded_cut_and_added_by_keyboard(hearing, world):
    page = hearing
    recorded(page, 4.5)
    told = page.text_content("#trim-info")
    seconds, all_ = map(float, re.findall(r"[\d.]+", told)[:2])
    # The silence at both ends is trimmed automatically.
    assert seconds <= all_ - 0.5 and seconds == pytest.approx(kept_seconds(page), abs=0.1)
    page.focus("#trim-end")
    before = kept_seconds(page)
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    assert kept_seconds(page) == pytest.approx(before - 0.2, abs=0.03)
    seconds = kept_seconds(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Plays the selection.
    says(page, "trim-hear", "Stop")
    says(page, "trim-hear", "Play the selection")
    page.focus("[name=name]")
    page.keyboard.type("Anna")
    page.keyboard.press("Enter")
    page.wait_for_selector("[aria-label='More for Anna']")
    voice = uploaded(world)
    assert len(voice) / RATE == pytest.approx(seconds, abs=0.01)
    spectrum = np.abs(np.fft.rfft(voice)) ** 2
    hertz = np.fft.rfftfreq(len(voice), 1 / RATE)
    # The pitch of our wav, 150 Hz ± 12 %, and not the beep of the fake device.
    assert 125 < hertz[40 + np.argmax(spectrum[(hertz < 240)][40:])] < 175
    assert page.is_hidden("#trim") and page.text_content("#record") == "Record with the microphone"
    assert page.evaluate("document.querySelector('[name=file]').required")


def test_at_least_a_second_is_kept_and_a_recording_can_be_discarded(hearing, tmp_path):
    page = hearing
    recorded(page, 2.5)
    page.focus("#trim-start")
    page.keyboard.press("End")
    assert kept_seconds(page) == pytest.approx(1.0, abs=0.06)
    page.focus("#trim-end")
    page.keyboard.press("Home")
    assert kept_seconds(page) == pytest.approx(1.0, abs=0.06)
    page.focus("#trim-discard")
    page.keyboard.press("Enter")
    assert page.is_hidden("#trim")
    assert page.evaluate("document.activeElement.id") == "record"
    assert page.evaluate("document.querySelector('[name=file]').required")
    recorded(page, 1.5)  # A file chosen afterwards replaces it.
    (tmp_path / "anna.wav").write_bytes(wav(speech(2.0, 200)))
    page.set_input_files("[name=file]", tmp_path / "anna.wav")
    assert page.is_hidden("#trim")


def test_too_short_a_recording_is_told(hearing):
    page = hearing
    page.click("#record")
    says(page, "record", "Stop recording")
    page.wait_for_timeout(300)
    page.click("#record")
    page.wait_for_selector("#microphone-fault:not([hidden])")
    assert "needs at least 1 s" in page.text_content("#microphone-fault")
    assert page.is_hidden("#trim")


def test_where_no_microphone_may_be_had_it_says_why(page):
    """The ordinary headless browser has no permission for the microphone."""
    go(page, "voices")
    page.click("#record")
    page.wait_for_selector("#microphone-fault:not([hidden])")
    told = page.text_content("#microphone-fault")
    assert re.match("The browser blocks the microphone|No microphone found", told), told
    assert told.endswith("or choose a file.")
    assert page.text_content("#record") == "Record with the microphone"


def test_a_page_without_https_says_why_it_cannot_record(with_microphone, open_page, address):
    foreign = address.replace("127.0.0.1", "speech.test")
    page = open_page(foreign, view="voices", browser=with_microphone)
    page.click("#record")
    page.wait_for_selector("#microphone-fault:not([hidden])")
    assert "https" in page.text_content("#microphone-fault")


def test_a_phone_shows_it_whole(opened, with_microphone):
    page = opened(view="voices", browser=with_microphone, viewport=PHONE, has_touch=True)
    recorded(page, 1.5)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
