"""The restart policy: the next process's device, the back-off, and the messages about both.

All functions are pure: machine, history and time in, a decision with its reason out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from machine.devices.cuda_errors import DeviceFault
from machine.devices.recovery import step_down
from machine.devices.selection import Environment, Place, choose_place
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import WorkerFailed

State = Literal["starting", "ready", "restarting", "degraded"]
# Deaths on a GPU count for so long.
WINDOW_SECONDS = 600.0
# After more deaths within the window, the CPU is used.
MAX_GPU_DEATHS = 3
# Before the first, second, … start since a request last succeeded.
BACK_OFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class GpuDeath(NamedTuple):
    """The death of a child on a GPU: its time by `time.monotonic`, and the GPU's fault if known."""

    time: float
    fault: DeviceFault | None


@dataclass(frozen=True)
class RestartHistory:
    """The deaths of earlier children.

    Attributes:
        gpu_deaths: The deaths on a GPU.
        deaths_in_a_row: The number of deaths since the last successful request.
        last_reason, last_code: The reason of the last death.
    """

    gpu_deaths: tuple[GpuDeath, ...] = ()
    deaths_in_a_row: int = 0
    last_reason: str = ""
    last_code: str = ""
    restarts: int = 0

    def with_death(self, device: str, death: WorkerFailed, now: float) -> "RestartHistory":
        """Adds the death of a child. An error in our code does not count against the GPU."""
        gpu_deaths = self.gpu_deaths
        if device != "cpu" and death.of_device:
            gpu_deaths = (*self.recent_gpu_deaths(now), GpuDeath(now, death.fault))
        return replace(
            self,
            gpu_deaths=gpu_deaths,
            deaths_in_a_row=self.deaths_in_a_row + 1,
            last_reason=str(death),
            last_code=death.reason_code,
            restarts=self.restarts + 1,
        )

    def recent_gpu_deaths(self, now: float) -> tuple[GpuDeath, ...]:
        """The deaths on a GPU within the last ten minutes."""
        return tuple(death for death in self.gpu_deaths if now - death.time < WINDOW_SECONDS)

    def with_success(self) -> "RestartHistory":
        """Adds a successful request, which ends a series of deaths."""
        return replace(self, deaths_in_a_row=0)


def back_off_seconds(history: RestartHistory) -> float:
    """How long to wait before the next start."""
    return BACK_OFF_SECONDS[min(history.deaths_in_a_row, len(BACK_OFF_SECONDS) - 1)]


def next_place(machine: Environment, device: str, history: RestartHistory, now: float) -> Place:
    """Where the next child computes: on the GPU that `device` (a setting) allows, one rung lower for
    each recent death on a GPU; after too many deaths, on the CPU."""
    chosen, recent = choose_place(machine, device), history.recent_gpu_deaths(now)
    if chosen.value == "cpu":
        return chosen
    if len(recent) > MAX_GPU_DEATHS:
        minutes = int(WINDOW_SECONDS // 60)
        reason = f"The GPU failed {len(recent)} times in {minutes} minutes. The last reason: "
        return Place("cpu", reason + history.last_reason, code=history.last_code or "gpu_fault")
    for _, fault in recent:
        lower = step_down(chosen, history.last_reason, fault)
        chosen = chosen if lower.value == "cpu" else lower
    return chosen


@dataclass(frozen=True)
class EngineCondition:
    """The state of the engine with its reasons, for programs and for operators.

    Attributes:
        requested: How the child was configured to compute.
        actual: Where it computes; None before the first start.
        placed: The status that ONNX Runtime reports, empty with torch; None while no voice is
            ready.
        has_served: Whether a voice has been ready before.
        problem, problem_code: A problem with the voice; "" if there is none.
        history: The deaths of earlier processes.
    """

    requested: ComputeConfig
    actual: Place | None
    placed: Mapping[str, object] | None
    has_served: bool
    problem: str
    problem_code: str
    history: RestartHistory

    @property
    def placement(self) -> dict[str, str]:
        """device, execution_provider and requested_provider; with ONNX Runtime, as it reports
        them."""
        if self.placed:
            names = ("device", "execution_provider", "requested_provider")
            return {name: str(self.placed[name]) for name in names}
        device, backend = self.requested.device, self.requested.backend
        if self.actual is None:
            requested = f"{backend}:{device}"
            return {"device": "none", "execution_provider": "none", "requested_provider": requested}
        on_cpu = self.actual.value == "cpu"
        # auto wants the GPU if there is one.
        requested_cpu = device == "cpu" or (device == "auto" and on_cpu and not self.actual.code)
        return {
            "device": self.actual.value,
            "execution_provider": f"{backend}:{'cpu' if on_cpu else 'cuda'}",
            "requested_provider": f"{backend}:{'cpu' if requested_cpu else 'cuda'}",
        }

    @property
    def state(self) -> State:
        if self.placed is None:
            return "restarting" if self.has_served else "starting"
        return "degraded" if self.problem or self.reason_code else "ready"

    @property
    def reason_code(self) -> str:
        """A code for the difference from the configuration; "" if there is none."""
        if self.placed is None:
            return self.history.last_code or "starting"
        place_code = self.actual.code if self.actual else ""
        return self.problem_code or str(self.placed.get("reason_code", "")) or place_code

    @property
    def message(self) -> str:
        """The state in sentences, for an operator."""
        place, parts = self.actual, []
        if self.placed is None:
            parts.append("The speaking process is starting.")
            if self.history.last_reason:
                parts.append(f"The previous one ended: {self.history.last_reason.rstrip('.')}.")
        if self.problem:
            parts.append(f"{self.problem.rstrip('.')}.")
        if self.placed:
            # The child knows only its device; the reason for the choice is known here.
            reason = str(self.placed["message"])
            reason = reason or (place.reason if place else "as configured")
            parts.append(f"ONNX Runtime computes on {self.placed['device']}: {reason.rstrip('.')}.")
        elif place is not None:
            where = "CPU" if place.value == "cpu" else f"GPU ({place.value})"
            parts.append(f"Speaks on the {where}: {place.reason.rstrip('.')}.")
        return " ".join(parts)
