"""The restart policy: the next process's device, the back-off, and the messages about both.

Pure: a machine that was looked at, what has happened so far, and the time come in; a decision with
its reason goes out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from machine.devices.health import GpuHealth
from machine.devices.selection import DeviceError, Environment, choose_device, gpu_at
from xtts.inference.compute_config import ComputeConfig

State = Literal["starting", "ready", "restarting", "degraded"]
WINDOW_SECONDS = 600.0
MOST_ON_GPU = 3
# Before the first, second, … start in a row that came to nothing.
BACK_OFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class ComputePlacement:
    """How a child computes, and why there. reason_code: "" where it is what was asked for."""

    compute: ComputeConfig
    reason: str
    reason_code: str = ""

    @property
    def device(self) -> str:
        return self.compute.device


@dataclass(frozen=True)
class RestartHistory:
    """What children came to. gpu_deaths: when; in_a_row: deaths since the last successful request;
    last: what the last one died of, and its code."""

    gpu_deaths: tuple[float, ...] = ()
    in_a_row: int = 0
    last: str = ""
    last_code: str = ""
    restarts: int = 0

    def died(
        self, device: str, reason: str, code: str, now: float, *, of_device: bool = True
    ) -> "RestartHistory":
        """A child has died; deaths on a GPU that are ten minutes old count no more. of_device: the
        GPU may be the reason; an error of ours in a process that computes there is not its own."""
        deaths = tuple(at for at in self.gpu_deaths if now - at < WINDOW_SECONDS)
        if device != "cpu" and of_device:
            deaths += (now,)
        return replace(
            self, gpu_deaths=deaths, in_a_row=self.in_a_row + 1, last=reason, last_code=code,
            restarts=self.restarts + 1,
        )  # fmt: skip

    def spoke(self) -> "RestartHistory":
        """A child has spoken."""
        return replace(self, in_a_row=0)


def back_off(happened: RestartHistory) -> float:
    """Seconds to wait before the next start."""
    return BACK_OFF_SECONDS[min(happened.in_a_row, len(BACK_OFF_SECONDS) - 1)]


def place(
    machine: Environment, wanted: ComputeConfig, happened: RestartHistory, now: float
) -> ComputePlacement:
    """Where the next child computes: the GPU while it is good and has not died there too often."""
    wish, on_cpu = wanted.device, wanted.on_cpu()
    recent = [at for at in happened.gpu_deaths if now - at < WINDOW_SECONDS]
    if len(recent) > MOST_ON_GPU and wish != "cpu":
        minutes = int(WINDOW_SECONDS // 60)
        return ComputePlacement(
            on_cpu, f"The GPU failed {len(recent)} times in {minutes} minutes. The last reason: "
            f"{happened.last}", happened.last_code or "gpu_fault",
        )  # fmt: skip
    try:
        choice = choose_device(machine, wish, GpuHealth.speaks_in_own_process)
    except DeviceError as error:
        return ComputePlacement(on_cpu, str(error), "device_refused")
    gpu = gpu_at(machine, choice.value)
    if gpu is None:
        return ComputePlacement(on_cpu, choice.reason, _code(machine, wish))
    return ComputePlacement(wanted.on(gpu), choice.reason)


def _code(machine: Environment, wish: str) -> str:
    """Why the CPU, as a word; "" where the CPU is all there is, or was asked for."""
    if wish == "cpu":
        return ""
    if machine.gpus:
        return "gpu_failed_check"
    return "gpu_out_of_reach" if machine.gpu_hint else ""


@dataclass(frozen=True)
class EngineCondition:
    """What runs where and why, in words for programs and for operators.

    Attributes:
        requested: How the child was configured to compute.
        actual: Where it computes; None before the first start.
        placed: What ONNX Runtime says of itself, empty with torch; None while no voice is ready.
        started_once: Whether a voice was ready before.
        problem, problem_code: A difference from the configuration while it speaks, or "".
        happened: The history of earlier processes.
    """

    requested: ComputeConfig
    actual: ComputePlacement | None
    placed: Mapping[str, Any] | None
    started_once: bool
    problem: str
    problem_code: str
    happened: RestartHistory

    @property
    def placement(self) -> dict[str, str]:
        """What computes: device, execution_provider, requested_provider; with ONNX Runtime, where
        that says it does."""
        if self.placed:
            names = ("device", "execution_provider", "requested_provider")
            return {name: str(self.placed[name]) for name in names}
        wish, backend = self.requested.device, self.requested.backend
        if self.actual is None:
            requested = f"{backend}:{wish}"
            return {"device": "none", "execution_provider": "none", "requested_provider": requested}
        on_cpu = self.actual.device == "cpu"
        # auto wants the GPU if there is one.
        wanted_cpu = wish == "cpu" or (wish == "auto" and on_cpu and not self.actual.reason_code)
        return {
            "device": self.actual.device,
            "execution_provider": f"{backend}:{'cpu' if on_cpu else 'cuda'}",
            "requested_provider": f"{backend}:{'cpu' if wanted_cpu else 'cuda'}",
        }

    @property
    def state(self) -> State:
        if self.placed is None:
            return "restarting" if self.started_once else "starting"
        return "degraded" if self.problem or self.reason_code else "ready"

    @property
    def reason_code(self) -> str:
        """Why it is not as asked for, as a word; "" when it is."""
        if self.placed is None:
            return self.happened.last_code or "starting"
        of_place = self.actual.reason_code if self.actual else ""
        return self.problem_code or str(self.placed.get("reason_code", "")) or of_place

    @property
    def message(self) -> str:
        """What an operator reads."""
        placement, parts = self.actual, []
        if self.placed is None:
            parts.append("The speaking process is starting.")
            if self.happened.last:
                parts.append(f"The previous one ended: {self.happened.last.rstrip('.')}.")
        if self.problem:
            parts.append(f"{self.problem.rstrip('.')}.")
        if self.placed:
            # The child only gets the device; why that is the CPU is known here.
            why = str(self.placed["message"])
            why = why or (placement.reason if placement else "as configured")
            parts.append(f"ONNX Runtime computes on {self.placed['device']}: {why.rstrip('.')}.")
        elif placement is not None:
            where = "CPU" if placement.device == "cpu" else f"GPU ({placement.device})"
            parts.append(f"Speaks on the {where}: {placement.reason.rstrip('.')}.")
        return " ".join(parts)
