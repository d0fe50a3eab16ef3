"""The restart policy: the next process's device, the back-off, and the messages about both.

All functions are pure: machine, history and time in, a decision with its reason out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from machine.devices.cuda_errors import DeviceFault
from machine.devices.recovery import step_down
from machine.devices.selection import Environment, Place, choose_place
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import WorkerFailed

State = Literal["starting", "ready", "restarting", "degraded"]
WINDOW_SECONDS = 600.0
MAX_ON_GPU = 3
# Before the first, second, … start since a request last succeeded.
BACK_OFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class RestartHistory:
    """The deaths of earlier children. gpu_deaths: time and fault of those on a GPU; in_a_row:
    deaths since the last successful request; last, last_code: the reason of the last death."""

    gpu_deaths: tuple[tuple[float, DeviceFault | None], ...] = ()
    in_a_row: int = 0
    last: str = ""
    last_code: str = ""
    restarts: int = 0

    def died(self, device: str, why: WorkerFailed, now: float) -> "RestartHistory":
        """Records the death of a child. An error in our code does not count against the GPU."""
        deaths = self.gpu_deaths
        if device != "cpu" and why.of_device:
            deaths = (*self.recent(now), (now, why.fault))
        return replace(
            self,
            gpu_deaths=deaths,
            in_a_row=self.in_a_row + 1,
            last=str(why),
            last_code=why.reason_code,
            restarts=self.restarts + 1,
        )

    def recent(self, now: float) -> tuple[tuple[float, DeviceFault | None], ...]:
        """The deaths on a GPU within the last ten minutes."""
        return tuple(death for death in self.gpu_deaths if now - death[0] < WINDOW_SECONDS)

    def spoke(self) -> "RestartHistory":
        """Records a successful request."""
        return replace(self, in_a_row=0)


def back_off(happened: RestartHistory) -> float:
    """Seconds to wait before the next start."""
    return BACK_OFF_SECONDS[min(happened.in_a_row, len(BACK_OFF_SECONDS) - 1)]


def place(machine: Environment, wish: str, happened: RestartHistory, now: float) -> Place:
    """Where the next child computes: on the chosen GPU, one rung lower for each recent death there;
    after too many deaths, on the CPU."""
    chosen, recent = choose_place(machine, wish), happened.recent(now)
    if chosen.value == "cpu":
        return chosen
    if len(recent) > MAX_ON_GPU:
        minutes = int(WINDOW_SECONDS // 60)
        why = f"The GPU failed {len(recent)} times in {minutes} minutes. The last reason: "
        return Place("cpu", why + happened.last, code=happened.last_code or "gpu_fault")
    for _, fault in recent:
        below = step_down(chosen, happened.last, fault)
        chosen = chosen if below.value == "cpu" else below
    return chosen


@dataclass(frozen=True)
class EngineCondition:
    """The state of the engine with its reasons, for programs and for operators.

    Attributes:
        requested: How the child was configured to compute.
        actual: Where it computes; None before the first start.
        placed: The status that ONNX Runtime reports, empty with torch; None while no voice is
            ready.
        started_once: Whether a voice was ready before.
        problem, problem_code: A problem with the voice; "" if there is none.
        happened: The history of earlier processes.
    """

    requested: ComputeConfig
    actual: Place | None
    placed: Mapping[str, object] | None
    started_once: bool
    problem: str
    problem_code: str
    happened: RestartHistory

    @property
    def placement(self) -> dict[str, str]:
        """device, execution_provider and requested_provider; with ONNX Runtime, as it reports
        them."""
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
        """A code for the difference from the configuration; "" if there is none."""
        if self.placed is None:
            return self.happened.last_code or "starting"
        of_place = self.actual.code if self.actual else ""
        return self.problem_code or str(self.placed.get("reason_code", "")) or of_place

    @property
    def message(self) -> str:
        """The state in sentences, for an operator."""
        placement, parts = self.actual, []
        if self.placed is None:
            parts.append("The speaking process is starting.")
            if self.happened.last:
                parts.append(f"The previous one ended: {self.happened.last.rstrip('.')}.")
        if self.problem:
            parts.append(f"{self.problem.rstrip('.')}.")
        if self.placed:
            # The child knows only its device; the reason for the choice is known here.
            why = str(self.placed["message"])
            why = why or (placement.reason if placement else "as configured")
            parts.append(f"ONNX Runtime computes on {self.placed['device']}: {why.rstrip('.')}.")
        elif placement is not None:
            where = "CPU" if placement.value == "cpu" else f"GPU ({placement.value})"
            parts.append(f"Speaks on the {where}: {placement.reason.rstrip('.')}.")
        return " ".join(parts)
