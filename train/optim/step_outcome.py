"""Result of a step, and ending a run after repeated non-finite losses."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from machine.errors import SotaqueError

MAX_NON_FINITE_IN_A_ROW = 3
# A scale below 1 means that gradients overflow fp16 unscaled: it only gets worse from there.
MAX_LOW_SCALE_IN_A_ROW = 10


class NonFiniteError(SotaqueError):
    """Losses or gradients that are no numbers, and no end of them in sight."""

    exit_code = 65


@dataclass(frozen=True)
class StepResult:
    """Losses in nats a token; gradient_norm before clipping; finite = the weights were moved."""

    text_loss: float
    audio_loss: float
    loss: float
    gradient_norm: float
    learning_rate: float
    finite: bool


@dataclass(frozen=True)
class Validation:
    """Mean losses over every token of the validation clips."""

    text_loss: float
    audio_loss: float


@dataclass
class NonFiniteTally:
    """Steps that were no numbers: in a row and in all; steps in a row at a scale below 1."""

    non_finite_in_a_row: int = 0
    num_non_finite: int = 0
    low_scale_in_a_row: int = 0

    def state(self) -> dict[str, int]:
        """What a resumed run goes on counting from."""
        return asdict(self)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Takes up a state; what an older one lacks is 0."""
        for field in fields(self):
            setattr(self, field.name, state.get(field.name, 0))

    def count(self, finite: bool, searching: bool, step: int, learning_rate: float) -> None:
        """One step. Raises NonFiniteError at the third in a row that is no number."""
        if finite or searching:
            self.non_finite_in_a_row = 0
            return
        self.non_finite_in_a_row += 1
        self.num_non_finite += 1
        if self.non_finite_in_a_row >= MAX_NON_FINITE_IN_A_ROW:
            raise NonFiniteError(
                f"The loss was no number in {self.non_finite_in_a_row} steps in a row, up to step "
                f"{step}; nothing of them was saved. Lower LEARNING_RATE (it is "
                f"{learning_rate:g}), or set PRECISION=fp32; the log names the clips."
            )

    def judge_scale(self, scale: float, step: int) -> None:
        """The scale of fp16 behind a step. Raises NonFiniteError when it stays below 1."""
        self.low_scale_in_a_row = self.low_scale_in_a_row + 1 if scale < 1.0 else 0
        if self.low_scale_in_a_row >= MAX_LOW_SCALE_IN_A_ROW:
            raise NonFiniteError(
                f"The gradient scale of PRECISION=fp16 was below 1 in {self.low_scale_in_a_row} "
                f"steps in a row (it is {scale:g}), up to step {step}: the "
                "gradients are too large for fp16. Set PRECISION=bf16 or fp32, and go on from the "
                "last epoch."
            )
