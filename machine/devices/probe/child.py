"""The probe's child process: runs each operation on one device, reports line by line.

Run as `python -m machine.devices.probe.child --device cuda:0`; `--device cpu` does the same without
a GPU. A JSON object a line on stdout, so that whoever dies or hangs here has said in what: started,
then device or refused, then doing and operation for each, then end.
"""

import argparse
import ctypes
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine.devices import cuda_errors
from machine.devices.health import OPERATIONS, OperationVerdict, Outcome
from machine.memory import mapped_libraries
from machine.process import reserve_stdout, write_json_line
from machine.storage.reading import read_text
from machine.threads import set_omp_passive

if TYPE_CHECKING:
    from machine.devices.probe.operations import Part

BF16_CAPABILITY = (8, 0)
_LIBRARY = re.compile(
    r"^lib(cuda|cudart|cufft|cublas|cublasLt|cudnn\w*|curand|cusolver|cusparse|nvrtc|nvJitLink)"
    r"[-.\d]*\.so[.\d]*$"
)
# cuda.h: CU_DEVICE_ATTRIBUTE_COMPUTE_MODE and CU_COMPUTEMODE_EXCLUSIVE_PROCESS.
_COMPUTE_MODE, _EXCLUSIVE_PROCESS = 20, 3


def main() -> int:
    """Checks one device; the exit status is 0 whenever there was an end to tell of."""
    parser = argparse.ArgumentParser(
        prog="python -m machine.devices.probe.child", description=__doc__
    )
    parser.add_argument("--device", required=True)
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--no-cudnn", dest="cudnn", action="store_false")
    arguments = parser.parse_args()
    set_omp_passive()
    answers = reserve_stdout()
    for event in check(arguments.device, arguments.operations.split(","), arguments.cudnn):
        write_json_line(answers, event)
    return 0


def check(device: str, names: list[str], cudnn: bool = True) -> Iterator[dict[str, Any]]:
    """Every event of one check, as it happens."""
    yield {"event": "started"}
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.enabled = cudnn
    try:
        facts = device_facts(device)
    except Exception as error:
        yield {"event": "refused", "kind": type(error).__name__, "text": str(error)}
        return
    yield {"event": "device", **facts}
    from machine.devices.probe.operations import operations

    for name, parts in operations().items():
        if name not in names or (name == "attention_bf16" and _older_than_bf16(device, facts)):
            continue
        yield {"event": "doing", "operation": name}
        found = verdict(name, parts, device)
        yield {"event": "operation", **asdict(found)}
        if found.outcome is Outcome.STICKY:  # whatever came next would say the same
            break
    libraries = mapped_libraries(read_text(Path("/proc/self/maps")), _LIBRARY)
    yield {"event": "end", "libraries": {name: paths[-1] for name, paths in libraries.items()}}


def device_facts(device: str) -> dict[str, Any]:
    """What a device says of itself. Raises what CUDA raises where it cannot be had."""
    if not device.startswith("cuda"):
        return {
            "count": 1, "name": device, "capability": [0, 0], "total_bytes": 0, "free_bytes": None,
            "exclusive": False,
        }  # fmt: skip
    import torch

    torch.cuda.init()
    found = torch.cuda.get_device_properties(device)
    return {
        "count": torch.cuda.device_count(), "name": found.name,
        "capability": [found.major, found.minor], "total_bytes": found.total_memory,
        "free_bytes": cuda_errors.free_bytes(device),
        "exclusive": _exclusive(int(device.partition(":")[2] or 0)),
    }  # fmt: skip


def verdict(name: str, parts: "dict[str, Part]", device: str) -> OperationVerdict:
    """Runs every part twice on `device` and once on the CPU; the first that is not right ends it.

    distance is the largest that was seen, to the CPU's result or between the two runs.
    """
    from machine.devices.probe.operations import REFERENCE, TOLERANCES, ProbePlace, distance

    tolerance, largest, begun = TOLERANCES[name], 0.0, time.perf_counter()

    def told(reason: str, outcome: Outcome) -> OperationVerdict:
        seconds = round(time.perf_counter() - begun, 3)
        finite = largest if largest < float("inf") else None  # JSON has no infinity
        return OperationVerdict(name, not reason, finite, tolerance, reason, seconds, outcome)

    for part_name, part in parts.items():
        reference = part(REFERENCE)
        try:
            runs = [part(ProbePlace(device)).cpu() for _ in range(2)]
        except Exception as error:
            found = cuda_errors.classify(error, cuda_errors.free_bytes(device))
            # The input is known to be good: what looks like bad data here is a bad library.
            known = found is not None and found.outcome is not Outcome.DATA
            words = (str(error).splitlines() or [type(error).__name__])[0][:300]
            return told(
                f"{name} failed ({part_name}): {words.rstrip('.')}.",
                found.outcome if found and known else Outcome.BUILD,
            )
        off = [distance(ours, reference) for ours in runs]
        between = distance(*runs)
        largest = max(largest, *off, between)
        if not max(off) <= tolerance or not between <= tolerance:
            why = "is off" if off[0] > tolerance else "gives other numbers the second time, off"
            by = "a non-finite value" if largest == float("inf") else f"{largest:.1e}"
            said = f"{name} {why} by {by} ({part_name}); allowed is {tolerance:g}."
            return told(said, Outcome.DEGRADED)
    return told("", Outcome.OK)


def _older_than_bf16(device: str, facts: dict[str, Any]) -> bool:
    return device.startswith("cuda") and tuple(facts["capability"]) < BF16_CAPABILITY


def _exclusive(index: int) -> bool:
    try:
        library, mode, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int()
        library.cuDeviceGet(ctypes.byref(handle), index)
        library.cuDeviceGetAttribute(ctypes.byref(mode), _COMPUTE_MODE, handle)
    except (OSError, AttributeError):
        return False
    return mode.value == _EXCLUSIVE_PROCESS


if __name__ == "__main__":
    sys.exit(main())
