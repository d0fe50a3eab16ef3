"""Reads an ONNX file without its weights: inputs, outputs, operators.

What cannot be read is refused in one sentence that says what it is instead.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine.errors import SotaqueError

_LFS = b"version https://git-lfs"
_MOST_BYTES = 1 << 31  # protobuf's own limit; what is larger has its weights beside it


class ExplainError(SotaqueError):
    """No ONNX model, one that cannot be opened, or inputs that it cannot be run with."""


@dataclass(frozen=True)
class GraphValue:
    """An input or output. type: "float32", "int64", "string", …, "" for what is no tensor; shape:
    a size, or the name of an axis that may have any ("" where it has none); None: not declared;
    ids: for numbers that choose a row of a table, how many rows there are."""

    name: str
    type: str
    shape: tuple[int | str, ...] | None
    ids: int | None = None


@dataclass(frozen=True)
class ModelGraph:
    """A model as its file tells it. operators: (domain, name) -> how often, those inside of If and
    Loop too; file_bytes: with the files beside it."""

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
            f"The package onnx is needed to read a model ({error}). Install it: "
            ".venv/bin/uv pip install onnx"
        ) from error
    raw = _bytes(path)
    try:
        model = onnx.load_model_from_string(raw)
    except Exception as error:  # protobuf's DecodeError, by whichever of its makes
        raise ExplainError(_no_model(path, raw)) from error
    if not model.graph.node and not model.graph.output:
        raise ExplainError(
            f"{path} holds no graph: it is cut short, or no ONNX model ({len(raw):,} bytes)."
        )
    try:
        return _graph(onnx, path, model, len(raw))
    except (TypeError, ValueError) as error:
        raise ExplainError(
            f"{path} is damaged ({error}): get it again, or export it again."
        ) from error


def _graph(onnx: Any, path: Path, model: Any, file_bytes: int) -> ModelGraph:
    """Raises ExplainError, and ValueError for bytes that are no words or no type."""
    beside = _beside(path, model.graph)
    tables = _tables(model)
    constant = {one.name for one in model.graph.initializer}
    return ModelGraph(
        path,
        tuple(_value(onnx, one, tables) for one in model.graph.input if one.name not in constant),
        tuple(_value(onnx, one, {}) for one in model.graph.output),
        Counter(
            (_word(one.domain), _word(one.op_type))
            for inner in _graphs(model.graph)
            for one in inner.node
        ),
        {_word(one.domain) or "ai.onnx": one.version for one in model.opset_import},
        f"{_word(model.producer_name)} {_word(model.producer_version)}".strip(),
        file_bytes + beside,
    )


def _word(value: str | bytes) -> str:
    """protobuf gives bytes where a text is not UTF-8."""
    if isinstance(value, bytes):
        raise ValueError("a name in it is no text")
    return value


def _bytes(path: Path) -> bytes:
    if path.is_dir():
        found = sorted(one.name for one in path.glob("*.onnx"))[:4]
        inside = f" It holds {', '.join(found)}." if found else ""
        raise ExplainError(f"{path} is a folder; name the .onnx file.{inside}")
    try:
        if path.stat().st_size >= _MOST_BYTES:
            raise ExplainError(f"{path} is larger than 2 GB, which no ONNX file can be.")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ExplainError(f"{path} is not there. Name an .onnx file.") from error
    except OSError as error:
        raise ExplainError(f"{path} cannot be read: {error.strerror}.") from error


def _no_model(path: Path, raw: bytes) -> str:
    if raw.startswith(_LFS):
        return f"{path} is a pointer of Git LFS, not the model. Get the file: git lfs pull"
    if raw[4:8] == b"ORTM":
        return f"{path} is in ONNX Runtime's own format (.ort); explain reads .onnx."
    if raw[:1] == b"\x08":  # every ONNX file begins with its ir_version
        return f"{path} is cut short ({len(raw):,} bytes): get it again."
    return f"{path} is no ONNX model: its bytes make no sense as one. Get it again."


def _beside(path: Path, graph: Any) -> int:
    """Bytes of the files that hold the weights; all there, and long enough."""
    needed: dict[str, int] = {}
    tensors = [
        *(tensor for one in _graphs(graph) for tensor in one.initializer),
        *(part.t for one in _graphs(graph) for node in one.node for part in node.attribute),
    ]
    for tensor in (one for one in tensors if one.external_data):
        entries = {one.key: one.value for one in tensor.external_data}
        name = _word(entries.get("location", ""))
        end = int(entries.get("offset") or 0) + int(entries.get("length") or 0)
        needed[name] = max(needed.get(name, 0), end)
    for name, end in needed.items():
        file = path.parent / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ExplainError(
                f"{path} names {name} as the file of its weights, which is outside of the model's "
                "folder; ONNX Runtime reads weights only from there. Export it again with its "
                "weights beside it."
            )
        if not file.is_file():
            raise ExplainError(
                f"{path} keeps its weights in {name}, which is not beside it. Put both files into "
                "one folder."
            )
        if file.stat().st_size < end:
            raise ExplainError(
                f"{file} is cut short: {file.stat().st_size:,} bytes, and {path.name} looks for "
                f"{end:,}. Get it again."
            )
    return sum((path.parent / name).stat().st_size for name in needed)


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and those inside of its nodes: the branches of an If, the body of a Loop."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.initializer:
                    yield from _graphs(inner)


def _value(onnx: Any, value: Any, tables: dict[str, int]) -> GraphValue:
    kind = value.type.WhichOneof("value")
    tensor = value.type.tensor_type
    if kind != "tensor_type":
        return GraphValue(_word(value.name), "", None)
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(
            one.dim_value
            if one.HasField("dim_value") and one.dim_value > 0
            else _word(one.dim_param)
            for one in tensor.shape.dim
        )
    return GraphValue(
        _word(value.name), _type(onnx, tensor.elem_type), shape, tables.get(value.name)
    )


def _type(onnx: Any, number: int) -> str:
    """The type's name as numpy has it, "string", or ONNX's own for what numpy does not know."""
    name = onnx.TensorProto.DataType.Name(number) if number else ""
    return {"FLOAT": "float32", "DOUBLE": "float64"}.get(name, name.lower())


def _tables(model: Any) -> dict[str, int]:
    """Inputs that choose rows of a table among the weights -> its number of rows."""
    rows = {one.name: one.dims[0] for one in model.graph.initializer if len(one.dims) > 1}
    same: dict[str, str] = {}
    found: dict[str, int] = {}
    for node in model.graph.node:
        if len(node.input) < 1 or len(node.output) < 1:
            continue
        if node.op_type in ("Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape"):
            same[node.output[0]] = same.get(node.input[0], node.input[0])
        if node.op_type == "Gather" and len(node.input) > 1 and node.input[0] in rows:
            name = same.get(node.input[1], node.input[1])
            found[name] = min(found.get(name, rows[node.input[0]]), rows[node.input[0]])
    return found
