"""Where a session computes, and what is said when that is not where it was wished."""

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from machine.onnxruntime import inspection, operators
from machine.onnxruntime.evidence import NodePlacement, OnnxSurroundings, Trial
from machine.onnxruntime.placement import ProviderVerdict, judge_trial, status
from machine.onnxruntime.providers import (
    CPU,
    CUDA,
    OPENVINO,
    PROVIDERS,
    WISHES,
    ProviderRequest,
    ProviderRequestError,
    wish_of,
)
from machine.onnxruntime.sessions import (
    Looks,
    ModelRefused,
    OnnxSessionOptions,
    Optimisation,
    RuntimeMissing,
    choose,
    open_session,
    session_options,
)
from machine.onnxruntime.trial_child import GRAPH, tried
from tests.machine.onnxruntime import onnx_evidence as seen

ROOT = Path(__file__).parents[3]
GPU, HERE = seen.GPU_BUILD, seen.CPU_ONLY
IN_CONTAINER = replace(
    GPU, in_container=True, gpus=frozenset(), hint="The host has an NVIDIA driver, but this "
    "container was given no GPU. Write DOCKER_RUNTIME=nvidia into .env and start it again.",
)  # fmt: skip
BARE = replace(GPU, gpus=frozenset(), driver="")
TWO = replace(HERE, packages={"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.31.1"})
OTHER_CUDA = replace(GPU, torch_cuda="12.6")

