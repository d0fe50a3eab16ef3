"""The trial's graph and its computation."""

import onnx
from onnx import TensorProto, helper

from extras.common.onnxruntime.providers import CPU
from extras.common.onnxruntime.trial_child import GRAPH, try_provider


def test_the_trial_computes_the_same_as_the_cpu():
    found = try_provider(CPU, {})
    assert (found.known, found.fault, found.nodes) == (True, "", {CPU: 2})
    assert found.distance == 0.0


def test_the_device_that_is_asked_for_is_the_one_that_is_tried(monkeypatch):
    opened = list[object]()
    monkeypatch.setattr(
        "onnxruntime.InferenceSession", lambda _graph, _options, asked, **_: opened.append(asked)
    )
    try_provider("MIGraphXExecutionProvider", {"device_id": "1"})
    assert opened == [[("MIGraphXExecutionProvider", {"device_id": "1"}), CPU]]


def test_the_trials_graph_is_a_convolution_and_a_product():
    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    made = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "kernel"], ["c"], "convolution", pads=[1, 1, 1, 1]),
            helper.make_node("MatMul", ["c", "matrix"], ["y"], "matrix_product"),
        ],
        "trial",
        [value("x", 1, 4, 8, 8), value("kernel", 4, 4, 3, 3), value("matrix", 8, 8)],
        [value("y", 1, 4, 8, 8)],
    )
    assert onnx.load_from_string(GRAPH).graph == made
