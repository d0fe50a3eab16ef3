"""Runs and trainings together, on the page of the real service."""

import pytest

from extras.studio.training_jobs import TrainingQueue
from tests.api.page import test_runs
from tests.api.page.desk import LOOKS, faults, go, too_small, until
from tests.api.page.test_runs import LIST, opened, pressed

pytestmark = pytest.mark.system
service = test_runs.service


def test_a_run_that_waits_for_its_training_cannot_be_deleted(service, open_page):
    page = opened(service, open_page)
    TrainingQueue(service.state.settings.queue_dir).ask("ben", "ana", {})
    page.provoked.append("409")
    pressed(page, "Delete ben")
    page.keyboard.press("Enter")
    until(page, f"{LIST}.includes('A training of this run is queued or running.')")
    assert "Cancel it first." in page.text_content("#runs-fault")


@LOOKS
def test_it_can_be_read_and_touched_at_every_width(service, open_page, scheme, width):
    """Also without a dataset."""
    queue = TrainingQueue(service.state.settings.queue_dir)
    queue.ask("a-name-that-is-as-long-as-a-name-may-be", "ana", {})
    page = opened(
        service,
        open_page,
        color_scheme=scheme,
        has_touch=width < 400,
        viewport={"width": width, "height": 844},
    )
    page.wait_for_selector("#trainings button", state="attached")
    page.wait_for_selector("#train-form:not([hidden])", state="attached")
    for view, least in (("compare", 40), ("train/trains", 20)):
        go(page, view)
        assert faults(page, width, least) == []
        if width < 400:
            assert too_small(page, ":is(#trains, #runs) :is(button, input, select, summary)") == []
