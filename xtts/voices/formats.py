"""Formats of voices that extras add, such as ONNX models.

The module of such an extra (`VOICES`, see `machine.extras`) defines BACKEND, the value of that
setting; HEADER, the file that marks its folders; `licence_of(folder)`; `load_voice(files, compute)`;
and `export(source, to, kind)`, which returns a short description of the result.
"""

from pathlib import Path
from types import ModuleType

from machine import extras
from xtts.voices.base_models import BundleError


def format_of(folder: Path) -> ModuleType | None:
    """The format of a voice's folder; None for PyTorch's."""
    for module in extras.modules("VOICES"):
        if (folder / module.HEADER).is_file():
            return module
    return None


def format_for(backend: str) -> ModuleType:
    """The format that BACKEND names. Raises BundleError if its extra is not installed."""
    for module in extras.modules("VOICES"):
        if backend == module.BACKEND:
            return module
    raise BundleError(f"BACKEND={backend} needs extras/{backend}, which this copy of Sotaque lacks.")
