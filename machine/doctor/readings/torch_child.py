"""Child process that imports torch and reports its build and libraries.

Run as `python -m machine.doctor.readings.torch_child`; one JSON line.
"""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

_OURS_TO_JUDGE = re.compile(
    r"lib(cublas|cublasLt|cudart|cufft|cudnn\w*|curand|cusolver|cusparse|cusparseLt|nvrtc|"
    r"nvJitLink|nccl|cupti)\.so"
)


def main() -> int:
    """Prints what `TorchBuild` holds."""
    import torch

    # Loads cuDNN, so that it is among the libraries; no context is created.
    cudnn = torch.backends.cudnn.version() or 0
    # torch.cuda.get_arch_list() is empty without a GPU; this is what it would read.
    flags = torch._C._cuda_getArchFlags() if torch.version.cuda else None
    found: dict[str, Any] = {
        "version": torch.__version__,
        "cuda": torch.version.cuda or "",
        "cudnn": cudnn,
        "architectures": (flags or "").split(),
        "libraries": loaded(Path("/proc/self/maps").read_text(errors="replace")),
        "folders": own_folders(Path(torch.__file__).parent),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def loaded(maps: str) -> dict[str, list[str]]:
    """CUDA's libraries in a process's memory map: name -> every path that it came from."""
    found: dict[str, set[str]] = {}
    for line in maps.splitlines():
        path = line.partition("/")[2]
        name = path.rpartition("/")[2]
        if _OURS_TO_JUDGE.match(name):
            found.setdefault(name, set()).add("/" + path)
    return {name: sorted(paths) for name, paths in sorted(found.items())}


def own_folders(torch_folder: Path) -> list[str]:
    """Where the build's libraries really stand: links are followed, as the memory map does."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(one) for one in (spec.submodule_search_locations or [] if spec else [])]
    found = {os.path.realpath(torch_folder / "lib")}
    if (Path(sys.prefix) / "conda-meta").is_dir():
        found.add(os.path.realpath(Path(sys.prefix) / "lib"))
    for place in (*places, torch_folder):
        for path in place.glob("**/lib/lib*.so*"):
            found.add(str(Path(os.path.realpath(path)).parent))
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
