"""What the speaking child answers when a voice cannot be opened: nobody who speaks is to suffer."""

import errno
import time
from pathlib import Path
from typing import Any

import pytest

from xtts import frames
from xtts.ensemble import Ensemble
from xtts.stage import Computing

OPEN = {"do": "open", "id": "a1", "key": "v1", "voice": {"name": "demo"}}


def answer(ensemble: Ensemble) -> dict[str, Any]:
    list(ensemble.take(OPEN, b""))
    while ensemble.waiting:
        for frame in ensemble.step():
            header, _ = frames.lengths(frame[: frames.PREFIX.size])
            found: dict[str, Any] = frames.header_of(
                frame[frames.PREFIX.size : frames.PREFIX.size + header]
            )
            return found
        time.sleep(0.01)
    raise AssertionError("no answer")


def test_a_file_that_goes_while_it_is_opened_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch that the trainer prunes between the look and the reading."""

    def gone(*_: object) -> None:
        path = Path("/runs/checkpoints/checkpoint_epoch_1.pt")
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr("xtts.stage.stand", gone)
    said = answer(Ensemble(Computing(), 1))
    assert (said["say"], said["reason_code"]) == ("failed", "refused")
    assert said["reason"] == "checkpoint_epoch_1.pt cannot be read (No such file or directory)."


def test_any_other_error_ends_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr("xtts.stage.stand", wrong)
    with pytest.raises(KeyError):
        answer(Ensemble(Computing(), 1))
