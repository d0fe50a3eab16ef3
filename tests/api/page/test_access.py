"""Accessibility of the page: keyboard, screen reader, small and dark screens, escaped markup."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.page import desk
from tests.api.page.conftest import Open
from tests.api.page.desk import says, until
from tests.api.page.world import World, epoch

pytestmark = pytest.mark.system
FOCUSED = """(() => {
  const at = document.activeElement;
  if (at === document.body) return ["body", true];
  const shown = at.closest(".seek") ?? at;
  const style = getComputedStyle(shown);
  const name = at.id || at.getAttribute("aria-label") || at.name || at.textContent.trim();
  return [name || at.localName,
          style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
})()"""


def full(world: World, opened: Open, **options: Any) -> Any:
    """A page in which every section shows something."""
    world.epochs = [
        epoch(1, checkpoint_state="pruned"),
        epoch(2),
        epoch(3, checkpoint_state="damaged"),
        epoch(4),
    ]
    world.promoted, world.state = 2, "degraded"
    world.message = "Asked for CUDA; there is no GPU, so the CPU speaks."
    world.voices.append(
        {"id": "v1", "name": "Anna", "origin": "upload", "created": "2026-01-02", "duration_seconds": 7.25}
    )
    page = opened(view="compare", ready=desk.DESK, **options)
    page.click("#numbers summary")
    desk.go(page, "speak")
    page.click("#speak summary")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_headings_and_contrast(world, opened, scheme):
    page = full(world, opened, color_scheme=scheme)
    desk.speak(page, "Good morning.")
    page.wait_for_selector("#take-list li")
    page.click("#about summary")
    assert desk.faults(page, 1280, 30) == []
    desk.go(page, "compare")
    world.fault = {"status": 503, "detail": "Busy."}
    page.click("#follow")
    page.wait_for_selector("#epochs-fault:not([hidden])")
    assert desk.faults(page, 1280, 60) == []  # It did look at the texts.
    page.provoked.append("503")


def test_the_checks_find_what_is_wrong(page):
    page.evaluate("""() => {
      const { style } = document.getElementById("follow");
      document.getElementById("follow").hidden = false;
      style.color = style.backgroundColor = "#777";
      document.getElementById("match").parentElement.replaceWith(document.getElementById("match"));
      document.querySelector("#curves h2").outerHTML = "<h4>Curves</h4>";
    }""")
    faults = " ".join(page.evaluate(desk.CHECKS)["faults"])
    assert "contrast 1.00" in faults
    assert "id=match" in faults and "has no name" in faults
    assert "Curves skips from level" in faults


def test_the_question_for_the_key_has_names_and_contrast(world, opened):
    world.key = "k"
    page = opened(ready="#key-dialog[open]")
    assert page.evaluate(desk.CHECKS)["faults"] == []
    page.provoked.append("401")


@pytest.mark.parametrize("width", [320, 1280])
def test_the_slider_covers_the_lanes_but_not_their_buttons(opened, width):
    page = opened(view="compare", ready=desk.DESK, viewport={"width": width, "height": 700})
    desk.play(page)
    page.click("#play-reference")
    assert page.get_attribute("#play-reference", "aria-label") == "Pause reference"


RECTANGLES = """((chosen) => [...document.querySelectorAll(chosen)]
  .filter((one) => one.checkVisibility())
  .map((one) => {
    const { left, top, right, bottom } = one.getBoundingClientRect();
    return [one.id || one.textContent.trim() || one.className, left, top, right, bottom];
  }))"""


def rectangles(page: Any, chosen: str) -> list[tuple[str, float, float, float, float]]:
    """Name, left, top, right and bottom of the visible part of each element."""
    return page.evaluate(f"{RECTANGLES}({chosen!r})")


def test_a_phone_has_targets_for_fingers_and_nothing_over_them(world, opened):
    page = full(world, opened, viewport=desk.PHONE, has_touch=True)
    targets = (
        "button, select, summary, .check, textarea, input[type=number], input[type=text], input[type=file]"
    )
    desk.speak(page, "Good morning.")
    page.wait_for_selector("#take-list li")
    for view, least in (("speak", 14), ("voices", 6), ("train", 5), ("compare", 15), ("books", 1)):
        desk.go(page, view)
        page.wait_for_timeout(300)
        assert len(rectangles(page, targets)) >= least, view
        assert desk.too_small(page, targets) == [], view
    desk.go(page, "compare")
    desk.play(page)
    page.click("#play-output")
    for over, under in ((".playhead", ".lane button, .track"), (".axis span", "canvas")):
        seen = rectangles(page, f"#desk :is({over})")
        assert seen
        for name, left, top, right, bottom in seen:
            for other, x0, y0, x1, y1 in rectangles(page, f"#desk :is({under})"):
                is_apart = right <= x0 + 0.5 or left >= x1 - 0.5
                assert is_apart or bottom <= y0 + 0.5 or top >= y1 - 0.5, f"{name} is over {other}"


ORDERS = {
    "speak": ["Skip to the content", "Speak", "Books", "text", "voice", "language", "say", "format"],
    "voices": ["Skip to the content", "Voices", "file", "record", "name"],
    "compare": [
        "Skip to the content",
        "Compare",
        "Play epoch 3",
        "Listen to epoch 3",
        "Play epoch 2",
        "Listen to epoch 2",
        "Serve epoch 2",
        "play-output",
        "play-reference",
        "position",
        "switch",
        "match",
        "scale",
        "keep-output",
        "player-toggle",
        "player-position",
        "player-loop",
        "player-rate",
        "player-save",
    ],
}


@pytest.mark.parametrize("view", ORDERS)
def test_all_of_it_by_keyboard(page, view):
    """Tab alone reaches every control from the top, in reading order, and each is visible."""
    desk.play(page)
    desk.go(page, "speak")
    desk.speak(page, "Good morning.")
    desk.go(page, view)
    page.evaluate("document.activeElement.blur()")
    page.evaluate("getSelection().removeAllRanges()")
    page.focus(".skip")
    seen = ["Skip to the content"]
    for _ in range(80):
        page.keyboard.press("Tab")
        name, outlined = page.evaluate(FOCUSED)
        if name in ("body", "Skip to the content"):  # The focus wrapped around to the top.
            break
        assert outlined, f"the focus cannot be seen on {name}"
        seen.append(name)
    order = ORDERS[view]
    assert [name for name in seen if name in order] == order


def test_a_person_without_a_mouse_listens_serves_and_speaks(page, world):
    page.focus("#desk")
    page.keyboard.press("Space")
    until(page, f"{desk.POSITION} > 0.3")
    page.keyboard.press("x")
    assert page.get_attribute("#play-reference", "aria-label") == "Pause reference"
    page.keyboard.press("Space")
    page.focus("#position")
    stood = desk.position(page)
    page.keyboard.press("ArrowRight")
    assert desk.position(page) == pytest.approx(stood + 0.25, abs=0.02)
    assert "reference" in page.get_attribute("#position", "aria-valuetext")
    page.keyboard.press("Home")
    assert desk.position(page) == 0
    page.focus("tr[data-epoch='1'] .epoch")
    page.keyboard.press("Enter")
    says(page, "desk-title", "Epoch 1")
    desk.pressed(page, "Tab", "Enter")
    desk.shows_serving(page, 1)
    assert world.promoted == 1
    page.focus("#index a")
    page.keyboard.press("Enter")
    text = "Good morning, x and space are letters here."
    page.focus("#text")
    page.keyboard.type(text)
    page.keyboard.press("Control+Enter")
    until(page, desk.DONE)
    assert world.bodies[0]["input"] == text


def test_a_letter_outside_the_desk_does_nothing_and_nothing_moves_where_that_is_wished(opened):
    page = opened(view="compare", ready=desk.DESK, reduced_motion="reduce")
    page.focus("tr[data-epoch='2'] .epoch")
    page.keyboard.press("x")
    assert page.text_content("#switch").startswith("Switch to reference")
    moving = "getComputedStyle(document.querySelector('.pulse')).animationName"
    assert page.evaluate(moving) == "none"


def test_words_are_only_words(world, opened):
    """Markup in a server text stays text. The content policy would stop any that did not."""
    row = epoch(1)
    row["sample"] |= {"text": desk.EVIL, "reason": desk.EVIL, "device": desk.EVIL}
    world.epochs, world.message, world.state = [row], desk.EVIL, "degraded"
    world.voices = [
        {
            "id": desk.EVIL,
            "name": desk.EVIL,
            "origin": "upload",
            "created": desk.EVIL,
            "duration_seconds": None,
        }
    ]
    page = opened(view="compare", ready=desk.DESK)
    page.wait_for_selector("#voice-list li", state="attached")
    for place in ("#desk-text", "#message", "#voice-list .name"):
        assert page.text_content(place) == desk.EVIL
    desk.speak(page, desk.EVIL)
    assert page.text_content("#spoken-text") == desk.EVIL and desk.is_only_words(page)


def test_the_page_sets_no_markup_and_asks_nobody_else():
    folder = Path(__file__).parents[3] / "api" / "page"
    files = sorted(folder.iterdir())
    assert len(files) > 15
    forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "http://",
        "https://",
    ]
    of_html = ["<style", "style=", " onclick", " onload", "<script>"]
    for file in files:
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        words = forbidden + (of_html if file.suffix == ".html" else [])
        assert [word for word in words if word in text] == [], file.name
