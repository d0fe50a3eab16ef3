"""A model file is read, or refused in one sentence."""

import tempfile
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extras.doctor.explain import inputs
from extras.doctor.explain.graph import ExplainError, read
from tests.extras.doctor.explain.kinds import arcface, piper, written

PIPER = piper().SerializeToString()


@given(data=st.data())
@settings(max_examples=200)
def test_damage_is_read_or_refused_and_nothing_else(data):
    raw = bytearray(PIPER)
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    else:
        for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=8)):
            raw[place] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.onnx"
        path.write_bytes(raw)
        try:
            inputs.make_plans(read(path).inputs, {})
        except ExplainError as refused:
            assert "\n" not in str(refused)


def test_weights_beside_the_file_count_as_its_size(tmp_path):
    path = tmp_path / "beside.onnx"
    onnx.save(arcface(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    found = read(path).file_bytes
    assert found == path.stat().st_size + (tmp_path / "w.bin").stat().st_size
    with pytest.raises(ExplainError):
        read(tmp_path)


def test_what_is_declared_is_read(tmp_path):
    inputs = {value.name: value for value in read(written("Piper", tmp_path)).inputs}
    assert (inputs["input"].type, inputs["input"].shape) == ("int64", ("batch_size", "phonemes"))
    assert (inputs["scales"].type, inputs["scales"].shape) == ("float32", (3,))
    # The number of valid ids is that of the rows in the embedding table.
    assert (inputs["input"].ids, inputs["sid"].ids, inputs["scales"].ids) == (60, 4, None)


def test_what_both_branches_of_an_if_hold_is_counted(tmp_path):
    found = read(written("Silero VAD", tmp_path))
    operators = found.operators
    assert operators["", "If"] == operators["", "Abs"] == operators["", "Relu"] == 1
    assert (found.producer, found.opsets) == ("tests", {"ai.onnx": 16})
