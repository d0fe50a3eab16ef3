"""The vowel chart on the page: drawn for the chosen candidate, wide and narrow, light and dark."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.page import desk
from tests.api.page.desk import until
from tests.api.page.scripts import node_tests
from tests.api.page.world import World, evaluation

pytestmark = pytest.mark.system
READY = "#accent:not([hidden]) svg"
VOWELS = [
    ("bath", [0.40, 0.70], [0.62, 0.80], [0.60, 0.79]),
    ("goose", [0.55, 0.30], [0.61, 0.25], [0.57, 0.29]),
    ("fleece", [0.20, 0.25], [0.19, 0.27], [0.21, 0.24]),
    ("trap", [0.38, 0.69], [0.36, 0.74], [0.37, 0.70]),
    ("goat", [0.62, 0.49], [0.49, 0.51], [0.60, 0.50]),
]
NOTE = "The vowel of bath is now nearer to the person's than to the base's."


def figure() -> dict[str, Any]:
    vowels = [
        {
            "word": word,
            "said": [word],
            "base": base,
            "person": person,
            "candidate": place,
            "reached": word == "bath",
        }
        for word, base, person, place in VOWELS
    ]
    return {"mean": 0.42, "low": 0.3, "high": 0.54, "count": 12, "note": NOTE, "details": {"vowels": vowels}}


@pytest.fixture
def world() -> World:
    """Epoch 2 has an accent; the others have none."""
    judged = evaluation()
    judge = {"unit": "share", "better": "higher", "absent": None, "meaning": "The accent.", "further": True}
    judged["judges"] = {**judged["judges"], "accent": judge}
    for candidate in judged["candidates"]:
        candidate["further"] = {"accent": figure()} if candidate["id"] == "epoch_2" else {}
    return World(evaluation=judged, extras=("accent",))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_chart_of_the_chosen_candidate_is_drawn(opened, width, scheme):
    page = opened(view="compare", ready=READY, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert page.text_content("#accent-info") == "Epoch 2 is at 0.42 ±0.12: 0 is the base, 1 the person."
    assert page.text_content("#accent-note") == NOTE
    words = page.locator("#accent-chart .vowel").all_text_contents()
    assert words == [word for word, *_ in VOWELS]
    label = page.get_attribute("#accent-chart svg", "aria-label")
    assert "bath, goose, fleece, trap, goat" in label
    assert desk.outside(page, width, "#accent text") == []
    page.click("#accent summary")
    row = page.locator("#accent-rows tr", has_text="bath")
    assert row.locator("td").first.text_content() == "40 % back, 70 % open"
    assert desk.outside(page, width, "#accent td") == []


def test_the_table_has_its_column_and_a_candidate_without_accent_no_chart(opened):
    page = opened(view="compare", ready=READY)
    assert page.text_content("#judged-table [data-column=accent] .sort") == "Accent"
    cells = "#judged-table tr[data-candidate={}] td[data-label=Accent]"
    assert page.text_content(cells.format("epoch_2")) == "0.42±0.12"
    assert page.text_content(cells.format("base")) == "–"
    page.click("#judged-table tr[data-candidate=epoch_1] .epoch")
    until(page, "document.getElementById('accent').hidden")
    page.click("#judged-table tr[data-candidate=epoch_2] .epoch")
    until(page, "!document.getElementById('accent').hidden")


def test_pure_functions_of_the_part(tmp_path: Path) -> None:
    node_tests(Path(__file__).with_name("scripts.test.js"), tmp_path, "accent")