# wish, the machine, what came of the attempt -> the code, and what the sentence must hold.
PAIRS: list[tuple[str, OnnxSurroundings, Trial, str, tuple[str, ...]]] = [
    ("cuda", GPU, seen.working(CUDA), "", ()),
    ("cuda", GPU, seen.without("libcudnn.so.9"), "missing_cudnn",
     ("libcudnn.so.9", "[cuda,cudnn]")),
    ("cuda", GPU, seen.without("libcublasLt.so.13"), "missing_library",
     ("libcublasLt.so.13", "CUDA 13.0", "'onnxruntime-gpu[cuda,cudnn]'")),
    ("cuda", BARE, seen.without("libcublasLt.so.13"), "missing_library",
     ("libcublasLt.so.13", "nor does this machine show an NVIDIA GPU", "ask for the CPU")),
    ("cuda", OTHER_CUDA, seen.without("libcufft.so.12"), "other_cuda",
     ("libcufft.so.12", "CUDA 13.0", "CUDA 12.6", "TORCH_BACKEND=cu130")),
    ("cuda", BARE, seen.without("libcuda.so.1"), "no_driver",
     ("libcuda.so.1", "driver is missing", "ubuntu-drivers install")),
    ("cuda", IN_CONTAINER, seen.without("libcuda.so.1"), "no_gpu_in_container",
     ("libcuda.so.1", "DOCKER_RUNTIME=nvidia")),
    ("cuda", GPU, seen.failing(35, "CUDA driver version is insufficient for CUDA runtime version"),
     "driver_too_old", ("580.65.06", "too old", "CUDA 13.0 needs 580")),
    ("cuda", GPU, seen.failing(100, "no CUDA-capable device is detected"), "no_gpu",
     ("shows no GPU", "CUDA_VISIBLE_DEVICES")),
    ("cuda:1", GPU, seen.failing(101, "invalid device ordinal"), "no_gpu", ("cuda:0",)),
    ("cuda", GPU, seen.failing(46, "CUDA-capable device(s) is/are busy or unavailable"),
     "gpu_busy", ("another process",)),
    ("cuda", GPU, seen.failing(2, "out of memory"), "out_of_memory", ("nvidia-smi",)),
    ("cuda", GPU, seen.failing(209, "no kernel image is available"), "gpu_not_supported",
     ("no code for this GPU",)),
    ("cuda", GPU, seen.failing(802, "system not yet initialized"), "driver_broken", ("fabric",)),
    ("cuda", GPU, seen.failing(803, "system has unsupported display driver"), "driver_broken",
     ("updated without a reboot", "Reboot")),
    ("cuda", GPU, seen.failing(804, "forward compatibility was attempted"), "driver_broken",
     ("LD_LIBRARY_PATH",)),
    ("cuda", GPU, seen.failing(999, "unknown error"), "driver_broken", ("Reboot",)),
    ("cuda", GPU, seen.failing(719, "unspecified launch failure"), "gpu_failed", ("719", "doctor")),
    ("cuda", GPU, seen.UNDEFINED, "mixed_libraries", ("cuTensorMapEncodeTiled", "LD_LIBRARY_PATH")),
    ("cuda", GPU, Trial(CUDA, fault="Fail: cuDNN is unavailable or disabled for CUDA Execution"),
     "missing_cudnn", ("cuDNN",)),
    ("cuda", GPU, Trial(CUDA, True, (CPU,), {CPU: 2}, 0.0), "unknown", ("make doctor",)),
    ("cuda", GPU, Trial(CUDA, True, (CUDA, CPU), {CUDA: 2}, fault="Fail: no kernel image"),
     "unknown", ("It started, and could not compute: Fail: no kernel image",)),
    ("cuda", GPU, Trial(CUDA, ending="ended by Segmentation fault"), "crashed",
     ("Segmentation fault",)),
    ("cuda", GPU, Trial(CUDA, ending="no answer within 90 s"), "hung", ("90 s",)),
    ("cuda", GPU, seen.working(CUDA, 3.0), "wrong_results", ("3.0", "do not trust")),
    ("cuda", GPU, seen.working(CUDA, float("nan")), "wrong_results", ("nan",)),
    ("cuda", GPU, Trial(CUDA, True, (CUDA, CPU), {CPU: 2}, 0.0), "nothing_placed", ("not even",)),
    ("cuda", HERE, seen.unknown(CUDA), "not_in_build",
     ("onnxruntime 1.31.1 is a build without CUDA", "pip install onnxruntime-gpu")),
    ("cuda", TWO, seen.unknown(CUDA), "two_builds",
     ("onnxruntime was installed over it",
      "uninstall onnxruntime onnxruntime-gpu && .venv/bin/uv pip install onnxruntime-gpu")),
    ("rocm", seen.AMD_BUILD, seen.working(seen.MIGRAPHX), "", ()),
    ("rocm", seen.AMD_BUILD, seen.working(seen.OLD_ROCM), "", ()),
    ("rocm", HERE, seen.unknown(seen.MIGRAPHX), "not_in_build", ("onnxruntime-migraphx", "ROCm")),
    ("rocm", seen.AMD_BUILD, seen.without("libamdhip64.so.7", seen.MIGRAPHX), "missing_library",
     ("libamdhip64.so.7", "ROCm")),
    ("directml", HERE, seen.unknown(seen.DML), "wrong_platform",
     ("Windows", "rocm with one of AMD")),
    ("directml", replace(HERE, system="win32"), seen.unknown(seen.DML), "not_in_build",
     ("onnxruntime-directml",)),
    ("openvino", seen.OPENVINO_BUILD, seen.working(OPENVINO), "", ()),
    ("openvino:GPU", seen.OPENVINO_BUILD, seen.NO_SUCH_DEVICE, "no_gpu", ("no GPU", "Intel")),
    ("openvino", HERE, seen.unknown(OPENVINO), "not_in_build", ("onnxruntime-openvino",)),
]  # fmt: skip


def looks(machine: OnnxSurroundings, trials: Mapping[str, Trial]) -> Looks:
    return Looks(lambda: machine, lambda wish: trials[wish.kind])


@pytest.mark.parametrize(("wish", "machine", "trial", "code", "told"), PAIRS)
def test_every_pair_of_wished_and_got_has_its_sentence(wish, machine, trial, code, told) -> None:
    wished = wish_of(wish)
    verdict = judge_trial(wished, machine, trial)
    got = wished if verdict.usable else ProviderRequest("cpu")
    active = (trial.provider, CPU) if verdict.usable else (CPU,)
    found = status(wished, got, NodePlacement(active, {active[0]: {"Conv": 3}}), verdict)
    assert (verdict.usable, found.reason_code) == (code == "", code)
    assert all(part in found.message for part in told), found.message
    if code:
        assert (found.device, found.execution_provider) == ("cpu", CPU)
        assert found.message.startswith("Computes on the CPU, not with ")
        assert "To mend: " in found.message and "\n" not in found.message
    else:
        assert found.message == "" and found.execution_provider == trial.provider
        assert found.device == {"cuda": "cuda:0", "rocm": "rocm:0", "openvino": "cpu"}[wish]
    assert_never_silent(found)


