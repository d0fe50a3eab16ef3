"""Traces a torch module into an ONNX graph and its weights.

By torch's TorchScript exporter: the newer one fails at HiFi-GAN's shapes (torch 2.11) and wants
onnxscript. The weights stay where they are, memory-mapped, until they are written one by one.
"""

import io
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import torch
from onnx import ModelProto, NodeProto, numpy_helper
from torch import Tensor, nn

from xtts.onnx.export.graphs import ExportGraph

# LayerNormalization is one operator since 17; newer ones bring nothing that these graphs need.
OPSET = 17


def traced(graph: ExportGraph, *, folded: bool) -> tuple[ModelProto, dict[str, Tensor]]:
    """A graph whose initializers are missing, and their values by name. folded: constants are
    computed while tracing, which copies the weights."""
    # The exporter puts a module back as it was; a new wrapper learns, and its parts with it.
    graph.module.eval()
    written: Any = io.BytesIO()
    given = {} if folded else graph.module.state_dict()
    with warnings.catch_warnings(), torch.inference_mode(), _unread(graph.module, given):
        # Both tell of the exporter itself: that it is the older one, that a trace is a trace.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.module, graph.given, written, dynamo=False, opset_version=OPSET,
            input_names=list(graph.inputs), output_names=list(graph.outputs),
            dynamic_axes={name: dict(axes) for name, axes in graph.axes.items()},
            export_params=folded, do_constant_folding=folded,
        )  # fmt: skip
    model = onnx.load_model_from_string(written.getvalue())
    weights = _weights(model, given)
    # Without parameters, the weights are inputs of the graph.
    inputs = [one for one in model.graph.input if one.name in graph.inputs]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    if not folded:
        _turn_weights(model, weights)
        _shorten_shapes(model)
    needed = _drop_unused(model)
    return model, {name: value for name, value in weights.items() if name in needed}


@contextmanager
def _unread(module: nn.Module, given: Mapping[str, Tensor]) -> Iterator[None]:
    """A trace does not depend on values: instead of weights it sees tensors of one number, each of
    another, as the exporter takes equal ones for one. At XTTS-v2's size 1.5 GB are not read."""
    one_each = {
        name: torch.tensor(number, dtype=tensor.dtype).expand(tensor.shape)
        for number, (name, tensor) in enumerate(given.items())
    }
    if given:
        module.load_state_dict(one_each, assign=True)
    try:
        yield
    finally:
        if given:
            module.load_state_dict(dict(given), assign=True)


def _weights(model: ModelProto, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values; out of the graph where they are in it."""
    inside = {
        one.name: torch.from_numpy(numpy_helper.to_array(one).copy())
        for one in model.graph.initializer
    }
    del model.graph.initializer[:]
    # Equal tensors (biases of zero) are one tensor and copies of it: each gets its own value back.
    replace_nodes(model, [
        node for node in model.graph.node
        if node.op_type != "Identity" or node.output[0] not in given
    ])  # fmt: skip
    return {**inside, **given}


def _turn_weights(model: ModelProto, weights: dict[str, Tensor]) -> None:
    """`x @ W.T` gets the turned weight itself; turning 1.5 GB when a session begins costs twice
    that."""
    kept = []
    for node in model.graph.node:
        if node.op_type == "Transpose" and node.input[0] in weights:
            weights[node.output[0]] = weights[node.input[0]].t()
        else:
            kept.append(node)
    replace_nodes(model, kept)


def _shorten_shapes(model: ModelProto) -> None:
    """The transformer's reshapes get constants, [0, 0, heads, -1], where 0 means: as it is. A third
    of all nodes was arithmetic about shapes, and a step is short."""
    made = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.op_type != "Reshape" or made[node.input[1]].op_type != "Concat":
            continue
        names = made[node.input[1]].input
        sizes = [_size(made, name, axis) for axis, name in enumerate(names)]
        if sizes.count(-1) <= 1:
            constant = numpy_helper.from_array(np.array(sizes, np.int64), f"{node.name}_sizes")
            node.input[1] = constant.name
            model.graph.initializer.append(constant)


def _size(made: dict[str, NodeProto], name: str, axis: int) -> int:
    """One entry of a shape: a number; 0 for batch and time, which no reshape of the transformer
    moves; -1 for what follows from the others."""
    node = made[name]
    if node.op_type == "Unsqueeze":
        node = made[node.input[0]]
    if node.op_type == "Constant":
        return int(numpy_helper.to_array(node.attribute[0].t).flatten()[0])
    return 0 if axis < 2 else -1


def _drop_unused(model: ModelProto) -> set[str]:
    """Drops the nodes that nothing needs; the names that are needed."""
    needed = {one.name for one in model.graph.output}
    kept: list[NodeProto] = []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    replace_nodes(model, reversed(kept))
    return needed


def replace_nodes(model: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Of the graph, by these, which may be some of its own."""
    kept = []
    for node in nodes:
        kept.append(NodeProto())
        kept[-1].CopyFrom(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
