"""Readings from programs and child processes: nvidia-smi, dmesg, torch, ONNX Runtime."""

import ast
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from machine.devices.gpu_usage import read_nvidia_smi
from machine.devices.nvml import GpuState
from machine.process import ask_once, run_with_timeout
from machine.readings.snapshot import Managed, OnnxRuntime, TorchBuild, TrialSpeech
from machine.storage.file_cache import FileCache
from machine.storage.hashes import FileStamp, stamp_of

KNOWN = (
    "ffmpeg", "nvidia-smi", "prime-select", "envycontrol", "supergfxctl", "optimus-manager",
    "docker", "nvidia-ctk", "nvidia-container-runtime", "nvidia-container-cli", "dmesg",
    "journalctl",
)  # fmt: skip
_ONNX_PACKAGES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-rocm", "onnxruntime-directml",
                  "onnxruntime-migraphx", "onnxruntime-openvino",
                  "onnxruntime-training")  # fmt: skip
_LIBCUDA = (
    "import ctypes; ctypes.CDLL('libcuda.so.1');"
    "print([line.split()[-1] for line in open('/proc/self/maps') if 'libcuda.so' in line][0])"
)
_SETTINGS_SECONDS = 60.0
_TORCH_SECONDS, _ONNX_SECONDS, _SPEECH_SECONDS, _QUICK_SECONDS = 90.0, 90.0, 180.0, 8.0


class LookFailed(Exception):
    """A reading that could not be taken; the text is the reason."""


def on_path(variables: Mapping[str, str]) -> dict[str, str]:
    """Where each program is that some check asks about."""
    path = variables.get("PATH", "")
    found = {name: shutil.which(name, path=path) for name in KNOWN}
    return {name: place for name, place in found.items() if place}


def libcuda() -> tuple[str, str]:
    """The path of libcuda.so.1 as the loader finds it, or "" and the loader's sentence."""
    answer = run_with_timeout((sys.executable, "-I", "-c", _LIBCUDA), _QUICK_SECONDS)
    if answer.code == 0:
        return answer.out.strip(), ""
    return "", answer.last_error.removeprefix("OSError: ")


def managed(
    programs: Mapping[str, str], loaded: bool, limit_seconds: float = _QUICK_SECONDS
) -> Managed:
    """What nvidia-smi tells of the GPUs, or NVML itself; loaded: whether a driver is there."""
    if program := programs.get("nvidia-smi"):
        gpus, answer = read_nvidia_smi(program, limit_seconds)
        output = " ".join(answer.out.split())[:300] or answer.last_error
        return Managed(gpus, "nvidia-smi", "" if gpus else output or "it lists no GPU")
    if not loaded:
        return Managed()
    found = ask_once((sys.executable, "-m", "machine.devices.nvml"), limit_seconds)
    if found.answer is None:
        return Managed((), "NVML", found.last_error)
    states = [
        GpuState(**{**one, "capability": tuple(one["capability"]) if one["capability"] else None})
        for one in found.answer
    ]
    return Managed(tuple(states), "NVML", "" if states else "it lists no GPU")


def kernel_log(programs: Mapping[str, str]) -> tuple[str, ...]:
    """The lines of the kernel that tell a card's fault; none where it is not ours to read."""
    asked = (("dmesg",), ("journalctl", "-k", "-b", "-q", "--no-pager", "-n", "5000"))
    for name, *options in asked:
        if name in programs:
            answer = run_with_timeout((programs[name], *options), _QUICK_SECONDS)
            if answer.code == 0:
                return tuple(line for line in answer.out.splitlines() if "NVRM: Xid" in line)
    return ()


def refused(
    preflights: Mapping[str, Sequence[str]], environ: Mapping[str, str], dotenv: Path
) -> tuple[tuple[str, str], ...]:
    """What each program would refuse to start with: it judges its own settings, in a child.

    Args:
        preflights: What a person calls each program, and the command that prints its refusals as a
            JSON list; `dotenv` is put behind it.
    """
    found: list[tuple[str, str]] = []
    for program, command in preflights.items():
        asked = ask_once((*command, str(dotenv)), _SETTINGS_SECONDS, environ)
        if asked.answer is None:
            raise LookFailed(f"the settings of {program}: {asked.last_error}")
        found += [(program, sentence) for sentence in asked.answer]
    return tuple(found)


