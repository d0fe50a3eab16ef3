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

    def found() -> "dict[str, dict[str, Part]]":
        known = operations()
        if name in known:
            known[name] = {which: broken(part, kind) for which, part in known[name].items()}
        return known

    return found


def broken(part: "Part", fault: str) -> "Part":
    import torch

    from machine.devices.probe_child import REFERENCE

    kind, _, condition = fault.partition("@")

    def changed(at: "ProbePlace") -> "Tensor":
        found = part(at)
        if at is REFERENCE or (condition == "cudnn" and not torch.backends.cudnn.enabled):
            return found
        if kind == "memory":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        if kind.isdigit():
            error = torch.AcceleratorError(f"CUDA error: number {kind}")
            error.error_code = int(kind)  # type: ignore[attr-defined]
            raise error
        if kind == "nan":
            return found.double() * float("nan")
        if kind == "wrong":
            return found.double() * 1.1
        raise RuntimeError(kind)

    return changed


def die(kind: str) -> None:
    if kind == "hang":
        time.sleep(3600)
    os.kill(os.getpid(), signal.Signals[kind])


if __name__ == "__main__":
    wanted = sys.argv.pop(1)
    if wanted.startswith("start:"):
        die(wanted.partition(":")[2])
    from machine.devices import probe_child

    probe_child.operations = with_fault(wanted)
    sys.exit(probe_child.main())
