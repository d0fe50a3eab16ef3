"""The reasons why a provider is not used, each with its fix.

docs/develop/onnx.md lists the codes.
"""

import re
from typing import NamedTuple

from extras.common.onnxruntime.inspection import OnnxSurroundings, Trial
from extras.common.onnxruntime.providers import BUILD_PACKAGES, PROVIDER_LABELS, ProviderRequest
from extras.common.remedies import (
    OLDEST_DRIVER,
    backend_command,
    cuda_libraries_command,
    driver_command,
    major_of,
    missing_library,
    replacement_command,
)
from machine import commands

_MAX_CHARACTERS = 300
_REBOOT = "Reboot; in a container, restart the container after the host."


class Reason(NamedTuple):
    """Why a provider is not used.

    Attributes:
        code: The reason_code.
        message: What is wrong.
        fix: What to do.
    """

    code: str
    message: str
    fix: str


# cudaError_t as ONNX Runtime prints it ("CUDA failure 35: …") -> reason_code, meaning, fix.
# docs.nvidia.com/cuda/cuda-runtime-api, group CUDART_TYPES.
_CUDA_FAILURES: dict[int, Reason] = {
    2: Reason(
        "out_of_memory",
        "The GPU has no memory left",
        "Close other programs that use it; `nvidia-smi` lists them.",
    ),
    46: Reason("gpu_busy", "Another process has exclusive use of the GPU", "sudo nvidia-smi -c 0"),
    100: Reason(
        "no_gpu",
        "NVIDIA's driver shows no GPU to this process",
        "Check CUDA_VISIBLE_DEVICES and `nvidia-smi`.",
    ),
    101: Reason("no_gpu", "There is no GPU with this number", "Use cuda:0."),
    209: Reason(
        "gpu_not_supported",
        "This build has no code for this GPU",
        "Install a build for another CUDA (12 for cards before the GTX 16 series).",
    ),
    802: Reason(
        "driver_broken",
        "The GPU system is not initialised yet (on NVSwitch machines, by Fabric Manager)",
        "sudo systemctl start nvidia-fabricmanager",
    ),
    803: Reason(
        "driver_broken",
        "The driver's library and kernel module have different versions: the "
        "driver was updated without a reboot",
        _REBOOT,
    ),
    804: Reason(
        "driver_broken",
        "A CUDA compatibility library comes before the driver's own, and this GPU does not support it",
        "Remove its folder (cuda/compat) from LD_LIBRARY_PATH.",
    ),
    999: Reason("driver_broken", "The driver reports an unknown error, as it does after a suspend", _REBOOT),
}


def not_in_build_reason(request: ProviderRequest, surroundings: OnnxSurroundings) -> Reason:
    """This ONNX Runtime was not built for the requested provider."""
    if request.kind == "directml" and surroundings.system != "win32":
        return Reason(
            "wrong_platform",
            "DirectML exists only on Windows",
            "Use cuda for an NVIDIA GPU, rocm for an AMD one, openvino for an Intel one.",
        )
    build, installed = BUILD_PACKAGES[request.kind], " ".join(surroundings.packages) or "onnxruntime"
    message = f"{_build_name(surroundings)} is a build without {PROVIDER_LABELS[request.kind]}"
    if build in surroundings.packages and len(surroundings.packages) > 1:
        others = " and ".join(name for name in surroundings.packages if name != build)
        return Reason(
            "two_builds",
            f"{build} is installed, but {others} was installed over it and is imported: {message}",
            replacement_command(installed, build),
        )
    if request.kind == "cuda" and "nvidia" not in surroundings.gpus:
        message = f"{message}, and this machine shows no NVIDIA GPU"
    if request.kind == "rocm":
        fix = f"Replace {installed} with AMD's build {build}, which comes with ROCm."
    else:
        fix = replacement_command(installed, build)
    return Reason("not_in_build", message, fix)


def inactive_reason(request: ProviderRequest, surroundings: OnnxSurroundings, trial: Trial) -> Reason:
    """The build knows the provider, but the session did not get it."""
    log = f"{trial.fault}\n{trial.log}"
    for find_reason in (_library_reason, _cuda_failure_reason, _symbol_reason, _openvino_reason):
        if reason := find_reason(request, surroundings, log):
            return reason
    message = last_message(trial.fault or log) or "no message"
    started = trial.active[:1] == (trial.provider,)
    what = "It started, but could not compute" if started else "ONNX Runtime did not start it"
    return Reason("unknown", f"{what}: {message}", _run_doctor())


def no_result_reason(request: ProviderRequest, trial: Trial) -> Reason:
    """The child returned no result."""
    code = "hung" if "no answer" in trial.ending else "crashed"
    return Reason(
        code,
        f"The process that tried it returned no result ({trial.ending})",
        _run_doctor() if request.kind == "cuda" else "Update the driver of this GPU.",
    )


