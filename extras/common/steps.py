"""Computes steps in this process, or on workers of the extra `ray`.

A step is a pure function of its arguments, so its result does not depend on the place. Any number
of steps can be in flight; their results are taken in order.
"""

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from machine import extras
from machine.errors import SotaqueError

T = TypeVar("T")


class Steps:
    """Computes each step in this process, when its result is taken.

    ahead: the number of steps to start before taking the first result.
    """

    ahead = 0

    def begin(self, step: Callable[..., T], *arguments: object) -> Callable[[], T]:
        """Starts a step. The returned function waits for its result and raises its errors."""
        return lambda: step(*arguments)

    def close(self) -> None:
        """Ends the workers, if there are any."""


def steps_for(
    use_ray: bool, workers: int | None, environment: Mapping[str, str] = os.environ, cores: int | None = None
) -> Callable[[], Steps]:
    """Chooses where steps are computed. use_ray: `--ray`; workers: `--workers`; cores: of this
    machine.

    Raises SotaqueError if Ray is requested but not installed, or if `workers` is invalid.
    """
    address = environment.get("RAY_ADDRESS", "").strip()
    if not use_ray and not address:
        if workers is not None:
            raise SotaqueError(f"--workers {workers} is for Ray: add --ray, or set RAY_ADDRESS.")
        return Steps
    if workers is not None and workers < 1:
        raise SotaqueError(f"--workers {workers}: Ray needs at least one worker.")
    if elsewhere := extras.first("STEPS"):
        return elsewhere.steps_on(address, workers, cores)
    raise SotaqueError("--ray and RAY_ADDRESS need extras/ray, which this copy of Sotaque lacks.")
