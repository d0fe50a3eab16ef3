"""Takes: what was spoken stays in this browser with its sound, is heard, saved and restored."""

from typing import Any

import pytest

from tests.api.page import desk
from tests.api.page.desk import DONE, SECONDS, go, says, speak, until
from tests.api.page.test_saving import saved
from tests.api.page.world import speech, wav

pytestmark = pytest.mark.system
TEXTS = "#take-list .take-text"
ABOUT = "#take-list .quiet"


@pytest.fixture
def page(page: Any) -> Any:
    """The view that speaks; the run is known already."""
    go(page, "speak")
    page.click("#speak summary")
    return page


def takes(page: Any, count: int) -> None:
    """Waits until this many takes are listed."""
    until(page, f"document.querySelectorAll('#take-list > li').length === {count}")


def press(page: Any, number: int, button: str) -> None:
    """Presses a button in the menu of a take, by keyboard."""
    page.focus(f"#take-list > li:nth-child({number}) summary")
    page.keyboard.press("Enter")
    page.focus(f"#take-list > li:nth-child({number}) .menu-box button:text-is('{button}')")
    page.keyboard.press("Enter")


def test_takes_of_a_text_are_kept_and_heard_one_after_the_other(page, world):
    assert page.is_hidden("#takes")
    speak(page, "Good morning.")
    page.click("#take")
    until(page, DONE)
    takes(page, 2)
    assert page.locator(TEXTS).all_inner_texts() == ["Good morning."] * 2
    assert page.locator(ABOUT).all_inner_texts() == ["Epoch 3, seed 1, 0:02.4", "Epoch 3, seed 0, 0:02.4"]
    for number in (2, 1):
        page.click(f"#take-list > li:nth-child({number}) .round")
        playing = "[...document.querySelectorAll('#take-list .playing')].map((o) => o.ariaLabel).join()"
        until(page, f"{playing} === 'Pause Good morning., Epoch 3, seed {2 - number}'")
    until(page, DONE)
    # Nothing was spoken again.
    assert len(world.bodies) == 2


def test_two_takes_play_in_step_and_are_switched_at_one_position(page, world):
    for text in ("One.", "Two."):
        speak(page, text)
    takes(page, 2)
    press(page, 1, "Compare")
    until(page, "document.getElementById('takes-fault').textContent.startsWith('Play another take first.')")
    press(page, 2, "Compare")
    until(page, "document.querySelector('#player-toggle.playing')")
    assert page.text_content("#player-title") == "Two." and page.is_hidden("#takes-fault")
    position = "document.getElementById('player-position').valueAsNumber"
    until(page, f"{position} > 0.3")
    before = page.evaluate(position)
    page.click("#player-switch")
    assert page.text_content("#player-title") == "One." and page.evaluate(position) >= before
    selected = "document.querySelector('#take-list .selected .take-text').textContent"
    assert page.evaluate(selected) == "One."
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("x")
    assert page.text_content("#player-title") == "Two." == page.evaluate(selected)
    # A row plays its take alone again.
    page.click("#take-list > li:nth-child(2) .round")
    until(page, "document.querySelector('#take-list > li:nth-child(2) .playing')")
    assert page.is_hidden("#player-switch") and page.text_content("#player-title") == "One."
    until(page, DONE)
    assert len(world.bodies) == 2


