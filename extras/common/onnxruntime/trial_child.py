"""Child process that tries one provider: a convolution and a matrix product, compared with the CPU.

The parent runs it with `ask_once` and the request {provider, options}. It reads what ONNX Runtime
writes to file descriptors 1 and 2 from stderr: the reason for a silent fallback is only there.
"""

import base64
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from extras.common.onnxruntime.node_placement import load_libraries, node_counts, options_recording_placement
from machine.onnxruntime import import_quietly
from machine.process import reserve_stdout, write_json_line

# y = Conv(x, kernel) @ matrix, opset 17; a test builds the same graph with onnx.helper.
GRAPH = base64.b64decode(
    "CAgSADrbAQo0CgF4CgZrZXJuZWwSAWMaC2NvbnZvbHV0aW9uIgRDb252KhEKBHBhZHNAAUABQAFAAaABBwomCgFjCgZt"
    "YXRyaXgSAXkaDm1hdHJpeF9wcm9kdWN0IgZNYXRNdWwSBXRyaWFsWhsKAXgSFgoUCAESEAoCCAEKAggECgIICAoCCAha"
    "IAoGa2VybmVsEhYKFAgBEhAKAggECgIIBAoCCAMKAggDWhgKBm1hdHJpeBIOCgwIARIICgIICAoCCAhiGwoBeRIWChQI"
    "ARIQCgIIAQoCCAQKAggICgIICEIECgAQEQ=="
)
_CPU_PROVIDER = "CPUExecutionProvider"
# ONNX Runtime's warning about a provider that its build does not have.
_UNKNOWN_PROVIDER_WARNING = "is not in available provider names"


@dataclass
class TrialAnswer:
    """What the child found out; the parent makes an `inspection.Trial` of it.

    Attributes:
        known: Whether the build knows the provider.
        active: The session's providers, in its order.
        nodes: Provider -> number of nodes that it took.
        distance: The largest difference to the CPU's result.
        fault: The error that was raised.
        log: Python's warnings.
        version: Of ONNX Runtime.
    """

    known: bool = True
    active: Sequence[str] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    distance: float | None = None
    fault: str = ""
    log: str = ""
    version: str = ""


def main() -> int:
    """Writes the answer, which holds the provider's errors too, and returns 0."""
    request, answers = json.load(sys.stdin), reserve_stdout()
    write_json_line(answers, asdict(try_provider(request["provider"], request["options"])))
    return 0


def try_provider(provider: str, options: dict[str, str]) -> TrialAnswer:
    """Tries a provider. Never raises."""
    answer = TrialAnswer()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _try_provider(provider, options, answer)
        except Exception as error:  # ONNX Runtime's own errors derive directly from Exception
            answer.fault = f"{type(error).__name__}: {error}"
    texts = [str(warning.message) for warning in caught]
    answer.known = not any(_UNKNOWN_PROVIDER_WARNING in text and provider in text for text in texts)
    answer.log = "\n".join(text for text in texts if _UNKNOWN_PROVIDER_WARNING not in text)
    return answer


def _try_provider(provider: str, options: dict[str, str], answer: TrialAnswer) -> None:
    """Fills the answer step by step; after an error it holds the values up to there."""
    import numpy

    onnxruntime = import_quietly()

    answer.version = onnxruntime.__version__
    load_libraries(onnxruntime, provider)
    session = onnxruntime.InferenceSession(
        GRAPH,
        options_recording_placement(onnxruntime),
        [(provider, options), _CPU_PROVIDER],
        enable_fallback=0,
    )
    answer.active = session.get_providers()
    answer.nodes = {name: sum(counts.values()) for name, counts in (node_counts(session) or {}).items()}
    random = numpy.random.default_rng(0)
    shapes = {"x": (1, 4, 8, 8), "kernel": (4, 4, 3, 3), "matrix": (8, 8)}
    inputs = {name: random.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}
    on_cpu = onnxruntime.InferenceSession(GRAPH, providers=[_CPU_PROVIDER])
    result, expected = (opened.run(None, inputs)[0] for opened in (session, on_cpu))
    answer.distance = float(numpy.abs(result - expected).max())


if __name__ == "__main__":
    sys.exit(main())
