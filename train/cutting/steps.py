"""Where the steps of a cut are computed: in this process, or over Ray, an optional extra.

A step is a function of its arguments alone, so that where it is computed changes no byte. Steps are
begun in any number and taken in their order.

Ray (https://docs.ray.io, Moritz et al. 2018): `--ray` starts workers on this machine, RAY_ADDRESS
names a cluster whose machines have this project installed and see the recordings at the same paths.
Ray's tasks rather than Ray Data: what is heard of a chunk decides what is expected of later ones,
which no table of independent rows can say.
"""

import functools
import importlib
import importlib.util
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from machine.devices.selection import cpu_count
from train.cutting.recordings import CuttingError, WorkersLost

T = TypeVar("T")

# Blocks of 20 s take 1.3 MB; the measures of a ten-hour recording 20 MB.
_STORE_BYTES = 256 << 20
# Begun for each worker: what is computed, and what it takes next.
_AHEAD_OF_A_WORKER = 2
# How often a step is begun again whose worker or machine was lost.
_RETRIES = 10
# What Ray reads when it is imported: nothing is reported to its makers, and its ports, which it
# opens to every interface whatever address is named, ask for the token in the user's home folder.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
_LOCAL = "local"


class Steps:
    """In this process, each when its result is asked for.

    ahead: how many steps are worth having begun before the first of them is taken.
    """

    ahead = 0

    def begin(self, step: Callable[..., T], *arguments: object) -> Callable[[], T]:
        """Begins a step; what is returned waits for its result. Raises what the step raises."""
        return lambda: step(*arguments)

    def close(self) -> None:
        """Ends the workers, where there are some."""


class RaySteps(Steps):
    """Over Ray. A step whose worker dies is begun again on another.

    Args:
        address: Of a cluster, or `local` for workers of this machine.
        workers: How many of them, None for what the cluster has.

    Raises:
        WorkersLost: Ray cannot be started or reached, or has lost a step for good.
    """

    def __init__(self, address: str, workers: int | None) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self._ray: Any = importlib.import_module("ray")
        local = {
            "num_cpus": workers, "include_dashboard": False, "object_store_memory": _STORE_BYTES
        }  # fmt: skip
        try:
            self._ray.init(
                address=address, log_to_driver=False, configure_logging=False,
                **(local if address == _LOCAL else {}),
            )  # fmt: skip
            cores = int(self._ray.cluster_resources().get("CPU", 1))
        except (OSError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
            raise WorkersLost(f"Ray at {address} cannot be used ({error}).") from error
        self.ahead = _AHEAD_OF_A_WORKER * max(min(cores, workers or cores), 1)
        self._remote: dict[Callable[..., Any], Any] = {}

    def begin(self, step: Callable[..., T], *arguments: object) -> Callable[[], T]:
        """As `Steps.begin`; it is computed at once, in its turn."""
        if step not in self._remote:
            self._remote[step] = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(step)
        asked = self._remote[step].remote(*arguments)
        return lambda: self._taken(asked)

    def close(self) -> None:
        """Ends the workers of this machine, or leaves the cluster."""
        self._ray.shutdown()

    def _taken(self, asked: Any) -> Any:
        try:
            return self._ray.get(asked)
        except self._ray.exceptions.RayTaskError as error:
            # What the step itself raised, without the worker's traceback in its sentence.
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            text = str(error).strip().splitlines()[0]
            raise WorkersLost(
                f"Ray lost a step and its {_RETRIES} repetitions ({text}). What was heard is kept: "
                "give the same command again."
            ) from error


def steps_for(asked: bool, workers: int | None) -> Callable[[], Steps]:
    """What begins to compute the steps of a cut. asked: `--ray`; workers: `--workers`.

    Raises CuttingError where Ray is asked for and not installed.
    """
    found = ray_workers(asked, workers, os.environ, cpu_count())
    if found is None:
        return Steps
    if importlib.util.find_spec("ray") is None:
        raise CuttingError(
            "Ray is asked for (--ray or RAY_ADDRESS) and not installed. Install it with: "
            ".venv/bin/python -m pip install -e '.[ray]'"
        )
    return functools.partial(RaySteps, *found)


def ray_workers(
    asked: bool, workers: int | None, environment: Mapping[str, str], cores: int
) -> tuple[str, int | None] | None:
    """The address and the number of workers of `RaySteps`, or None where Ray does not compute.
    Pure. Raises CuttingError for workers that cannot be."""
    address = environment.get("RAY_ADDRESS", "").strip()
    if not asked and not address:
        if workers is not None:
            raise CuttingError(f"--workers {workers} is for Ray: add --ray, or set RAY_ADDRESS.")
        return None
    if workers is not None and workers < 1:
        raise CuttingError(f"--workers {workers}: Ray needs at least one worker.")
    if address and address != _LOCAL:
        return address, workers
    return _LOCAL, cores if workers is None else workers


def in_order(begun: Iterable[Callable[[], T]], ahead: int) -> Iterator[T]:
    """The results in the order in which the steps were begun, `ahead` of them begun before."""
    waiting = deque[Callable[[], T]]()
    for one in begun:
        waiting.append(one)
        if len(waiting) > ahead:
            yield waiting.popleft()()
    while waiting:
        yield waiting.popleft()()
