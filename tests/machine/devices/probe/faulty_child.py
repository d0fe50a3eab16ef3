"""The probe's real child with a fault, told as its first argument: `fft:SIGSEGV`, `:hang`, `:710`,
`:wrong`, `:flaky`, `:nan`, `:memory` or an error's text; `start` is before the first operation.
`@cudnn` behind it: with cuDNN only; `@LD_LIBRARY_PATH`: while that is set."""

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from machine.devices.probe import child

if TYPE_CHECKING:
    from torch import Tensor

    from machine.devices.probe.operations import Part, ProbePlace


def with_fault(fault: str) -> "Callable[[], dict[str, dict[str, Part]]]":
    """In the place of `operations.operations`."""
    import torch

    from machine.devices.probe.operations import operations

    name, _, kind = fault.partition(":")
    kind, _, condition = kind.partition("@")

    def found() -> "dict[str, dict[str, Part]]":
        met = {"": True, "cudnn": torch.backends.cudnn.enabled,
               "LD_LIBRARY_PATH": "LD_LIBRARY_PATH" in os.environ}  # fmt: skip
        known = operations()
        if name in known and met[condition]:
            known[name] = {which: broken(part, kind) for which, part in known[name].items()}
        return known

    return found


def broken(part: "Part", kind: str) -> "Part":
    import torch

    from machine.devices.probe.operations import REFERENCE

    runs = itertools.count()

    def changed(at: "ProbePlace") -> "Tensor":
        found = part(at)
        if at is REFERENCE:
            return found
        run = next(runs)
        if kind == "memory":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        if kind.isdigit():
            error = torch.AcceleratorError(f"CUDA error: number {kind}")
            error.error_code = int(kind)  # type: ignore[attr-defined]
            raise error
        if kind == "nan":
            return found.double() * float("nan")
        if kind in ("wrong", "flaky"):
            return found.double() * (1.0 if kind == "flaky" and run == 0 else 1.1)
        raise RuntimeError(kind)

    return changed


def dying(check: Callable[..., Iterator[dict[str, Any]]], kind: str) -> Any:
    """In the place of `child.check`: dies, or hangs, behind its first word."""

    def found(*given: Any) -> Iterator[dict[str, Any]]:
        events = check(*given)
        yield next(events)
        if kind == "hang":
            time.sleep(3600)
        os.kill(os.getpid(), signal.Signals[kind])
        yield from events

    return found


if __name__ == "__main__":
    wanted = sys.argv.pop(1)
    if wanted.startswith("start:"):
        child.check = dying(child.check, wanted.partition(":")[2])
    else:
        from machine.devices.probe import operations

        operations.operations = with_fault(wanted)
    sys.exit(child.main())
