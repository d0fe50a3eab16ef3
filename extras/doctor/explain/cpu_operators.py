"""Judges whether it is normal that an operator ran on the CPU.

The CPU can be the right place: computing a small value there costs less than copying it to the GPU
(ONNX Runtime's own rule for shapes: microsoft/onnxruntime#17930, #6229). All functions are pure.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from extras.common.onnxruntime.operators import OperatorKind, is_heavy, kind_of
from extras.common.onnxruntime.placement import SessionStatus

# Below this many values a copy to a GPU and back (about 20 us) costs more than the work itself.
MAX_SMALL_VALUES = 4096
Normality = Literal["yes", "no", "unclear"]
_REASONS_FOR_CPU = {
    OperatorKind.CONTROL: "control flow; the nodes inside may still be on the GPU",
    OperatorKind.TEXT: "text and tree operators exist for the CPU only",
    OperatorKind.FEW: "returns few values, whose number is not known in advance",
}
# For these kinds it depends on the inputs whether a GPU takes a node.
_MIXED_KINDS = {*_REASONS_FOR_CPU, OperatorKind.SHAPE, OperatorKind.QUANTISED}


class Judgement(NamedTuple):
    """The judgement of an operator on the CPU.

    Attributes:
        nodes: How many nodes of this operator are on the CPU.
        normal: Whether that is normal.
        why: The reason, as a clause.
        largest: Values in its largest input or output; None if it was not run.
        seconds: Its time in one run.
    """

    operator: str
    nodes: int
    normal: Normality
    why: str
    largest: int | None = None
    seconds: float = 0.0


def judge_operator(operator: str, largest: int | None = None, domain: str = "") -> tuple[Normality, str]:
    """Whether it is normal that an operator is on the CPU despite an accelerator, and why."""
    kind = kind_of(operator, domain)
    if kind is OperatorKind.QUANTISED:
        return "no", (
            "integer arithmetic, for which CUDA has few kernels: use the model in fp16 or fp32 on "
            "a GPU; int8 is for the CPU"
        )
    if is_heavy(operator):
        return "no", (
            "a compute-heavy operator that belongs on the accelerator; this build has no kernel "
            "for its type, opset or attributes"
        )
    if kind in _REASONS_FOR_CPU:
        return "yes", _REASONS_FOR_CPU[kind]
    small = largest is not None and largest <= MAX_SMALL_VALUES
    if kind is OperatorKind.SHAPE:
        if largest is None or small:
            size = f" of at most {largest:,} values" if largest is not None else ""
            return "yes", f"computes shapes{size}: copying them would cost more than the work"
        return "unclear", (
            f"moves {largest:,} values on the CPU: normal before the first or after the last GPU "
            "node, otherwise it costs two copies"
        )
    random = kind is OperatorKind.RANDOM
    what = "generates random numbers" if random else "an elementwise operator"
    if small:
        return "yes", f"{what} on at most {largest:,} values: faster here than copied"
    if largest is None:
        return "unclear", f"{what}; use --run to see on how many values"
    return "no", f"{what} on {largest:,} values: between GPU nodes it forces two copies"


def forecast_placement(operators: Mapping[str, int]) -> dict[str, int]:
    """For a model on the CPU only, numbers of nodes: {gpu: those that a GPU would usually take,
    either: those of which it takes some}."""
    counts = {"gpu": 0, "either": 0}
    for name, number in operators.items():
        counts["either" if kind_of(name) in _MIXED_KINDS else "gpu"] += number
    return counts


def placement_verdict(status: SessionStatus, judgements: Sequence[Judgement]) -> str:
    """Whether the placement of the whole model is normal, as a sentence."""
    if not status.accelerator_nodes:
        if status.reason_code == "no_gpu" and status.requested_provider == "auto":
            return "Yes: this machine has no usable GPU, so everything runs on the CPU."
        if status.message:
            return "No: an accelerator was requested, but everything runs on the CPU."
        return "Yes: the CPU was requested, and everything runs there."
    if misplaced := [
        f"{judgement.operator} ({judgement.nodes})" for judgement in judgements if judgement.normal == "no"
    ]:
        return f"No: {', '.join(misplaced)} should not be on the CPU."
    if any(judgement.normal == "unclear" for judgement in judgements):
        return "Mostly: the compute-heavy nodes are on the accelerator; see the lines marked ?."
    if not judgements:
        return "Yes: every node is on the accelerator."
    return "Yes: the compute-heavy nodes are on the accelerator."
