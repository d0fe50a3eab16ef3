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

from extras.common.answers import ask_once
from extras.common.readings.nvml import GpuState
from extras.common.readings.snapshot import Managed, OnnxRuntime, TorchBuild, TrialSpeech
from machine.process import ProcessResult, run_with_timeout
from machine.storage.checksums import FileStamp, stamp_of
from machine.storage.facts import Facts

KNOWN = (
    "ffmpeg",
    "nvidia-smi",
    "prime-select",
    "envycontrol",
    "supergfxctl",
    "optimus-manager",
    "docker",
    "nvidia-ctk",
    "nvidia-container-runtime",
    "nvidia-container-cli",
    "dmesg",
    "journalctl",
)
_LIBRARIES_CHILD = (sys.executable, "-m", "extras.common.readings.libraries_child")
_ONNX_PACKAGES = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-rocm",
    "onnxruntime-directml",
    "onnxruntime-migraphx",
    "onnxruntime-openvino",
    "onnxruntime-training",
)
_SMI_FIELDS = (
    "index",
    "name",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "driver_version",
    "compute_mode",
)
_LIBCUDA = (
    "import ctypes; ctypes.CDLL('libcuda.so.1');"
    "print([line.split()[-1] for line in open('/proc/self/maps') if 'libcuda.so' in line][0])"
)
_SETTINGS_SECONDS = 60.0
_TORCH_SECONDS, _ONNX_SECONDS, _SPEECH_SECONDS, _QUICK_SECONDS = 90.0, 90.0, 180.0, 8.0


class LookFailed(Exception):
    """A reading failed; the text is the reason."""


def on_path(variables: Mapping[str, str]) -> dict[str, str]:
    """The paths of the programs that the checks use."""
    path = variables.get("PATH", "")
    paths = {name: shutil.which(name, path=path) for name in KNOWN}
    return {name: place for name, place in paths.items() if place}


def libcuda() -> tuple[str, str]:
    """The path of libcuda.so.1 as the loader finds it, or "" and the loader's error."""
    answer = run_with_timeout((sys.executable, "-I", "-c", _LIBCUDA), _QUICK_SECONDS)
    if answer.code == 0:
        return answer.out.strip(), ""
    return "", answer.last_error.removeprefix("OSError: ")


def managed_gpus(programs: Mapping[str, str], loaded: bool, limit_seconds: float = _QUICK_SECONDS) -> Managed:
    """The GPUs by nvidia-smi, or by NVML without it. loaded: whether a driver is loaded."""
    if program := programs.get("nvidia-smi"):
        gpus, answer = read_nvidia_smi(program, limit_seconds)
        output = " ".join(answer.out.split())[:300] or answer.last_error
        return Managed(gpus, "nvidia-smi", "" if gpus else output or "it lists no GPU")
    if not loaded:
        return Managed()
    reply = ask_once((sys.executable, "-m", "extras.common.readings.nvml"), limit_seconds)
    if reply.answer is None:
        return Managed((), "NVML", reply.last_error)
    states = [
        GpuState(**{**row, "capability": tuple(row["capability"]) if row["capability"] else None})
        for row in reply.answer
    ]
    return Managed(tuple(states), "NVML", "" if states else "it lists no GPU")


def read_nvidia_smi(program: str, limit_seconds: float) -> tuple[tuple[GpuState, ...], ProcessResult]:
    """The GPUs that nvidia-smi lists, and the program's result, which says why there is none."""
    # Drivers before 510 do not know compute_cap and refuse the whole query.
    for fields in ((*_SMI_FIELDS, "compute_cap", "uuid"), _SMI_FIELDS):
        query = f"--query-gpu={','.join(fields)}"
        answer = run_with_timeout((program, query, "--format=csv,noheader,nounits"), limit_seconds)
        if answer.code != 2:
            break
    if answer.code != 0:
        return (), answer
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.out.splitlines()]
    states = [_state(row) for row in rows if len(row) >= len(_SMI_FIELDS) and row[0].isdigit()]
    return tuple(states), answer


def _state(row: list[str]) -> GpuState:
    index, name, busy, used, total, driver, mode, *more = row
    major, _, minor = (more[0] if more else "").partition(".")
    return GpuState(
        index=int(index),
        name=name,
        busy_percent=_number(busy),
        used_bytes=_bytes(used),
        total_bytes=_bytes(total),
        capability=(int(major), int(minor)) if major.isdigit() and minor.isdigit() else None,
        driver_version=driver,
        compute_mode=mode,
        uuid=more[1] if len(more) > 1 else "",
    )


def _number(text: str) -> float | None:
    """None for a value that the GPU does not report: [N/A], [Not Supported]."""
    try:
        return float(text)
    except ValueError:
        return None


def _bytes(text: str) -> int | None:
    mebibytes = _number(text)
    return None if mebibytes is None else int(mebibytes * (1 << 20))


def kernel_log(programs: Mapping[str, str]) -> tuple[str, ...]:
    """The lines of the kernel log about a card's fault; none if the log is not readable."""
    commands = (("dmesg",), ("journalctl", "-k", "-b", "-q", "--no-pager", "-n", "5000"))
    for name, *options in commands:
        if name in programs:
            answer = run_with_timeout((programs[name], *options), _QUICK_SECONDS)
            if answer.code == 0:
                return tuple(line for line in answer.out.splitlines() if "NVRM: Xid" in line)
    return ()


