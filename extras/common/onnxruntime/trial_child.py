"""Child process that tries one provider: a convolution and a matrix product, compared with the CPU.

The parent runs it with `ask_once` and the request {provider, options}. It reads what ONNX Runtime
writes to file descriptors 1 and 2 from stderr: the reason for a silent fallback is only there.
"""

import base64
import contextlib
import json
import sys
import warnings
from types import ModuleType
from typing import TYPE_CHECKING

from machine.onnxruntime import import_quietly
from machine.process import reserve_stdout, write_json_line

if TYPE_CHECKING:
    from extras.common.onnxruntime.types import Session, SessionOptions

# y = Conv(x, kernel) @ matrix, opset 17; a test builds the same graph with onnx.helper.
GRAPH = base64.b64decode(
    "CAgSADrbAQo0CgF4CgZrZXJuZWwSAWMaC2NvbnZvbHV0aW9uIgRDb252KhEKBHBhZHNAAUABQAFAAaABBwomCgFjCgZt"
    "YXRyaXgSAXkaDm1hdHJpeF9wcm9kdWN0IgZNYXRNdWwSBXRyaWFsWhsKAXgSFgoUCAESEAoCCAEKAggECgIICAoCCAha"
    "IAoGa2VybmVsEhYKFAgBEhAKAggECgIIBAoCCAMKAggDWhgKBm1hdHJpeBIOCgwIARIICgIICAoCCAhiGwoBeRIWChQI"
    "ARIQCgIIAQoCCAQKAggICgIICEIECgAQEQ=="
)
_CPU = "CPUExecutionProvider"
_UNKNOWN = "is not in available provider names"


def main() -> int:
    """Writes the answer, which holds the provider's errors too, and returns 0."""
    request, answers = json.load(sys.stdin), reserve_stdout()
    write_json_line(answers, try_provider(request["provider"], request["options"]))
    return 0


def try_provider(provider: str, options: dict[str, str]) -> dict[str, object]:
    """Tries a provider: {known, active, nodes, distance, fault, log, version}. log: Python's
    warnings."""
    result: dict[str, object] = {"known": True, "fault": "", "active": (), "nodes": {}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _try(provider, options, result)
        except Exception as error:  # ONNX Runtime's own errors derive directly from Exception
            result["fault"] = f"{type(error).__name__}: {error}"
    texts = [str(warning.message) for warning in caught]
    result["known"] = not any(_UNKNOWN in text and provider in text for text in texts)
    result["log"] = "\n".join(text for text in texts if _UNKNOWN not in text)
    return result


def _try(provider: str, options: dict[str, str], result: dict[str, object]) -> None:
    import numpy

    onnxruntime = import_quietly()

    result["version"] = onnxruntime.__version__
    load_libraries(onnxruntime, provider)
    session = onnxruntime.InferenceSession(
        GRAPH, recording(onnxruntime), [(provider, options), _CPU], enable_fallback=0
    )
    result["active"] = session.get_providers()
    result["nodes"] = {
        name: sum(operators.values()) for name, operators in (node_counts(session) or {}).items()
    }
    random = numpy.random.default_rng(0)
    shapes = {"x": (1, 4, 8, 8), "kernel": (4, 4, 3, 3), "matrix": (8, 8)}
    inputs = {name: random.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}
    plain = onnxruntime.InferenceSession(GRAPH, providers=[_CPU])
    pair = [opened.run(None, inputs)[0] for opened in (session, plain)]
    result["distance"] = float(numpy.abs(pair[0] - pair[1]).max())


def load_libraries(onnxruntime: ModuleType, provider: str) -> None:
    """Loads CUDA's libraries from NVIDIA's wheels, as importing torch does. A missing library shows
    when the session is opened."""
    if provider == "CUDAExecutionProvider" and hasattr(onnxruntime, "preload_dlls"):
        with contextlib.suppress(Exception), contextlib.redirect_stdout(None):
            onnxruntime.preload_dlls()


def recording(onnxruntime: ModuleType, options: "SessionOptions | None" = None) -> "SessionOptions":
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


if __name__ == "__main__":
    sys.exit(main())
