"""Child process that tries one provider: two matrix products, compared with the CPU.

Run by `ask_once`; the request is {provider, options}. What ONNX Runtime writes to file descriptors
1 and 2 is the parent's to read, on stderr: the reason for a silent fallback is nowhere else.
"""

import base64
import contextlib
import json
import sys
import warnings
from typing import Any

from machine.process import reserve_stdout, write_json_line

# y = Conv(x, kernel) @ matrix, opset 17; a test makes it again with onnx.helper.
GRAPH = base64.b64decode(
    "CAgSADrbAQo0CgF4CgZrZXJuZWwSAWMaC2NvbnZvbHV0aW9uIgRDb252KhEKBHBhZHNAAUABQAFAAaABBwomCgFjCgZt"
    "YXRyaXgSAXkaDm1hdHJpeF9wcm9kdWN0IgZNYXRNdWwSBXRyaWFsWhsKAXgSFgoUCAESEAoCCAEKAggECgIICAoCCAha"
    "IAoGa2VybmVsEhYKFAgBEhAKAggECgIIBAoCCAMKAggDWhgKBm1hdHJpeBIOCgwIARIICgIICAoCCAhiGwoBeRIWChQI"
    "ARIQCgIIAQoCCAQKAggICgIICEIECgAQEQ=="
)
_CPU = "CPUExecutionProvider"
_UNKNOWN = "is not in available provider names"


def main() -> int:
    """Writes the answer; always 0, but for a fault of its own."""
    request, answers = json.load(sys.stdin), reserve_stdout()
    write_json_line(answers, tried(request["provider"], request["options"]))
    return 0


def tried(provider: str, options: dict[str, str]) -> dict[str, Any]:
    """{known, active, nodes, distance, fault, log, version}; log: warnings of Python's own."""
    found: dict[str, Any] = {"known": True, "fault": "", "active": (), "nodes": {}}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            _try(provider, options, found)
        except Exception as error:  # its own kinds derive from Exception alone
            found["fault"] = f"{type(error).__name__}: {error}"
    texts = [str(one.message) for one in told]
    found["known"] = not any(_UNKNOWN in text and provider in text for text in texts)
    found["log"] = "\n".join(text for text in texts if _UNKNOWN not in text)
    return found


def _try(provider: str, options: dict[str, str], found: dict[str, Any]) -> None:
    import numpy
    import onnxruntime

    found["version"] = onnxruntime.__version__
    load_libraries(onnxruntime, provider)
    session = onnxruntime.InferenceSession(
        GRAPH, recording(onnxruntime), [(provider, options), _CPU], enable_fallback=0
    )
    found["active"] = session.get_providers()
    found["nodes"] = {
        name: sum(operators.values()) for name, operators in (placed(session) or {}).items()
    }
    random = numpy.random.default_rng(0)
    shapes = {"x": (1, 4, 8, 8), "kernel": (4, 4, 3, 3), "matrix": (8, 8)}
    inputs = {
        name: random.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()
    }
    plain = onnxruntime.InferenceSession(GRAPH, providers=[_CPU])
    pair = [one.run(None, inputs)[0] for one in (session, plain)]
    found["distance"] = float(numpy.abs(pair[0] - pair[1]).max())


def load_libraries(onnxruntime: Any, provider: str) -> None:
    """CUDA's libraries out of NVIDIA's wheels, as torch's import would; ones that are missing are
    told by the attempt itself."""
    if provider == "CUDAExecutionProvider" and hasattr(onnxruntime, "preload_dlls"):
        with contextlib.suppress(Exception), contextlib.redirect_stdout(None):
            onnxruntime.preload_dlls()


def recording(onnxruntime: Any, options: Any = None) -> Any:
    """Session options under which `placed` can be asked."""
    options = options or onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def placed(session: Any) -> dict[str, dict[str, int]] | None:
    """Provider -> operator -> number of nodes; None where this ONNX Runtime does not tell."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    found: dict[str, dict[str, int]] = {}
    for part in session.get_provider_graph_assignment_info():
        operators = found.setdefault(part.ep_name, {})
        for node in part.get_nodes():
            operators[node.op_type] = operators.get(node.op_type, 0) + 1
    return found


if __name__ == "__main__":
    sys.exit(main())