def refused_settings(
    preflights: Mapping[str, Sequence[str]], environ: Mapping[str, str], dotenv: Path
) -> tuple[tuple[str, str], ...]:
    """The settings that each program refuses, as (program, sentence); each program checks its own
    settings in a child.

    Args:
        preflights: Program name -> the command that prints its refusals as a JSON list; `dotenv` is
            appended.
        environ: The child's environment.
        dotenv: The path of `.env`.
    """
    refusals: list[tuple[str, str]] = []
    for program, command in preflights.items():
        reply = ask_once((*command, str(dotenv)), _SETTINGS_SECONDS, environ)
        if reply.answer is None:
            raise LookFailed(f"the settings of {program}: {reply.last_error}")
        refusals += [(program, sentence) for sentence in reply.answer]
    return tuple(refusals)


def torch_build(variables: Mapping[str, str], remembered: Facts | None) -> TorchBuild:
    """Reads torch's build in a child; cached until a file that it depends on changes.

    Raises LookFailed if the child hangs.
    """
    words = [variables.get(name, "") for name in ("LD_LIBRARY_PATH", "LD_PRELOAD")]
    searched = [Path(part) for word in words for part in re.split("[: ]", word) if part]
    stamps = _stamps([*_torch_files(), *searched, Path("/etc/ld.so.cache")])
    key = hashlib.sha256(json.dumps([stamps, sys.executable, *words]).encode()).hexdigest()
    build = remembered.get("torch", key) if remembered else None
    if build is None:
        reply = ask_once((*_LIBRARIES_CHILD, "torch"), _TORCH_SECONDS)
        if reply.answer is None and reply.code:
            return TorchBuild(fault=reply.last_error)
        if reply.answer is None:
            raise LookFailed(f"importing torch gave {reply.fault}")
        build = reply.answer
        if remembered:
            remembered.put("torch", build, key)
            remembered.save()
    libraries = {str(name): tuple(paths) for name, paths in build["libraries"].items()}
    return TorchBuild(
        str(build["version"]),
        str(build["cuda"]),
        int(build["cudnn"]),
        tuple(build["architectures"]),
        libraries,
        tuple(build["folders"]),
    )


def onnx_runtime() -> OnnxRuntime:
    """Reads ONNX Runtime's packages, and loads its CUDA library in a child."""
    packages = onnx_packages()
    folder = package_folder("onnxruntime") / "capi"
    cuda = build_word(folder / "build_and_package_info.py", "cuda_version")
    library = folder / "libonnxruntime_providers_cuda.so"
    if not library.is_file():
        return OnnxRuntime(packages)
    command = (*_LIBRARIES_CHILD, str(library))
    reply = ask_once(command, _ONNX_SECONDS)
    faults = reply.answer or dict.fromkeys(("alone", "with_torch"), reply.last_error)
    return OnnxRuntime(packages, cuda or "unknown", faults["alone"], faults["with_torch"])


def onnx_packages() -> dict[str, str]:
    """The installed builds of ONNX Runtime and their versions. More than one is a fault, because
    they share one folder."""
    versions = {}
    for name in _ONNX_PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def package_folder(name: str) -> Path:
    """The folder of a package, without importing it; a nonexistent folder if there is none."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else Path("/nonexistent")


def build_word(path: Path, name: str) -> str:
    """A constant in a build's source file (cuda_version), parsed and not run; "" for none."""
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if ast.unparse(target) == name:
                    return str(ast.literal_eval(node.value) or "")
    return ""


def speech(trial: Sequence[str], devices: Sequence[str]) -> tuple[TrialSpeech, ...]:
    """Speaks one sentence on each device and compares it with the CPU's.

    Args:
        trial: The command that speaks it; device and file are appended.
        devices: The devices, with the CPU first.
    """
    results = []
    with tempfile.TemporaryDirectory(prefix="sotaque-doctor-") as folder:
        for number, device in enumerate(devices):
            out = Path(folder) / f"{number}.f32"
            reply = ask_once((*trial, device, str(out)), _SPEECH_SECONDS)
            if reply.answer is None:
                results.append(TrialSpeech(device, reply.seconds, fault=reply.last_error))
                continue
            apart = distance(out, Path(folder) / "0.f32") if number else None
            results.append(TrialSpeech(device, distance=apart, **reply.answer))
    return tuple(results)


def _stamps(paths: Sequence[Path]) -> list[FileStamp]:
    """The stamps of the files that exist."""
    stamps = []
    for path in paths:
        with contextlib.suppress(OSError):
            stamps.append(stamp_of(path))
    return sorted(stamps)


def _torch_files() -> list[Path]:
    """The files of torch and of NVIDIA's wheels on which the result depends."""
    files: list[Path] = []
    for name, patterns in (("torch", ("version.py", "lib/*.so*")), ("nvidia", ("*/lib/*.so*",))):
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            files += [path for pattern in patterns for path in Path(place).glob(pattern)]
    return files


def distance(path: Path, reference: Path) -> float | None:
    """Relative L2 distance of two float32 files; None if lengths differ or one is missing."""
    import numpy as np

    try:
        output, other = (np.fromfile(file, np.float32).astype(np.float64) for file in (path, reference))
    except OSError:
        return None
    if output.shape != other.shape:
        return None
    size = float(np.linalg.norm(other))
    return float(np.linalg.norm(output - other)) / size if size else float("inf")
