"""Where steps are computed."""

import importlib
import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from machine.errors import SotaqueError
from machine.steps import RaySteps, Steps, steps_for


@pytest.mark.parametrize(
    ("asked", "workers", "address", "where"),
    [
        (False, None, "", None),
        (False, None, " ", None),
        (True, None, "", ("local", 4)),
        (True, 2, "", ("local", 2)),
        (False, None, "local", ("local", 4)),
        (False, None, "10.0.0.7:6379", ("10.0.0.7:6379", None)),
        (False, 2, "", "--workers 2 is for Ray: add --ray"),
        (True, 0, "", "at least one worker"),
    ],
)
def test_where_the_steps_are_computed(monkeypatch, asked, workers, address, where):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: name)
    if isinstance(where, str):
        with pytest.raises(SotaqueError, match=where):
            steps_for(asked, workers, {"RAY_ADDRESS": address}, 4)
        return
    found: Any = steps_for(asked, workers, {"RAY_ADDRESS": address}, 4)
    assert found is Steps if where is None else found.args == where


@pytest.mark.parametrize(
    ("address", "remedy"), [("local", "leave out --ray"), ("10.0.0.7:6379", "See that RAY_ADDRESS")]
)
def test_a_ray_that_does_not_start_says_what_to_do(monkeypatch, address, remedy):
    """On a busy machine Ray's own start exceeds its limit: a bare Exception."""

    def init(**_: Any) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace(init=init))
    with pytest.raises(SotaqueError, match=rf"{address}.*timed out.*{remedy}"):
        RaySteps(address, 2)
