"""Each fallback from a provider has a reason, and each reason says what to do."""

from dataclasses import replace
from pathlib import Path

import pytest

from extras.common.onnxruntime import reasons
from extras.common.onnxruntime.inspection import OnnxSurroundings, Trial
from extras.common.onnxruntime.placement import judge_trial, session_status
from extras.common.onnxruntime.providers import (
    CPU,
    CUDA,
    OPENVINO,
    PROVIDERS,
    ProviderRequest,
    parse_provider,
)
from tests.extras.common.onnxruntime import onnx_evidence as seen

ROOT = Path(__file__).parents[4]
GPU = seen.GPU_BUILD
HERE = seen.CPU_ONLY
IN_CONTAINER = replace(
    GPU,
    in_container=True,
    gpus=frozenset(),
    hint="The host has an NVIDIA driver, but this "
    "container has no GPU. Write DOCKER_RUNTIME=nvidia into .env and start it again.",
)
BARE = replace(GPU, gpus=frozenset(), driver="")
TWO = replace(HERE, packages={"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.31.1"})
OTHER_CUDA = replace(GPU, torch_cuda="12.6")

# requested provider, machine, result of the attempt -> reason code, words in the sentence.
PAIRS: list[tuple[str, OnnxSurroundings, Trial, str, tuple[str, ...]]] = [
    ("cuda", GPU, seen.working(CUDA), "", ()),
    ("cuda", GPU, seen.without("libcudnn.so.9"), "missing_cudnn", ("libcudnn.so.9", "[cuda,cudnn]")),
    (
        "cuda",
        GPU,
        seen.without("libcublasLt.so.13"),
        "missing_library",
        ("libcublasLt.so.13", "CUDA 13.0", "'onnxruntime-gpu[cuda,cudnn]'"),
    ),
    (
        "cuda",
        BARE,
        seen.without("libcublasLt.so.13"),
        "missing_library",
        ("libcublasLt.so.13", "this machine shows no NVIDIA GPU", "use the CPU"),
    ),
    (
        "cuda",
        OTHER_CUDA,
        seen.without("libcufft.so.12"),
        "other_cuda",
        ("libcufft.so.12", "CUDA 13.0", "CUDA 12.6", "TORCH_BACKEND=cu130"),
    ),
    (
        "cuda",
        BARE,
        seen.without("libcuda.so.1"),
        "no_driver",
        ("libcuda.so.1", "driver is missing", "ubuntu-drivers install"),
    ),
    (
        "cuda",
        IN_CONTAINER,
        seen.without("libcuda.so.1"),
        "no_gpu_in_container",
        ("libcuda.so.1", "DOCKER_RUNTIME=nvidia"),
    ),
    (
        "cuda",
        GPU,
        seen.failing(35, "CUDA driver version is insufficient for CUDA runtime version"),
        "driver_too_old",
        ("580.65.06", "too old", "CUDA 13.0 needs 580"),
    ),
    (
        "cuda",
        GPU,
        seen.failing(100, "no CUDA-capable device is detected"),
        "no_gpu",
        ("shows no GPU", "CUDA_VISIBLE_DEVICES"),
    ),
    ("cuda:1", GPU, seen.failing(101, "invalid device ordinal"), "no_gpu", ("cuda:0",)),
    (
        "cuda",
        GPU,
        seen.failing(46, "CUDA-capable device(s) is/are busy or unavailable"),
        "gpu_busy",
        ("Another process",),
    ),
    ("cuda", GPU, seen.failing(2, "out of memory"), "out_of_memory", ("nvidia-smi",)),
    (
        "cuda",
        GPU,
        seen.failing(209, "no kernel image is available"),
        "gpu_not_supported",
        ("no code for this GPU",),
    ),
    ("cuda", GPU, seen.failing(802, "system not yet initialized"), "driver_broken", ("fabric",)),
    (
        "cuda",
        GPU,
        seen.failing(803, "system has unsupported display driver"),
        "driver_broken",
        ("updated without a reboot", "Reboot"),
    ),
    (
        "cuda",
        GPU,
        seen.failing(804, "forward compatibility was attempted"),
        "driver_broken",
        ("LD_LIBRARY_PATH",),
    ),
    ("cuda", GPU, seen.failing(999, "unknown error"), "driver_broken", ("Reboot",)),
    ("cuda", GPU, seen.failing(719, "unspecified launch failure"), "gpu_failed", ("719", "doctor")),
    ("cuda", GPU, seen.UNDEFINED, "mixed_libraries", ("cuTensorMapEncodeTiled", "LD_LIBRARY_PATH")),
    (
        "cuda",
        GPU,
        Trial(CUDA, fault="Fail: cuDNN is unavailable or disabled for CUDA Execution"),
        "missing_cudnn",
        ("cuDNN",),
    ),
    ("cuda", GPU, Trial(CUDA, True, (CPU,), {CPU: 2}, 0.0), "unknown", ("make doctor",)),
    (
        "cuda",
        GPU,
        Trial(CUDA, True, (CUDA, CPU), {CUDA: 2}, fault="Fail: no kernel image"),
        "unknown",
        ("It started, but could not compute: Fail: no kernel image",),
    ),
    (
        "cuda",
        GPU,
        Trial(CUDA, ending="ended by Segmentation fault"),
        "crashed",
        ("Segmentation fault", "make doctor"),
    ),
    ("cuda", GPU, Trial(CUDA, ending="no answer within 90 s"), "hung", ("90 s", "make doctor")),
    (
        "rocm",
        seen.AMD_BUILD,
        Trial(seen.MIGRAPHX, ending="ended by Segmentation fault"),
        "crashed",
        ("Segmentation fault", "Update the driver"),
    ),
    ("cuda", GPU, seen.working(CUDA, 3.0), "wrong_results", ("3.0", "do not trust")),
    ("cuda", GPU, seen.working(CUDA, float("nan")), "wrong_results", ("nan",)),
    (
        "cuda",
        GPU,
        Trial(CUDA, True, (CUDA, CPU), {CPU: 2}, 0.0),
        "nothing_placed",
        ("neither a convolution",),
    ),
    (
        "cuda",
        HERE,
        seen.unknown(CUDA),
        "not_in_build",
        ("onnxruntime 1.31.1 is a build without CUDA", "pip install onnxruntime-gpu"),
    ),
    (
        "cuda",
        TWO,
        seen.unknown(CUDA),
        "two_builds",
        (
            "onnxruntime was installed over it",
            "uninstall onnxruntime onnxruntime-gpu && .venv/bin/uv pip install onnxruntime-gpu",
        ),
    ),
    ("rocm", seen.AMD_BUILD, seen.working(seen.MIGRAPHX), "", ()),
    ("rocm", seen.AMD_BUILD, seen.working(seen.OLD_ROCM), "", ()),
    ("rocm", HERE, seen.unknown(seen.MIGRAPHX), "not_in_build", ("onnxruntime-migraphx", "ROCm")),
    (
        "rocm",
        seen.AMD_BUILD,
        seen.without("libamdhip64.so.7", seen.MIGRAPHX),
        "missing_library",
        ("libamdhip64.so.7", "ROCm"),
    ),
    ("directml", HERE, seen.unknown(seen.DML), "wrong_platform", ("Windows", "rocm for an AMD one")),
    (
        "directml",
        replace(HERE, system="win32"),
        seen.unknown(seen.DML),
        "not_in_build",
        ("onnxruntime-directml",),
    ),
    ("openvino", seen.OPENVINO_BUILD, seen.working(OPENVINO), "", ()),
    ("openvino:GPU", seen.OPENVINO_BUILD, seen.NO_SUCH_DEVICE, "no_gpu", ("no GPU", "Intel")),
    ("openvino", HERE, seen.unknown(OPENVINO), "not_in_build", ("onnxruntime-openvino",)),
]


