"""Session options: threads, memory arena, graph optimization."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Optimisation(StrEnum):
    """How much ONNX Runtime rewrites a graph before it runs it."""

    ALL = "all"
    BASIC = "basic"
    OFF = "off"


_LEVELS = {
    Optimisation.ALL: "ORT_ENABLE_ALL",
    Optimisation.BASIC: "ORT_ENABLE_BASIC",
    Optimisation.OFF: "ORT_DISABLE_ALL",
}


@dataclass(frozen=True)
class OnnxSessionOptions:
    """threads: that one node computes with, 0 = as many as cores of the machine; it does not see a
    container's limit. spinning: whether threads wait awake, which costs a core. arena: whether
    memory that was used is kept; pattern: whether it is planned ahead by the first inputs' sizes.
    prepacking: whether weights are copied into the order that products like best.

    The defaults are for a machine that does other work too.
    """

    threads: int = 0
    spinning: bool = False
    arena: bool = True
    pattern: bool = True
    prepacking: bool = True
    optimisation: Optimisation = Optimisation.ALL


def session_options(onnxruntime: Any, wanted: OnnxSessionOptions) -> Any:
    """`onnxruntime.SessionOptions` for these."""
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = wanted.threads
    made.inter_op_num_threads = 1
    made.enable_cpu_mem_arena = wanted.arena
    made.enable_mem_pattern = wanted.pattern
    made.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, _LEVELS[wanted.optimisation]
    )
    made.add_session_config_entry("session.intra_op.allow_spinning", str(int(wanted.spinning)))
    made.add_session_config_entry("session.disable_prepacking", str(int(not wanted.prepacking)))
    # Without VNNI (AVX2 alone) the products of unsigned by signed bytes saturate at 16 bits: logits
    # were off by 3.9 % instead of 1 %. With this entry ONNX Runtime turns the weights into unsigned
    # bytes there; where nothing saturates, it changes nothing.
    made.add_session_config_entry("session.x64quantprecision", "1")
    # Silent: what fails is raised, and a warning for each node that is normally on the CPU helps
    # nobody who serves.
    made.log_severity_level = 4
    return made
