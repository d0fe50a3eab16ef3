"""The player at the bottom: pauses, seeks, repeats, plays faster, saves, by pointer and by keys."""

from typing import Any

import pytest

from tests.api.page import desk
from tests.api.page.desk import DONE, SECONDS, go, say, says, speak, until
from tests.api.page.test_saving import saved
from tests.api.page.world import TEXT, speech, wav

pytestmark = pytest.mark.system
AT = "document.getElementById('player-position').valueAsNumber"
PLAYS = "document.getElementById('player-toggle').classList.contains('playing')"


@pytest.fixture
def page(opened: Any) -> Any:
    """The view that speaks, after one speech of 2.4 s."""
    opened_page = opened()
    speak(opened_page, "Good morning.")
    return opened_page


def put(page: Any, seconds: float) -> None:
    """Drags the slider of the player."""
    page.evaluate(f"document.getElementById('player-position').value = {seconds}")
    page.dispatch_event("#player-position", "input")


def test_it_is_not_there_before_there_is_a_sound(opened):
    assert opened().is_hidden("#player")


def test_it_says_what_plays_by_whom_and_how_far_it_is(page):
    assert page.text_content("#player-title") == "Good morning."
    assert page.text_content("#player-by") == "Epoch 3"
    assert page.text_content("#player-time") == "0:02 of 0:02"
    valuetext = page.get_attribute("#player-position", "aria-valuetext")
    assert valuetext == "2.4 seconds of 2.4 seconds"


def test_it_pauses_goes_on_and_seeks(page):
    page.click("#player-toggle")
    until(page, f"{AT} > 0.3")
    page.click("#player-toggle")
    stood = page.evaluate(AT)
    page.wait_for_timeout(300)
    assert page.evaluate(AT) == stood < 2.4 and not page.evaluate(PLAYS)
    put(page, 1.5)
    page.click("#player-toggle")
    until(page, f"{AT} > 1.6")
    until(page, f"!{PLAYS}")
    # In the spectrogram, too.
    box = page.locator("#spoken-sheet").bounding_box()
    page.mouse.click(box["x"] + 0.25 * box["width"], box["y"] + 10)
    assert page.evaluate(AT) == pytest.approx(0.6, abs=0.03)
    assert page.evaluate(SECONDS) == pytest.approx(0.6, abs=0.03)


def test_it_repeats_and_plays_faster(page):
    page.click("#player-loop")
    put(page, 2.2)
    page.click("#player-toggle")
    until(page, f"{AT} > 0.1 && {AT} < 1.5")
    assert page.evaluate(PLAYS)
    page.click("#player-loop")
    page.select_option("#player-rate", "2")
    put(page, 0)
    # 2.4 s of speech in 1.2 s; in the page, since a poll from outside may lag.
    took = page.evaluate(f"""new Promise((resolve) => {{
      const began = performance.now();
      const look = () => ({PLAYS} ? requestAnimationFrame(look) : resolve(performance.now() - began));
      look();
    }})""")
    assert 700 < took < 2000


def test_space_and_the_arrow_keys_work_where_no_control_has_the_focus(page):
    page.evaluate("document.activeElement.blur()")
    put(page, 0)
    page.keyboard.press("ArrowRight")
    assert page.evaluate(AT) == pytest.approx(2, abs=0.05)
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(AT) == 0
    page.keyboard.press("Space")
    until(page, f"{PLAYS} && {AT} > 0.1")
    page.keyboard.press("Space")
    until(page, f"!{PLAYS}")
    page.focus("#text")
    page.keyboard.press("Space")
    assert page.input_value("#text").endswith(" ") and not page.evaluate(PLAYS)


def test_it_stays_in_every_view_and_plays_one_sound_at_a_time(page, world):
    page.click("#player-toggle")
    go(page, "compare")
    page.wait_for_selector(desk.DESK)
    assert page.is_visible("#player")
    desk.play(page, seconds=0.1)
    assert page.text_content("#player-title") == TEXT
    go(page, "speak")
    says(page, "again", "Play")
    page.click("#player-toggle")
    assert not page.evaluate(PLAYS)


def test_a_speech_is_saved_while_it_is_still_spoken(page, world, tmp_path):
    world.pause_seconds = 1.5
    say(page, "Good night.")
    until(page, "document.getElementById('player-length').textContent.endsWith('so far')")
    assert saved(page, tmp_path) == ("sotaque_Good-night..wav", wav(speech(2.4, 150)))
    until(page, DONE)
    with page.expect_download() as got:
        page.click("#player-save")
    assert got.value.suggested_filename == "sotaque_Good-night..wav"


def test_it_covers_nothing_that_has_the_focus(page):
    """At the end of the page, and while one goes there with Tab."""
    page.set_viewport_size(desk.PHONE)
    page.focus("#format")
    top = "document.getElementById('player').getBoundingClientRect().top"
    for _ in range(12):
        page.keyboard.press("Tab")
        foot = page.evaluate("""(() => {
          const at = document.activeElement;
          return at.closest("main") ? at.getBoundingClientRect().bottom : 0;
        })()""")
        assert foot <= page.evaluate(top) + 1
