"""The reasons why a provider is not used, each with its fix.

Each function returns (reason_code, what is wrong, what to do). docs/develop/onnx.md lists the
codes.
"""

import re

from extras.common.onnxruntime.inspection import OnnxSurroundings, Trial
from extras.common.onnxruntime.providers import BUILDS, CALLED, ProviderRequest
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

Reason = tuple[str, str, str]
_MAX_CHARACTERS = 300
_REBOOT = "Reboot; in a container, restart the container after the host."
# cudaError_t as ONNX Runtime prints it ("CUDA failure 35: …") -> reason_code, meaning, fix.
# docs.nvidia.com/cuda/cuda-runtime-api, group CUDART_TYPES.
_FAILURES: dict[int, Reason] = {
    2: (
        "out_of_memory",
        "The GPU has no memory left",
        "Close other programs that use it; `nvidia-smi` lists them.",
    ),
    46: ("gpu_busy", "Another process has exclusive use of the GPU", "sudo nvidia-smi -c 0"),
    100: (
        "no_gpu",
        "NVIDIA's driver shows no GPU to this process",
        "Check CUDA_VISIBLE_DEVICES and `nvidia-smi`.",
    ),
    101: ("no_gpu", "There is no GPU with this number", "Use cuda:0."),
    209: (
        "gpu_not_supported",
        "This build has no code for this GPU",
        "Install a build for another CUDA (12 for cards before the GTX 16 series).",
    ),
    802: (
        "driver_broken",
        "The GPU system is not initialised yet (on NVSwitch machines, by Fabric Manager)",
        "sudo systemctl start nvidia-fabricmanager",
    ),
    803: (
        "driver_broken",
        "The driver's library and kernel module have different versions: the "
        "driver was updated without a reboot",
        _REBOOT,
    ),
    804: (
        "driver_broken",
        "A CUDA compatibility library comes before the driver's own, and this GPU does not support it",
        "Remove its folder (cuda/compat) from LD_LIBRARY_PATH.",
    ),
    999: ("driver_broken", "The driver reports an unknown error, as it does after a suspend", _REBOOT),
}


def not_in_build(wish: ProviderRequest, seen: OnnxSurroundings) -> Reason:
    """This ONNX Runtime was not built for the requested provider."""
    if wish.kind == "directml" and seen.system != "win32":
        return (
            "wrong_platform",
            "DirectML exists only on Windows",
            "Use cuda for an NVIDIA GPU, rocm for an AMD one, openvino for an Intel one.",
        )
    build, installed = BUILDS[wish.kind], " ".join(seen.packages) or "onnxruntime"
    message = f"{_name_of_build(seen)} is a build without {CALLED[wish.kind]}"
    if build in seen.packages and len(seen.packages) > 1:
        others = " and ".join(name for name in seen.packages if name != build)
        return (
            "two_builds",
            f"{build} is installed, but {others} was installed over it and is imported: {message}",
            replacement_command(installed, build),
        )
    if wish.kind == "cuda" and "nvidia" not in seen.gpus:
        message = f"{message}, and this machine shows no NVIDIA GPU"
    if wish.kind == "rocm":
        fix = f"Replace {installed} with AMD's build {build}, which comes with ROCm."
    else:
        fix = replacement_command(installed, build)
    return "not_in_build", message, fix


def inactive(wish: ProviderRequest, seen: OnnxSurroundings, trial: Trial) -> Reason:
    """The build knows the provider, but the session did not get it."""
    log = f"{trial.fault}\n{trial.log}"
    for look in (_library, _failure, _symbol, _openvino):
        if reason := look(wish, seen, log):
            return reason
    message = last_words(trial.fault or log) or "no message"
    started = trial.active[:1] == (trial.provider,)
    what = "It started, but could not compute" if started else "ONNX Runtime did not start it"
    return "unknown", f"{what}: {message}", _run_doctor()


def no_result(wish: ProviderRequest, trial: Trial) -> Reason:
    """The child returned no result."""
    code = "hung" if "no answer" in trial.ending else "crashed"
    return (
        code,
        f"The process that tried it returned no result ({trial.ending})",
        _run_doctor() if wish.kind == "cuda" else "Update the driver of this GPU.",
    )


def _run_doctor() -> str:
    return f"Run: {commands.make('doctor')}"


