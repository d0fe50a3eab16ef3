"""Traces a torch module into an ONNX graph and its weights.

Uses torch's TorchScript exporter, because the newer one fails for HiFi-GAN's shapes (torch 2.11)
and needs onnxscript. The weights stay memory-mapped until they are written one by one.
"""

import io
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import numpy as np
import onnx
import torch
from onnx import ModelProto, NodeProto, numpy_helper
from torch import Tensor, nn

from extras.onnx.export.graphs import ExportGraph

# The first opset with LayerNormalization.
OPSET = 17


def trace(graph: ExportGraph, *, folded: bool) -> tuple[ModelProto, dict[str, Tensor]]:
    """A graph without its initializers, and their values by name.

    Args:
        folded: Whether to fold constants while tracing, which copies the weights.
    """
    # The exporter restores the module's mode, and a new wrapper would set its parts to training.
    graph.module.eval()
    stream = io.BytesIO()
    module_weights = {} if folded else graph.module.state_dict()
    with (
        warnings.catch_warnings(),
        torch.inference_mode(),
        _without_reading_weights(graph.module, module_weights),
    ):
        # The warnings say that this exporter is the older one and that tracing has limits.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.module,
            graph.arguments,
            cast("str", stream),  # torch's annotation forgets files
            dynamo=False,
            opset_version=OPSET,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_axes={name: dict(axes) for name, axes in graph.axes.items()},
            export_params=folded,
            do_constant_folding=folded,
        )
    model = onnx.load_model_from_string(stream.getvalue())
    weights = _take_initializers(model, module_weights)
    # Without stored parameters, the weights are inputs of the graph.
    inputs = [value for value in model.graph.input if value.name in graph.inputs]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    if not folded:
        _transpose_weights(model, weights)
        _shorten_shapes(model)
    needed = _drop_unused(model)
    return model, {name: value for name, value in weights.items() if name in needed}


@contextmanager
def _without_reading_weights(module: nn.Module, module_weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Replaces the weights by tensors of one repeated number, because the trace does not depend on
    their values. The numbers differ, because the exporter merges equal tensors. At XTTS-v2's size
    this saves reading 1.5 GB."""
    placeholders = {
        name: torch.tensor(number, dtype=tensor.dtype).expand(tensor.shape)
        for number, (name, tensor) in enumerate(module_weights.items())
    }
    if module_weights:
        module.load_state_dict(placeholders, assign=True)
    try:
        yield
    finally:
        if module_weights:
            module.load_state_dict(dict(module_weights), assign=True)


def _take_initializers(model: ModelProto, module_weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values of the initializers; removes those in the graph."""
    in_graph = {
        initializer.name: torch.from_numpy(numpy_helper.to_array(initializer).copy())
        for initializer in model.graph.initializer
    }
    del model.graph.initializer[:]
    # The exporter merges equal tensors (such as zero biases). Here they are separated again.
    replace_nodes(
        model,
        [
            node
            for node in model.graph.node
            if node.op_type != "Identity" or node.output[0] not in module_weights
        ],
    )
    return {**in_graph, **module_weights}


def _transpose_weights(model: ModelProto, weights: dict[str, Tensor]) -> None:
    """Stores the weights of `x @ W.T` transposed. Transposing 1.5 GB at the start of a session
    would take twice that memory."""
    other_nodes = []
    for node in model.graph.node:
        if node.op_type == "Transpose" and node.input[0] in weights:
            weights[node.output[0]] = weights[node.input[0]].t()
        else:
            other_nodes.append(node)
    replace_nodes(model, other_nodes)


def _shorten_shapes(model: ModelProto) -> None:
    """Makes the shapes of the transformer's reshapes constant: [0, 0, heads, -1], where 0 keeps an
    axis. Otherwise, a third of the nodes of the step would be shape arithmetic."""
    producers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.op_type != "Reshape" or producers[node.input[1]].op_type != "Concat":
            continue
        names = producers[node.input[1]].input
        sizes = [_shape_entry(producers, name, axis) for axis, name in enumerate(names)]
        if sizes.count(-1) <= 1:
            constant = numpy_helper.from_array(np.array(sizes, np.int64), f"{node.name}_sizes")
            node.input[1] = constant.name
            model.graph.initializer.append(constant)


def _shape_entry(producers: dict[str, NodeProto], name: str, axis: int) -> int:
    """One entry of a shape: a number; 0 for batch and time, which the transformer's reshapes never
    move; -1 for a size that follows from the others."""
    node = producers[name]
    if node.op_type == "Unsqueeze":
        node = producers[node.input[0]]
    if node.op_type == "Constant":
        return int(numpy_helper.to_array(node.attribute[0].t).flatten()[0])
    return 0 if axis < 2 else -1


def _drop_unused(model: ModelProto) -> set[str]:
    """Removes unused nodes; returns the names that are used."""
    needed = {output.name for output in model.graph.output}
    used: list[NodeProto] = []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            used.append(node)
    replace_nodes(model, reversed(used))
    return needed


def replace_nodes(model: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Replaces the nodes of the graph by `nodes`, which may contain some of them."""
    copies = []
    for node in nodes:
        copies.append(NodeProto())
        copies[-1].CopyFrom(node)
    del model.graph.node[:]
    model.graph.node.extend(copies)