def assert_never_silent(found) -> None:
    """The contract of `GET /status`."""
    if found.requested_provider != found.execution_provider and found.requested_provider != "auto":
        assert found.message and found.reason_code
    assert bool(found.message) == bool(found.reason_code)


def test_the_table_knows_every_wish_and_every_way_out() -> None:
    assert {wish_of(pair[0]).kind for pair in PAIRS} == set(PROVIDERS) - {"cpu"}
    page = (ROOT / "docs/onnx.md").read_text(encoding="utf-8")
    codes = {pair[3] for pair in PAIRS} | {"refused_model", "heavy_on_cpu", "lost"}
    assert [code for code in sorted(codes - {""}) if f"`{code}`" not in page] == []


def test_what_carries_the_work_on_the_cpu_is_told_although_the_provider_is_right() -> None:
    nodes = {CUDA: {"Conv": 30, "Add": 4}, CPU: {"Shape": 6, "Gather": 6, "ConvTranspose": 2}}
    found = status(
        ProviderRequest("cuda"),
        ProviderRequest("cuda"),
        NodePlacement((CUDA, CPU), nodes),
        ProviderVerdict(True),
    )
    assert (found.device, found.reason_code) == ("cuda:0", "heavy_on_cpu")
    assert "34 of 48" in found.message and "ConvTranspose (2)" in found.message
    assert (found.cpu_nodes, found.accelerator_nodes) == (14, 34)


def test_shape_arithmetic_on_the_cpu_is_normal() -> None:
    nodes = {CUDA: {"Conv": 3}, CPU: {"Shape": 60, "Gather": 60, "Concat": 40}}
    found = status(
        ProviderRequest("cuda"),
        ProviderRequest("cuda"),
        NodePlacement((CUDA, CPU), nodes),
        ProviderVerdict(True),
    )
    assert (found.execution_provider, found.message) == (CUDA, "")


def test_a_provider_that_takes_no_node_is_the_cpu() -> None:
    placing = NodePlacement((CUDA, CPU), {CPU: {"Conv": 3}})
    found = status(ProviderRequest("cuda"), ProviderRequest("cuda"), placing, ProviderVerdict(True))
    assert (found.device, found.execution_provider) == ("cpu", CPU)
    assert found.reason_code == "nothing_placed"


def test_a_provider_that_is_gone_after_the_check_is_told() -> None:
    found = status(
        ProviderRequest("cuda"),
        ProviderRequest("cuda"),
        NodePlacement((CPU,), None),
        ProviderVerdict(True),
    )
    assert (found.device, found.reason_code, found.cpu_nodes) == ("cpu", "lost", None)


@pytest.mark.parametrize(
    ("machine", "trials", "kind", "code"),
    [
        (GPU, {"cuda": seen.working(CUDA)}, "cuda", ""),
        (GPU, {"cuda": seen.without("libcudnn.so.9")}, "cpu", "missing_cudnn"),
        (replace(GPU, libraries=GPU.libraries | seen.OPENVINO_BUILD.libraries),
         {"cuda": seen.without("libcuda.so.1"), "openvino": seen.working(OPENVINO)},
         "openvino", ""),
        (HERE, {}, "cpu", "no_gpu"),
        (replace(HERE, gpus=frozenset({"nvidia"})), {}, "cpu", "not_in_build"),
        (replace(TWO, gpus=frozenset({"nvidia"})), {}, "cpu", "two_builds"),
        (replace(HERE, gpus=frozenset({"amd"})), {}, "cpu", "not_in_build"),
        (seen.OPENVINO_BUILD, {"openvino": seen.working(OPENVINO)}, "openvino", ""),
    ],
)  # fmt: skip
def test_auto_takes_the_first_that_computes(machine, trials, kind, code) -> None:
    got, verdict = choose(ProviderRequest("auto"), looks(machine, trials))
    assert (got.kind, verdict.reason_code) == (kind, code)
    assert bool(verdict.message) == (kind == "cpu")


def test_the_cpu_is_taken_without_a_look() -> None:
    def never(*_: object) -> object:
        raise AssertionError

    found = open_session(GRAPH, "cpu", looks=Looks(never, never)).status  # type: ignore[arg-type]
    assert (found.device, found.message, found.cpu_nodes) == ("cpu", "", 2)
    assert found.as_dict().keys() == {
        "device", "execution_provider", "requested_provider", "message", "reason_code", "cpu_nodes",
        "accelerator_nodes",
    }  # fmt: skip


