"""Observed machines and attempts, for the tests of sessions.

The logs are quoted from onnxruntime-gpu 1.31.1: without CUDA, with CUDA's libraries but no driver,
and with a libcuda.so.1 that returns one error code; OpenVINO's are from 1.24.1. Codes 101, 209 and
719, cuDNN's and AMD's were not observed; they follow the same pattern.
"""

from extras.common.onnxruntime.inspection import OnnxSurroundings, Trial
from extras.common.onnxruntime.placement import SessionStatus
from extras.common.onnxruntime.providers import CPU, CUDA, DIRECTML, OPENVINO, ROCM

_PLACE = "2026-11-21 11:15:33.229853087 [E:onnxruntime:Default, provider_bridge_ort.cc:2458 ()] "
_WARNING = (
    "\n2026-11-21 11:15:33.229931727 [W:onnxruntime:Default, onnxruntime_pybind_state.cc:1295 "
    "CreateExecutionProviderFactoryInstance] Failed to create CUDAExecutionProvider. Require cuDNN "
    "9.* and CUDA 13.*. Please install all dependencies as mentioned in the GPU requirements page, "
    "make sure they're in the PATH, and that your GPU is supported."
)

CPU_ONLY = OnnxSurroundings({"onnxruntime": "1.31.1"}, "onnxruntime", torch_cuda="13.0")
GPU_BUILD = OnnxSurroundings(
    {"onnxruntime-gpu": "1.31.1"},
    "onnxruntime-gpu",
    "13.0",
    "13.0",
    frozenset({"libonnxruntime_providers_cuda.so"}),
    frozenset({"nvidia"}),
    "580.65.06",
    distribution=("ubuntu", "debian"),
)
OPENVINO_BUILD = OnnxSurroundings(
    {"onnxruntime-openvino": "1.24.1"},
    "onnxruntime-openvino",
    libraries=frozenset({"libonnxruntime_providers_openvino.so"}),
)
AMD_BUILD = OnnxSurroundings(
    {"onnxruntime-migraphx": "1.29.0"},
    "onnxruntime-migraphx",
    libraries=frozenset({"libonnxruntime_providers_migraphx.so"}),
    gpus=frozenset({"amd"}),
)


def without(library: str, provider: str = CUDA) -> Trial:
    """The session runs on the CPU only, and the log names a missing library."""
    path = "/env/onnxruntime/capi/libonnxruntime_providers_cuda.so"
    log = (
        f"{_PLACE}/src/provider_bridge_ort.cc:2043 onnxruntime::Provider& Get() [ONNXRuntimeError] "
        f": 1 : FAIL : Failed to load library {path} with error: {library}: cannot open shared "
        f"object file: No such file or directory\n{_WARNING}"
    )
    return Trial(provider, True, (CPU,), {CPU: 2}, 0.0, log)


def failing(number: int, words: str) -> Trial:
    """CUDA returns an error; 1.31 raises it and by default falls back to the CPU."""
    fault = (
        "RuntimeError: /src/cuda_call.cc:154 bool CudaCall(...) /src/cuda_call.cc:146 bool "
        f"CudaCall(...) CUDA failure {number}: {words} ; GPU=-1 ; hostname=vm ; "
        "file=/src/cuda_execution_provider.cc ; line=355 ; expr=cudaSetDevice(info_.device_id); "
    )
    return Trial(CUDA, fault=fault)


def unknown(provider: str) -> Trial:
    """The build does not include the provider."""
    return Trial(provider, False, (CPU,), {CPU: 2}, 0.0)


def working(provider: str, distance: float = 7.6e-6) -> Trial:
    """The provider computed both products."""
    return Trial(provider, True, (provider, CPU), {provider: 2}, distance)


NO_SUCH_DEVICE = Trial(
    OPENVINO,
    True,
    (CPU,),
    {CPU: 2},
    0.0,
    (
        "2026-11-21 11:21:45 [E:onnxruntime:Default, provider_bridge_ort.cc:2310 Create] /src/openvino_"
        "provider_factory.cc:141 ParseDeviceType [ERROR] [OpenVINO] Device GPU is not available\n"
        "2026-11-21 11:21:45 [W:onnxruntime:Default, onnxruntime_pybind_state.cc:1066 Create] Failed "
        "to create OpenVINOExecutionProvider."
    ),
)
UNDEFINED = Trial(
    CUDA,
    True,
    (CPU,),
    {CPU: 2},
    0.0,
    (
        f"{_PLACE}Failed to load library /env/libonnxruntime_providers_cuda.so with error: "
        "/env/libonnxruntime_providers_cuda.so: undefined symbol: cuTensorMapEncodeTiled\n"
        f"{_WARNING}"
    ),
)
MIGRAPHX, OLD_ROCM, DML = ROCM[0], ROCM[1], DIRECTML


def assert_never_silent(found: SessionStatus) -> None:
    """The contract of `GET /status`."""
    if found.requested_provider != found.execution_provider and found.requested_provider != "auto":
        assert found.message and found.reason_code
    assert bool(found.message) == bool(found.reason_code)
