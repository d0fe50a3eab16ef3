"""Judges where operators ran: is a CPU fallback normal? Pure.

Why the CPU can be right: a value that is there already and small costs less to be worked on than to
be sent (ONNX Runtime's own rule for shapes: microsoft/onnxruntime#17930, #6229).
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from machine.onnxruntime.operators import OperatorKind, is_heavy, kind_of
from machine.onnxruntime.placement import SessionStatus

# Below it a copy to a GPU and back (some 20 us) costs more than the work itself.
SMALL = 4096
Normality = Literal["yes", "no", "unclear"]
_ALWAYS = {
    OperatorKind.CONTROL: "chooses or repeats; what is inside may still be on the GPU",
    OperatorKind.TEXT: "words and trees are computed on the CPU only",
    OperatorKind.FEW: "finds few values, and how many is not known before",
}
# Of these a GPU takes some and leaves others, by what they are given.
_EITHER = {*_ALWAYS, OperatorKind.SHAPE, OperatorKind.QUANTISED}


class Judgement(NamedTuple):
    """Of an operator on the CPU. why: a sentence; largest: values in its largest input or output,
    None where it was not run."""

    operator: str
    nodes: int
    normal: Normality
    why: str
    largest: int | None = None
    seconds: float = 0.0


def judge(operator: str, largest: int | None = None, domain: str = "") -> tuple[Normality, str]:
    """Whether it is normal that an operator stayed on the CPU beside an accelerator, and why."""
    kind = kind_of(operator, domain)
    if kind is OperatorKind.QUANTISED:
        return "no", (
            "whole-number arithmetic, for which CUDA has few kernels: on a GPU use the model in "
            "fp16 or fp32; int8 is for the CPU"
        )
    if is_heavy(operator):
        return "no", (
            "carries the work of the model and belongs on the accelerator; this build has no "
            "kernel for it in this form (its type, its opset or an attribute)"
        )
    if kind in _ALWAYS:
        return "yes", _ALWAYS[kind]
    small = largest is not None and largest <= SMALL
    if kind is OperatorKind.SHAPE:
        if largest is None or small:
            size = f", {largest:,} values at most" if largest is not None else ""
            return "yes", f"reckons with sizes{size}: sending them would cost more than the work"
        return "unclear", (
            f"moves {largest:,} values on the CPU: normal before the first or after the last node "
            "of the GPU, else two copies that cost time"
        )
    what = "draws random numbers" if kind is OperatorKind.RANDOM else "one small sum for each value"
    if small:
        return "yes", f"{what}, {largest:,} values at most: quicker here than sent"
    if largest is None:
        return "unclear", f"{what}; --run tells of how many"
    return "no", f"{what}, of {largest:,}: between nodes of the GPU it forces two copies"


def forecast(operators: Mapping[str, int]) -> dict[str, int]:
    """A model that is on the CPU alone: {gpu, either}, how many nodes a GPU would usually take, and
    how many are of kinds of which it takes some and leaves others."""
    found = {"gpu": 0, "either": 0}
    for name, number in operators.items():
        found["either" if kind_of(name) in _EITHER else "gpu"] += number
    return found


def answer(status: SessionStatus, judged: Sequence[Judgement]) -> str:
    """Document 000's question in a sentence: is it normal that nodes are on the CPU?"""
    if not status.accelerator_nodes:
        if status.reason_code == "no_gpu" and status.requested_provider == "auto":
            return "Yes: there is no GPU here that could be used, so the CPU runs all of it."
        if status.message:
            return "No: an accelerator was wished for, and all of it runs on the CPU."
        return "Yes: the CPU was asked for, and all of it runs there."
    if bad := [f"{one.operator} ({one.nodes})" for one in judged if one.normal == "no"]:
        return f"No, not all of it is normal: {', '.join(bad)} should not be on the CPU."
    if any(one.normal == "unclear" for one in judged):
        return "Mostly: what carries the work is on the accelerator; see the lines marked ?."
    if not judged:
        return "Every node is on the accelerator."
    return "Yes, that is normal: what carries the work is on the accelerator."