def torch_build(variables: Mapping[str, str], remembered: FileCache | None) -> TorchBuild:
    """What a child that imports torch finds; remembered until a file that it depends on changes.

    Raises LookFailed when it hangs.
    """
    words = [variables.get(name, "") for name in ("LD_LIBRARY_PATH", "LD_PRELOAD")]
    searched = [Path(part) for word in words for part in re.split("[: ]", word) if part]
    stamps = _stamps([*_torch_files(), *searched, Path("/etc/ld.so.cache")])
    key = hashlib.sha256(json.dumps([stamps, sys.executable, *words]).encode()).hexdigest()
    kept = remembered.get("torch") if remembered else None
    found = kept["found"] if kept and kept["key"] == key else None
    if found is None:
        asked = ask_once(
            (sys.executable, "-m", "machine.readings.libraries_child", "torch"), _TORCH_SECONDS
        )
        if asked.answer is None and asked.code:
            return TorchBuild(fault=asked.last_error)
        if asked.answer is None:
            raise LookFailed(f"importing torch gave {asked.fault}")
        found = asked.answer
        if remembered:
            remembered.put("torch", {"key": key, "found": found})
            remembered.save()
    libraries = {str(name): tuple(paths) for name, paths in found["libraries"].items()}
    return TorchBuild(
        str(found["version"]), str(found["cuda"]), int(found["cudnn"]),
        tuple(found["architectures"]), libraries, tuple(found["folders"]),
    )  # fmt: skip


def onnx_runtime() -> OnnxRuntime:
    """From the packages' own words; its CUDA library is loaded in a child."""
    packages = onnx_packages()
    folder = package_folder("onnxruntime") / "capi"
    cuda = build_word(folder / "build_and_package_info.py", "cuda_version")
    library = folder / "libonnxruntime_providers_cuda.so"
    if not library.is_file():
        return OnnxRuntime(packages)
    command = (sys.executable, "-m", "machine.readings.libraries_child", str(library))
    asked = ask_once(command, _ONNX_SECONDS)
    found = asked.answer or dict.fromkeys(("alone", "with_torch"), asked.last_error)
    return OnnxRuntime(packages, cuda or "unknown", found["alone"], found["with_torch"])


def onnx_packages() -> dict[str, str]:
    """The builds of ONNX Runtime that are installed, and their versions; more than one is a fault:
    they stand in one folder."""
    found = {}
    for name in _ONNX_PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def package_folder(name: str) -> Path:
    """Where a package lies, which is not imported; a folder that is not there for none."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else Path("/nonexistent")


def build_word(path: Path, name: str) -> str:
    """A word that a build says of itself (cuda_version), read and not run; "" for none."""
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if ast.unparse(target) == name:
                    return str(ast.literal_eval(node.value) or "")
    return ""


def speech(trial: Sequence[str], devices: Sequence[str]) -> tuple[TrialSpeech, ...]:
    """One sentence on each device, the CPU first; the others are compared with it.

    Args:
        trial: The command that speaks it; device and file are put behind it.
        devices: Where, the CPU first.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="sotaque-doctor-") as folder:
        for number, device in enumerate(devices):
            out = Path(folder) / f"{number}.f32"
            asked = ask_once((*trial, device, str(out)), _SPEECH_SECONDS)
            if asked.answer is None:
                found.append(TrialSpeech(device, asked.seconds, fault=asked.last_error))
                continue
            apart = distance(out, Path(folder) / "0.f32") if number else None
            found.append(TrialSpeech(device, distance=apart, **asked.answer))
    return tuple(found)


def _stamps(paths: Sequence[Path]) -> list[FileStamp]:
    """The stamps of those files that are there."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            found.append(stamp_of(path))
    return sorted(found)


def _torch_files() -> list[Path]:
    """The files of torch and of NVIDIA's wheels that decide what the child would find."""
    found: list[Path] = []
    for name, patterns in (("torch", ("version.py", "lib/*.so*")), ("nvidia", ("*/lib/*.so*",))):
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            found += [path for pattern in patterns for path in Path(place).glob(pattern)]
    return found


def distance(path: Path, reference: Path) -> float | None:
    """Relative L2 of one file to the other; None where their lengths differ or one is missing."""
    import numpy as np

    try:
        one, other = (
            np.fromfile(file, np.float32).astype(np.float64) for file in (path, reference)
        )
    except OSError:
        return None
    if one.shape != other.shape:
        return None
    size = float(np.linalg.norm(other))
    return float(np.linalg.norm(one - other)) / size if size else float("inf")
