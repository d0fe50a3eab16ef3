"""Reads an ONNX file without its weights: inputs, outputs and operators.

For a file that is not a readable model, the error says what the file is instead.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from machine import commands
from machine.errors import SotaqueError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto

_LFS_HEADER = b"version https://git-lfs"
_MAX_FILE_BYTES = 1 << 31  # protobuf's limit; a larger model keeps its weights in other files


class ExplainError(SotaqueError):
    """The file is not an ONNX model, cannot be opened, or does not accept the inputs."""


@dataclass(frozen=True)
class GraphValue:
    """An input or output.

    Attributes:
        type: "float32", "int64", "string", …; "" if it is not a tensor.
        shape: For each axis its size, or the name of a dynamic axis ("" without a name); None if
            not declared.
        ids: For an input that selects rows of a table, the number of rows.
    """

    name: str
    type: str
    shape: tuple[int | str, ...] | None
    ids: int | None = None


@dataclass(frozen=True)
class ModelGraph:
    """A model as its file describes it.

    Attributes:
        operators: (domain, name) -> count, including those inside of If and Loop.
        opsets: Domain -> opset version.
        file_bytes: Size of the model and its weight files.
    """

    path: Path
    inputs: tuple[GraphValue, ...]
    outputs: tuple[GraphValue, ...]
    operators: Counter[tuple[str, str]]
    opsets: dict[str, int]
    producer: str
    file_bytes: int


def read(path: Path) -> ModelGraph:
    """Reads a model. Raises ExplainError."""
    try:
        import onnx
    except ImportError as error:
        raise ExplainError(
            f"Reading a model needs the package onnx ({error}). Install it: {commands.install('onnx')}"
        ) from error
    content = _read_content(path)
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's DecodeError, whose class depends on its implementation
        raise ExplainError(_describe_other_file(path, content)) from error
    if not model.graph.node and not model.graph.output:
        raise ExplainError(
            f"{path} holds no graph ({len(content):,} bytes): it is truncated, or not an ONNX model. "
            "Download or export it again."
        )
    try:
        return _graph(onnx, path, model, len(content))
    except (TypeError, ValueError) as error:
        raise ExplainError(f"{path} is damaged ({error}): download or export it again.") from error


def _graph(onnx: ModuleType, path: Path, model: "ModelProto", file_bytes: int) -> ModelGraph:
    """Raises ExplainError; ValueError for an invalid name or type."""
    outside_bytes = _outside_bytes(path, model.graph)
    tables = _table_rows(model)
    constant = {tensor.name for tensor in model.graph.initializer}
    return ModelGraph(
        path,
        tuple(_graph_value(onnx, value, tables) for value in model.graph.input if value.name not in constant),
        tuple(_graph_value(onnx, value, {}) for value in model.graph.output),
        Counter(
            (_as_text(node.domain), _as_text(node.op_type))
            for subgraph in _with_subgraphs(model.graph)
            for node in subgraph.node
        ),
        {_as_text(opset.domain) or "ai.onnx": opset.version for opset in model.opset_import},
        f"{_as_text(model.producer_name)} {_as_text(model.producer_version)}".strip(),
        file_bytes + outside_bytes,
    )


def _as_text(value: str | bytes) -> str:
    """Checks a name: protobuf returns bytes where a text is not UTF-8."""
    if isinstance(value, bytes):
        raise ValueError("a name in it is not text")
    return value


def _read_content(path: Path) -> bytes:
    if path.is_dir():
        names = sorted(file.name for file in path.glob("*.onnx"))[:4]
        inside = f" It holds {', '.join(names)}." if names else ""
        raise ExplainError(f"{path} is a folder; name the .onnx file.{inside}")
    try:
        if path.stat().st_size >= _MAX_FILE_BYTES:
            raise ExplainError(f"{path} is larger than 2 GB, the limit of an ONNX file.")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ExplainError(f"{path} does not exist. Name an .onnx file.") from error
    except OSError as error:
        raise ExplainError(f"{path} cannot be read: {error.strerror}.") from error


def _describe_other_file(path: Path, content: bytes) -> str:
    if content.startswith(_LFS_HEADER):
        return f"{path} is a Git LFS pointer, not the model. Download the model: git lfs pull"
    if content[4:8] == b"ORTM":
        return f"{path} is in ONNX Runtime's own format (.ort); explain reads .onnx."
    if content[:1] == b"\x08":  # every ONNX file begins with its ir_version
        return f"{path} is truncated ({len(content):,} bytes): download it again."
    return f"{path} is not an ONNX model: it cannot be parsed as one. Download it again."


def _outside_bytes(path: Path, graph: "GraphProto") -> int:
    """Size of the weight files. Raises ExplainError for one that is missing or truncated."""
    needed_bytes: dict[str, int] = {}
    tensors = [
        *(tensor for subgraph in _with_subgraphs(graph) for tensor in subgraph.initializer),
        *(part.t for subgraph in _with_subgraphs(graph) for node in subgraph.node for part in node.attribute),
    ]
    for tensor in (tensor for tensor in tensors if tensor.external_data):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        name = _as_text(entries.get("location", ""))
        end = int(entries.get("offset") or 0) + int(entries.get("length") or 0)
        needed_bytes[name] = max(needed_bytes.get(name, 0), end)
    for name, end in needed_bytes.items():
        file = path.parent / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ExplainError(
                f"{path} keeps its weights in {name}, outside of the model's folder. ONNX Runtime "
                "reads weights only from there. Export it again with the weights in that folder."
            )
        if not file.is_file():
            raise ExplainError(
                f"{path} keeps its weights in {name}, which is missing. Put both files into one folder."
            )
        if file.stat().st_size < end:
            raise ExplainError(
                f"{file} is truncated: it has {file.stat().st_size:,} bytes, and {path.name} needs "
                f"{end:,}. Download it again."
            )
    return sum((path.parent / name).stat().st_size for name in needed_bytes)


def _with_subgraphs(graph: "GraphProto") -> "Iterator[GraphProto]":
    """Yields a graph and its subgraphs: the branches of an If, the body of a Loop."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                if subgraph.node or subgraph.initializer:
                    yield from _with_subgraphs(subgraph)


