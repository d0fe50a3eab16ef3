"""Decides the execution provider from a trial's result, with the reason for a fallback."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from extras.common.onnxruntime import operators, reasons
from extras.common.onnxruntime.inspection import OnnxSurroundings, Trial
from extras.common.onnxruntime.providers import CALLED, CPU, PROVIDERS, ProviderRequest
from machine import commands

# For fp32 products over 36 and 8 terms; tensor cores (TF32) are off by about 1e-3.
MAX_DISTANCE = 1e-2


@dataclass(frozen=True)
class SessionStatus:
    """Where a session computes.

    Attributes:
        message: Why that is not the requested place; "" if it is.
        reason_code: A stable name of the reason; "" without one.
        cpu_nodes, accelerator_nodes: Number of nodes; None if this ONNX Runtime does not report it.
    """

    device: str
    execution_provider: str
    requested_provider: str
    message: str = ""
    reason_code: str = ""
    cpu_nodes: int | None = None
    accelerator_nodes: int | None = None

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)


class Refusal(NamedTuple):
    """Why no session is opened on a provider, and what to do."""

    reason_code: str
    message: str


def judge_trial(wish: ProviderRequest, seen: OnnxSurroundings, trial: Trial) -> Refusal | None:
    """Why a provider is refused; None if it computes correctly."""
    if trial.ending:
        return _refusal(wish, reasons.no_result(wish, trial))
    if not trial.known:
        return _refusal(wish, reasons.not_in_build(wish, seen))
    if trial.active[:1] != (trial.provider,) or trial.fault:
        return _refusal(wish, reasons.inactive(wish, seen, trial))
    if trial.distance is None or not trial.distance <= MAX_DISTANCE:
        return _refusal(
            wish,
            (
                "wrong_results",
                f"Its results are wrong: a small product differs from the CPU's by {trial.distance}",
                "Update the driver and this build; do not trust its results.",
            ),
        )
    if trial.nodes and not trial.nodes.get(trial.provider):
        return _refusal(
            wish,
            ("nothing_placed", "It takes neither a convolution nor a matrix product", "Update this build."),
        )
    return None


def judge_auto(seen: OnnxSurroundings, refused: list[Refusal]) -> Refusal:
    """Why `auto` chose the CPU: the refusals, or that there was nothing to try."""
    if refused:
        return Refusal(refused[0].reason_code, " ".join(refusal.message for refusal in refused))
    for kind, gpu in (("cuda", "nvidia"), ("rocm", "amd")):
        if gpu in seen.gpus:
            wish = ProviderRequest(kind)
            return _refusal(wish, reasons.not_in_build(wish, seen))
    hint = f" {seen.hint}" if seen.hint else ""
    return Refusal("no_gpu", f"Computes on the CPU: this machine has no usable GPU.{hint}")


def refused_model(wish: ProviderRequest, fault: str) -> Refusal:
    """The refusal of a working provider that does not accept this model."""
    message = reasons.last_words(fault) or fault[:300]
    return _refusal(
        wish,
        (
            "refused_model",
            f"It does not accept this model ({message})",
            "Try a model with fixed shapes, or another build.",
        ),
    )


def status(
    wish: ProviderRequest,
    got: ProviderRequest,
    active: str,
    nodes: Mapping[str, Mapping[str, int]] | None,
    refusal: Refusal | None,
) -> SessionStatus:
    """Where an opened session computes.

    Args:
        wish: What was requested.
        got: What it was opened for: the wish, or the CPU as the fallback.
        active: The first of its providers.
        nodes: Provider -> operator -> count; None if this ONNX Runtime does not report it (before
            1.24).
        refusal: Why the wish was refused.
    """
    counted = None if nodes is None else {name: sum(operators.values()) for name, operators in nodes.items()}
    total = on_cpu = taken = None
    if counted is not None:
        total, on_cpu = sum(counted.values()), counted.get(CPU, 0)
        taken = total - on_cpu
    code, message = refusal or ("", "")
    if active == CPU and got.kind != "cpu":
        code = "lost"
        message = f"{_starts(got)}, although its check passed just before. Start again."
    elif taken == 0 and active != CPU:
        active, code = CPU, "nothing_placed"
        message = (
            f"{_starts(got)}. The provider works, but takes none of this model's {total} nodes; "
            f"`{explain_command()}` lists them."
        )
    elif active != CPU and (heavy := _heavy((nodes or {}).get(CPU, {}))):
        code = "heavy_on_cpu"
        message = (
            f"{CALLED[got.kind]} computes {taken} of {total} nodes, but compute-heavy ones are on "
            f"the CPU: {heavy}. `{explain_command()}` says whether that is normal."
        )
    requested = active if active in PROVIDERS.get(wish.kind, ()) else wish.provider
    device = "cpu" if active == CPU else got.device
    return SessionStatus(device, active, requested, message, code, on_cpu, taken)


def explain_command() -> str:
    """The command that explains where a model's nodes run."""
    return commands.program("xtts explain MODEL.onnx")


def _heavy(on_cpu: Mapping[str, int]) -> str:
    heavy = sorted(name for name in on_cpu if operators.is_heavy(name))
    return ", ".join(f"{name} ({on_cpu[name]})" for name in heavy)


def _refusal(wish: ProviderRequest, reason: reasons.Reason) -> Refusal:
    code, message, mend = reason
    return Refusal(code, f"{_starts(wish)}. {message}. To fix it: {mend}")


def _starts(wish: ProviderRequest) -> str:
    return f"Computes on the CPU, not with {CALLED[wish.kind]}"
