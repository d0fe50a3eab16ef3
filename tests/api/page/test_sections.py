"""The index of the sections, and tables as cards."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.page.desk import DESK, PHONE, says, too_small, until
from tests.api.page.world import evaluation

pytestmark = pytest.mark.system
CORE = ["Speak", "Epochs", "Listen", "Curves", "Voices", "Runs"]
DESKTOP = {"width": 1280, "height": 800}
CURRENT = "document.querySelector('#index [aria-current]')?.textContent"
INDEX = "document.getElementById('index').getBoundingClientRect().top"


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_index_stays_in_view_and_names_the_section_on_the_screen(world, opened, size):
    page = opened(ready=DESK, viewport=size, has_touch=size is PHONE)
    assert page.evaluate(CURRENT) == "Speak"
    names = page.locator("#index a:visible").all_inner_texts()
    assert [name for name in names if name in CORE] == CORE
    for name in (*names[::-1], *names):
        page.get_by_role("link", name=name, exact=True).focus()
        page.keyboard.press("Enter")
        until(page, f"{CURRENT} === {name!r}")
        assert page.evaluate(INDEX) <= max(0, 200 - page.evaluate("scrollY"))
        # The heading is below the index, and the section's index entry is on the screen.
        target = page.evaluate("location.hash.slice(1)")
        heading = f"document.getElementById('{target}-title')?.getBoundingClientRect().top"
        foot = "document.getElementById('index').getBoundingClientRect().bottom"
        assert page.evaluate(f"({heading} ?? 1000) >= {foot}"), name
        box = page.locator("#index [aria-current]").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= size["width"] + 1, name
    page.evaluate("scrollTo(0, 0)")
    until(page, f"{CURRENT} === 'Speak'")
    assert size is DESKTOP or too_small(page, "#index a") == []


def test_without_extras_the_page_has_no_trace_of_them(world, opened):
    world.extras = ()
    page = opened(ready=DESK)
    asked: list[str] = []
    page.on("request", lambda address: asked.append(urlsplit(address.url).path))
    page.reload()
    page.wait_for_selector(DESK)
    for event in ("dataset", "training", "book", "epoch"):
        world.tell(event)
    page.wait_for_timeout(1500)
    assert page.locator("#index a").all_inner_texts() == CORE
    assert page.locator("main > section").count() == len(CORE)
    scripts = {address.rpartition("/")[0] for address in asked if address.startswith("/page/")}
    assert scripts == {"/page"}
    routes = {address for address in asked if address.startswith("/v1/") and not address.endswith(".wav")}
    assert all(route.startswith(("/v1/runs", "/v1/voices", "/v1/models")) for route in routes)


@pytest.mark.parametrize("width", [641, 768, 1013])
@pytest.mark.parametrize("is_judged", [False, True])
def test_a_tablet_shows_every_column_and_serves(world, opened, width, is_judged):
    world.evaluation = evaluation() if is_judged else None
    page = opened(ready=DESK, viewport={"width": width, "height": 900})
    row = "tr[data-candidate=epoch_1]" if is_judged else "tr[data-epoch='1']"
    labels = page.eval_on_selector_all(
        f"{row} td[data-label]",
        """all => all
      .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right <= innerWidth)
      .map((one) => one.dataset.label)""",
    )
    columns = ["Failed", "Words", "Voice", "Rate", "Pitch", "Audio loss"]
    assert labels == (columns if is_judged else ["Audio loss", "Similarity"])
    serve = page.locator(f"{row} button:has-text('Serve')")
    box: Any = serve.bounding_box()
    assert box["x"] + box["width"] <= width
    serve.click()
    says(page, "served", "Serving epoch 1, as you chose.")
