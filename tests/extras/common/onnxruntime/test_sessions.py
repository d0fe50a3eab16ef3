"""Where a session computes, and the message when that is not the requested provider."""

import ast
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnxruntime
import pytest

from extras.common.onnxruntime.inspection import OnnxSurroundings, Trial
from extras.common.onnxruntime.providers import CPU, CUDA, OPENVINO, PROVIDER_KINDS, ProviderRequest
from extras.common.onnxruntime.sessions import (
    Inspectors,
    ModelRefused,
    OnnxSessionOptions,
    RuntimeMissing,
    choose,
    open_session,
    session_options,
)
from extras.common.onnxruntime.trial_child import GRAPH
from tests.extras.common.onnxruntime import onnx_evidence as seen

ROOT = Path(__file__).parents[4]
GPU = seen.GPU_BUILD
HERE = seen.CPU_ONLY
TWO = replace(HERE, packages={"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.31.1"})


def looks(machine: OnnxSurroundings, trials: Mapping[str, Trial]) -> Inspectors:
    return Inspectors(lambda: machine, lambda wish: trials[wish.kind])


@pytest.mark.parametrize(
    ("machine", "trials", "kind", "code"),
    [
        (GPU, {"cuda": seen.working(CUDA)}, "cuda", ""),
        (GPU, {"cuda": seen.without("libcudnn.so.9")}, "cpu", "missing_cudnn"),
        (
            replace(GPU, libraries=GPU.libraries | seen.OPENVINO_BUILD.libraries),
            {"cuda": seen.without("libcuda.so.1"), "openvino": seen.working(OPENVINO)},
            "openvino",
            "",
        ),
        (HERE, {}, "cpu", "no_gpu"),
        (replace(HERE, gpus=frozenset({"nvidia"})), {}, "cpu", "not_in_build"),
        (replace(TWO, gpus=frozenset({"nvidia"})), {}, "cpu", "two_builds"),
        (replace(HERE, gpus=frozenset({"amd"})), {}, "cpu", "not_in_build"),
        (seen.OPENVINO_BUILD, {"openvino": seen.working(OPENVINO)}, "openvino", ""),
    ],
)
def test_auto_takes_the_first_that_computes(machine, trials, kind, code):
    got, refusal = choose(ProviderRequest("auto"), looks(machine, trials))
    assert (got.kind, refusal.reason_code if refusal else "") == (kind, code)
    assert bool(refusal) == (kind == "cpu")


def test_the_cpu_is_taken_without_a_look():
    def never(*_: object) -> object:
        raise AssertionError

    found = open_session(GRAPH, "cpu", inspectors=Inspectors(never, never)).status  # type: ignore[arg-type]
    assert (found.device, found.message, found.cpu_nodes) == ("cpu", "", 2)
    fields = "device execution_provider requested_provider message reason_code cpu_nodes accelerator_nodes"
    assert found.as_dict().keys() == set(fields.split())


@pytest.mark.parametrize("wish", PROVIDER_KINDS)
def test_this_machines_own_answer_is_never_silent(wish):
    """With the installed ONNX Runtime and real child processes."""
    opened = open_session(GRAPH, wish)
    seen.assert_never_silent(opened.status)
    assert opened.status.cpu_nodes is not None
    assert opened.session.get_providers()[-1] == CPU


def test_options_reach_onnx_runtime():
    options = OnnxSessionOptions(3, True, False, False, False, "ORT_ENABLE_BASIC")
    made = session_options(onnxruntime, options)
    assert (made.intra_op_num_threads, made.enable_cpu_mem_arena, made.enable_mem_pattern) == (
        3,
        False,
        False,
    )
    assert made.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert made.get_session_config_entry("session.intra_op.allow_spinning") == "1"
    assert made.get_session_config_entry("session.disable_prepacking") == "1"


def test_a_model_that_is_none_is_refused_with_its_name(tmp_path):
    path = tmp_path / "none.onnx"
    path.write_bytes(b"nonsense")
    with pytest.raises(ModelRefused, match=r"cannot open .*none\.onnx"):
        open_session(path, "cpu")


def test_without_onnx_runtime_the_line_to_install_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RuntimeMissing, match="pip install onnxruntime"):
        open_session(GRAPH, "cpu")


def users_of(*asked: str) -> set[str]:
    """The modules outside the tests that name one of `asked`."""
    return {
        path.relative_to(ROOT).as_posix()
        for package in ("machine", "xtts", "train", "api", "extras")
        for path in (ROOT / package).rglob("*.py")
        if any(name in (text := path.read_text(encoding="utf-8")) for name in asked)
        for node in ast.walk(ast.parse(text))
        if getattr(node, "attr", getattr(node, "id", "")) in asked
    }


def test_sessions_are_made_in_one_place_and_nothing_trusts_what_was_compiled_in():
    assert users_of("get_available_providers", "get_all_providers", "get_device") == set()
    package = "extras/common/onnxruntime"
    children = {f"{package}/trial_child.py", "extras/doctor/explain/running_child.py"}
    assert users_of("InferenceSession") - children == {f"{package}/sessions.py"}
