"""The list of checks, in the order in which a user should act on them.

A check is a pure function. It becomes `could_not_run` if a reading that it needs is missing, or if
it raises an error; the other checks still run.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace

from extras.common.readings.snapshot import Machine
from extras.doctor.checks import builds, drivers, gpus, onnx, surroundings
from extras.doctor.finding import Finding, Severity, could_not_run

# Takes the readings that are named like its parameters; returns None if it does not apply to this machine.
Check = Callable[..., Finding | tuple[Finding, ...] | None]

CHECKS: dict[str, Check] = {
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

# The checks whose failure makes a healthy GPU fail too.
GPU_FAULT_CAUSES = {
    "kernel_log",
    "driver",
    "container",
    "device_nodes",
    "torch",
    "driver_age",
    "architecture",
    "library_path",
    "visible_gpus",
    "compute_mode",
    "after_suspend",
}
_GPU_CHECK_ID = re.compile(r"gpu\d+")


def judge(machine: Machine) -> tuple[Finding, ...]:
    """Every finding, in the order of the list."""
    findings = [finding for name, check in CHECKS.items() for finding in _run_check(name, check, machine)]
    return _with_common_fix(tuple(findings))


def required_readings(check: Check) -> list[str]:
    """The names of the readings that a check takes."""
    return list(inspect.signature(check).parameters)


def exit_code(findings: tuple[Finding, ...]) -> int:
    """0 if all is well, 1 for a warning or a failed reading, 2 for a fault to fix."""
    states = {finding.status for finding in findings}
    if Severity.FAIL in states:
        return 2
    return 1 if states & {Severity.WARN, Severity.COULD_NOT_RUN} else 0


def _with_common_fix(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Gives a failing GPU the fix of the first failing cause, since that fixes both."""
    causes = [
        finding for finding in findings if finding.id in GPU_FAULT_CAUSES and finding.status is Severity.FAIL
    ]
    if not causes:
        return findings
    return tuple(
        replace(finding, fix=causes[0].fix)
        if finding.fix and _GPU_CHECK_ID.fullmatch(finding.id)
        else finding
        for finding in findings
    )


def _run_check(name: str, check: Check, machine: Machine) -> tuple[Finding, ...]:
    readings = {reading: getattr(machine, reading) for reading in required_readings(check)}
    missing = [reading for reading, value in readings.items() if value is None]
    result: Finding | tuple[Finding, ...] | None
    if missing:
        why = dict.fromkeys(machine.troubles.get(reading, "not read") for reading in missing)
        result = could_not_run(f"{', '.join(missing)} could not be read: {'; '.join(why)}")
    else:
        try:
            result = check(**readings)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            result = could_not_run("the check failed with an error", evidence=message)
    seconds = round(sum(machine.seconds.get(reading, 0.0) for reading in readings), 3)
    findings = result if isinstance(result, tuple) else (result,) if result else ()
    return tuple(replace(finding, id=finding.id or name, seconds=seconds) for finding in findings)
