"""Trainings on the page of the real service: checked, requested, followed, cancelled."""

import json

import pytest

from extras.studio.training_jobs import TrainingQueue
from machine.storage import locks
from tests.api.page.desk import LOOKS, faults, go, says, too_small, until
from tests.api.run_folders import write_epoch
from tests.extras.studio.page.test_recordings import opened, with_clips

pytestmark = pytest.mark.system
LIST = "document.getElementById('trainings').textContent"


def test_a_training_is_asked_for_and_cancelled_by_keyboard_alone(service, open_page):
    with_clips(service)
    page = opened(service, open_page)
    go(page, "train/trains")
    page.wait_for_selector("#train-form:not([hidden])")
    until(page, "document.getElementById('train-note').textContent.includes('train queue')")
    assert page.input_value("#train-form input[name=run]") == "anna"
    page.fill("#train-form input[name=epochs]", "3")
    page.focus("#train")
    page.keyboard.press("Enter")
    until(page, f"{LIST}.includes('anna Queued.')")
    queue = TrainingQueue(service.state.settings.queue_dir)
    (job,) = queue.jobs()
    asked = job.read()
    assert (asked.run, asked.dataset) == ("anna", "anna")
    assert asked.settings == {"NUM_EPOCHS": "3", "LANGUAGE": "en"}
    with locks.exclusive(queue.lock_file):  # A trainer works on it.
        job.write_state(state="running")
        until(page, f"{LIST}.includes('Training.')")
        page.focus("#trainings button")
        page.keyboard.press("Enter")
        until(page, f"{LIST}.includes('Cancelling: its state is saved first.')")
    assert job.is_cancelled
    job.write_state(state="cancelled", message="It was cancelled. Its checkpoints are kept.")
    until(page, f"{LIST}.includes('Its checkpoints are kept')")


def test_a_page_that_was_not_seen_catches_up(service, open_page):
    queue = TrainingQueue(service.state.settings.queue_dir)
    queue.ask("ana", "no-such", {})
    page = open_page(service.address, view="train/trains")
    until(page, f"{LIST}.includes('Queued.')")
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    page.wait_for_timeout(3500)  # It updates once more, then stops.
    queue.jobs()[0].write_state(state="done")
    page.wait_for_timeout(3500)
    assert "Queued." in page.evaluate(LIST)
    page.evaluate("""() => {
      delete document.hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    }""")
    until(page, f"{LIST}.includes('Done.')")


def test_what_a_check_finds_stands_beside_the_clip_to_hear(service, open_page):
    with_clips(service)
    page = opened(service, open_page)
    go(page, "train/trains")
    page.wait_for_selector("#train-form:not([hidden])")
    page.fill("#train-form input[name=epochs]", "3")
    page.focus("#check")
    page.keyboard.press("Enter")
    page.wait_for_selector("#findings li >> nth=1")
    assert page.text_content("#check-info").startswith("9 clips, 0.5 minutes, and 1 to validate.")
    refused, doubtful = page.locator("#findings li").all_text_contents()
    assert "a Training leaves it out: 0.1 s, allowed: 0.5 to 11 s." in refused
    assert "tape-0001" in doubtful and "--num-epochs=3" in doubtful
    page.focus("#findings [aria-label='Play tape-0001']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#findings [aria-label='Stop tape-0001']")


def test_a_training_that_has_ended_is_listened_to_and_goes_on(service, open_page):
    settings = service.state.settings
    queue = TrainingQueue(settings.queue_dir)
    queue.ask("ana", "no-such", {"NUM_EPOCHS": "2", "BASE_MODEL": "demo"})
    (job,) = queue.jobs()
    job.write_state(state="done", message="It has two epochs.")
    write_epoch(settings.output_dir / "runs" / "ana", 2)
    row = {
        "kind": "train",
        "epoch": 2,
        "step": 20,
        "loss": 2.5,
        "progress": {"epochs": 2, "epoch_step": 10, "epoch_steps": 10, "seconds_left": 0.0},
    }
    metrics = settings.output_dir / "runs" / "ana" / "metrics.jsonl"
    metrics.write_text(json.dumps(row) + "\n")
    page = open_page(service.address, view="train/trains")
    until(page, f"{LIST}.includes('Done. It has two epochs.')")
    page.focus("[aria-label='Listen ana']")
    page.keyboard.press("Enter")
    says(page, "desk-title", "Epoch 2")
    go(page, "train/trains")
    page.focus("[aria-label='Train more ana']")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.name") == "epochs"
    values = "[...document.querySelectorAll('#train-form :is(input, select)')].map((o) => o.value)"
    assert page.evaluate(values) == ["", "no-such", "ana", "4", "demo", ""]


@LOOKS
def test_it_can_be_read_and_touched_at_every_width(service, open_page, scheme, width):
    with_clips(service)
    queue = TrainingQueue(service.state.settings.queue_dir)
    for run in ("anna", "a-name-that-is-as-long-as-a-name-may-be"):
        queue.ask(run, "anna", {})
    size = {"width": width, "height": 844}
    page = opened(service, open_page, color_scheme=scheme, viewport=size, has_touch=width < 400)
    go(page, "train/trains")
    page.wait_for_selector("#trainings li >> nth=1")
    assert faults(page, width, 30) == []
    if width < 400:
        assert too_small(page, "#train, #train-form input, #trainings button") == []


def test_a_refusal_is_shown_as_its_sentence(service, open_page):
    with_clips(service)
    page = opened(service, open_page)
    go(page, "train/trains")
    page.provoked.append("422")
    page.wait_for_selector("#train-form:not([hidden])")
    page.fill("#train-form input[name=run]", "current")
    page.click("#train")
    page.wait_for_selector("#train-fault:not([hidden])")
    assert "current is taken" in page.text_content("#train-fault")
    assert page.text_content("#train-fault code") == "current"
