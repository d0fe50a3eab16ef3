"""The list of checks, in the order in which a person should act on them.

A check is pure. What it needs and could not be read makes it `could_not_run`; so does a fault of
its own, which is reported and ends nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from machine.doctor.checks import builds, drivers, gpus, onnx, surroundings
from machine.doctor.finding import Finding, Severity, could_not_run
from machine.readings.snapshot import Machine

Judge = Callable[..., Finding | tuple[Finding, ...] | None]


@dataclass(frozen=True)
class DoctorCheck:
    """judge takes the readings `needs` by name; None from it = of no concern on this machine."""

    id: str
    needs: tuple[str, ...]
    judge: Judge


CHECKS = (
    DoctorCheck("settings", ("settings", "refused"), surroundings.settings),
    DoctorCheck("disk", ("settings", "storage"), surroundings.disk),
    DoctorCheck("memory", ("settings", "environment"), surroundings.memory),
    DoctorCheck("graphics", ("graphics", "nodes", "programs", "variables"), drivers.graphics),
    DoctorCheck("kernel_log", ("kernel_log", "driver", "managed"), gpus.kernel_log),
    DoctorCheck("driver", ("driver", "graphics", "nodes", "managed", "container"), drivers.driver),
    DoctorCheck(
        "container", ("container", "driver", "graphics", "nodes", "variables"), drivers.container
    ),
    DoctorCheck("device_nodes", ("driver", "nodes", "container"), drivers.device_nodes),
    DoctorCheck("torch", ("torch", "nodes", "managed", "driver", "container"), builds.torch_build),
    DoctorCheck("driver_age", ("torch", "driver", "managed", "container"), builds.driver_age),
    DoctorCheck("architecture", ("torch", "managed", "driver", "container"), builds.architecture),
    DoctorCheck("library_path", ("torch", "variables", "environment"), builds.library_path),
    DoctorCheck("visible_gpus", ("variables", "nodes", "settings"), builds.visible_gpus),
    DoctorCheck("compute_mode", ("managed",), builds.compute_mode),
    DoctorCheck("after_suspend", ("environment", "nodes"), gpus.after_suspend),
    DoctorCheck("gpu", ("environment", "nodes", "driver", "managed", "container"), gpus.gpus),
    DoctorCheck("shared_memory", ("shared_memory", "container"), surroundings.shared_memory),
    DoctorCheck("onnx_runtime", ("onnx", "torch", "nodes", "container"), onnx.onnx_runtime),
    DoctorCheck("ffmpeg", ("programs",), surroundings.ffmpeg),
    DoctorCheck("speech", ("spoken",), surroundings.speech),
    DoctorCheck("device", ("environment", "settings"), gpus.device),
)

# What makes a GPU fail that is itself well.
CAUSES = {
    "kernel_log", "driver", "container", "device_nodes", "torch", "driver_age", "architecture",
    "library_path", "visible_gpus", "compute_mode", "after_suspend",
}  # fmt: skip
_GPU = re.compile(r"gpu\d+")


def judge(machine: Machine) -> tuple[Finding, ...]:
    """Every finding, in the order of the list."""
    found = tuple(finding for check in CHECKS for finding in _findings(check, machine))
    return _with_one_cause(found)


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


def _findings(check: DoctorCheck, machine: Machine) -> tuple[Finding, ...]:
    readings: dict[str, Any] = {name: getattr(machine, name) for name in check.needs}
    missing = [name for name, value in readings.items() if value is None]
    seconds = round(sum(machine.seconds.get(name, 0.0) for name in check.needs), 3)
    if missing:
        why = dict.fromkeys(machine.troubles.get(name, "not read") for name in missing)
        message = f"{', '.join(missing)} could not be read: {'; '.join(why)}"
        return (_placed(could_not_run(message), check, seconds),)
    try:
        found = check.judge(**readings)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return (
            _placed(could_not_run("the check itself failed", evidence=message), check, seconds),
        )
    many = found if isinstance(found, tuple) else (found,) if found else ()
    return tuple(_placed(finding, check, seconds) for finding in many)


def _placed(finding: Finding, check: DoctorCheck, seconds: float) -> Finding:
    return replace(finding, id=finding.id or check.id, seconds=seconds)
