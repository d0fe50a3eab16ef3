"""Steps are computed in this process, or by Ray on request."""

import pytest

from extras.common.steps import Steps, steps_for
from machine import extras
from machine.errors import SotaqueError


@pytest.mark.parametrize("address", ["", " "])
def test_steps_are_computed_in_this_process_unless_somebody_asks(address):
    assert steps_for(False, None, {"RAY_ADDRESS": address}, 4) is Steps


@pytest.mark.parametrize(
    ("asked", "workers", "refused"),
    [(False, 2, "--workers 2 is for Ray: add --ray"), (True, 0, "at least one worker")],
)
def test_an_impossible_number_of_workers_is_refused(asked, workers, refused):
    with pytest.raises(SotaqueError, match=refused):
        steps_for(asked, workers, {}, 4)


def test_ray_without_its_extra_is_refused(monkeypatch):
    monkeypatch.setattr(extras, "entries", lambda: ())
    with pytest.raises(SotaqueError, match="need extras/ray"):
        steps_for(True, None, {}, 4)
