"""A trainer that dies is started again, and told; one that is stopped is not."""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable

from extras.studio.__main__ import Trainer

WAITING = (sys.executable, "-c", "import time; time.sleep(60)")


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_killed_trainer_is_started_again_and_a_stopped_one_is_not(caplog):
    trainer = Trainer(WAITING, rest_seconds=0.01)
    trainer.start()
    first = trainer.child.pid
    with caplog.at_level(logging.ERROR):
        os.kill(first, signal.SIGKILL)
        until(lambda: trainer.child.pid != first)
    assert "The trainer was killed by SIGKILL" in caplog.text
    second = trainer.child
    trainer.stop()
    trainer.join(20)
    assert not trainer.is_alive() and trainer.child is second and second.returncode == -15


def test_a_trainer_that_fails_at_its_start_is_tried_less_and_less_often(caplog):
    trainer = Trainer((sys.executable, "-c", "raise SystemExit(2)"), rest_seconds=0.01)
    with caplog.at_level(logging.ERROR):
        trainer.start()
        until(lambda: len(caplog.records) >= 3)
    trainer.stop()
    rests = [record.args[1] for record in caplog.records[:3]]
    assert rests == [0.01, 0.02, 0.04] and "ended with 2" in caplog.text
