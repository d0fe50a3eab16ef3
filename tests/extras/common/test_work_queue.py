"""Work on disk: job.json, and the sentence that reports the end of a child."""

from dataclasses import dataclass

import pytest

from extras.common.work_queue import Job, outcome, read_job, write_job
from machine.storage import files
from machine.storage.files import write_json


@dataclass(frozen=True)
class Cut(Job):
    inputs: str = ""


def test_a_job_is_kept_with_its_changes(tmp_path):
    assert read_job(tmp_path, Cut) == Cut() and not Cut().is_queued
    asked = write_job(tmp_path, Cut(inputs="a"), state="queued", asked="2026-01-01")
    assert asked == read_job(tmp_path, Cut) == Cut("queued", "2026-01-01", inputs="a")
    assert asked.is_queued and not write_job(tmp_path, asked, state="done").is_queued
    assert read_job(tmp_path, Cut).asked == "2026-01-01"


def test_a_job_of_another_version_is_none(tmp_path):
    write_json(tmp_path / "job.json", {"state": "done", "unknown": 1})
    assert read_job(tmp_path, Job) == Job()


@pytest.mark.parametrize(
    ("code", "stderr", "said"),
    [
        (
            -9,
            "",
            "The reading was killed, perhaps because memory ran out. What is done is kept: "
            "start the reading again, and it continues from there.",
        ),
        (
            1,
            "Traceback (most recent call last):\nZeroDivisionError: x",
            "What is done is kept: start the reading again, and it continues from there.",
        ),
    ],
)
def test_the_end_of_a_child_is_told_in_a_sentence(code, stderr, said):
    state, text = outcome(code, stderr, "reading")
    assert state == "failed" and text.endswith(said)


def test_a_full_disk_names_no_command_that_a_caller_cannot_run(tmp_path):
    full = files._full_sentence("the book", tmp_path, 10, 0)
    state, text = outcome(74, full, "reading")
    assert state == "failed" and text.endswith("Free some space and try again.")
    assert "command" not in text
