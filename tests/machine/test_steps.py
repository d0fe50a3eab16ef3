"""Where steps are computed."""

import importlib.util
from typing import Any

import pytest

from machine.errors import SotaqueError
from machine.steps import Steps, steps_for


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
