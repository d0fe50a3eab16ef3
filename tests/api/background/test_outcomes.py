"""The end of background work is reported in a sentence."""

import pytest

from api.background.work_queue import outcome
from machine.storage import atomic


@pytest.mark.parametrize(
    ("code", "stderr", "said"),
    [
        (-9, "", "The reading was killed, perhaps because memory ran out. What is done is kept: "
         "start the reading again, and it continues from there."),
        (1, "Traceback (most recent call last):\nZeroDivisionError: x", "What is done is kept: "
         "start the reading again, and it continues from there."),
    ],
)  # fmt: skip
def test_the_end_of_a_child_is_told_in_a_sentence(code, stderr, said):
    state, text = outcome(code, stderr, "reading")
    assert state == "failed" and text.endswith(said)


def test_a_full_disk_names_no_command_that_a_caller_cannot_run(tmp_path):
    full = atomic._full_sentence("the book", tmp_path, 10, 0)
    state, text = outcome(74, full, "reading")
    assert state == "failed" and text.endswith("Free some space and try again.")
    assert "command" not in text
