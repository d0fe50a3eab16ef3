"""The speak box and the voices: the request as code, renaming, phones."""

import subprocess
import sys

import pytest

from tests.api.page.desk import PHONE, add_voice, go, pick, says, until
from tests.api.page.world import speech, wav

pytestmark = pytest.mark.system


@pytest.fixture
def page(page):
    """The view that speaks; the run is known already."""
    go(page, "speak")
    return page


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
    pick(page, "Anna", "Rename")
    until(page, "document.activeElement.ariaLabel === 'New name of Anna'")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.ariaLabel") == "More for Anna"
    pick(page, "Anna", "Rename")
    until(page, "document.activeElement.ariaLabel === 'New name of Anna'")
    page.keyboard.type("Ben")
    page.keyboard.press("Enter")
    page.wait_for_selector("[aria-label='More for Ben']")
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
    until(page, "!document.getElementById('stop').disabled")


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
    page = opened(view="voices")
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
    page = opened(view="voices")
    page.wait_for_selector("#voice-list li")
    (tmp_path / "anna.wav").write_bytes(wav(speech(7.25, 200)))
    add_voice(page, tmp_path / "anna.wav", "Anna")
    page.wait_for_selector("[aria-label='More for Anna']")
    assert page.text_content("#voices-info") == "21 to 26 of 26"


def test_a_voice_speaks_at_a_press_and_its_id_is_copied(page, world, tmp_path):
    (tmp_path / "anna.wav").write_bytes(wav(speech(7.25, 200)))
    add_voice(page, tmp_path / "anna.wav", "Anna")
    page.click("#voices-told button")
    until(page, "document.activeElement.id === 'text'")
    assert page.input_value("#voice") == world.voices[-1]["id"]
    page.select_option("#voice", "default")
    go(page, "voices")
    pick(page, "Anna", "Speak with it")
    until(page, "document.activeElement.id === 'text'")
    assert page.input_value("#voice") == world.voices[-1]["id"]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    go(page, "voices")
    pick(page, "Anna", "Copy its id")
    until(page, "navigator.clipboard.readText().then((text) => text === 'v1')")


def test_recordings_with_a_name_that_exists_are_not_sent(page, world, tmp_path):
    (tmp_path / "anna.wav").write_bytes(wav(speech(7.25, 200)))
    add_voice(page, tmp_path / "anna.wav", "Anna")
    page.wait_for_selector("[aria-label='More for Anna']")
    add_voice(page, tmp_path / "anna.wav", "anna ")
    until(
        page,
        "document.getElementById('voices-told').textContent.startsWith('A voice is called anna already')",
    )
    button = "#voice-form [type=submit]"
    page.click(button)
    assert page.text_content(button) == "Add voice" and len(world.voices) == 2


def test_a_voice_file_with_a_name_that_exists_asks(page, world, tmp_path):
    (tmp_path / "anna.wav").write_bytes(wav(speech(7.25, 200)))
    add_voice(page, tmp_path / "anna.wav", "Anna")
    page.wait_for_selector("[aria-label='More for Anna']")
    (tmp_path / "anna.sotaque").write_bytes(b"PK")
    add_voice(page, tmp_path / "anna.sotaque", "anna")
    button = "#voice-form [type=submit]"
    until(page, f"document.querySelector('{button}').textContent === 'Add a second anna'")
    page.fill("#voice-form [name=name]", "Ana")
    assert page.text_content(button) == "Add voice"


def test_files_that_are_dropped_anywhere_are_chosen_with_their_name(page):
    go(page, "voices")
    page.evaluate("""() => {
      const files = new DataTransfer();
      files.items.add(new File(["x"], "Kim of old.sotaque"));
      const drop = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: files });
      document.querySelector("#voices-title").dispatchEvent(drop);
      window.prevented = drop.defaultPrevented;
    }""")
    assert page.evaluate("window.prevented")
    assert page.evaluate("document.querySelector('[name=file]').files[0].name") == "Kim of old.sotaque"
    assert page.input_value("#voice-form [name=name]") == "Kim of old"


def test_few_voices_have_no_pages(page):
    go(page, "voices")
    page.wait_for_selector("#voice-list li")
    assert page.is_hidden("#voice-pages")


def test_speak_stands_near_the_top_of_a_phone(opened):
    phone = opened(viewport=PHONE)
    top = phone.evaluate("document.getElementById('say').getBoundingClientRect().bottom")
    assert top < 844
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
