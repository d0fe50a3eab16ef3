"""The views of the page: their addresses and navigation, and tables as cards."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.page.desk import DESK, PHONE, go, says, too_small, until
from tests.api.page.world import evaluation

pytestmark = pytest.mark.system
CORE = ["Speak", "Voices", "Compare"]
VIEWS = ["Speak", "Voices", "Train", "Compare", "Books"]
DESKTOP = {"width": 1280, "height": 800}
CURRENT = "document.querySelector('#index [aria-current]')?.textContent"
SHOWN = (
    "[...document.querySelectorAll('.view')].filter((o) => o.checkVisibility()).map((o) => o.dataset.view)"
)


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_one_view_is_shown_at_a_time_and_has_an_address(opened, size):
    page = opened(view="", viewport=size, has_touch=size is PHONE)
    assert page.evaluate(SHOWN) == ["speak"] and page.title() == "Speak - Sotaque"
    assert page.locator("#index a").all_inner_texts() == VIEWS
    for name in (*VIEWS[::-1], *VIEWS):
        page.get_by_role("link", name=name, exact=True).first.focus()
        page.keyboard.press("Enter")
        until(page, f"{CURRENT} === {name!r}")
        view = name.lower()
        assert page.evaluate(SHOWN) == [view] and page.title() == f"{name} - Sotaque"
        assert urlsplit(page.url).fragment == f"/{view}"
        heading = f"document.querySelector('[data-view={view}] h2').getBoundingClientRect().top"
        assert 0 < page.evaluate(heading) < 200, name
    assert size is DESKTOP or too_small(page, "#index a") == []
    page.reload()
    until(page, f"{CURRENT} === 'Books'")


def test_back_and_forward_lead_through_the_views_and_to_where_one_was(world, opened):
    page = opened(view="compare", ready=DESK, viewport={"width": 900, "height": 500})
    page.evaluate("scrollTo(0, 400)")
    go(page, "voices")
    until(page, f"{CURRENT} === 'Voices' && scrollY === 0")
    page.go_back()
    until(page, f"{CURRENT} === 'Compare' && scrollY === 400")
    page.go_forward()
    until(page, f"{CURRENT} === 'Voices'")


@pytest.mark.parametrize("where", ["nowhere", "train/nowhere", "speak/../x"])
def test_an_unknown_address_shows_a_view_all_the_same(opened, where):
    page = opened(view=where)
    assert page.evaluate(SHOWN) == (["train"] if where.startswith("train") else ["speak"])


def test_the_skip_link_leads_past_the_navigation(opened):
    page = opened(view="voices")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.evaluate(SHOWN) == ["voices"]


def test_without_extras_the_page_has_no_trace_of_them(world, opened):
    world.extras = ()
    page = opened(view="compare", ready=DESK)
    asked: list[str] = []
    page.on("request", lambda address: asked.append(urlsplit(address.url).path))
    page.reload()
    page.wait_for_selector(DESK)
    for event in ("dataset", "training", "book", "epoch"):
        world.tell(event)
    page.wait_for_timeout(1500)
    assert page.locator("#index a").all_inner_texts() == CORE
    assert page.locator("a[href^='#/train'], a[href='#/books']").count() == 0
    scripts = {address.rpartition("/")[0] for address in asked if address.startswith("/page/")}
    assert scripts == {"/page"}
    routes = {address for address in asked if address.startswith("/v1/") and not address.endswith(".wav")}
    assert all(route.startswith(("/v1/runs", "/v1/voices", "/v1/models")) for route in routes)


def test_the_first_view_is_small_and_needs_two_round_trips(service, open_page):
    """Every byte that the page of the real service loads before it can speak, as it travels; the
    document names every file, so that no file waits for another."""
    page = open_page(service.address, view="")
    says(page, "live", "Live")
    loaded = page.evaluate("""[...performance.getEntriesByType("resource"),
      ...performance.getEntriesByType("navigation")].map((one) => [one.name, one.transferSize])""")
    assert sum(size for _, size in loaded) < 150_000
    named = page.evaluate(
        "[...document.head.querySelectorAll('[href], [src]')].map((one) => one.href || one.src)"
    )
    files = [name for name, _ in loaded if "/page/" in name]
    assert set(files) == set(named) and 30 < len(files) < 48


@pytest.mark.parametrize("width", [641, 768, 1013])
@pytest.mark.parametrize("is_judged", [False, True])
def test_a_tablet_shows_every_column_and_serves(world, opened, width, is_judged):
    world.evaluation = evaluation() if is_judged else None
    page = opened(view="compare", ready=DESK, viewport={"width": width, "height": 900})
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
    go(page, "speak")
    says(page, "speaks-with", "with epoch 1")