def _graph_value(onnx: ModuleType, value: "ValueInfoProto", tables: dict[str, int]) -> GraphValue:
    kind = value.type.WhichOneof("value")
    tensor = value.type.tensor_type
    if kind != "tensor_type":
        return GraphValue(_as_text(value.name), "", None)
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(
            size.dim_value if size.HasField("dim_value") and size.dim_value > 0 else _as_text(size.dim_param)
            for size in tensor.shape.dim
        )
    return GraphValue(_as_text(value.name), _type_name(onnx, tensor.elem_type), shape, tables.get(value.name))


def _type_name(onnx: ModuleType, number: int) -> str:
    """numpy's name of a type, or ONNX's name where numpy has none."""
    name = onnx.TensorProto.DataType.Name(number) if number else ""
    return {"FLOAT": "float32", "DOUBLE": "float64"}.get(name, name.lower())


def _table_rows(model: "ModelProto") -> dict[str, int]:
    """Inputs that select rows of a table among the weights -> number of rows."""
    rows = {tensor.name: tensor.dims[0] for tensor in model.graph.initializer if len(tensor.dims) > 1}
    index_source: dict[str, str] = {}
    tables: dict[str, int] = {}
    for node in model.graph.node:
        if len(node.input) < 1 or len(node.output) < 1:
            continue
        if node.op_type in ("Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape"):
            index_source[node.output[0]] = index_source.get(node.input[0], node.input[0])
        if node.op_type == "Gather" and len(node.input) > 1 and node.input[0] in rows:
            name = index_source.get(node.input[1], node.input[1])
            tables[name] = min(tables.get(name, rows[node.input[0]]), rows[node.input[0]])
    return tables