def test_a_take_outlives_the_page_with_its_sound_and_what_spoke_it(page, world, tmp_path):
    page.select_option("#voice", label="Epoch 3")
    candidate = page.input_value("#voice")
    page.fill("[name=seed]", "7")
    page.fill("[name=speed]", "1.5")
    page.select_option("#language", "pt")
    speak(page, "Good morning.")
    takes(page, 1)
    page.reload()
    takes(page, 1)
    assert page.locator(ABOUT).all_inner_texts() == ["Epoch 3, seed 7, speed 1.5, pt, 0:02.4"]
    page.click("#take-list .round")
    until(page, f"{SECONDS} > 0.1")
    assert page.text_content("#spoken-text") == "Good morning."
    assert saved(page, tmp_path) == ("sotaque_Good-morning..wav", wav(speech(2.4, 150)))
    # The words are marked at their times, as they were.
    desk_time = "document.querySelector('#spoken-text .word.now')?.textContent"
    until(page, DONE)
    page.focus("#player-position")
    page.keyboard.press("Home")
    page.evaluate("document.getElementById('player-position').value = 0.3")
    page.dispatch_event("#player-position", "input")
    until(page, f"{desk_time} === 'Good'")
    page.wait_for_selector(f"#voice option[value='{candidate}']", state="attached")
    press(page, 1, "Use again")
    assert page.evaluate("document.activeElement.id") == "text"
    fields = {name: page.input_value(f"[name={name}]") for name in ("input", "seed", "speed", "language")}
    assert fields == {"input": "Good morning.", "seed": "7", "speed": "1.5", "language": "pt"}
    assert page.input_value("#voice") == candidate
    assert len(world.bodies) == 1


def test_a_star_keeps_a_take_and_takes_are_deleted(page, world):
    for text in ("One.", "Two.", "Three."):
        speak(page, text)
    takes(page, 3)
    page.click("#take-list > li:nth-child(3) .star")
    press(page, 1, "Delete")
    takes(page, 2)
    assert page.evaluate("document.activeElement.ariaLabel").startswith("Play Two.")
    page.reload()
    takes(page, 2)
    assert page.get_attribute("#take-list > li:nth-child(2) .star", "aria-pressed") == "true"
    page.click("#forget-takes")
    assert page.text_content("#forget-takes") == "Confirm: delete all"
    page.click("#forget-takes")
    page.wait_for_selector("#takes", state="hidden")
    page.reload()
    says(page, "live", "Live")
    assert page.is_hidden("#takes")


def test_a_speech_that_was_stopped_is_no_take(page, world):
    world.pause_seconds = 3.0
    desk.say(page, "Good morning.")
    until(page, f"{SECONDS} > 0.1")
    page.click("#stop")
    world.pause_seconds = 0.0
    speak(page, "Good night.")
    takes(page, 1)
    assert page.locator(TEXTS).all_inner_texts() == ["Good night."]


def test_a_voice_of_a_take_that_is_gone_is_told(page, world):
    """The text comes back; nothing pretends that another voice had spoken it."""
    world.voices.append({"id": "v7", "name": "Anna", "origin": "upload", "created": None})
    page.reload()
    page.wait_for_selector("#voice option[value='v7']", state="attached")
    page.select_option("#voice", "v7")
    speak(page, "Good morning.")
    takes(page, 1)
    world.voices.pop()
    page.reload()
    takes(page, 1)
    page.wait_for_selector("#voice option[value='default']", state="attached")
    press(page, 1, "Use again")
    assert page.input_value("#text") == "Good morning."
    told = "Anna is not in the list of voices now. Choose another voice."
    assert page.text_content("#speak-fault") == told


def test_nothing_of_a_take_leaves_the_browser(page, world):
    speak(page, "Good morning.")
    takes(page, 1)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method))
    page.click("#take-list .round")
    page.wait_for_selector("#take-list .playing")
    page.click("#take-list .star")
    until(page, DONE)
    assert [method for method in asked if method != "GET"] == []


def test_without_a_database_takes_last_as_long_as_the_page(world, opened):
    page = opened()
    page.add_init_script("Object.defineProperty(window, 'indexedDB', { get() { throw new Error(); } });")
    page.reload()
    speak(page, "Good morning.")
    takes(page, 1)
    page.click("#take-list .round")
    page.wait_for_selector("#take-list .playing")
    page.reload()
    says(page, "live", "Live")
    assert page.is_hidden("#takes")


@pytest.mark.parametrize("before", [0, 1])
def test_a_take_that_the_browser_has_no_room_for_is_told(page, before):
    for _ in range(before):
        speak(page, "Good morning.")
        takes(page, 1)
    page.evaluate("() => { IDBObjectStore.prototype.put = () => { throw new Error('full'); }; }")
    speak(page, "Good evening.")
    page.wait_for_selector("#takes-fault:not([hidden])")
    assert page.text_content("#takes-fault").startswith("This browser has no room")
    takes(page, before)
