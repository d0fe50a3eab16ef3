"""The probe's child with a fault, given as its first argument: `OPERATION:FAULT[@cudnn]`.

FAULT: a signal such as SIGSEGV, `hang`, a CUDA error number such as 710, `wrong`, `nan`, `memory`
or an error's text. With `@cudnn` it occurs only while cuDNN is on. The operation `start` fails
before anything else runs.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from machine.devices.probe_child import Part, ProbePlace


def with_fault(fault: str) -> "Callable[[], dict[str, dict[str, Part]]]":
    """A replacement for `probe_child.operations`."""
    from machine.devices.probe_child import operations

    name, _, kind = fault.partition(":")

    def patched() -> "dict[str, dict[str, Part]]":
        parts = operations()
        if name in parts:
            parts[name] = {which: broken(part, kind) for which, part in parts[name].items()}
        return parts

    return patched


def broken(part: "Part", fault: str) -> "Part":
    import torch

    from machine.devices.probe_child import REFERENCE

    kind, _, condition = fault.partition("@")

    def changed(at: "ProbePlace") -> "Tensor":
        result = part(at)
        if at is REFERENCE or (condition == "cudnn" and not torch.backends.cudnn.enabled):
            return result
        if kind == "memory":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        if kind.isdigit():
            error = torch.AcceleratorError(f"CUDA error: number {kind}")
            error.error_code = int(kind)  # type: ignore[attr-defined]
            raise error
        if kind == "nan":
            return result.double() * float("nan")
        if kind == "wrong":
            return result.double() * 1.1
        raise RuntimeError(kind)

    return changed


def die(kind: str) -> None:
    if kind == "hang":
        time.sleep(3600)
    os.kill(os.getpid(), signal.Signals[kind])


if __name__ == "__main__":
    fault = sys.argv.pop(1)
    if fault.startswith("start:"):
        die(fault.partition(":")[2])
    from machine.devices import probe_child

    probe_child.operations = with_fault(fault)
    sys.exit(probe_child.main())
