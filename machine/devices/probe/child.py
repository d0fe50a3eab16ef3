"""The probe's child process: runs each operation on one device and reports line by line.

Run it as `python -m machine.devices.probe.child --device cuda:0`; `--device cpu` needs no GPU. It
writes one JSON object per line, so that the parent knows the operation in which it died or hung:
started, then device or refused, then doing and operation for each operation, then end.
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

from machine import commands
from machine.devices import cuda_errors
from machine.devices.health import OPERATIONS, OperationVerdict, Outcome
from machine.memory import mapped_libraries
from machine.process import reserve_stdout, write_json_line
from machine.storage.reading import read_text
from machine.threads import limit_omp_spinning

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
    """Checks one device; exits with 0 if the check ran to its end, whatever it found."""
    parser = argparse.ArgumentParser(
        prog=commands.program("machine.devices.probe.child"), description=__doc__
    )
    parser.add_argument("--device", required=True)
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--no-cudnn", dest="cudnn", action="store_false")
    arguments = parser.parse_args()
    limit_omp_spinning()
    answers = reserve_stdout()
    for event in check(arguments.device, arguments.operations.split(","), arguments.cudnn):
        write_json_line(answers, event)
    return 0


def check(device: str, names: list[str], cudnn: bool = True) -> Iterator[dict[str, Any]]:
    """Yields every event of one check as it happens."""
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
        result = verdict(name, parts, device)
        yield {"event": "operation", **asdict(result)}
        if result.outcome is Outcome.STICKY:  # every later operation would fail the same way
            break
    libraries = mapped_libraries(read_text(Path("/proc/self/maps")), _LIBRARY)
    yield {"event": "end", "libraries": {name: paths[-1] for name, paths in libraries.items()}}


def device_facts(device: str) -> dict[str, Any]:
    """The properties of a device. Raises CUDA's own error if the device cannot be used."""
    if not device.startswith("cuda"):
        return {
            "count": 1, "name": device, "capability": [0, 0], "total_bytes": 0, "free_bytes": None,
            "exclusive": False,
        }  # fmt: skip
    import torch

    torch.cuda.init()
    properties = torch.cuda.get_device_properties(device)
    return {
        "count": torch.cuda.device_count(), "name": properties.name,
        "capability": [properties.major, properties.minor], "total_bytes": properties.total_memory,
        "free_bytes": cuda_errors.free_bytes(device),
        "exclusive": _exclusive(int(device.partition(":")[2] or 0)),
    }  # fmt: skip


def verdict(name: str, parts: "dict[str, Part]", device: str) -> OperationVerdict:
    """Runs every part twice on `device` and once on the CPU; stops at the first wrong one.

    The verdict's distance is the largest of all comparisons: with the CPU's result, and between the
    two runs.
    """
    from machine.devices.probe.operations import REFERENCE, TOLERANCES, ProbePlace, distance

    tolerance, largest, begun = TOLERANCES[name], 0.0, time.perf_counter()

    def result(reason: str, outcome: Outcome) -> OperationVerdict:
        seconds = round(time.perf_counter() - begun, 3)
        finite = largest if largest < float("inf") else None  # JSON has no infinity
        return OperationVerdict(name, not reason, finite, tolerance, reason, seconds, outcome)

    for part_name, part in parts.items():
        reference = part(REFERENCE)
        try:
            runs = [part(ProbePlace(device)).cpu() for _ in range(2)]
        except Exception as error:
            device_fault = cuda_errors.classify(error, cuda_errors.free_bytes(device))
            # The input is known to be valid: an error about data here means a faulty library.
            known = device_fault is not None and device_fault.outcome is not Outcome.DATA
            words = (str(error).splitlines() or [type(error).__name__])[0][:300]
            return result(
                f"{name} failed ({part_name}): {words.rstrip('.')}.",
                device_fault.outcome if device_fault and known else Outcome.BUILD,
            )
        off = [distance(ours, reference) for ours in runs]
        between = distance(*runs)
        largest = max(largest, *off, between)
        if not max(off) <= tolerance or not between <= tolerance:
            against = "the CPU's result" if off[0] > tolerance else "its own first run"
            by = "a non-finite value" if largest == float("inf") else f"{largest:.1e}"
            message = (
                f"{name} differs from {against} by {by} ({part_name}); allowed is {tolerance:g}."
            )
            return result(message, Outcome.DEGRADED)
    return result("", Outcome.OK)


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
