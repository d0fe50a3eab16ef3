"""The studio's path in the view that trains: its steps, and the next one."""

import pytest

from tests.api.page.desk import PHONE, says, too_small, until
from tests.api.page.filled import filled
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


def test_an_empty_studio_names_its_next_step(world, opened):
    nothing(world)
    page = opened(view="train", ready="#start [aria-current=step]", viewport=PHONE, has_touch=True)
    step = "document.querySelector('#start [aria-current=step]')?.dataset.step"
    assert page.evaluate(step) == "dataset"
    assert "make train" not in page.inner_text("body")
    bottom = "document.querySelector('#reading-form button').getBoundingClientRect().bottom"
    assert page.evaluate(bottom) < PHONE["height"]
    assert too_small(page, "#start a") == []
    # Now a sentence is kept.
    answers = filled(World(), "tape").answers
    world.answers |= {path: answers[path] for path in answers if path.startswith("/v1/datasets")}
    world.tell("dataset")
    until(page, f"{step} === 'train'")
    assert "tape: 2 clips, 0.1 minutes." in page.text_content("#start-dataset")
    page.click("#start [aria-current=step] a")
    until(page, "location.hash === '#/train/trains'")
    world.answers["/v1/trainings"] = answers["/v1/trainings"]
    world.tell("training")
    until(page, f"{step} === 'listen'")
    world.training = True
    world.add(epoch(1))
    until(page, f"{step} === undefined")
    page.click("text=Compare >> visible=true >> nth=0")


def test_one_step_is_shown_at_a_time_and_the_address_names_it(opened):
    page = opened(view="train")
    shown = "[...document.querySelectorAll('.place')].filter((o) => o.checkVisibility()).map((o) => o.id)"
    for name, place in (
        ("Cut long recordings", "recordings"),
        ("Train", "trains"),
        ("Read sentences aloud", "reading"),
    ):
        page.click(f"#start a:text-is('{name}')")
        until(page, f"location.hash === '#/train/{place}'")
        assert page.evaluate(shown) == [place]
        assert page.evaluate("document.activeElement.id") == place
        assert page.get_attribute(f"#start a:text-is('{name}')", "aria-current") == "page"
    page.click("#index a:text-is('Speak')")
    page.click("#index a:text-is('Train')")
    until(page, f"({shown}).join() === 'reading'")


def test_the_time_that_a_training_takes_is_told_before_it_begins(world, opened):
    world.answers = filled(World(), "tape").answers
    clips = world.answers["/v1/datasets/cut"]["clips"]
    clips |= {"kept": 60, "kept_seconds": 420.0}
    trainings = world.answers["/v1/trainings"]
    before = trainings["trainings"][1] | {"run": "ana", "started": "2026-01-02T03:00:00Z"}
    trainings["trainings"] = [before]
    page = opened(view="train/trains", ready="#train-form:not([hidden])")
    says(page, "train-time", "How long it takes is unknown: no training like it has ended yet.")
    # 3.5 minutes of clips took six minutes; these are twice as many.
    trainings["trainings"] = [before | {"run": "current", "state": "done", "ended": "2026-01-02T03:06:00Z"}]
    world.tell("training")
    says(page, "train-time", "It takes about 12 min, going by Current run.")
    page.fill("#train-form [name=epochs]", "2")
    says(page, "train-time", "It takes about 6 min, going by Current run.")
    page.click("#train-form summary")
    page.fill("#train-form [name=samples]", "30")
    says(page, "train-time", "It takes about 3 min, going by Current run.")


def test_where_the_service_takes_no_trainings_the_step_says_how_to_train(world, opened):
    nothing(world)
    world.answers["/v1/trainings"]["allowed"] = False
    page = opened(view="train", ready="#start")
    until(page, "document.getElementById('start-train').textContent.includes('Copy the command')")


def test_recordings_may_have_a_language_that_was_added_to_the_voice(page, world):
    world.languages = ("pt", "el")
    world.tell("status")
    until(page, "document.getElementById('language').options[1].text === 'Greek'")
    for part in ("reading", "dataset"):
        offered = page.locator(f"#{part}-language option").all_text_contents()
        assert len(offered) == 18 and {"English", "Greek"} <= set(offered)
        assert page.input_value(f"#{part}-language") == "en"
