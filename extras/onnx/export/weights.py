"""Writes graph and weight files in float32, int8 or int4.

Each tensor is read from the memory-mapped model, written and released in turn. Tensors start at
multiples of the page size, so that ONNX Runtime can map them instead of reading them.
"""

from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from torch import Tensor

from extras.onnx.export.tracing import replace_nodes
from machine.memory import MappedFiles, trim_heap
from machine.storage.files import Written, replace_file

# The number of weights per scale and zero point in int4, as in `xtts.model.quantization`.
GROUP_SIZE = 32
# For ONNX Runtime's MatMulNBits: rounds the inputs to 8 bits and multiplies integers.
_ACCURACY_INT8_INPUTS = 4
# Smaller tensors stay in the graph, because the runtime needs shapes, axes and scalars for loading.
_INLINE_BYTES = 1024
_PAGE_BYTES = 4096
_CONTRIB_DOMAIN = "com.microsoft"


def write(
    graph: ModelProto, weights: dict[str, Tensor], path: Path, kind: str = "fp32"
) -> dict[str, Written]:
    """Writes `path` and `path.data`; returns size and hash by file name. Raises DiskFull,
    WriteError.

    Args:
        kind: fp32; int8, the transformer's matrices with one scale per column, whose inputs are
            quantised dynamically (ONNX Runtime's DynamicQuantizeMatMul, for CPUs); or int4, one
            scale and zero point per 32 weights of a column (MatMulNBits).
    """
    model = ModelProto()
    model.CopyFrom(graph)
    weights = dict(weights)
    files = MappedFiles.look()
    if kind != "fp32":
        _quantise(model, weights, kind, files)
    data = path.with_name(path.name + ".data")

    def stream(file: BinaryIO) -> None:
        end = 0
        for name, tensor in _used_tensors(model, weights):
            array = _as_array(tensor)
            if array.nbytes < _INLINE_BYTES:
                model.graph.initializer.append(numpy_helper.from_array(array, name))
                continue
            begin = -(-end // _PAGE_BYTES) * _PAGE_BYTES
            file.write(bytes(begin - end))
            file.write(array.data.cast("B"))
            end = begin + array.nbytes
            model.graph.initializer.append(_external_tensor(name, array, data.name, begin))
            files.forget(tensor.data_ptr(), tensor.nbytes)

    written_data = replace_file(data, stream)
    written_graph = replace_file(path, lambda file: file.write(model.SerializeToString()))
    return {path.name: written_graph, data.name: written_data}


def _used_tensors(model: ModelProto, weights: dict[str, Tensor]) -> "list[tuple[str, Tensor]]":
    """The tensors that the graph uses, each once, in the order of their use."""
    present = {initializer.name for initializer in model.graph.initializer}
    names = dict.fromkeys(name for node in model.graph.node for name in node.input)
    return [(name, weights[name]) for name in names if name in weights and name not in present]


def _as_array(tensor: Tensor) -> np.ndarray:
    is_stored = tensor.dtype in (torch.int8, torch.uint8, torch.int64)
    return (tensor if is_stored else tensor.float()).detach().contiguous().numpy()


def _external_tensor(name: str, array: np.ndarray, location: str, offset: int) -> TensorProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = TensorProto(name=name, dims=array.shape, data_type=kind)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", array.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _quantise(model: ModelProto, weights: dict[str, Tensor], kind: str, files: MappedFiles) -> None:
    """Turns every matrix product with a weight into one node that also adds the bias."""
    new_product = {"int8": _int8_product, "int4": _int4_product}[kind]
    bias_additions = {node.input[1]: node for node in model.graph.node if node.op_type == "Add"}
    nodes: list[NodeProto] = []
    merged_outputs: set[str] = set()
    for node in model.graph.node:
        if node.output[0] in merged_outputs:
            continue
        if node.op_type != "MatMul" or node.input[1] not in weights:
            nodes.append(node)
            continue
        add = bias_additions[node.output[0]]
        nodes.append(new_product(node, add.input[0], add.output[0], weights))
        files.forget(weights[node.input[1]].data_ptr(), weights[node.input[1]].nbytes)
        trim_heap()  # frees 1.5 GB of gaps between the kept matrices at XTTS-v2's size
        merged_outputs.add(add.output[0])
    replace_nodes(model, nodes)
    model.opset_import.append(helper.make_opsetid(_CONTRIB_DOMAIN, 1))


def _int8_product(node: NodeProto, bias: str, output: str, weights: dict[str, Tensor]) -> NodeProto:
    """The int8 product with a weight [in, out]. Adds its values, scales and zero points to
    `weights`."""
    rows, name = node.input
    weight = weights[name].float()
    scales = (weight.abs().amax(0) / 127).clamp(min=1e-8)
    names = (f"{name}_int8", f"{name}_scales", f"{name}_zeros")
    weights[names[0]] = (weight / scales).round().clamp(-127, 127).to(torch.int8)
    weights[names[1]] = scales
    weights[names[2]] = torch.zeros(len(scales), dtype=torch.int8)
    return helper.make_node(
        "DynamicQuantizeMatMul", [rows, *names, bias], [output], name=node.name, domain=_CONTRIB_DOMAIN
    )


def _int4_product(node: NodeProto, bias: str, output: str, weights: dict[str, Tensor]) -> NodeProto:
    """As `_int8_product`, with 4 bits per weight, two in a byte, and a scale and a zero point per
    group."""
    rows, name = node.input
    grouped = weights[name].float().t().unflatten(1, (-1, GROUP_SIZE))
    # The range includes zero, because the zero point must be one of the sixteen numbers.
    smallest, largest = grouped.amin(-1).clamp(max=0), grouped.amax(-1).clamp(min=0)
    scales = ((largest - smallest) / 15).clamp(min=1e-8)
    zeros = (-smallest / scales).round()
    numbers = ((grouped / scales[..., None]).round() + zeros[..., None]).clamp(0, 15)
    names = (f"{name}_int4", f"{name}_scales", f"{name}_zeros")
    weights[names[0]] = _pack_pairs(numbers)
    weights[names[1]] = scales.flatten()
    weights[names[2]] = _pack_pairs(zeros).flatten()
    columns, groups, _ = grouped.shape
    return helper.make_node(
        "MatMulNBits",
        [rows, *names, "", bias],
        [output],
        name=node.name,
        domain=_CONTRIB_DOMAIN,
        K=groups * GROUP_SIZE,
        N=columns,
        bits=4,
        block_size=GROUP_SIZE,
        accuracy_level=_ACCURACY_INT8_INPUTS,
    )


def _pack_pairs(numbers: Tensor) -> Tensor:
    """Packs numbers [.., n] from 0 to 15 into bytes [.., n / 2]; the first of two is in the lower
    bits."""
    if numbers.shape[-1] % 2:
        numbers = torch.nn.functional.pad(numbers, (0, 1))
    lower, upper = numbers.to(torch.uint8).unflatten(-1, (-1, 2)).unbind(-1)
    return lower | upper << 4
