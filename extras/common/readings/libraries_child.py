"""Child process that loads CUDA's libraries: torch with its own, or ONNX Runtime's provider.

The parent runs `python -m extras.common.readings.libraries_child torch|FILE` with `ask_once`.
"""

import ctypes
import importlib.util
import os
import re
import sys
from pathlib import Path

from machine.process import reserve_stdout, write_json_line
from machine.storage.files import read_text

CUDA_LIBRARIES = re.compile(
    r"lib(cublas|cublasLt|cudart|cufft|cudnn\w*|curand|cusolver|cusparse|cusparseLt|nvrtc|"
    r"nvJitLink|nccl|cupti)\.so"
)


def main() -> int:
    """Answers with the fields of `TorchBuild`, or with why the library FILE cannot be loaded."""
    answers, subject = reserve_stdout(), sys.argv[1]
    write_json_line(answers, torch_build() if subject == "torch" else provider_faults(subject))
    return 0


def torch_build() -> dict[str, object]:
    """Imports torch and returns its version, and the libraries that it really loaded."""
    import torch

    # Loads cuDNN, so that the memory map lists it; this creates no context.
    cudnn = torch.backends.cudnn.version() or 0
    # torch.cuda.get_arch_list() is empty without a GPU; this reads the same value.
    flags = torch._C._cuda_getArchFlags() if torch.version.cuda else None
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda or "",
        "cudnn": cudnn,
        "architectures": (flags or "").split(),
        "libraries": mapped_libraries(read_text(Path("/proc/self/maps")), CUDA_LIBRARIES),
        "folders": own_folders(Path(torch.__file__).parent),
    }


def mapped_libraries(maps: str, pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """The libraries in a process's memory map (/proc/self/maps) whose name matches `pattern`.

    Returns:
        Name -> every path from which it is loaded.
    """
    libraries: dict[str, set[str]] = {}
    for line in maps.splitlines():
        _, slash, path = line.partition("/")
        name = path.rpartition("/")[2]
        if pattern.match(name):
            libraries.setdefault(name, set()).add(slash + path)
    return {name: sorted(paths) for name, paths in sorted(libraries.items())}


def provider_faults(library: str) -> dict[str, str]:
    """{alone, with_torch}: the loader's error without and with torch imported; "" if it loads."""
    alone = with_torch = fault_of(library)
    if alone:
        import torch  # noqa: F401 - for the libraries that it loads

        with_torch = fault_of(library)
    return {"alone": alone, "with_torch": with_torch}


def fault_of(path: str) -> str:
    """Why a library cannot be loaded; "" if it can."""
    try:
        ctypes.CDLL(path)
    except OSError as error:
        return str(error)
    return ""


def own_folders(torch_folder: Path) -> list[str]:
    """The resolved folders of torch's own libraries, as the memory map shows them."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(location) for location in (spec.submodule_search_locations or [] if spec else [])]
    folders = {os.path.realpath(torch_folder / "lib")}
    if (Path(sys.prefix) / "conda-meta").is_dir():
        folders.add(os.path.realpath(Path(sys.prefix) / "lib"))
    for place in (*places, torch_folder):
        for path in place.glob("**/lib/lib*.so*"):
            folders.add(str(Path(os.path.realpath(path)).parent))
    return sorted(folders)


if __name__ == "__main__":
    sys.exit(main())
