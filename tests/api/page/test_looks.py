"""The look of the page: the first screen, wrapping lines and marked figures."""

import pytest

from tests.api.page import desk
from tests.api.page.desk import DESK, PHONE, until
from tests.api.page.world import World, epoch, evaluation, figure_of

pytestmark = pytest.mark.system
DESKTOP = {"width": 1280, "height": 800}
JUDGED = "#judgement:not([hidden])"
# The number of text lines in each element.
LINES = """((chosen) => [...document.querySelectorAll(chosen)].map((one) => {
  const words = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
  const middles = [];
  while (words.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(words.currentNode);
    middles.push(...[...range.getClientRects()].map((box) => (box.top + box.bottom) / 2));
  }
  middles.sort((a, b) => a - b);
  return middles.filter((one, i) => i === 0 || one - middles[i - 1] > 8).length;
}))"""
ARROWS = """[...document.querySelectorAll("#judged-table .arrow")]
  .filter((one) => getComputedStyle(one).backgroundColor !== "rgba(0, 0, 0, 0)")
  .map((one) => {
    const box = (element) => element.getBoundingClientRect();
    const [arrow, text, cell] = [box(one), box(one.parentElement), box(one.closest("th"))];
    const isIn = (a, b) => a.left >= b.left && a.right <= b.right + 1 && a.top >= b.top
      && a.bottom <= b.bottom + 1;
    return isIn(arrow, text) && isIn(text, cell);
  })"""


@pytest.fixture
def worst(world: World) -> World:
    """An evaluation in which every figure of every candidate is worse than the base's."""
    world.evaluation = evaluation()
    errors = {**world.evaluation["judges"]["word_errors"], "absent": None}
    world.evaluation["judges"] = {**world.evaluation["judges"], "word_errors": errors}
    for candidate in world.evaluation["candidates"]:
        candidate["indistinguishable_from_base"] = candidate["kind"] != "base"
        base = None if candidate["kind"] == "base" else 0.9
        for name in ("words", "voice"):
            candidate["judges"][name] = figure_of(0.5, base, 0.05)
        for name in ("rate_drift_percent", "pitch_drift_percent"):
            candidate["judges"][name] = figure_of(-12.5, base and -5.0, 2.2)
        candidate["judges"]["word_errors"] = figure_of(0.31, base and 0.1, 0.05)
    return world


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_what_is_spoken_is_on_the_first_screen(opened, size):
    page = opened(viewport=size)
    desk.speak(page, "Good morning.")
    foot = "document.getElementById('spoken-info').getBoundingClientRect().bottom"
    top = "document.getElementById('player').getBoundingClientRect().top"
    assert page.evaluate(foot) < page.evaluate(top)


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_base_and_an_epoch_can_be_heard_on_the_first_screen(world, opened, size):
    world.evaluation = evaluation()
    page = opened(view="compare", ready=JUDGED, viewport=size)
    until(page, desk.WORKS)
    foot = "document.querySelector('tr[data-candidate=epoch_3] .row-play').getBoundingClientRect().bottom"
    assert page.evaluate(foot) < size["height"]


def test_speaking_moves_no_button_under_the_hand(opened):
    page = opened(viewport=DESKTOP)
    place = "JSON.stringify(document.getElementById('say').getBoundingClientRect())"
    before = page.evaluate(place)
    desk.speak(page, "Good morning.")
    assert page.evaluate(place) == before


def test_nothing_moves_for_people_who_want_no_motion(world, opened):
    page = opened(view="compare", ready=DESK, reduced_motion="reduce")
    assert page.is_visible("#training .pulse")
    world.add(epoch(4))
    page.wait_for_selector("tr[data-epoch='4'].fresh")
    assert page.evaluate("document.getAnimations().length") == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate("document.getAnimations().length") > 0


@pytest.mark.parametrize("width", [1280, 1440])
def test_a_name_and_its_state_take_two_lines_at_most(worst, opened, width):
    page = opened(view="compare", ready=JUDGED, viewport={"width": width, "height": 800})
    assert max(page.evaluate(f"{LINES}('#judged-table tbody th')")) == 2
    assert set(page.evaluate(f"{LINES}('#judged-table .epoch')")) == {1}
    assert desk.outside(page, width, "#judged-table td") == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_sort_arrow_is_inside_its_heading(worst, opened, size):
    page = opened(view="compare", ready=JUDGED, viewport=size)
    for column in ("epoch", "voice", "loss"):
        page.click(f"[data-column='{column}'] .sort")
        assert page.evaluate(ARROWS) == [True], column


def test_what_is_worse_is_marked_alike_in_every_column(worst, opened):
    page = opened(view="compare", ready=JUDGED, viewport=DESKTOP)
    row = page.locator("tr[data-candidate='epoch_2']")
    assert row.locator(".mark").all_inner_texts() == ["▼ worse"] * 5
    colours = row.locator(".mark").evaluate_all("all => all.map((one) => getComputedStyle(one).color)")
    assert len(set(colours)) == 1
    # A figure that is neither better nor worse has a third colour.
    colour = "getComputedStyle(document.querySelector('tr[data-candidate=epoch_2] .mark')).color"
    page.evaluate("document.querySelector('tr[data-candidate=epoch_2] .mark').className = 'mark'")
    plain = page.evaluate(colour)
    page.evaluate("document.querySelector('tr[data-candidate=epoch_2] .mark').className = 'mark better'")
    assert len({plain, page.evaluate(colour), colours[0]}) == 3


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", ["W" * 60, "Dona Maria da Silva dos Santos " * 2])
def test_a_long_voice_name_stays_in_its_card(world, opened, size, name):
    world.voices = [
        {
            "id": "v9",
            "name": name,
            "origin": "upload",
            "duration_seconds": 6.0,
            "preview": "/v1/voices/v9/preview.wav",
            "quality": None,
        }
    ]
    page = opened(view="compare", ready=DESK, viewport=size)
    page.wait_for_selector("#voice-list li", state="attached")
    for place in ("fact-voice", "speaks-with"):
        page.evaluate(f"name => (document.getElementById('{place}').textContent = name)", name)
    page.click("#about summary")
    for view, part, card in (
        ("voices", "#voice-list .name", "#voice-list"),
        ("speak", "#voice", "#speak"),
        ("speak", "#say", "#speak"),
        ("speak", "#speaks-with", "#speak"),
        ("speak", "#fact-voice", "#about-box"),
    ):
        desk.go(page, view)
        assert page.evaluate(inside(part, card)), part
        assert desk.outside(page, size["width"], "button, select, dd, p") == []
    # Shortened elsewhere, the name is complete in the list of voices.
    assert page.text_content("#voice-list .name") == name


def inside(part: str, card: str) -> str:
    return f"""(() => {{
      const [part, card] = ["{part}", "{card}"].map((one) => document.querySelector(one));
      const [a, b] = [part, card].map((one) => one.getBoundingClientRect());
      const overflows = part.scrollWidth > part.clientWidth + 1;
      return a.left >= b.left && a.right <= b.right + 0.5 && !overflows;
    }})()"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_what_opens_has_a_triangle(opened, size):
    page = opened(view="compare", ready=DESK, viewport=size, has_touch=size is PHONE)
    shown = page.eval_on_selector_all(
        "summary:not(.menu > summary)",
        """all => all
      .filter((one) => one.checkVisibility())
      .map((one) => getComputedStyle(one))
      .map((style) => `${style.display} ${style.listStyleType}`)""",
    )
    assert len(shown) >= 4 and set(shown) == {"list-item disclosure-closed"}
