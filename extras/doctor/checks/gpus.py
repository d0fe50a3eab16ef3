"""Checks of the GPU in use: kernel log, probe results and chosen device."""

import re
from dataclasses import replace

from extras.common.readings.snapshot import Container, Driver, MachineSettings, Managed, Nodes
from extras.common.remedies import CPU_ONLY, REBOOT, backend_command, driver_command, fitting_backend
from extras.doctor.finding import Finding, could_not_run, fail, gigabytes, ok, warn
from machine import commands
from machine.devices.health import GpuHealth, Outcome
from machine.devices.selection import DeviceError, Environment, choose_device

_XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)(.*)")
# NVIDIA's catalogue, shortened: docs.nvidia.com/deploy/xid-errors
_PROGRAM_XIDS = {
    13: "a program's kernel failed",
    31: "a program accessed invalid memory",
    43: "a program's kernel was stopped",
    45: "a program was ended",
}
_CARD_XIDS = {
    48: ("the card's memory failed (double-bit error)", REBOOT),
    63: ("the card remapped a failing row of its memory", REBOOT),
    64: ("the card could not remap a failing row of its memory", "Have the card replaced."),
    74: ("an NVLink connection between cards failed", "Reseat the cards and bridges."),
    79: ("the card fell off the bus (power or PCIe)", "Check the card's power cables and seat, then reboot."),
    94: ("a contained error in the card's memory", REBOOT),
    95: ("an uncontained error in the card's memory", REBOOT),
    109: ("the card could not switch between programs", REBOOT),
    119: ("the card's system processor did not respond", REBOOT),
    120: ("the card's system processor failed", REBOOT),
}
_AFTER_SUSPEND = "sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm"


def kernel_log(kernel_log: tuple[str, ...], driver: Driver, managed: Managed) -> Finding | None:
    """The last fault of a card in the kernel log (Xid)."""
    if not driver.version:
        return None
    matches = [(line, match) for line in kernel_log if (match := _XID.search(line))]
    if not matches:
        return ok("no fault of a card in the kernel log since boot, or the log is not readable")
    line, last_match = matches[-1]
    number = int(last_match[2])
    if number in _PROGRAM_XIDS:
        return ok(f"last Xid {number}: {_PROGRAM_XIDS[number]}", evidence=line.strip())
    meaning, fix = _CARD_XIDS.get(number, ("a fault of the card or the driver", REBOOT))
    judge = fail if managed.fault else warn
    return judge(
        f"last Xid {number}; {len(matches)} Xid line{'s' * (len(matches) > 1)} since boot",
        "no Xid",
        f"NVIDIA's meaning of Xid {number}: {meaning}.",
        fix,
        line.strip(),
    )


def after_suspend(environment: Environment, nodes: Nodes) -> Finding | None:
    """A driver broken by suspend: CUDA's 'unknown error' although all device nodes exist."""
    for gpu in environment.gpus:
        reasons = " ".join((gpu.reason, *(operation.reason for operation in gpu.operations))).lower()
        if "unknown error" in reasons and "nvidia-uvm" in nodes.names:
            return fail(
                "CUDA reports 'unknown error' (999), although all device nodes exist",
                "a CUDA context",
                "This happens after a suspend: one kernel module did not wake up.",
                _AFTER_SUSPEND,
                gpu.reason,
            )
    return None


def gpus(
    environment: Environment, nodes: Nodes, driver: Driver, managed: Managed, container: Container
) -> tuple[Finding, ...]:
    """The result of the check that ran on each GPU. Ids: gpu0, gpu1, …"""
    return tuple(
        replace(_judge(gpu, nodes, driver, managed, container), id=f"gpu{gpu.index}")
        for gpu in environment.gpus
    )


def device(environment: Environment, settings: MachineSettings) -> Finding:
    """The device that a run started now would use, and why."""
    expected = f"DEVICE={settings.device}"
    try:
        choice = choose_device(environment, settings.device)
    except DeviceError as error:
        return fail(
            f"{expected} is not available", expected, str(error), "Set DEVICE=auto, or fix the faults above."
        )
    reason = choice.reason if choice.reason.endswith(".") else choice.reason + "."
    return ok(choice.value, expected, reason)


