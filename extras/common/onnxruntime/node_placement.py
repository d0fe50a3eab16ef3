"""Reads on which provider ONNX Runtime placed each node of a model."""

import contextlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extras.common.onnxruntime.types import Session, SessionOptions


def load_libraries(onnxruntime: ModuleType, provider: str) -> None:
    """Loads CUDA's libraries from NVIDIA's wheels, as importing torch does. A missing library shows
    when the session is opened."""
    if provider == "CUDAExecutionProvider" and hasattr(onnxruntime, "preload_dlls"):
        with contextlib.suppress(Exception), contextlib.redirect_stdout(None):
            onnxruntime.preload_dlls()


def options_recording_placement(
    onnxruntime: ModuleType, options: "SessionOptions | None" = None
) -> "SessionOptions":
    """Session options that record the placement for `node_counts`."""
    options = options or onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def node_counts(session: "Session") -> dict[str, dict[str, int]] | None:
    """Provider -> operator -> number of nodes; None if this ONNX Runtime does not report it."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    counts: dict[str, dict[str, int]] = {}
    for part in session.get_provider_graph_assignment_info():
        operators = counts.setdefault(part.ep_name, {})
        for node in part.get_nodes():
            operators[node.op_type] = operators.get(node.op_type, 0) + 1
    return counts
