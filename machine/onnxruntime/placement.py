"""Decides the execution provider from what a trial showed, with the reason for a fallback. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from machine.onnxruntime import operators, reasons
from machine.onnxruntime.inspection import OnnxSurroundings, Trial
from machine.onnxruntime.providers import CALLED, CPU, PROVIDERS, ProviderRequest

# A product of 36 numbers and one of 8, in fp32: 1e-3 also lets tensor cores (TF32) pass.
MOST_DISTANCE = 1e-2


@dataclass(frozen=True)
class SessionStatus:
    """Where a session computes. message: "" only when that is what was wished.

    cpu_nodes, accelerator_nodes: None where this ONNX Runtime does not tell.
    """

    device: str
    execution_provider: str
    requested_provider: str
    message: str = ""
    reason_code: str = ""
    cpu_nodes: int | None = None
    accelerator_nodes: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """For a status answer, or JSON."""
        return asdict(self)


class Refusal(NamedTuple):
    """Why no session is opened on a provider, and what to do."""

    reason_code: str
    message: str


def judge_trial(wish: ProviderRequest, seen: OnnxSurroundings, trial: Trial) -> Refusal | None:
    """None where a provider computes, and computes right."""
    if trial.ending:
        return _refusal(wish, reasons.ended(wish, trial))
    if not trial.known:
        return _refusal(wish, reasons.not_in_build(wish, seen))
    if trial.active[:1] != (trial.provider,) or trial.fault:
        return _refusal(wish, reasons.inactive(wish, seen, trial))
    if trial.distance is None or not trial.distance <= MOST_DISTANCE:
        return _refusal(wish, (
            "wrong_results",
            f"It computes wrongly: a small product is {trial.distance} away from the CPU's",
            "Update the driver and this build; do not trust its results."))  # fmt: skip
    if trial.nodes and not trial.nodes.get(trial.provider):
        return _refusal(wish, (
            "nothing_placed", "It takes not even a convolution and a matrix product",
            "Update this build."))  # fmt: skip
    return None


def judge_auto(seen: OnnxSurroundings, refused: list[Refusal]) -> Refusal:
    """Why `auto` came to the CPU: what was tried, or that there was nothing to try."""
    if refused:
        return Refusal(refused[0].reason_code, " ".join(one.message for one in refused))
    for kind, gpu in (("cuda", "nvidia"), ("rocm", "amd")):
        if gpu in seen.gpus:
            wish = ProviderRequest(kind)
            return _refusal(wish, reasons.not_in_build(wish, seen))
    hint = f" {seen.hint}" if seen.hint else ""
    return Refusal(
        "no_gpu", f"Computes on the CPU: no GPU that could be used is on this machine.{hint}"
    )


def refused_model(wish: ProviderRequest, fault: str) -> Refusal:
    """A provider that works refused this very model."""
    message = reasons.last_words(fault) or fault[:300]
    return _refusal(wish, (
        "refused_model", f"It does not take this model ({message})",
        "A model with fixed shapes, or another build, may do."))  # fmt: skip


def status(
    wish: ProviderRequest,
    got: ProviderRequest,
    active: str,
    nodes: Mapping[str, Mapping[str, int]] | None,
    refusal: Refusal | None,
) -> SessionStatus:
    """Where a session computes that was opened.

    Args:
        got: What it was opened for, the CPU where the wish could not be had.
        active: The first of its providers.
        nodes: Provider -> operators with their number; None where this ONNX Runtime does not tell
            (before 1.24).
    """
    counted = None if nodes is None else {name: sum(one.values()) for name, one in nodes.items()}
    total = on_cpu = taken = None
    if counted is not None:
        total, on_cpu = sum(counted.values()), counted.get(CPU, 0)
        taken = total - on_cpu
    code, message = refusal or ("", "")
    if active == CPU and got.kind != "cpu":
        code = "lost"
        message = f"{_starts(got)}: it worked in the check just before. Start again."
    elif taken == 0 and active != CPU:
        active, code = CPU, "nothing_placed"
        message = (
            f"{_starts(got)}. It works, but takes none of this model's {total} nodes; `python -m "
            "xtts explain` says which they are."
        )
    elif active != CPU and (heavy := _heavy((nodes or {}).get(CPU, {}))):
        code = "heavy_on_cpu"
        message = (
            f"{CALLED[got.kind]} computes {taken} of {total} nodes, but some that carry the work "
            f"are on the CPU: {heavy}. `python -m xtts explain` says whether that is normal."
        )
    asked = active if active in PROVIDERS.get(wish.kind, ()) else wish.provider
    device = "cpu" if active == CPU else got.device
    return SessionStatus(device, active, asked, message, code, on_cpu, taken)


def _heavy(on_cpu: Mapping[str, int]) -> str:
    heavy = sorted(name for name in on_cpu if operators.is_heavy(name))
    return ", ".join(f"{name} ({on_cpu[name]})" for name in heavy)


def _refusal(wish: ProviderRequest, reason: reasons.Reason) -> Refusal:
    code, message, mend = reason
    return Refusal(code, f"{_starts(wish)}. {message}. To mend: {mend}")


def _starts(wish: ProviderRequest) -> str:
    return f"Computes on the CPU, not with {CALLED[wish.kind]}"
