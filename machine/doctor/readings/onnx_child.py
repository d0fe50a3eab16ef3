"""Child process that loads ONNX Runtime's CUDA library alone and beside torch's.

Run as `python -m machine.doctor.readings.onnx_child FILE`; one JSON line.
"""

import ctypes
import json
import sys


def main() -> int:
    """Prints {"alone": "" or the loader's sentence, "with_torch": the same}."""
    alone = with_torch = fault_of(sys.argv[1])
    if alone:
        import torch  # noqa: F401 - for the libraries that it loads

        with_torch = fault_of(sys.argv[1])
    sys.stdout.write(json.dumps({"alone": alone, "with_torch": with_torch}) + "\n")
    return 0


def fault_of(path: str) -> str:
    """Why a library cannot be loaded, "" when it can."""
    try:
        ctypes.CDLL(path)
    except OSError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
