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
        for one in made:
            one.type.tensor_type.elem_type = F
        graph = helper.make_graph(nodes, "kind", given, made, self.weights)
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tests")


def yunet() -> onnx.ModelProto:
    """A face detector: a pyramid whose coarse level is enlarged onto the fine one, 4 heads."""
    one = Sketch({"input": (F, [1, 3, "height", "width"])})
    x = one.add("Relu", one.convolution("input", 8, 3, 3, 3, strides=[2, 2], pads=[1] * 4))
    fine = one.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    coarse = one.convolution(fine, 8, 1, 3, 3, group=8, strides=[2, 2], pads=[1] * 4)
    sizes = one.add("Slice", one.add("Shape", fine), one.whole(2), one.whole(4))
    target = one.add(
        "Concat", one.add("Slice", one.add("Shape", fine), one.whole(0), one.whole(2)), sizes, axis=0
    )
    large = one.add("Resize", coarse, "", "", target, mode="nearest")
    merged = one.add("Add", fine, large)
    outputs = {}
    for name, width in (("cls_8", 1), ("obj_8", 1), ("bbox_8", 4), ("kps_8", 10)):
        head = one.add("Transpose", one.convolution(merged, width, 8, 1, 1), perm=[0, 2, 3, 1])
        flat = one.add("Reshape", head, one.whole(1, -1, width))
        outputs[one.add("Sigmoid", flat) if width == 1 else flat] = name
    return one.model(outputs)


def arcface() -> onnx.ModelProto:
    """A face embedding: any number of faces of exactly 112 by 112 pixels."""
    one = Sketch({"data": (F, ["None", 3, 112, 112])})
    x = one.convolution("data", 8, 3, 3, 3, strides=[2, 2], pads=[1] * 4)
    x = one.add("BatchNormalization", x, *(one.hold(np.ones(8, np.float32)) for _ in range(4)))
    x = one.add("PRelu", x, one.weight(8, 1, 1))
    flat = one.add("Flatten", x, axis=1)
    return one.model({one.add("Gemm", flat, one.weight(8 * 56 * 56, 16)): "fc1"})


def silero() -> onnx.ModelProto:
    """Voice activity: sound in pieces, a state, and the sampling rate as a number."""
    one = Sketch({"input": (F, ["", ""]), "state": (F, [2, "", 128]), "sr": (I, [])})
    wide = one.add("Unsqueeze", "input", one.whole(1))
    spectrum = one.convolution(wide, 128, 1, 256, strides=[128])
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(name_of, [spectrum], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", F, None)],
        )
        for name, name_of in (("then", "Abs"), ("else", "Relu"))
    }
    chosen = one.add("If", one.add("Equal", "sr", one.hold(16_000, np.int64)), **branches)
    steps = one.add("Transpose", chosen, perm=[2, 0, 1])
    first, second = (one.add("Gather", "state", one.hold(place, np.int64), axis=0) for place in (0, 1))
    h, c = (one.add("Unsqueeze", part, one.whole(0)) for part in (first, second))
    one.nodes.append(
        helper.make_node(
            "LSTM",
            [steps, one.weight(1, 512, 128), one.weight(1, 512, 128), "", "", h, c],
            ["y", "last_h", "last_c"],
            "lstm",
            hidden_size=128,
        )
    )
    state = one.add("Concat", "last_h", "last_c", axis=0)
    mean = one.add("ReduceMean", "last_h", axes=[0, 2], keepdims=0)
    return one.model({one.add("Sigmoid", mean): "output", state: "stateN"}, opset=16)


def ecapa() -> onnx.ModelProto:
    """A speaker embedding from mel features, any number of frames (WeSpeaker's names)."""
    one = Sketch({"feats": (F, ["B", "T", 80])})
    x = one.add("Transpose", "feats", perm=[0, 2, 1])
    x = one.add("Relu", one.convolution(x, 32, 80, 5, pads=[2, 2]))
    squeezed = one.add("ReduceMean", x, axes=[2], keepdims=1)
    x = one.add("Mul", x, one.add("Sigmoid", one.convolution(squeezed, 32, 32, 1)))
    weights = one.add("Softmax", one.convolution(one.add("Tanh", x), 32, 32, 1), axis=2)
    mean = one.add("ReduceSum", one.add("Mul", x, weights), one.whole(2), keepdims=0)
    deviation = one.add("Sqrt", one.add("Clip", one.add("Mul", mean, mean), one.hold(1e-6)))
    both = one.add("Concat", mean, deviation, axis=1)
    return one.model({one.add("Gemm", both, one.weight(64, 192)): "embs"})


def piper() -> onnx.ModelProto:
    """Speech from phonemes: a table, lengths, noise, three scales; the model chooses the length."""
    one = Sketch(
        {
            "input": (I, ["batch_size", "phonemes"]),
            "input_lengths": (I, ["batch_size"]),
            "scales": (F, [3]),
            "sid": (I, ["batch_size"]),
        }
    )
    embedded = one.add("Gather", one.weight(60, 16), "input")
    voice = one.add("Unsqueeze", one.add("Gather", one.weight(4, 16), "sid"), one.whole(1))
    x = one.add("Transpose", one.add("Add", embedded, voice), perm=[0, 2, 1])
    count = one.add("Gather", one.add("Shape", x), one.hold(2, np.int64))
    places = one.add("Range", one.hold(0, np.int64), count, one.hold(1, np.int64))
    there = one.add("Less", places, one.add("Unsqueeze", "input_lengths", one.whole(1)))
    x = one.add("Mul", x, one.add("Unsqueeze", one.add("Cast", there, to=F), one.whole(1)))
    x = one.convolution(x, 16, 16, 3, pads=[1, 1])
    noise, length = (one.add("Gather", "scales", one.hold(place, np.int64)) for place in (0, 1))
    x = one.add("Add", x, one.add("Mul", one.add("RandomNormalLike", x), noise))
    frames = one.add("Ceil", one.add("Mul", one.add("Exp", x), length))
    summed = one.add("CumSum", frames, one.hold(2, np.int64))
    x = one.add(
        "ConvTranspose", one.add("Add", x, one.add("Tanh", summed)), one.weight(16, 1, 8), strides=[4]
    )
    x = one.add("Slice", x, one.whole(0), one.add("Reshape", count, one.whole(1)), one.whole(2))
    return one.model({one.add("Tanh", x): "output"})


def decoder_step() -> onnx.ModelProto:
    """A step of a language model with past keys as input (Hugging Face's names)."""
    one = Sketch(
        {
            "input_ids": (I, ["batch", "sequence"]),
            "attention_mask": (I, ["batch", "past_sequence + sequence"]),
            "past_key_values.0.key": (F, ["batch", 2, "past_sequence", 4]),
        }
    )
    x = one.add("Gather", one.weight(50, 8), "input_ids")
    heads = one.add("Transpose", one.add("Reshape", x, one.whole(0, 0, 2, 4)), perm=[0, 2, 1, 3])
    keys = one.add("Concat", "past_key_values.0.key", heads, axis=2)
    scores = one.add("MatMul", heads, one.add("Transpose", keys, perm=[0, 1, 3, 2]))
    mask = one.add("Unsqueeze", one.add("Cast", "attention_mask", to=F), one.whole(1, 2))
    seen = one.add("Softmax", one.add("Mul", scores, mask), axis=-1)
    return one.model({one.add("MatMul", seen, keys): "logits", keys: "present.0.key"})


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
