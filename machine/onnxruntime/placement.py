"""Decides the execution provider from evidence, with the reason for a fallback. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from machine.onnxruntime import operators, reasons
from machine.onnxruntime.evidence import NodePlacement, OnnxSurroundings, Trial
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


@dataclass(frozen=True)
class ProviderVerdict:
    """usable: whether a session may be opened on it; else why not and what to do."""

    usable: bool
    reason_code: str = ""
    message: str = ""


def judge_trial(wish: ProviderRequest, seen: OnnxSurroundings, trial: Trial) -> ProviderVerdict:
    """Whether a provider computes, and computes right."""
    if trial.ending:
        return _unusable(wish, reasons.ended(wish, trial))
    if not trial.known:
        return _unusable(wish, reasons.not_in_build(wish, seen))
    if trial.active[:1] != (trial.provider,):
        return _unusable(wish, reasons.inactive(wish, seen, trial))
    if trial.fault:
        return _unusable(wish, reasons.inactive(wish, seen, trial))
    if trial.distance is None or not trial.distance <= MOST_DISTANCE:
        return _unusable(wish, (
            "wrong_results",
            f"It computes wrongly: a small product is {trial.distance} away from the CPU's",
            "Update the driver and this build; do not trust its results."))  # fmt: skip
    if trial.nodes and not trial.nodes.get(trial.provider):
        return _unusable(wish, (
            "nothing_placed", "It takes not even a convolution and a matrix product",
            "Update this build."))  # fmt: skip
    return ProviderVerdict(True)


def judge_auto(
    seen: OnnxSurroundings, refused: Mapping[ProviderRequest, ProviderVerdict]
) -> ProviderVerdict:
    """Why `auto` came to the CPU: what was tried, or that there was nothing to try."""
    if refused:
        message = " ".join(one.message for one in refused.values())
        return ProviderVerdict(False, next(iter(refused.values())).reason_code, message)
    for kind, gpu in (("cuda", "nvidia"), ("rocm", "amd")):
        if gpu in seen.gpus:
            verdict = _unusable(
                ProviderRequest(kind), reasons.not_in_build(ProviderRequest(kind), seen)
            )
            return ProviderVerdict(False, verdict.reason_code, verdict.message)
    hint = f" {seen.hint}" if seen.hint else ""
    return ProviderVerdict(
        False, "no_gpu", f"Computes on the CPU: no GPU that could be used is on this machine.{hint}"
    )


def status(
    wish: ProviderRequest, got: ProviderRequest, placing: NodePlacement, verdict: ProviderVerdict
) -> SessionStatus:
    """got: what the session was opened for, the CPU where the wish could not be had."""
    active = placing.active[0] if placing.active else CPU
    total = None if placing.nodes is None else sum(map(_total, placing.nodes.values()))
    on_cpu = placing.count(CPU)
    taken = None if total is None or on_cpu is None else total - on_cpu
    code, message = verdict.reason_code, verdict.message
    if active == CPU and got.kind != "cpu":
        code = "lost"
        message = f"{_starts(got)}: it worked in the check just before. Start again."
    elif taken == 0 and active != CPU:
        active, code = CPU, "nothing_placed"
        message = (
            f"{_starts(got)}. It works, but takes none of this model's {total} nodes; `python -m "
            "xtts explain` says which they are."
        )
    elif active != CPU and (heavy := _heavy_on_cpu(placing)):
        code = "heavy_on_cpu"
        message = (
            f"{CALLED[got.kind]} computes {taken} of {total} nodes, but some that carry the work "
            f"are on the CPU: {heavy}. `python -m xtts explain` says whether that is normal."
        )
    asked = active if active in PROVIDERS.get(wish.kind, ()) else wish.provider
    device = "cpu" if active == CPU else got.device
    return SessionStatus(device, active, asked, message, code, on_cpu, taken)


def refused_model(wish: ProviderRequest, fault: str) -> ProviderVerdict:
    """A provider that works refused this very model."""
    message = reasons.last_words(fault) or fault[:300]
    return _unusable(wish, (
        "refused_model", f"It does not take this model ({message})",
        "A model with fixed shapes, or another build, may do."))  # fmt: skip


def _heavy_on_cpu(placing: NodePlacement) -> str:
    on_cpu = (placing.nodes or {}).get(CPU, {})
    heavy = {name: number for name, number in on_cpu.items() if operators.is_heavy(name)}
    return ", ".join(f"{name} ({number})" for name, number in sorted(heavy.items()))


def _unusable(wish: ProviderRequest, reason: reasons.Reason) -> ProviderVerdict:
    code, message, mend = reason
    return ProviderVerdict(False, code, f"{_starts(wish)}. {message}. To mend: {mend}")


def _starts(wish: ProviderRequest) -> str:
    return f"Computes on the CPU, not with {CALLED[wish.kind]}"


def _total(operators_of: Mapping[str, int]) -> int:
    return sum(operators_of.values())
