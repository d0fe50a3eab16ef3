"""The list of checks, in the order in which a person should act on them.

A check is pure. What it needs and could not be read makes it `could_not_run`; so does a fault of
its own, which is reported and ends nothing.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace

from machine.doctor.checks import builds, drivers, gpus, onnx, surroundings
from machine.doctor.finding import Finding, Severity, could_not_run
from machine.readings.snapshot import Machine

# Takes the readings that its parameters name; None from it = of no concern on this machine.
Judge = Callable[..., Finding | tuple[Finding, ...] | None]

CHECKS: dict[str, Judge] = {
    "settings": surroundings.settings,
    "disk": surroundings.disk,
    "memory": surroundings.memory,
    "graphics": drivers.graphics,
    "kernel_log": gpus.kernel_log,
    "driver": drivers.driver,
    "container": drivers.container,
    "device_nodes": drivers.device_nodes,
    "torch": builds.torch_build,
    "driver_age": builds.driver_age,
    "architecture": builds.architecture,
    "library_path": builds.library_path,
    "visible_gpus": builds.visible_gpus,
    "compute_mode": builds.compute_mode,
    "after_suspend": gpus.after_suspend,
    "gpu": gpus.gpus,
    "shared_memory": surroundings.shared_memory,
    "onnx_runtime": onnx.onnx_runtime,
    "ffmpeg": surroundings.ffmpeg,
    "speech": surroundings.speech,
    "device": gpus.device,
}

# What makes a GPU fail that is itself well.
CAUSES = {
    "kernel_log", "driver", "container", "device_nodes", "torch", "driver_age", "architecture",
    "library_path", "visible_gpus", "compute_mode", "after_suspend",
}  # fmt: skip
_GPU = re.compile(r"gpu\d+")


def judge(machine: Machine) -> tuple[Finding, ...]:
    """Every finding, in the order of the list."""
    found = [one for name, check in CHECKS.items() for one in _findings(name, check, machine)]
    return _with_one_cause(tuple(found))


def needs(check: Judge) -> list[str]:
    """The readings that a check takes."""
    return list(inspect.signature(check).parameters)


def exit_code(findings: tuple[Finding, ...]) -> int:
    """0 all well, 1 something to know (a warning, or a reading that failed), 2 something to fix."""
    states = {finding.status for finding in findings}
    if Severity.FAIL in states:
        return 2
    return 1 if states & {Severity.WARN, Severity.COULD_NOT_RUN} else 0


def _with_one_cause(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """A GPU that fails behind a failing cause is mended with it: nothing else is advised."""
    causes = [one for one in findings if one.id in CAUSES and one.status is Severity.FAIL]
    if not causes:
        return findings
    return tuple(
        replace(one, fix=causes[0].fix) if one.fix and _GPU.fullmatch(one.id) else one
        for one in findings
    )


def _findings(name: str, check: Judge, machine: Machine) -> tuple[Finding, ...]:
    readings = {reading: getattr(machine, reading) for reading in needs(check)}
    missing = [reading for reading, value in readings.items() if value is None]
    found: Finding | tuple[Finding, ...] | None
    if missing:
        why = dict.fromkeys(machine.troubles.get(reading, "not read") for reading in missing)
        found = could_not_run(f"{', '.join(missing)} could not be read: {'; '.join(why)}")
    else:
        try:
            found = check(**readings)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            found = could_not_run("the check itself failed", evidence=message)
    seconds = round(sum(machine.seconds.get(reading, 0.0) for reading in readings), 3)
    many = found if isinstance(found, tuple) else (found,) if found else ()
    return tuple(replace(one, id=one.id or name, seconds=seconds) for one in many)
