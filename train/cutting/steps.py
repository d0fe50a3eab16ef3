"""Computes the steps of a cut, in this process or on Ray, and keeps a journal of their results.

A step is a function of its arguments alone, so every place of computation gives the same bytes.
Any number of steps can be in flight; their results are taken in order.

Ray (https://docs.ray.io, Moritz et al. 2018) is an optional extra. `--ray` starts workers on this
machine. RAY_ADDRESS names a cluster whose machines have this project installed and see the
recordings at the same paths. We use Ray's tasks and not Ray Data, because the words recognised in
one chunk decide which words are expected in later ones: the rows are not independent.
"""

import functools
import importlib
import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from machine.devices.selection import cpu_count
from machine.errors import SotaqueError
from machine.storage.atomic import make_folder, refused
from train.cutting.recordings import CuttingError

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
        SotaqueError: Ray cannot be started or reached, or has lost a step for good. It is no
            CuttingError: what was heard is kept.
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
            raise SotaqueError(f"Ray at {address} cannot be used ({error}).") from error
        self.ahead = _AHEAD_OF_A_WORKER * max(min(cores, workers or cores), 1)
        self._remote: dict[Callable[..., Any], Any] = {}

    def begin(self, step: Callable[..., T], *arguments: object) -> Callable[[], T]:
        """As `Steps.begin`; it is computed at once, in its turn."""
        if step not in self._remote:
            self._remote[step] = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(step)
        reference = self._remote[step].remote(*arguments)
        return lambda: self._taken(reference)

    def close(self) -> None:
        """Ends the workers of this machine, or leaves the cluster."""
        self._ray.shutdown()

    def _taken(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            # What the step itself raised, without the worker's traceback in its sentence.
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            text = str(error).strip().splitlines()[0]
            raise SotaqueError(
                f"Ray lost a step and its {_RETRIES} repetitions ({text}). The progress is kept: "
                "run the same command again."
            ) from error


def steps_for(
    use_ray: bool, workers: int | None, environment: Mapping[str, str] = os.environ,
    cores: int | None = None,
) -> Callable[[], Steps]:  # fmt: skip
    """What begins to compute the steps of a cut. use_ray: `--ray`; workers: `--workers`; cores: of
    this machine.

    Raises CuttingError where Ray is asked for and not installed, and for workers that cannot be.
    """
    address = environment.get("RAY_ADDRESS", "").strip()
    if not use_ray and not address:
        if workers is not None:
            raise CuttingError(f"--workers {workers} is for Ray: add --ray, or set RAY_ADDRESS.")
        return Steps
    if workers is not None and workers < 1:
        raise CuttingError(f"--workers {workers}: Ray needs at least one worker.")
    if importlib.util.find_spec("ray") is None:
        raise CuttingError(
            "--ray or RAY_ADDRESS needs Ray, which is not installed. Install it with: "
            ".venv/bin/python -m pip install -e '.[ray]'"
        )
    if address in ("", _LOCAL) and workers is None:
        workers = cores or cpu_count()
    return functools.partial(RaySteps, address or _LOCAL, workers)


class HeardJournal:
    """What was heard so far, on disk: a cut that was killed goes on where it stopped.

    A line of JSON for each chunk, appended. The first line is the fingerprint of recordings and
    text; a line that a kill cut short is not read. Raises DiskFull or WriteError from `put`.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._known, whole = self._read(fingerprint)
        make_folder(path.parent)
        with refused(path):
            self._file = path.open("r+b" if whole else "wb")
            self._file.truncate(whole)
            self._file.seek(whole)
        if not whole:
            self._write({"fingerprint": fingerprint})

    def get(self, chunk: str) -> list[Any] | None:
        """What `put` was given for a chunk, tuples as lists; None where it is not known."""
        return self._known.get(chunk)

    def put(self, chunk: str, values: Sequence[Any]) -> None:
        """Remembers what JSON can hold."""
        self._write({"chunk": chunk, "words": values})

    def close(self) -> None:
        """The file stays."""
        self._file.close()

    def _write(self, entry: Mapping[str, Any]) -> None:
        with refused(self._path):
            self._file.write(json.dumps(entry).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _read(self, fingerprint: str) -> tuple[dict[str, list[Any]], int]:
        """(What it holds, bytes that are whole); nothing where it is of other recordings."""
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except OSError:
            return {}, 0
        known, whole = {}, 0
        for number, line in enumerate(lines):
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                entry = None
            if entry is None or (number == 0 and entry.get("fingerprint") != fingerprint):
                break
            if number:
                known[entry["chunk"]] = entry["words"]
            whole += len(line)
        return known, whole
