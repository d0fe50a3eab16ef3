"""Small graphs of common kinds of models, with their inputs, axes and operators.

The weights are random. Like the real models are: the names and shapes of the inputs, the axes of
variable size, and the set of operators.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL  # noqa: E741
Shape = list[int | str]


class Sketch:
    """A graph under construction: `add` returns the name of the new value."""

    def __init__(self, inputs: dict[str, tuple[int, Shape]]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs = inputs
        self._random = np.random.default_rng(0)

    def add(self, operator: str, *given: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"v{len(self.nodes)}_{number}" for number in range(outputs)]
        node = helper.make_node(operator, given, names, f"n{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        return names[0]

    def weight(self, *shape: int) -> str:
        return self.hold(self._random.standard_normal(shape).astype(np.float32) * 0.1)

    def hold(self, value: object, type_: type = np.float32) -> str:
        array = value if isinstance(value, np.ndarray) else np.array(value, type_)
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def whole(self, *values: int) -> str:
        return self.hold(list(values), np.int64)

    def convolution(self, x: str, out: int, into: int, *size: int, **attributes: object) -> str:
        return self.add("Conv", x, self.weight(out, into, *size), **attributes)

    def model(self, outputs: dict[str, str], opset: int = 17) -> onnx.ModelProto:
        """outputs: the name of each value -> its name in the model."""
        nodes = [*self.nodes, *(helper.make_node("Identity", [a], [b]) for a, b in outputs.items())]
        given = [
            helper.make_tensor_value_info(name, type_, shape) for name, (type_, shape) in self.inputs.items()
        ]
        made = [onnx.ValueInfoProto(name=name) for name in outputs.values()]
        for value in made:
            value.type.tensor_type.elem_type = F
        graph = helper.make_graph(nodes, "kind", given, made, self.weights)
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tests")


def yunet() -> onnx.ModelProto:
    """A face detector: a pyramid whose coarse level is enlarged onto the fine one, 4 heads."""
    sketch = Sketch({"input": (F, [1, 3, "height", "width"])})
    x = sketch.add("Relu", sketch.convolution("input", 8, 3, 3, 3, strides=[2, 2], pads=[1] * 4))
    fine = sketch.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    coarse = sketch.convolution(fine, 8, 1, 3, 3, group=8, strides=[2, 2], pads=[1] * 4)
    sizes = sketch.add("Slice", sketch.add("Shape", fine), sketch.whole(2), sketch.whole(4))
    target = sketch.add(
        "Concat",
        sketch.add("Slice", sketch.add("Shape", fine), sketch.whole(0), sketch.whole(2)),
        sizes,
        axis=0,
    )
    large = sketch.add("Resize", coarse, "", "", target, mode="nearest")
    merged = sketch.add("Add", fine, large)
    outputs = {}
    for name, width in (("cls_8", 1), ("obj_8", 1), ("bbox_8", 4), ("kps_8", 10)):
        head = sketch.add("Transpose", sketch.convolution(merged, width, 8, 1, 1), perm=[0, 2, 3, 1])
        flat = sketch.add("Reshape", head, sketch.whole(1, -1, width))
        outputs[sketch.add("Sigmoid", flat) if width == 1 else flat] = name
    return sketch.model(outputs)


def arcface() -> onnx.ModelProto:
    """A face embedding: any number of faces of exactly 112 by 112 pixels."""
    sketch = Sketch({"data": (F, ["None", 3, 112, 112])})
    x = sketch.convolution("data", 8, 3, 3, 3, strides=[2, 2], pads=[1] * 4)
    x = sketch.add("BatchNormalization", x, *(sketch.hold(np.ones(8, np.float32)) for _ in range(4)))
    x = sketch.add("PRelu", x, sketch.weight(8, 1, 1))
    flat = sketch.add("Flatten", x, axis=1)
    return sketch.model({sketch.add("Gemm", flat, sketch.weight(8 * 56 * 56, 16)): "fc1"})


def silero() -> onnx.ModelProto:
    """Voice activity: sound in pieces, a state, and the sampling rate as a number."""
    sketch = Sketch({"input": (F, ["", ""]), "state": (F, [2, "", 128]), "sr": (I, [])})
    wide = sketch.add("Unsqueeze", "input", sketch.whole(1))
    spectrum = sketch.convolution(wide, 128, 1, 256, strides=[128])
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(name_of, [spectrum], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", F, None)],
        )
        for name, name_of in (("then", "Abs"), ("else", "Relu"))
    }
    chosen = sketch.add("If", sketch.add("Equal", "sr", sketch.hold(16_000, np.int64)), **branches)
    steps = sketch.add("Transpose", chosen, perm=[2, 0, 1])
    first, second = (sketch.add("Gather", "state", sketch.hold(place, np.int64), axis=0) for place in (0, 1))
    h, c = (sketch.add("Unsqueeze", part, sketch.whole(0)) for part in (first, second))
    sketch.nodes.append(
        helper.make_node(
            "LSTM",
            [steps, sketch.weight(1, 512, 128), sketch.weight(1, 512, 128), "", "", h, c],
            ["y", "last_h", "last_c"],
            "lstm",
            hidden_size=128,
        )
    )
    state = sketch.add("Concat", "last_h", "last_c", axis=0)
    mean = sketch.add("ReduceMean", "last_h", axes=[0, 2], keepdims=0)
    return sketch.model({sketch.add("Sigmoid", mean): "output", state: "stateN"}, opset=16)


def ecapa() -> onnx.ModelProto:
    """A speaker embedding from mel features, any number of frames (WeSpeaker's names)."""
    sketch = Sketch({"feats": (F, ["B", "T", 80])})
    x = sketch.add("Transpose", "feats", perm=[0, 2, 1])
    x = sketch.add("Relu", sketch.convolution(x, 32, 80, 5, pads=[2, 2]))
    squeezed = sketch.add("ReduceMean", x, axes=[2], keepdims=1)
    x = sketch.add("Mul", x, sketch.add("Sigmoid", sketch.convolution(squeezed, 32, 32, 1)))
    weights = sketch.add("Softmax", sketch.convolution(sketch.add("Tanh", x), 32, 32, 1), axis=2)
    mean = sketch.add("ReduceSum", sketch.add("Mul", x, weights), sketch.whole(2), keepdims=0)
    deviation = sketch.add("Sqrt", sketch.add("Clip", sketch.add("Mul", mean, mean), sketch.hold(1e-6)))
    both = sketch.add("Concat", mean, deviation, axis=1)
    return sketch.model({sketch.add("Gemm", both, sketch.weight(64, 192)): "embs"})


def piper() -> onnx.ModelProto:
    """Speech from phonemes: a table, lengths, noise, three scales; the model chooses the length."""
    sketch = Sketch(
        {
            "input": (I, ["batch_size", "phonemes"]),
            "input_lengths": (I, ["batch_size"]),
            "scales": (F, [3]),
            "sid": (I, ["batch_size"]),
        }
    )
    embedded = sketch.add("Gather", sketch.weight(60, 16), "input")
    voice = sketch.add("Unsqueeze", sketch.add("Gather", sketch.weight(4, 16), "sid"), sketch.whole(1))
    x = sketch.add("Transpose", sketch.add("Add", embedded, voice), perm=[0, 2, 1])
    count = sketch.add("Gather", sketch.add("Shape", x), sketch.hold(2, np.int64))
    places = sketch.add("Range", sketch.hold(0, np.int64), count, sketch.hold(1, np.int64))
    there = sketch.add("Less", places, sketch.add("Unsqueeze", "input_lengths", sketch.whole(1)))
    x = sketch.add("Mul", x, sketch.add("Unsqueeze", sketch.add("Cast", there, to=F), sketch.whole(1)))
    x = sketch.convolution(x, 16, 16, 3, pads=[1, 1])
    noise, length = (sketch.add("Gather", "scales", sketch.hold(place, np.int64)) for place in (0, 1))
    x = sketch.add("Add", x, sketch.add("Mul", sketch.add("RandomNormalLike", x), noise))
    frames = sketch.add("Ceil", sketch.add("Mul", sketch.add("Exp", x), length))
    summed = sketch.add("CumSum", frames, sketch.hold(2, np.int64))
    x = sketch.add(
        "ConvTranspose",
        sketch.add("Add", x, sketch.add("Tanh", summed)),
        sketch.weight(16, 1, 8),
        strides=[4],
    )
    x = sketch.add(
        "Slice", x, sketch.whole(0), sketch.add("Reshape", count, sketch.whole(1)), sketch.whole(2)
    )
    return sketch.model({sketch.add("Tanh", x): "output"})


def decoder_step() -> onnx.ModelProto:
    """A step of a language model with past keys as input (Hugging Face's names)."""
    sketch = Sketch(
        {
            "input_ids": (I, ["batch", "sequence"]),
            "attention_mask": (I, ["batch", "past_sequence + sequence"]),
            "past_key_values.0.key": (F, ["batch", 2, "past_sequence", 4]),
        }
    )
    x = sketch.add("Gather", sketch.weight(50, 8), "input_ids")
    heads = sketch.add("Transpose", sketch.add("Reshape", x, sketch.whole(0, 0, 2, 4)), perm=[0, 2, 1, 3])
    keys = sketch.add("Concat", "past_key_values.0.key", heads, axis=2)
    scores = sketch.add("MatMul", heads, sketch.add("Transpose", keys, perm=[0, 1, 3, 2]))
    mask = sketch.add("Unsqueeze", sketch.add("Cast", "attention_mask", to=F), sketch.whole(1, 2))
    seen = sketch.add("Softmax", sketch.add("Mul", scores, mask), axis=-1)
    return sketch.model({sketch.add("MatMul", seen, keys): "logits", keys: "present.0.key"})


KINDS = {
    "YuNet": yunet,
    "ArcFace": arcface,
    "Silero VAD": silero,
    "ECAPA": ecapa,
    "Piper": piper,
    "decoder step": decoder_step,
}


def written(kind: str, folder: Path) -> Path:
    """Saves the model of a kind."""
    path = folder / f"{kind.replace(' ', '_').lower()}.onnx"
    onnx.save(KINDS[kind](), path)
    return path
