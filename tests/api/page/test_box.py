"""Around the speak box and the voices: history, the request elsewhere, renaming, a phone."""

import subprocess
import sys

import pytest

from tests.api.page.desk import PHONE, add_voice, speak, until
from tests.api.page.world import speech, wav

pytestmark = pytest.mark.system


def test_what_was_said_is_kept_in_this_browser_and_comes_back(page, world):
    assert page.is_hidden("#history")
    page.click("#speak summary")
    page.fill("[name=speed]", "1.5")
    speak(page, "Good morning.")
    page.fill("[name=speed]", "")
    speak(page, "Good night.")
    page.reload()
    page.wait_for_selector("#history:not([hidden])")
    page.click("#history-title")
    assert page.locator("#history-list button").all_inner_texts() == [
        "Good night.",
        "Good morning.",
    ]
    page.click("#history-list button >> nth=1")
    assert page.input_value("#text") == "Good morning."
    assert page.input_value("[name=speed]") == "1.5"
    page.click("#forget-history")
    assert page.is_hidden("#history")
    assert page.evaluate("localStorage.getItem('sotaque-history')") is None


def test_the_request_runs_as_curl_and_as_python(page, world, tmp_path):
    text = """It's "5 < 6" $HOME \\ é."""
    page.fill("#text", text)
    page.click("#request summary")
    until(page, "document.getElementById('as-python').textContent !== ''")
    commands = {
        "curl": ["sh", "-c", page.text_content("#as-curl")],
        "python": [sys.executable, "-c", page.text_content("#as-python")],
    }
    for kind, command in commands.items():
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
        assert (tmp_path / "said.wav").read_bytes() == wav(speech(2.4, 150)), kind
        (tmp_path / "said.wav").unlink()
        assert world.said[-1]["input"] == text and world.said[-1]["response_format"] == "wav"


def test_a_voice_is_heard_renamed_and_its_quality_is_told(page, world, tmp_path):
    (tmp_path / "anna.wav").write_bytes(wav(speech(7.25, 200)))
    add_voice(page, tmp_path / "anna.wav", "Anna")
    page.wait_for_selector("text=Quality: usable. It is quiet.")
    page.click("[aria-label='Play the recording of Anna']")
    page.wait_for_selector("[aria-label='Stop the recording of Anna']")
    page.click("[aria-label='Stop the recording of Anna']")
    page.wait_for_selector("[aria-label='Play the recording of Anna']")
    page.focus("[aria-label='Rename Anna']")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Rename"
    page.keyboard.press("Enter")
    page.keyboard.type("Ben")
    page.keyboard.press("Enter")
    page.wait_for_selector("[aria-label='Rename Ben']")
    assert world.voices[-1]["name"] == "Ben"


def test_speak_stands_near_the_top_of_a_phone(opened):
    phone = opened(viewport=PHONE)
    top = phone.evaluate("document.getElementById('say').getBoundingClientRect().bottom")
    assert top < 844
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
