"""ONNX models that a person names: recognised or refused by shape, run with random weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from extras.inspect.outside_models import OutsideModel, OutsideModelError, log_mel_bands, recognise_input

WAVEFORM = torch.from_numpy(np.random.default_rng(1).standard_normal(24_000).astype(np.float32) * 0.1)
SHAPES: list[list[Any]] = [
    ["batch", "samples"],
    [1, 64_600],
    [1, 1, "samples"],
    ["batch", "frames", 80],
    [1, 80, "frames"],
    [1, 200, 80],
]


def saved(path: Path, shape: Sequence[Any], width: int, *, extra_input: bool = False) -> Path:
    """A convolution over time with random weights; its output is [batch, width]."""
    bands = 80 if 80 in shape else 1
    kernel = 3 if bands == 80 else 400
    random = np.random.default_rng(2)
    weights = random.standard_normal((width, bands, kernel)).astype(np.float32)
    nodes, name = [], "sound"
    if len(shape) == 2:
        nodes.append(helper.make_node("Unsqueeze", [name, "axis"], ["wide"]))
        name = "wide"
    elif shape[2] == 80:
        nodes.append(helper.make_node("Transpose", [name], ["wide"], perm=[0, 2, 1]))
        name = "wide"
    strides = [1 if bands == 80 else 160]
    nodes += [
        helper.make_node("Conv", [name, "weights"], ["heard"], strides=strides),
        helper.make_node("Relu", ["heard"], ["positive"]),
        helper.make_node("GlobalAveragePool", ["positive"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["out"]),
    ]
    inputs = [helper.make_tensor_value_info("sound", TensorProto.FLOAT, shape)]
    if extra_input:
        inputs.append(helper.make_tensor_value_info("lengths", TensorProto.FLOAT, ["batch"]))
    graph = helper.make_graph(
        nodes,
        "random",
        inputs,
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", width])],
        [
            numpy_helper.from_array(weights, "weights"),
            numpy_helper.from_array(np.array([1], np.int64), "axis"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_kinds_of_input_give_an_embedding_and_a_score(tmp_path, shape):
    speaker = OutsideModel("SPEAKER_MODEL", saved(tmp_path / "ecapa.onnx", shape, 192))
    found = speaker.embedding(WAVEFORM)
    assert found.shape == (192,)
    assert not np.allclose(found, speaker.embedding(WAVEFORM.flip(0)))
    spoof = OutsideModel("SPOOF_MODEL", saved(tmp_path / "aasist.onnx", shape, 2))
    logits = spoof._run(WAVEFORM)[0][0]
    assert spoof.spoof_score(WAVEFORM) == pytest.approx(logits[1] - logits[0])


@pytest.mark.parametrize(
    "shape", [["batch"], ["batch", 80], ["batch", "frames", 40], [1, 3, 224, 224], [4, "samples"]], ids=str
)
def test_another_input_is_refused_by_its_shape(shape):
    with pytest.raises(OutsideModelError) as caught:
        recognise_input("SPEAKER_MODEL", Path("m.onnx"), [("sound", shape)])
    shown = "[" + ", ".join(map(str, shape)) + "]"
    assert f"SPEAKER_MODEL=m.onnx has the inputs sound {shown}. It must have one" in str(caught.value)


def test_what_is_no_such_model_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(OutsideModelError, match=r"inputs sound .*; lengths"):
        two = saved(tmp_path / "two.onnx", SHAPES[3], 192, extra_input=True)
        OutsideModel("SPEAKER_MODEL", two)
    small = OutsideModel("SPEAKER_MODEL", saved(tmp_path / "small.onnx", SHAPES[0], 2))
    with pytest.raises(OutsideModelError, match="gives 2 numbers"):
        small.embedding(WAVEFORM)
    wide = OutsideModel("SPOOF_MODEL", saved(tmp_path / "wide.onnx", SHAPES[0], 192))
    with pytest.raises(OutsideModelError, match="gives 192 numbers"):
        wide.spoof_score(WAVEFORM)
    with pytest.raises(OutsideModelError, match="is not a file"):
        OutsideModel("SPOOF_MODEL", tmp_path / "absent.onnx")


def test_bands_do_not_depend_on_level():
    assert log_mel_bands(WAVEFORM).shape == (148, 80)
    assert np.allclose(log_mel_bands(WAVEFORM), log_mel_bands(0.25 * WAVEFORM), atol=1e-3)
    assert log_mel_bands(WAVEFORM[:100]).shape[0] >= 10
