"""Takes all readings in parallel, each with a time limit.

Nothing here raises: a reading that fails or hangs leaves its reason in `Machine.troubles`. Only
child processes use CUDA (`machine.devices.probe`, `libraries` and `trial_speech`).
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from extras.common.readings import libraries, nvidia, programs, system_files, trial_speech
from extras.common.readings.snapshot import Driver, Machine, MachineSettings
from machine.devices import selection
from machine.devices.selection import Environment
from machine.errors import SotaqueError
from machine.storage.facts import Facts, cache_folder

_MAX_FILE_SECONDS = 5.0
# Longer than the probe's own limits.
_MAX_CHILD_SECONDS = 200.0
# Environment variables that concern GPUs, libraries and graphics.
_PREFIXES = ("CUDA_", "NVIDIA_", "LD_", "PYTORCH_", "DRI_PRIME", "__NV_PRIME", "__GLX_VENDOR", "TORCH_")


@dataclass(frozen=True)
class ReadingPlace:
    """Where and how to take the readings.

    Attributes:
        root, dotenv, environ, gpus: What tests replace.
        remembers: Whether cached results of an earlier call are used.
        deep: Whether to run `trial`.
        trial: The command that speaks a sentence; device and file are appended.
        preflights: Program name -> the command that prints the settings it refuses; the path of
            `.env` is appended.
        models: Name of a base model -> its weights, whose size is read.
        managed_seconds: The time limit for nvidia-smi or NVML.
    """

    root: Path = Path("/")
    dotenv: Path = Path(".env")
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    gpus: Callable[..., Environment] = selection.look_at_machine
    remembers: bool = True
    deep: bool = False
    trial: tuple[str, ...] = ()
    preflights: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    models: Mapping[str, Path] = field(default_factory=dict)
    managed_seconds: float = 8.0


@dataclass
class Readings:
    """The values of readings, why others failed, and how long each took, by name."""

    values: dict[str, Any] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def take(self, readers: Mapping[str, Callable[[], object]], limit_seconds: float) -> None:
        """Takes all readings in parallel; one that is late is left in its daemon thread."""
        outcomes: dict[str, tuple[float, object, str]] = {}

        def run(name: str, read: Callable[[], object]) -> None:
            started = time.monotonic()
            value: object = None
            trouble = ""
            try:
                value = read()
            except Exception as error:
                trouble = str(error) or type(error).__name__
            outcomes[name] = (time.monotonic() - started, value, trouble)

        threads = [
            threading.Thread(target=run, args=item, name=item[0], daemon=True) for item in readers.items()
        ]
        end = time.monotonic() + limit_seconds
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        for name in readers:
            late = (limit_seconds, None, f"no answer within {limit_seconds:g} s")
            self.seconds[name], value, trouble = outcomes.get(name, late)
            if trouble:
                self.troubles[name] = trouble
            else:
                self.values[name] = value


def read_machine(place: ReadingPlace) -> Machine:
    """Reads the whole machine: first files, which are fast, then everything that needs a child."""
    readings = Readings()
    readings.take(_file_readers(place), _MAX_FILE_SECONDS)
    readings.take(_child_readers(place, readings.values), _MAX_CHILD_SECONDS)
    if place.deep and place.trial:
        devices = ["cpu", *_healthy_gpus(readings.values.get("environment"))]
        trials = {"spoken": lambda: trial_speech.speak_trials(place.trial, devices)}
        readings.take(trials, 3 * _MAX_CHILD_SECONDS)
    return Machine(**readings.values, troubles=readings.troubles, seconds=readings.seconds)


def read_settings(environ: Mapping[str, str], dotenv: Path, models: Mapping[str, Path]) -> MachineSettings:
    """The settings that concern the machine; if they are invalid, the defaults and the fault."""
    from machine.settings.loading import SharedSettings, load

    try:
        loaded, _ = load(SharedSettings, (), environ, dotenv)
    except SotaqueError as error:
        return MachineSettings(model_bytes=_file_bytes(models.get("demo")), fault=str(error))
    weights = models.get(loaded.base_model, Path(loaded.base_model).expanduser() / "model.pth")
    return MachineSettings(loaded.output_dir, loaded.device, loaded.base_model, _file_bytes(weights))


def _file_readers(place: ReadingPlace) -> dict[str, Callable[[], object]]:
    root = place.root
    variables = {name: value for name, value in place.environ.items() if name.startswith(_PREFIXES)}

    @cache
    def on_path() -> dict[str, str]:
        return programs.on_path(place.environ)

    @cache
    def settings() -> MachineSettings:
        return read_settings(place.environ, place.dotenv, place.models)

    return {
        "variables": lambda: variables,
        "programs": on_path,
        "settings": settings,
        "nodes": lambda: system_files.nodes(root),
        "graphics": lambda: system_files.graphics(root),
        "container": lambda: system_files.container(root, on_path()),
        "shared_memory": lambda: system_files.shared_memory(root),
        "storage": lambda: system_files.storage(settings().output_dir),
    }


def _child_readers(place: ReadingPlace, file_values: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    version = system_files.driver_version(place.root)
    on_path = file_values.get("programs") or {}
    nodes = file_values.get("nodes")
    is_loaded = bool(version or (nodes and nodes.names))
    # A damaged table is logged at DEBUG: the doctor has more important things to report.
    folder = cache_folder(place.environ)
    cached_facts = Facts(folder, "doctor 1", logging.DEBUG) if place.remembers else None

    def driver() -> Driver:
        nouveau = (place.root / "sys/module/nouveau").is_dir()
        names = system_files.system_names(place.root)
        path, fault = nvidia.libcuda() if is_loaded else ("", "")
        return Driver(version, nouveau, path, fault, names)

    return {
        "refused": lambda: programs.refused_settings(place.preflights, place.environ, place.dotenv),
        "driver": driver,
        "managed": lambda: nvidia.managed_gpus(on_path, is_loaded, place.managed_seconds),
        "kernel_log": lambda: programs.kernel_log(on_path) if is_loaded else (),
        "torch": lambda: libraries.torch_build(place.environ, cached_facts),
        "onnx": libraries.onnx_runtime,
        "environment": lambda: place.gpus(use_cache=place.remembers),
    }


def _healthy_gpus(machine: Environment | None) -> list[str]:
    return [f"cuda:{gpu.index}" for gpu in machine.gpus if not gpu.reason] if machine else []


def _file_bytes(path: Path | None) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size if path else 0
    return 0
