"""Checks of ONNX Runtime: whether its CUDA provider loads, not only whether it was compiled in.

`get_available_providers()` lists what a build knows, not what works. Measured: 1.31 for CUDA 13
lists CUDA on a machine without a GPU, then computes on the CPU without a message. So a child loads
the CUDA library itself, and the loader's text is the reason.
"""

from extras.common.readings.snapshot import Container, Nodes, OnnxRuntime, TorchBuild
from extras.common.remedies import (
    backend_command,
    cuda_libraries_command,
    major_of,
    missing_library,
    replacement_command,
)
from extras.doctor.finding import Finding, ok, warn

_GPU_BUILD = "onnxruntime-gpu"


def onnx_runtime(onnx: OnnxRuntime, torch: TorchBuild, nodes: Nodes, container: Container) -> Finding:
    """Whether BACKEND=onnx would compute on the same device as torch."""
    if not onnx.packages:
        return ok("not installed; only BACKEND=onnx needs it")
    seen = ", ".join(f"{name} {version}" for name, version in onnx.packages.items())
    expected = "one build, for the CUDA of torch"
    if len(onnx.packages) > 1:
        names = " ".join(onnx.packages)
        return warn(
            f"{seen}: {len(onnx.packages)} builds in one folder",
            expected,
            "They overwrite each other's files, so it is undefined which one is imported.",
            replacement_command(names, _GPU_BUILD if nodes.gpus else "onnxruntime"),
        )
    if not nodes.gpus:
        return ok(f"{seen}; on this machine it computes on the CPU")
    if not onnx.cuda:
        return warn(
            f"{seen}, a build for the CPU",
            expected,
            "With BACKEND=onnx everything runs on the CPU and the GPU stays idle.",
            replacement_command(" ".join(onnx.packages), _GPU_BUILD),
        )
    if torch.cuda and major_of(onnx.cuda) != major_of(torch.cuda):
        return warn(
            f"{seen} for CUDA {onnx.cuda}, torch {torch.version} for CUDA {torch.cuda}",
            expected,
            "ONNX Runtime finds no CUDA libraries of its own major version. It computes on the CPU "
            "without a message, although it lists CUDA as available.",
            backend_command(f"cu{'130' if major_of(onnx.cuda) == 13 else '126'}", container.inside),
            onnx.provider_fault,
        )
    if fault := onnx.provider_fault_with_torch:
        return _without_library(seen, expected, fault)
    note = "torch must be imported first: it loads the CUDA libraries." if (onnx.provider_fault) else ""
    return ok(f"{seen} for CUDA {onnx.cuda}", expected, note, onnx.provider_fault)


def _without_library(seen: str, expected: str, fault: str) -> Finding:
    library = missing_library(fault) or "its CUDA library"
    if library.startswith("libcuda.so"):
        meaning = "The driver's library is missing; see the check `driver`."
        fix = "Fix `driver` first."
    else:
        meaning = "With BACKEND=onnx everything runs on the CPU, without a message."
        fix = cuda_libraries_command()
    return warn(f"{seen} cannot load {library}", expected, meaning, fix, fault)
