"""Judges where operators ran: is a CPU fallback normal? Pure.

Why the CPU can be right: a value that is there already and small costs less to be worked on than to
be sent (ONNX Runtime's own rule for shapes: microsoft/onnxruntime#17930, #6229).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from machine.onnxruntime.operators import OperatorKind, is_heavy, kind_of

# Below it a copy to a GPU and back (some 20 us) costs more than the work itself.
SMALL = 4096


class Normality(StrEnum):
    """Whether an operator's place on the CPU is the usual one."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class OperatorRun:
    """What an operator did in a run. largest: values in its largest input or output."""

    times: int = 0
    seconds: float = 0.0
    largest: int | None = None


@dataclass(frozen=True)
class Judgement:
    """nodes: of this operator on the CPU; why: a sentence."""

    operator: str
    nodes: int
    normal: Normality
    why: str
    largest: int | None = None
    seconds: float = 0.0


_ALWAYS = {
    OperatorKind.CONTROL: "chooses or repeats; what is inside may still be on the GPU",
    OperatorKind.TEXT: "words and trees are computed on the CPU only",
    OperatorKind.FEW: "finds few values, and how many is not known before",
}


def judge(operator: str, nodes: int, ran: OperatorRun | None, domain: str = "") -> Judgement:
    """Of an operator that stayed on the CPU beside an accelerator."""
    kind = kind_of(operator, domain)
    largest = ran.largest if ran else None
    normal, why = _judged(kind, operator, largest)
    return Judgement(operator, nodes, normal, why, largest, ran.seconds if ran else 0.0)


def _judged(kind: OperatorKind, operator: str, largest: int | None) -> tuple[Normality, str]:
    if kind is OperatorKind.QUANTISED:
        return Normality.NO, (
            "whole-number arithmetic, for which CUDA has few kernels: on a GPU use the model in "
            "fp16 or fp32; int8 is for the CPU"
        )
    if is_heavy(operator):
        return Normality.NO, (
            "carries the work of the model and belongs on the accelerator; this build has no "
            "kernel for it in this form (its type, its opset or an attribute)"
        )
    if kind in _ALWAYS:
        return Normality.YES, _ALWAYS[kind]
    small = largest is not None and largest <= SMALL
    if kind is OperatorKind.SHAPE:
        if largest is None or small:
            size = f", {largest:,} values at most" if largest is not None else ""
            return (
                Normality.YES,
                f"reckons with sizes{size}: sending them would cost more than the work",
            )
        return Normality.UNCLEAR, (
            f"moves {largest:,} values on the CPU: normal before the first or after the last node "
            "of the GPU, else two copies that cost time"
        )
    what = "draws random numbers" if kind is OperatorKind.RANDOM else "one small sum for each value"
    if small:
        return Normality.YES, f"{what}, {largest:,} values at most: quicker here than sent"
    if largest is None:
        return Normality.UNCLEAR, f"{what}; --run tells of how many"
    return Normality.NO, f"{what}, of {largest:,}: between nodes of the GPU it forces two copies"


def forecast(operators: Mapping[str, int]) -> dict[str, int]:
    """A model that is on the CPU alone: {gpu, either}, how many nodes a GPU would usually take, and
    how many are of kinds of which it takes some and leaves others, by what they are given."""
    either = {
        OperatorKind.SHAPE,
        OperatorKind.CONTROL,
        OperatorKind.TEXT,
        OperatorKind.FEW,
        OperatorKind.QUANTISED,
    }
    found = {"gpu": 0, "either": 0}
    for name, number in operators.items():
        found["either" if kind_of(name) in either else "gpu"] += number
    return found


def answer(judged: list[Judgement], taken: int) -> str:
    """Document 000's question: is it normal that nodes are on the CPU?"""
    bad = [one for one in judged if one.normal is Normality.NO]
    if not taken:
        return "Nothing runs on an accelerator."
    if bad:
        names = ", ".join(f"{one.operator} ({one.nodes})" for one in bad)
        return f"No, not all of it is normal: {names} should not be on the CPU."
    if any(one.normal is Normality.UNCLEAR for one in judged):
        return "Mostly: what carries the work is on the accelerator; see the lines marked ?."
    if not judged:
        return "Every node is on the accelerator."
    return "Yes, that is normal: what carries the work is on the accelerator."