@pytest.mark.parametrize("wish", WISHES)
def test_this_machines_own_answer_is_never_silent(wish: str) -> None:
    """With the real ONNX Runtime, whichever is installed, and real children."""
    opened = open_session(GRAPH, wish)
    assert_never_silent(opened.status)
    assert opened.status.cpu_nodes is not None
    assert opened.session.get_providers()[-1] == CPU


def test_what_is_asked_for_is_really_tried_in_a_child() -> None:
    trial = inspection.tried(CUDA, {"device_id": "0"})
    assert trial.version == onnxruntime.__version__ and trial.active
    assert (
        (trial.known, trial.active) == (False, (CPU,))
        or "CUDA" in trial.log
        or (trial.active[0] == CUDA)
    )


def test_a_trial_that_does_not_come_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_LIMIT_SECONDS", 0.05)
    trial = inspection.tried(CUDA, {})
    assert "no answer" in trial.ending
    assert judge_trial(ProviderRequest("cuda"), GPU, trial).reason_code == "hung"


def test_the_trial_computes_the_same_as_the_cpu() -> None:
    found = tried(CPU, {})
    assert (found["known"], found["fault"], found["nodes"]) == (True, "", {CPU: 2})
    assert found["distance"] == 0.0


def test_the_trials_graph_is_a_convolution_and_a_product() -> None:
    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    made = helper.make_graph(
        [helper.make_node("Conv", ["x", "kernel"], ["c"], "convolution", pads=[1, 1, 1, 1]),
         helper.make_node("MatMul", ["c", "matrix"], ["y"], "matrix_product")], "trial",
        [value("x", 1, 4, 8, 8), value("kernel", 4, 4, 3, 3), value("matrix", 8, 8)],
        [value("y", 1, 4, 8, 8)])  # fmt: skip
    assert onnx.load_from_string(GRAPH).graph == made


def test_options_reach_onnx_runtime() -> None:
    wanted = OnnxSessionOptions(3, True, False, False, False, Optimisation.BASIC)
    made = session_options(onnxruntime, wanted)
    assert (made.intra_op_num_threads, made.enable_cpu_mem_arena, made.enable_mem_pattern) == (
        3, False, False)  # fmt: skip
    assert made.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert made.get_session_config_entry("session.intra_op.allow_spinning") == "1"
    assert made.get_session_config_entry("session.disable_prepacking") == "1"


@pytest.mark.parametrize("wish", ["gpu", "cuda:x", "cpu:1", "", "auto:1"])
def test_another_wish_is_refused(wish: str) -> None:
    with pytest.raises(ProviderRequestError, match="auto, cuda, rocm, directml, openvino, cpu"):
        wish_of(wish)


def test_a_model_that_is_none_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "none.onnx"
    path.write_bytes(b"nonsense")
    with pytest.raises(ModelRefused, match=r"none\.onnx cannot be opened"):
        open_session(path, "cpu")


def test_without_onnx_runtime_the_line_to_install_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(RuntimeMissing, match="pip install onnxruntime"):
        open_session(GRAPH, "cpu")


def test_nothing_trusts_the_list_of_what_was_compiled_in() -> None:
    asked = {"get_available_providers", "get_all_providers", "get_device"}
    for package in ("machine", "xtts", "train", "api"):
        for path in (ROOT / package).rglob("*.py"):
            names = {
                node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            }
            assert not names & asked, path


def test_sessions_are_made_in_one_place() -> None:
    users = [
        path.relative_to(ROOT).as_posix()
        for package in ("machine", "xtts", "train", "api")
        for path in (ROOT / package).rglob("*.py")
        if ".InferenceSession(" in path.read_text(encoding="utf-8")
    ]
    children = {"machine/onnxruntime/trial_child.py", "machine/explain/running_child.py"}
    assert set(users) - children == {"machine/onnxruntime/sessions.py"}


@pytest.mark.parametrize(
    ("operator", "heavy"),
    [("Conv", True), ("LSTM", True), ("MatMulInteger", True), ("DynamicQuantizeLinear", False),
     ("Shape", False), ("If", False), ("Relu", False)],
)  # fmt: skip
def test_what_carries_the_work(operator: str, heavy: bool) -> None:
    assert operators.is_heavy(operator) == heavy