def _judge(gpu: GpuHealth, nodes: Nodes, driver: Driver, managed: Managed, container: Container) -> Finding:
    size = f", {gigabytes(gpu.total_bytes)}" if gpu.total_bytes else ""
    name = f"{gpu.name}{size}"
    expected = "every operation of XTTS runs and equals the CPU's result"
    evidence = _evidence(gpu)
    if gpu.outcome is Outcome.OK and not gpu.surprise:
        return ok(f"{name}: all {len(gpu.operations)} operations equal the CPU's", evidence=evidence)
    if gpu.outcome is Outcome.OK:
        return warn(
            f"{name}: passes the check, but failed in a run",
            expected,
            gpu.surprise,
            "If it happens again, set SAMPLE_DEVICE=cpu.",
            evidence,
        )
    meaning, fix = _meaning_of(gpu, nodes, driver, managed, container)
    seen = f"{name}: {gpu.reason or gpu.surprise}"
    if gpu.outcome is Outcome.COULD_NOT_RUN:
        return could_not_run(seen, meaning, fix, evidence)
    works = gpu.outcome is Outcome.TRANSIENT or gpu.trains or gpu.speaks
    judge = warn if works else fail
    return judge(seen, expected, meaning, fix, evidence)


def _meaning_of(
    gpu: GpuHealth, nodes: Nodes, driver: Driver, managed: Managed, container: Container
) -> tuple[str, str]:
    """Returns the meaning of a GPU's state, and the fix."""
    outcome = gpu.outcome
    if outcome is Outcome.DEGRADED:
        if not gpu.works:
            failed_operations = ", ".join(sorted(gpu.failed_operations))
            consequence = "does not use this GPU"
            if gpu.trains:
                consequence = "trains on this GPU and speaks on the CPU"
            elif gpu.speaks:
                consequence = "speaks on this GPU and trains on the CPU"
            return f"Failed: {failed_operations}. Sotaque {consequence}.", CPU_ONLY
        failed_operations = ", ".join(
            sorted(operation.name for operation in gpu.operations if operation.reason)
        )
        rest = "Sotaque can still train and speak on this GPU and avoids what failed."
        return f"Failed: {failed_operations}. {rest}", CPU_ONLY
    if outcome is Outcome.BUILD:
        fitting = fitting_backend(driver.version, [gpu.capability])
        return (
            "This build of torch, or a library that it loads, does not fit this GPU.",
            backend_command(fitting, container.inside) if fitting else CPU_ONLY,
        )
    if outcome is Outcome.TRANSIENT:
        return (
            "Another program holds the GPU or its memory at the moment.",
            "Close the programs that `nvidia-smi` lists, then run the doctor again.",
        )
    if "unknown error" in gpu.reason.lower() and "nvidia-uvm" in nodes.names:
        return "The driver did not wake up after a suspend; see after_suspend.", _AFTER_SUSPEND
    if outcome is Outcome.DRIVER:
        fix = REBOOT if managed.fault else driver_command(driver.system, container.inside)
        return "The driver cannot start CUDA.", fix
    meanings = {
        Outcome.HANG: "A call into the driver did not return. Sotaque does not use this GPU.",
        Outcome.CRASH: "A fault inside a library ended the check's process.",
        Outcome.STICKY: "An operation killed the CUDA context, and later operations in the same "
        "process fail too. Sotaque does not use this GPU.",
        Outcome.COULD_NOT_RUN: "Nothing is known about this GPU: the check itself failed.",
    }
    # Running the check by hand shows its own output.
    check = commands.program(f"machine.devices.probe_child --device cuda:{gpu.index}")
    fixes = {Outcome.HANG: "Reboot; if it hangs again, set DEVICE=cpu.", Outcome.COULD_NOT_RUN: check}
    return meanings.get(outcome, ""), fixes.get(outcome, CPU_ONLY)


def _evidence(gpu: GpuHealth) -> str:
    return "; ".join(operation.reason for operation in gpu.operations if operation.reason)
