"""Decides the execution provider from a trial's result, with the reason for a fallback."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from extras.common.onnxruntime import operators, reasons
from extras.common.onnxruntime.inspection import OnnxSurroundings, Trial
from extras.common.onnxruntime.providers import CPU, PROVIDER_LABELS, PROVIDERS, ProviderRequest
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


def judge_trial(request: ProviderRequest, surroundings: OnnxSurroundings, trial: Trial) -> Refusal | None:
    """Why a provider is refused; None if it computes correctly."""
    if trial.ending:
        return _refusal(request, reasons.no_result_reason(request, trial))
    if not trial.known:
        return _refusal(request, reasons.not_in_build_reason(request, surroundings))
    if trial.active[:1] != (trial.provider,) or trial.fault:
        return _refusal(request, reasons.inactive_reason(request, surroundings, trial))
    if trial.distance is None or not trial.distance <= MAX_DISTANCE:
        return _refusal(
            request,
            reasons.Reason(
                "wrong_results",
                f"Its results are wrong: a small product differs from the CPU's by {trial.distance}",
                "Update the driver and this build; do not trust its results.",
            ),
        )
    if trial.nodes and not trial.nodes.get(trial.provider):
        return _refusal(
            request,
            reasons.Reason(
                "nothing_placed", "It takes neither a convolution nor a matrix product", "Update this build."
            ),
        )
    return None


def explain_auto_fallback(surroundings: OnnxSurroundings, refused: list[Refusal]) -> Refusal:
    """Why `auto` chose the CPU: the refusals, or that there was nothing to try."""
    if refused:
        return Refusal(refused[0].reason_code, " ".join(refusal.message for refusal in refused))
    for kind, gpu in (("cuda", "nvidia"), ("rocm", "amd")):
        if gpu in surroundings.gpus:
            request = ProviderRequest(kind)
            return _refusal(request, reasons.not_in_build_reason(request, surroundings))
    hint = f" {surroundings.hint}" if surroundings.hint else ""
    return Refusal("no_gpu", f"Computes on the CPU: this machine has no usable GPU.{hint}")


def model_refusal(request: ProviderRequest, fault: str) -> Refusal:
    """The refusal of a working provider that does not accept this model."""
    message = reasons.last_message(fault) or fault[:300]
    return _refusal(
        request,
        reasons.Reason(
            "refused_model",
            f"It does not accept this model ({message})",
            "Try a model with fixed shapes, or another build.",
        ),
    )


def session_status(
    request: ProviderRequest,
    chosen: ProviderRequest,
    active: str,
    nodes: Mapping[str, Mapping[str, int]] | None,
    refusal: Refusal | None,
) -> SessionStatus:
    """Where an opened session computes.

    Args:
        request: What was requested.
        chosen: What it was opened for: the request, or the CPU as the fallback.
        active: The first of its providers.
        nodes: Provider -> operator -> count; None if this ONNX Runtime does not report it (before
            1.24).
        refusal: Why the request was refused.
    """
    total = cpu_nodes = accelerator_nodes = None
    if nodes is not None:
        counts = {name: sum(nodes_by_operator.values()) for name, nodes_by_operator in nodes.items()}
        total, cpu_nodes = sum(counts.values()), counts.get(CPU, 0)
        accelerator_nodes = total - cpu_nodes
    code, message = refusal or ("", "")
    if active == CPU and chosen.kind != "cpu":
        code = "lost"
        message = f"{_fallback_clause(chosen)}, although its check passed just before. Start again."
    elif accelerator_nodes == 0 and active != CPU:
        active, code = CPU, "nothing_placed"
        message = (
            f"{_fallback_clause(chosen)}. The provider works, but takes none of this model's {total} "
            f"nodes; `{explain_command()}` lists them."
        )
    elif active != CPU and (heavy := _list_heavy((nodes or {}).get(CPU, {}))):
        code = "heavy_on_cpu"
        message = (
            f"{PROVIDER_LABELS[chosen.kind]} computes {accelerator_nodes} of {total} nodes, but "
            f"compute-heavy ones are on the CPU: {heavy}. `{explain_command()}` says whether that is normal."
        )
    requested = active if active in PROVIDERS.get(request.kind, ()) else request.provider
    device = "cpu" if active == CPU else chosen.device
    return SessionStatus(device, active, requested, message, code, cpu_nodes, accelerator_nodes)


def explain_command() -> str:
    """The command that explains where a model's nodes run."""
    return commands.program("xtts explain MODEL.onnx")


def _list_heavy(cpu_operators: Mapping[str, int]) -> str:
    heavy = sorted(name for name in cpu_operators if operators.is_heavy(name))
    return ", ".join(f"{name} ({cpu_operators[name]})" for name in heavy)


def _refusal(request: ProviderRequest, reason: reasons.Reason) -> Refusal:
    return Refusal(reason.code, f"{_fallback_clause(request)}. {reason.message}. To fix it: {reason.fix}")


def _fallback_clause(request: ProviderRequest) -> str:
    return f"Computes on the CPU, not with {PROVIDER_LABELS[request.kind]}"
