"""Reads the builds of torch and of ONNX Runtime, without importing them here."""

import ast
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from extras.common.answers import ask_once
from extras.common.readings.snapshot import OnnxRuntime, ReadingFailed, TorchBuild
from machine.storage.checksums import FileStamp, stamp_of
from machine.storage.facts import Facts

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
_MAX_IMPORT_SECONDS = 90.0


def torch_build(variables: Mapping[str, str], cache: Facts | None) -> TorchBuild:
    """Reads torch's build in a child; cached until a file that it depends on changes.

    Raises ReadingFailed if the child hangs.
    """
    search_paths = [variables.get(name, "") for name in ("LD_LIBRARY_PATH", "LD_PRELOAD")]
    searched = [Path(part) for search_path in search_paths for part in re.split("[: ]", search_path) if part]
    stamps = _stamps([*_torch_files(), *searched, Path("/etc/ld.so.cache")])
    key = hashlib.sha256(json.dumps([stamps, sys.executable, *search_paths]).encode()).hexdigest()
    build = cache.get("torch", key) if cache else None
    if build is None:
        reply = ask_once((*_LIBRARIES_CHILD, "torch"), _MAX_IMPORT_SECONDS)
        if reply.answer is None and reply.code:
            return TorchBuild(fault=reply.last_error)
        if reply.answer is None:
            raise ReadingFailed(f"importing torch gave {reply.fault}")
        build = reply.answer
        if cache:
            cache.put("torch", build, key)
            cache.save()
    libraries = {str(name): tuple(paths) for name, paths in build["libraries"].items()}
    return TorchBuild(
        version=str(build["version"]),
        cuda=str(build["cuda"]),
        cudnn=int(build["cudnn"]),
        architectures=tuple(build["architectures"]),
        libraries=libraries,
        folders=tuple(build["folders"]),
    )


def onnx_runtime() -> OnnxRuntime:
    """Reads ONNX Runtime's packages, and loads its CUDA library in a child."""
    packages = onnx_packages()
    folder = package_folder("onnxruntime") / "capi"
    cuda = constant_in_source(folder / "build_and_package_info.py", "cuda_version")
    library = folder / "libonnxruntime_providers_cuda.so"
    if not library.is_file():
        return OnnxRuntime(packages)
    command = (*_LIBRARIES_CHILD, str(library))
    reply = ask_once(command, _MAX_IMPORT_SECONDS)
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


def constant_in_source(path: Path, name: str) -> str:
    """A constant in a build's source file (cuda_version), parsed and not run; "" for none."""
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if ast.unparse(target) == name:
                    return str(ast.literal_eval(node.value) or "")
    return ""


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