def _run_doctor() -> str:
    return f"Run: {commands.make('doctor')}"


def last_message(log: str) -> str:
    """The last line that holds words, without the location in ONNX Runtime's source."""
    lines = [line.strip() for line in log.splitlines() if re.search(r"[a-z]{3}", line)]
    last = lines[-1] if lines else ""
    return re.sub(r"^\S+ \S+ \[\w:[^\]]*\] ?", "", last)[:_MAX_CHARACTERS]


def _library_reason(request: ProviderRequest, surroundings: OnnxSurroundings, log: str) -> Reason | None:
    library = missing_library(log)
    if not library:
        return None
    if library.startswith("libcuda.so"):
        if surroundings.hint:
            code = "no_gpu_in_container" if surroundings.in_container else "no_driver"
            return Reason(code, f"NVIDIA's driver ({library}) cannot be loaded", surroundings.hint)
        return Reason(
            "no_driver",
            f"NVIDIA's driver is missing: this machine has no {library}",
            driver_command(surroundings.distribution, surroundings.in_container),
        )
    if request.kind != "cuda":
        return Reason(
            "missing_library",
            f"{library} is missing, which {PROVIDER_LABELS[request.kind]} needs",
            f"Install {PROVIDER_LABELS[request.kind]}'s libraries, or add them to LD_LIBRARY_PATH.",
        )
    return _cuda_library_reason(surroundings, library)


def _cuda_library_reason(surroundings: OnnxSurroundings, library: str) -> Reason:
    onnx_major, torch_major = major_of(surroundings.cuda), major_of(surroundings.torch_cuda)
    if onnx_major and torch_major and onnx_major != torch_major:
        backend = "cu130" if onnx_major == 13 else "cu126"
        return Reason(
            "other_cuda",
            f"{library} is missing: {_build_name(surroundings)} is built for CUDA {surroundings.cuda}, but "
            f"torch installed CUDA {surroundings.torch_cuda}",
            backend_command(backend, surroundings.in_container),
        )
    code = "missing_cudnn" if library.startswith("libcudnn") else "missing_library"
    name = "cuDNN" if code == "missing_cudnn" else "a library of CUDA"
    version = f" {surroundings.cuda}" if surroundings.cuda and code == "missing_library" else ""
    message = f"{library} is missing, {name}{version}"
    if surroundings.gpus or surroundings.driver:
        return Reason(code, message, cuda_libraries_command())
    return Reason(
        code,
        f"{message}, and this machine shows no NVIDIA GPU",
        f"With a GPU: {cuda_libraries_command()}; without one, use the CPU.",
    )


def _cuda_failure_reason(request: ProviderRequest, surroundings: OnnxSurroundings, log: str) -> Reason | None:
    match = re.search(r"CUDA failure (\d+): ([^;\n]*)", log)
    if not match:
        if fault := re.search(r"cuDNN is unavailable[^\n]*|CUDNN_STATUS_\w+", log):
            message = f"cuDNN does not work: {fault[0][:_MAX_CHARACTERS]}"
            return Reason("missing_cudnn", message, cuda_libraries_command())
        return None
    number, words = int(match[1]), match[2].strip()
    if number == 35:
        needed = OLDEST_DRIVER.get(major_of(surroundings.cuda) or 0)
        wants = f"; CUDA {surroundings.cuda} needs {needed} or newer" if needed else ""
        have = f" ({surroundings.driver})" if surroundings.driver else ""
        return Reason(
            "driver_too_old",
            f"NVIDIA's driver{have} is too old for this build{wants}",
            driver_command(surroundings.distribution, surroundings.in_container),
        )
    if number in _CUDA_FAILURES:
        code, message, fix = _CUDA_FAILURES[number]
        return Reason(code, f"{message} (CUDA failure {number}: {words})", fix)
    return Reason("gpu_failed", f"The GPU fails: CUDA failure {number}: {words}", _run_doctor())


def _symbol_reason(request: ProviderRequest, surroundings: OnnxSurroundings, log: str) -> Reason | None:
    if match := re.search(r"undefined symbol: \w+|version `[^']+' not found", log):
        return Reason(
            "mixed_libraries",
            f"A library of the wrong version was loaded ({match[0]})",
            "Start without LD_LIBRARY_PATH and LD_PRELOAD, or update the driver.",
        )
    return None


def _openvino_reason(request: ProviderRequest, surroundings: OnnxSurroundings, log: str) -> Reason | None:
    if match := re.search(r"Device (\w+) is not available", log):
        return Reason(
            "no_gpu",
            f"OpenVINO finds no {match[1]} on this machine",
            "Use openvino, which computes on the CPU, or install Intel's compute runtime.",
        )
    return None


def _build_name(surroundings: OnnxSurroundings) -> str:
    name = surroundings.build or next(iter(surroundings.packages), "onnxruntime")
    return f"{name} {surroundings.packages.get(name, '')}".strip()
