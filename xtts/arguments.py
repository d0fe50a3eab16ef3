"""Bounds of speed, temperature and other arguments, for Python, the command line and HTTP."""

import os
import re
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, get_args

from machine.devices.selection import DEVICE_PATTERN, SpeakPrecision, device_name
from machine.errors import SotaqueError

PRECISIONS: tuple[str, ...] = get_args(SpeakPrecision)
_MAX_EXCERPT_CHARACTERS = 60


class ArgumentError(SotaqueError):
    """An invalid argument; the message has its name, its value and the allowed values."""


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest allowed number."""

    min: float
    max: float


SEED = Bounds(0, 2**63 - 1)
SPEED = Bounds(0.25, 4.0)
TEMPERATURE = Bounds(0.0, 2.0)
TAKES = Bounds(1, 16)


def number(name: str, value: object, bounds: Bounds) -> float:
    """Checks a number, which may be numpy's. Raises ArgumentError."""
    if isinstance(value, bool) or not isinstance(value, Real) or not _is_within(value, bounds):
        raise _refusal(name, value, f"a number from {bounds.min:g} to {bounds.max:g}")
    return float(value)


def whole_number(name: str, value: object, bounds: Bounds) -> int:
    """Checks a whole number, which may be numpy's. Raises ArgumentError."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not _is_within(value, bounds):
        raise _refusal(name, value, f"a whole number from {bounds.min:g} to {bounds.max}")
    return int(value)


def text(name: str, value: object) -> str:
    """Checks a string. Raises ArgumentError."""
    if not isinstance(value, str):
        raise _refusal(name, value, "a text (str)")
    return value


def device(name: str, value: object) -> str:
    """Checks a device and returns PyTorch's name for it. Raises ArgumentError."""
    torch_name = str(device_name(text(name, value)))
    if not re.fullmatch(DEVICE_PATTERN, torch_name):
        raise _refusal(name, value, "auto, cpu, gpu, gpu:N, cuda or cuda:N")
    return torch_name


def switch(name: str, value: object) -> bool:
    """Checks a boolean. Accepts True and False only, because the string "no" would count as true.
    Raises ArgumentError."""
    if not isinstance(value, bool):
        raise _refusal(name, value, "True or False")
    return value


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Checks that a value is one of the allowed words. Raises ArgumentError."""
    if not isinstance(value, str) or value not in allowed:
        raise _refusal(name, value, ", ".join(allowed))
    return value


def path(name: str, value: "str | os.PathLike[str]") -> Path:
    """Checks a path, which need not exist, and expands `~`. Raises ArgumentError, also for a path
    that the file system cannot look up."""
    path_text = value if isinstance(value, str) else getattr(value, "__fspath__", lambda: None)()
    if not isinstance(path_text, str) or not path_text:
        raise _refusal(name, value, "a path (str or pathlib.Path)")
    try:
        expanded = Path(path_text).expanduser()
        expanded.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, "~nobody", a NUL byte
        raise ArgumentError(f"{name} is {excerpt(value)}, which is not a valid path: {error}") from None
    return expanded


def excerpt(value: object) -> str:
    """A value as text for a message, shortened to 60 characters."""
    try:
        shown = repr(value)
    except ValueError:  # Python does not print an integer of more than 4,300 digits
        return f"a very large {type(value).__name__}"
    shown = shown.encode(errors="backslashreplace").decode()
    if len(shown) <= _MAX_EXCERPT_CHARACTERS:
        return shown
    return shown[: _MAX_EXCERPT_CHARACTERS - 1] + "…"


def _is_within(value: Any, bounds: Bounds) -> bool:
    # NaN compares as False.
    return bool(bounds.min <= value <= bounds.max)


def _refusal(name: str, value: object, allowed: str) -> ArgumentError:
    return ArgumentError(f"{name} is {excerpt(value)}; allowed: {allowed}.")
