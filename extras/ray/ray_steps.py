"""Computes steps on Ray.

Ray (https://docs.ray.io, Moritz et al. 2018) is an optional dependency. `--ray` starts workers on
this machine. RAY_ADDRESS names a cluster whose machines have this project installed and the files
at the same paths. We use Ray's tasks instead of Ray Data, because the next step depends on results
(the words recognised in a recording, the verdict on a sentence).
"""

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any, TypeVar

from extras.common.steps import Steps
from machine import commands
from machine.devices.selection import cpu_count
from machine.errors import SotaqueError
from machine.text import first_line

T = TypeVar("T")

# A block of 20 s takes 1.3 MB, the profile of a ten-hour recording 20 MB.
_STORE_BYTES = 256 << 20
# Steps in flight per worker: the running one and the next.
_AHEAD_OF_A_WORKER = 2
# The number of times that a step is repeated after its worker or machine was lost.
_RETRIES = 10
# Ray reads these when it is imported. They turn off its usage reports and require the token in the
# user's home folder on its ports, which it opens on every interface whatever address is configured.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
_LOCAL = "local"


class RaySteps(Steps):
    """Computes steps on Ray. A step whose worker dies is repeated on another.

    Args:
        address: The address of a cluster, or `local` for workers on this machine.
        workers: The number of workers; None for all that the cluster has.

    Raises:
        SotaqueError: Ray cannot be started or reached, or a step failed repeatedly.
    """

    def __init__(self, address: str, workers: int | None) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self._ray = importlib.import_module("ray")
        local = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
        try:
            self._ray.init(
                address=address,
                log_to_driver=False,
                configure_logging=False,
                **(local if address == _LOCAL else {}),
            )
            cores = int(self._ray.cluster_resources().get("CPU", 1))
        except Exception as error:  # Ray raises a bare Exception if its start times out
            remedy = (
                "It gives up after half a minute. Try again when the machine is less busy, or omit --ray."
                if address == _LOCAL
                else "Check that RAY_ADDRESS names a running cluster with this version of Ray."
            )
            raise SotaqueError(f"Ray at {address} cannot be used ({error}). {remedy}") from error
        self.ahead = _AHEAD_OF_A_WORKER * max(min(cores, workers or cores), 1)
        self._remote: dict[Callable[..., Any], Any] = {}

    def begin(self, step: Callable[..., T], *arguments: object) -> Callable[[], T]:
        """As `Steps.begin`, but the step is queued at once."""
        if step not in self._remote:
            self._remote[step] = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(step)
        reference = self._remote[step].remote(*arguments)
        return lambda: self._taken(reference)

    def close(self) -> None:
        """Ends the workers on this machine, or disconnects from the cluster."""
        self._ray.shutdown()

    def _taken(self, reference: object) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            # Raises the step's own error, without the worker's traceback in its message.
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            raise SotaqueError(
                f"Ray lost a step and its {_RETRIES} repetitions ({first_line(error)}). The "
                "progress is kept: run the same command again."
            ) from error


def steps_on(address: str, workers: int | None, cores: int | None = None) -> Callable[[], Steps]:
    """The factory of `RaySteps` at RAY_ADDRESS, or on this machine if it is empty or `local`.

    workers: `--workers`; cores: of this machine. Raises SotaqueError if Ray is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise SotaqueError(
            "--ray or RAY_ADDRESS needs Ray, which is not installed. Install it with: "
            f"{commands.install_extra('ray')}"
        )
    if address in ("", _LOCAL) and workers is None:
        workers = cores or cpu_count()
    return functools.partial(RaySteps, address or _LOCAL, workers)
