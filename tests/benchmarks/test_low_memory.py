"""Each row of the memory benchmark is a process of its own with its levers."""

import pytest

from benchmarks import bases, low_memory, onnx_voice
from benchmarks.low_memory_child import _ONNX, _PLAIN
from machine.onnxruntime.sessions import OnnxSessionOptions
from xtts.onnx.speech import loading as model


def test_each_row_pulls_one_lever_and_all_of_low_memory_have_their_row() -> None:
    pulled: set[str] = set()
    for name, (kind, levers, short) in _ONNX.items():
        if kind == "fp32" and name != "onnx fp32, as it comes":
            assert len(levers) + short == 1, name
            assert all(value != {"threads": 2, **_PLAIN}.get(key) for key, value in levers.items())
            pulled |= levers.keys() | ({"most_samples"} if short else set())
    low, plain = model.low_memory_config(), model.OnnxComputeConfig()
    # Asleep is how it always is here; `_PLAIN` is ONNX Runtime's own way.
    changed = {
        name for name in vars(OnnxSessionOptions())
        if getattr(low.options, name) != {**vars(plain.options), **_PLAIN}[name]
    }  # fmt: skip
    assert changed == {"threads", "spinning", "arena", "pattern", "optimisation"}
    assert pulled == {*changed, "most_samples", "prepacking"}


@pytest.mark.slow
def test_a_child_that_fails_is_no_figure(tmp_path) -> None:
    with pytest.raises(RuntimeError, match=r"torch fp32: .* ended with 1: .*config\.json"):
        low_memory.started("torch fp32", tmp_path, codes=1, threads=1)


@pytest.mark.slow
def test_rows_are_measured_and_without_torch_it_is_least(tmp_path) -> None:
    folder = bases.write(tmp_path / "base", full=False)
    onnx_voice.folder_of(folder)
    names = ["torch LOW_MEMORY", "onnx fp32, no arena", "onnx LOW_MEMORY"]
    found = low_memory.measured(folder, names, codes=12, threads=1, rounds=1)
    for row in found.values():
        assert row["peak_gb"] >= row["rest_gb"] > 0 and row["rtf"] > 0
    assert found["onnx LOW_MEMORY"]["peak_gb"] < 0.5 * found["torch LOW_MEMORY"]["peak_gb"]
