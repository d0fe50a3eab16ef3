"""Steps on Ray: where they run, and the error if Ray does not start."""

import importlib
import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from extras.common.steps import steps_for
from extras.ray.ray_steps import RaySteps
from machine import extras
from machine.errors import SotaqueError


@pytest.mark.parametrize(
    ("asked", "workers", "address", "where"),
    [
        (True, None, "", ("local", 4)),
        (True, 2, "", ("local", 2)),
        (False, None, "local", ("local", 4)),
        (False, None, "10.0.0.7:6379", ("10.0.0.7:6379", None)),
    ],
)
def test_where_the_steps_are_computed(monkeypatch, asked, workers, address, where):
    extras.entries()  # loaded before the test changes the installed packages
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: name)
    found: Any = steps_for(asked, workers, {"RAY_ADDRESS": address}, 4)
    assert found.args == where


def test_without_ray_the_line_to_install_it_is_told(monkeypatch):
    extras.entries()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None)
    with pytest.raises(SotaqueError, match=r"needs Ray, which is not installed.*ray"):
        steps_for(True, None, {}, 4)


@pytest.mark.parametrize(
    ("address", "remedy"), [("local", "omit --ray"), ("10.0.0.7:6379", "Check that RAY_ADDRESS")]
)
def test_a_ray_that_does_not_start_says_what_to_do(monkeypatch, address, remedy):
    """On a busy machine Ray's start exceeds its time limit: a bare Exception."""

    def init(**_: Any) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace(init=init))
    with pytest.raises(SotaqueError, match=rf"{address}.*timed out.*{remedy}"):
        RaySteps(address, 2)
