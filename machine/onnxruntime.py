"""Imports ONNX Runtime, or a package that uses it, with its telemetry off."""

import importlib
import os
from typing import Any


def import_quietly(name: str = "onnxruntime") -> Any:
    """Imports ONNX Runtime, or a package that uses it, with its telemetry off.

    From 1.31 on, its wheels for Linux write a device ID to ~/.cache/Microsoft and hold a client
    that sends events. ORT_DISABLE_TELEMETRY turns both off, if it is set before the import;
    `disable_telemetry_events` comes too late. Raises ImportError.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return importlib.import_module(name)
