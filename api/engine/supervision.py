"""The restart policy: the next process's device, the back-off, and the messages about both.

All functions are pure: machine, history and time in, a decision with its reason out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from machine.devices.cuda_errors import DeviceFault
from machine.devices.selection import Environment, Place, choose_place, step_down
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import WorkerFailed

State = Literal["starting", "ready", "restarting", "degraded"]
WINDOW_SECONDS = 600.0
MOST_ON_GPU = 3
# Before the first, second, … start in a row that came to nothing.
BACK_OFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class RestartHistory:
    """The ends of earlier children. gpu_deaths: their times and faults; in_a_row: deaths since the
    last successful request; last, last_code: the reason of the last death."""

    gpu_deaths: tuple[tuple[float, DeviceFault | None], ...] = ()
    in_a_row: int = 0
    last: str = ""
    last_code: str = ""
    restarts: int = 0

    def died(self, device: str, why: WorkerFailed, now: float) -> "RestartHistory":
        """A child has died. An error of ours in a process that computes on a GPU is not the GPU's
        fault."""
        deaths = self.gpu_deaths
        if device != "cpu" and why.of_device:
            deaths = (*self.recent(now), (now, why.fault))
        return replace(
            self, gpu_deaths=deaths, in_a_row=self.in_a_row + 1, last=str(why),
            last_code=why.reason_code, restarts=self.restarts + 1,
        )  # fmt: skip

    def recent(self, now: float) -> tuple[tuple[float, DeviceFault | None], ...]:
        """Deaths on a GPU; those that are ten minutes old count no more."""
        return tuple(one for one in self.gpu_deaths if now - one[0] < WINDOW_SECONDS)

    def spoke(self) -> "RestartHistory":
        """A child has spoken."""
        return replace(self, in_a_row=0)


def back_off(happened: RestartHistory) -> float:
    """Seconds to wait before the next start."""
    return BACK_OFF_SECONDS[min(happened.in_a_row, len(BACK_OFF_SECONDS) - 1)]


def place(machine: Environment, wish: str, happened: RestartHistory, now: float) -> Place:
    """Where the next child computes: on a good GPU, a rung down for each fault that killed a child
    there; after too many deaths, on the CPU."""
    found, recent = choose_place(machine, wish), happened.recent(now)
    if found.value == "cpu":
        return found
    if len(recent) > MOST_ON_GPU:
        minutes = int(WINDOW_SECONDS // 60)
        why = f"The GPU failed {len(recent)} times in {minutes} minutes. The last reason: "
        return Place("cpu", why + happened.last, code=happened.last_code or "gpu_fault")
    for _, fault in recent:
        below = step_down(found, happened.last, fault)
        found = found if below.value == "cpu" else below
    return found


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
    actual: Place | None
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
        on_cpu = self.actual.value == "cpu"
        # auto wants the GPU if there is one.
        wanted_cpu = wish == "cpu" or (wish == "auto" and on_cpu and not self.actual.code)
        return {
            "device": self.actual.value,
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
        of_place = self.actual.code if self.actual else ""
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
            where = "CPU" if placement.value == "cpu" else f"GPU ({placement.value})"
            parts.append(f"Speaks on the {where}: {placement.reason.rstrip('.')}.")
        return " ".join(parts)
