"""The studio's sections of the page: the first steps, and their place."""

import pytest

from tests.api.page.desk import PHONE, too_small, until
from tests.api.page.filled import filled
from tests.api.page.test_sections import CURRENT
from tests.api.page.world import World, epoch

pytestmark = pytest.mark.system


def nothing(world: World) -> None:
    """No run, no dataset, no training."""
    world.epochs.clear()
    world.records.clear()
    world.training = False
    world.answers["/v1/trainings"] = {
        "trainings": [],
        "allowed": True,
        "trainer": True,
        "message": "",
        "command": "",
    }


def test_its_sections_are_between_the_voices_and_the_runs(page):
    names = page.locator("#index a:visible").all_inner_texts()
    assert names[names.index("Voices") :][:4] == ["Voices", "Datasets", "Train", "Runs"]


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
    # Now a sentence is kept.
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


def test_where_the_service_takes_no_trainings_the_step_says_how_to_train(world, opened):
    nothing(world)
    world.answers["/v1/trainings"]["allowed"] = False
    page = opened(ready="#start:not([hidden])")
    until(page, "document.getElementById('start-train').textContent.includes('Copy the command')")


def test_recordings_may_have_a_language_that_was_added_to_the_voice(page, world):
    world.languages = ("pt", "el")
    world.tell("status")
    until(page, "document.getElementById('language').options[1].text === 'Greek'")
    for part in ("reading", "dataset"):
        offered = page.locator(f"#{part}-language option").all_text_contents()
        assert len(offered) == 18 and {"English", "Greek"} <= set(offered)
        assert page.input_value(f"#{part}-language") == "en"


def test_one_thing_has_one_name(page):
    headings = page.locator("h2:visible, h3:visible").all_inner_texts()
    assert [heading for heading in headings if "ecord" in heading] == ["Cut long recordings"]
    assert {"Voices", "Datasets", "Read sentences aloud"} <= set(headings)