@pytest.mark.parametrize(("wish", "machine", "trial", "code", "told"), PAIRS)
def test_every_pair_of_wished_and_got_has_its_sentence(wish, machine, trial, code, told):
    wished = parse_provider(wish)
    refusal = judge_trial(wished, machine, trial)
    got, active = (ProviderRequest("cpu"), CPU) if refusal else (wished, trial.provider)
    found = session_status(wished, got, active, {active: {"Conv": 3}}, refusal)
    assert found.reason_code == code
    assert all(part in found.message for part in told), found.message
    if code:
        assert (found.device, found.execution_provider) == ("cpu", CPU)
        assert found.message.startswith("Computes on the CPU, not with ")
        assert "To fix it: " in found.message and "\n" not in found.message
    else:
        assert found.message == "" and found.execution_provider == trial.provider
        assert found.device == {"cuda": "cuda:0", "rocm": "rocm:0", "openvino": "cpu"}[wish]
    seen.assert_never_silent(found)


def test_the_table_knows_every_wish_and_every_way_out():
    assert {parse_provider(pair[0]).kind for pair in PAIRS} == set(PROVIDERS) - {"cpu"}
    page = (ROOT / "docs/develop/onnx.md").read_text(encoding="utf-8")
    codes = {pair[3] for pair in PAIRS} | {"refused_model", "heavy_on_cpu", "lost"}
    assert [code for code in sorted(codes - {""}) if f"`{code}`" not in page] == []


def test_the_place_in_onnx_runtimes_source_is_left_out_of_its_words():
    log = "first line\n2026-11-21 11:15:33.22 [W:onnxruntime:Default, some.cc:12 Create] It failed.\n"
    assert reasons.last_message(log + "\n---\n42\n") == "It failed."
    assert reasons.last_message("\n1 2 3\n") == ""
    assert len(reasons.last_message("word " * 200)) == 300


def test_a_missing_library_is_told_before_what_follows_from_it():
    trial = seen.without("libcudnn.so.9")
    both = replace(trial, fault="CUDA failure 100: no CUDA-capable device is detected")
    assert reasons.inactive_reason(parse_provider("cuda"), GPU, both)[0] == "missing_cudnn"
    assert reasons.inactive_reason(parse_provider("cuda"), GPU, replace(both, log=""))[0] == "no_gpu"
