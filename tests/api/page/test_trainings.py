"""Trainings on the page, with the true service: asked for by keyboard, followed, cancelled."""

import pytest

from tests.api.page.desk import LOOKS, faults, too_small, until
from tests.api.page.test_recordings import opened, with_clips
from xtts.voices.training_jobs import TrainingQueue

pytestmark = pytest.mark.system
LIST = "document.getElementById('trainings').textContent"


def test_a_training_is_asked_for_and_cancelled_by_keyboard_alone(service, open_page):
    with_clips(service)
    page = opened(service, open_page)
    page.wait_for_selector("#train-form:not([hidden])")
    until(page, "document.getElementById('train-note').textContent.includes('train queue')")
    assert page.input_value("#train-form input[name=run]") == "anna"
    page.fill("#train-form input[name=epochs]", "3")
    page.focus("#train")
    page.keyboard.press("Enter")
    until(page, f"{LIST}.includes('anna Waits.')")
    queue = TrainingQueue(service.parts.settings.queue_dir)
    (job,) = queue.jobs()
    asked = job.read()
    assert (asked.run, asked.dataset) == ("anna", "anna")
    assert asked.settings == {"NUM_EPOCHS": "3", "LANGUAGE": "en"}
    job.write_state(state="running")
    until(page, f"{LIST}.includes('Trains.')")
    page.focus("#trainings button")
    page.keyboard.press("Enter")
    until(page, f"{LIST}.includes('as soon as its state is saved')")
    assert job.is_cancelled
    job.write_state(state="cancelled", message="It was cancelled. Its checkpoints are kept.")
    until(page, f"{LIST}.includes('Its checkpoints are kept')")


@LOOKS
def test_it_can_be_read_and_touched_at_every_width(service, open_page, scheme, width):
    with_clips(service)
    queue = TrainingQueue(service.parts.settings.queue_dir)
    for run in ("anna", "a-name-that-is-as-long-as-a-name-may-be"):
        queue.ask(run, "anna", {})
    size = {"width": width, "height": 844}
    page = opened(service, open_page, color_scheme=scheme, viewport=size, has_touch=width < 400)
    page.wait_for_selector("#trainings li >> nth=1")
    assert faults(page, width, 60) == []
    if width < 400:
        assert too_small(page, "#train, #train-form input, #trainings button") == []


def test_a_refusal_is_shown_as_its_sentence(service, open_page):
    with_clips(service)
    page = opened(service, open_page)
    page.provoked.append("422")
    page.wait_for_selector("#train-form:not([hidden])")
    page.fill("#train-form input[name=run]", "current")
    page.click("#train")
    page.wait_for_selector("#train-fault:not([hidden])")
    assert "`current` is taken" in page.text_content("#train-fault")
