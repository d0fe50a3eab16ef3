"""The index of the sections, the first steps of an empty studio, and tables as cards."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.page.desk import DESK, PHONE, says, too_small, until
from tests.api.page.filled import filled
from tests.api.page.world import World, epoch, evaluation

pytestmark = pytest.mark.system
OF_EXTRAS = ("/v1/datasets", "/v1/trainings", "/v1/books")
DESKTOP = {"width": 1280, "height": 800}
CURRENT = "document.querySelector('#index [aria-current]')?.textContent"
INDEX = "document.getElementById('index').getBoundingClientRect().top"


def nothing(world: World) -> None:
    """No run, no dataset, no training."""
    world.epochs.clear()
    world.records.clear()
    world.training = False
    world.answers["/v1/trainings"] = {
        "trainings": [], "allowed": True, "trainer": True, "message": "", "command": "",
    }  # fmt: skip


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_index_stays_in_view_and_names_the_section_on_the_screen(world, opened, size):
    page = opened(ready=DESK, viewport=size, has_touch=size is PHONE)
    assert page.evaluate(CURRENT) == "Speak"
    names = page.locator("#index a:visible").all_inner_texts()
    assert names == ["Speak", "Epochs", "Listen", "Curves", "Voices", "Datasets", "Train", "Runs",
                     "Books"]  # fmt: skip
    for name in (*names[::-1], *names):
        page.get_by_role("link", name=name, exact=True).focus()
        page.keyboard.press("Enter")
        until(page, f"{CURRENT} === {name!r}")
        assert page.evaluate(INDEX) <= max(0, 200 - page.evaluate("scrollY"))
        # The heading is below the index, and the entry of the section is on the screen.
        target = page.evaluate("location.hash.slice(1)")
        heading = f"document.getElementById('{target}-title')?.getBoundingClientRect().top"
        foot = "document.getElementById('index').getBoundingClientRect().bottom"
        assert page.evaluate(f"({heading} ?? 1000) >= {foot}"), name
        box = page.locator("#index [aria-current]").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= size["width"] + 1, name
    page.evaluate("scrollTo(0, 0)")
    until(page, f"{CURRENT} === 'Speak'")
    assert size is DESKTOP or too_small(page, "#index a") == []


def test_an_empty_studio_begins_with_its_next_step(world, opened):
    nothing(world)
    page = opened(ready="#start:not([hidden])", viewport=PHONE, has_touch=True)
    step = "document.querySelector('#start [aria-current]').dataset.step"
    assert page.evaluate(step) == "dataset" and page.evaluate(CURRENT) == "Start"
    assert "make train" not in page.inner_text("body")
    bottom = "document.querySelector('#start .main').getBoundingClientRect().bottom"
    assert page.evaluate(bottom) < PHONE["height"]
    assert too_small(page, "#start a") == []
    page.click("#start a >> nth=0")
    until(page, "location.hash === '#reading'")
    # A sentence is kept.
    answers = filled(World(), "tape").answers
    world.answers |= {path: answers[path] for path in answers if path.startswith("/v1/datasets")}
    world.tell("dataset")
    until(page, f"{step} === 'train'")
    assert "tape: 2 clips, 0.1 minutes." in page.text_content("#start-dataset")
    page.click("#start [aria-current] a")
    until(page, "location.hash === '#trains'")
    world.answers["/v1/trainings"] = answers["/v1/trainings"]
    world.tell("training")
    until(page, f"{step} === 'listen'")
    world.training = True
    world.add(epoch(1))
    page.wait_for_selector("#start", state="hidden")
    assert page.is_hidden("#index-start") and page.evaluate(CURRENT) != "Start"


def test_without_an_extra_its_sections_are_hidden_and_its_routes_not_asked_for(world, opened):
    nothing(world)
    world.extras = ()
    page = opened(ready="#epochs-empty:not([hidden])")
    asked: list[str] = []
    page.on("request", lambda one: asked.append(urlsplit(one.url).path))
    page.reload()
    page.wait_for_selector("#epochs-empty:not([hidden])")
    for event in ("dataset", "training", "book", "epoch"):
        world.tell(event)
    page.wait_for_timeout(1500)
    names = page.locator("#index a:visible").all_inner_texts()
    assert names == ["Speak", "Epochs", "Listen", "Curves", "Voices", "Runs"]
    assert all(page.is_hidden(f"#{name}") for name in ("start", "datasets", "trains", "books"))
    assert "/v1/runs" in asked and not [one for one in asked if one.startswith(OF_EXTRAS)]
    # A service that has them starts in its place.
    world.extras = ("studio", "books")
    world.tell("status")
    page.wait_for_selector("#books:not([hidden])")
    assert page.is_visible("#datasets")


def test_where_the_service_takes_no_trainings_the_step_says_how_to_train(world, opened):
    nothing(world)
    world.answers["/v1/trainings"]["allowed"] = False
    page = opened(ready="#start:not([hidden])")
    until(page, "document.getElementById('start-train').textContent.includes('Copy the command')")


@pytest.mark.parametrize("width", [641, 768, 1013])
@pytest.mark.parametrize("is_judged", [False, True])
def test_a_tablet_shows_every_column_and_serves(world, opened, width, is_judged):
    world.evaluation = evaluation() if is_judged else None
    page = opened(ready=DESK, viewport={"width": width, "height": 900})
    row = "tr[data-candidate=epoch_1]" if is_judged else "tr[data-epoch='1']"
    labels = page.eval_on_selector_all(f"{row} td[data-label]", """all => all
      .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right <= innerWidth)
      .map((one) => one.dataset.label)""")  # fmt: skip
    wanted = ["Failed", "Words", "Voice", "Rate", "Pitch", "Audio loss"]
    assert labels == (wanted if is_judged else ["Audio loss", "Similarity"])
    serve = page.locator(f"{row} button:has-text('Serve')")
    box: Any = serve.bounding_box()
    assert box["x"] + box["width"] <= width
    serve.click()
    says(page, "served", "Serving epoch 1, as you chose.")


def test_one_thing_has_one_name(page):
    headings = page.locator("h2:visible, h3:visible").all_inner_texts()
    assert [one for one in headings if "ecord" in one] == ["Cut long recordings"]
    assert {"Voices", "Datasets", "Read sentences aloud"} <= set(headings)
