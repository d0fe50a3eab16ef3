"""The watermark in all speech of this process (WATERMARK), which `extras/watermark` computes.

Importing this module does not import torch.
"""

from types import ModuleType

from machine import extras
from machine.errors import SotaqueError
from xtts.model.streaming_vocoder import Samples

# The module of the watermark in use. Like torch's threads, it applies to a whole process.
_used: list[ModuleType] = []


def use(kind: str) -> None:
    """Adds the watermark to all later speech of this process; `off` changes nothing. Raises
    SotaqueError if the extra or its weights are missing."""
    if kind == "off" or _used:
        return
    module = extras.first("WATERMARK")
    if module is None:
        raise SotaqueError(f"WATERMARK={kind} needs extras/watermark, which this copy of Sotaque lacks.")
    module.load()
    _used.append(module)


def mark(chunk: Samples) -> Samples:
    """Sound `[samples]` at 24 kHz, a tensor on the CPU or an array, with the watermark in use."""
    return _used[0].mark(chunk) if _used else chunk
