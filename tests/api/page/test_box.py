"""The speak box and the voices: history, the request as code, renaming, phones."""

import subprocess
import sys

import pytest

from tests.api.page.desk import PHONE, add_voice, says, speak, until
from tests.api.page.world import speech, wav

pytestmark = pytest.mark.system


def test_what_was_said_is_kept_in_this_browser_and_comes_back(page, world):
    assert page.text_content("#history-title") == "History (0 texts)"
    page.click("#speak summary")
    page.fill("[name=speed]", "1.5")
    speak(page, "Good morning.")
    page.fill("[name=speed]", "")
    speak(page, "Good night.")
    page.reload()
    says(page, "history-title", "History (2 texts)")
    page.click("#history-title")
    assert page.locator("#history-list button").all_inner_texts() == ["Good night.", "Good morning."]
    page.click("#history-list button >> nth=1")
    assert page.input_value("#text") == "Good morning."
    assert page.input_value("[name=speed]") == "1.5"
    page.click("#forget-history")
    assert page.text_content("#history-title") == "History (0 texts)"
    assert page.evaluate("localStorage.getItem('sotaque-history')") is None


def test_a_text_comes_back_with_the_voice_that_spoke_it(page, world):
    page.click("#speak summary")
    page.select_option("#voice", label="Epoch 3")
    page.fill("[name=seed]", "7")
    candidate = page.input_value("#voice")
    speak(page, "Good morning.")
    page.select_option("#voice", "default")
    page.fill("[name=seed]", "")
    speak(page, "Good morning.")
    assert world.spoken_with == [candidate, "/v1/audio/speech"]
    page.click("#history-title")
    served, epoch = page.locator("#history-list li").all_inner_texts()
    assert epoch.split("\n")[-1].endswith("Epoch 3, seed 7") and "Epoch 3" not in served
    page.click("#history-list button >> nth=1")
    assert page.input_value("#voice") == candidate and page.input_value("[name=seed]") == "7"
    speak(page, "Good morning.")
    assert world.spoken_with[-1] == candidate
    page.click("#history-list button >> nth=1")
    assert page.input_value("#voice") == "default"


def test_a_voice_of_the_history_that_is_gone_is_told(page, world, tmp_path):
    """The text comes back; nothing pretends that another voice had spoken it."""
    world.voices.append({"id": "v7", "name": "Anna", "origin": "upload", "created": None})
    page.reload()
    page.wait_for_selector("#voice option[value='v7']", state="attached")
    page.select_option("#voice", "v7")
    speak(page, "Good morning.")
    world.voices.pop()
    page.reload()
    page.wait_for_selector("#voice option", state="attached")
    page.click("#history-title")
    page.click("#history-list button")
    assert page.input_value("#text") == "Good morning."
    told = "Anna is not in the list of voices now. Choose another voice."
    assert page.text_content("#speak-fault") == told


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
        assert world.bodies[-1]["input"] == text and world.bodies[-1]["response_format"] == "wav"


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


def test_the_characters_are_counted_and_a_text_that_is_too_long_is_not_sent(page, world):
    text = "word " * 819 + "."
    page.fill("#text", text)
    says(page, "text-count", "4,096 of 4,096 characters")
    page.fill("#text", f"{text}!")
    says(page, "text-count", "4,097 of 4,096 characters: 1 too many")
    page.click("#say")
    assert page.evaluate("document.activeElement.id") == "text" and world.bodies == []
    message = page.evaluate("document.getElementById('text').validationMessage")
    assert message.startswith("The text has 4,097 of 4,096 characters: 1 too many.")
    page.fill("#text", "Good morning.")
    page.click("#say")
    until(page, "document.getElementById('say').textContent === 'Stop'")


def add_voices(world, count: int) -> None:
    world.voices += [
        {
            "id": f"v{number}",
            "name": f"Voice {number}",
            "origin": "upload",
            "created": None,
            "duration_seconds": 7.25,
        }
        for number in range(1, count + 1)
    ]


def test_of_many_voices_ten_are_shown_at_a_time_and_one_is_found_by_its_name(world, opened):
    add_voices(world, 199)  # 200 with the served one
    page = opened()
    page.wait_for_selector("#voice-list li")
    names = "#voice-list .name"
    assert page.locator(names).count() == 10
    assert page.evaluate("document.documentElement.scrollHeight") < 6000
    assert page.text_content("#voices-info") == "1 to 10 of 200"
    page.click("#voices-after")
    says(page, "voices-info", "11 to 20 of 200")
    assert page.text_content(f"{names} >> nth=0") == "Voice 10"
    page.fill("#voice-filter", "voice 123")
    says(page, "voices-info", "1 to 1 of 1")
    assert page.locator(names).all_text_contents() == ["Voice 123"]
    # Each can still speak.
    assert page.locator("#voice option").count() >= 200


def test_a_new_voice_is_on_the_page_that_is_shown(world, opened, tmp_path):
    add_voices(world, 24)
    page = opened()
    page.wait_for_selector("#voice-list li")
    (tmp_path / "anna.wav").write_bytes(wav(speech(7.25, 200)))
    add_voice(page, tmp_path / "anna.wav", "Anna")
    page.wait_for_selector("[aria-label='Rename Anna']")
    assert page.text_content("#voices-info") == "21 to 26 of 26"


def test_few_voices_have_no_pages(page):
    page.wait_for_selector("#voice-list li")
    assert page.is_hidden("#voice-pages")


def test_speak_stands_near_the_top_of_a_phone(opened):
    phone = opened(viewport=PHONE)
    top = phone.evaluate("document.getElementById('say').getBoundingClientRect().bottom")
    assert top < 844
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