def last_words(log: str) -> str:
    """The last line that holds words, without the location in ONNX Runtime's source."""
    lines = [line.strip() for line in log.splitlines() if re.search(r"[a-z]{3}", line)]
    last = lines[-1] if lines else ""
    return re.sub(r"^\S+ \S+ \[\w:[^\]]*\] ?", "", last)[:_MAX_CHARACTERS]


def _library(wish: ProviderRequest, seen: OnnxSurroundings, log: str) -> Reason | None:
    library = missing_library(log)
    if not library:
        return None
    if library.startswith("libcuda.so"):
        if seen.hint:
            code, message = "no_gpu_in_container" if seen.in_container else "no_driver", seen.hint
            return code, f"NVIDIA's driver ({library}) cannot be loaded", message
        return (
            "no_driver",
            f"NVIDIA's driver is missing: this machine has no {library}",
            driver_command(seen.distribution, seen.in_container),
        )
    if wish.kind != "cuda":
        return (
            "missing_library",
            f"{library} is missing, which {CALLED[wish.kind]} needs",
            f"Install {CALLED[wish.kind]}'s libraries, or add them to LD_LIBRARY_PATH.",
        )
    return _cuda_library(seen, library)


def _cuda_library(seen: OnnxSurroundings, library: str) -> Reason:
    ours, torchs = major_of(seen.cuda), major_of(seen.torch_cuda)
    if ours and torchs and ours != torchs:
        backend = "cu130" if ours == 13 else "cu126"
        return (
            "other_cuda",
            f"{library} is missing: {_name_of_build(seen)} is built for CUDA {seen.cuda}, but torch "
            f"installed CUDA {seen.torch_cuda}",
            backend_command(backend, seen.in_container),
        )
    code = "missing_cudnn" if library.startswith("libcudnn") else "missing_library"
    name = "cuDNN" if code == "missing_cudnn" else "a library of CUDA"
    version = f" {seen.cuda}" if seen.cuda and code == "missing_library" else ""
    message = f"{library} is missing, {name}{version}"
    if seen.gpus or seen.driver:
        return code, message, cuda_libraries_command()
    return (
        code,
        f"{message}, and this machine shows no NVIDIA GPU",
        f"With a GPU: {cuda_libraries_command()}; without one, use the CPU.",
    )


def _failure(wish: ProviderRequest, seen: OnnxSurroundings, log: str) -> Reason | None:
    match = re.search(r"CUDA failure (\d+): ([^;\n]*)", log)
    if not match:
        if fault := re.search(r"cuDNN is unavailable[^\n]*|CUDNN_STATUS_\w+", log):
            message = f"cuDNN does not work: {fault[0][:_MAX_CHARACTERS]}"
            return "missing_cudnn", message, cuda_libraries_command()
        return None
    number, words = int(match[1]), match[2].strip()
    if number == 35:
        needed = OLDEST_DRIVER.get(major_of(seen.cuda) or 0)
        wants = f"; CUDA {seen.cuda} needs {needed} or newer" if needed else ""
        have = f" ({seen.driver})" if seen.driver else ""
        return (
            "driver_too_old",
            f"NVIDIA's driver{have} is too old for this build{wants}",
            driver_command(seen.distribution, seen.in_container),
        )
    if number in _FAILURES:
        code, message, fix = _FAILURES[number]
        return code, f"{message} (CUDA failure {number}: {words})", fix
    return ("gpu_failed", f"The GPU fails: CUDA failure {number}: {words}", _run_doctor())


def _symbol(wish: ProviderRequest, seen: OnnxSurroundings, log: str) -> Reason | None:
    if match := re.search(r"undefined symbol: \w+|version `[^']+' not found", log):
        return (
            "mixed_libraries",
            f"A library of the wrong version was loaded ({match[0]})",
            "Start without LD_LIBRARY_PATH and LD_PRELOAD, or update the driver.",
        )
    return None


def _openvino(wish: ProviderRequest, seen: OnnxSurroundings, log: str) -> Reason | None:
    if match := re.search(r"Device (\w+) is not available", log):
        return (
            "no_gpu",
            f"OpenVINO finds no {match[1]} on this machine",
            "Use openvino, which computes on the CPU, or install Intel's compute runtime.",
        )
    return None


def _name_of_build(seen: OnnxSurroundings) -> str:
    name = seen.build or next(iter(seen.packages), "onnxruntime")
    return f"{name} {seen.packages.get(name, '')}".strip()
