"""Annotated types of settings, and how they are described, for `machine.settings.loading`."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.fields import FieldInfo

from machine.devices.selection import DEVICE_PATTERN, device_name

CONFIG = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False, extra="forbid")


@dataclass(frozen=True)
class Means:
    """What a user may write for a setting.

    Attributes:
        allowed: The allowed values, in words.
        none: The word that means None; "" if there is none.
        words: Whether it is a choice among fixed words, in any case.
        secret: Whether the value is masked when shown.
    """

    allowed: str
    none: str = ""
    words: bool = False
    secret: bool = False


def _expand_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:  # "~nobody"
        raise ValueError("That home folder does not exist.") from error


def _expand_path(path: Path) -> Path:
    expanded = _expand_home(path)
    try:
        expanded.is_file()
    except OSError as error:  # for example a name that is too long, or no permission above it
        raise ValueError(f"{error.strerror}.") from error
    return expanded


def _refuse_file(path: Path) -> Path:
    if (folder := _expand_path(path)).is_file():
        raise ValueError("It is a file.")
    return folder


def _split_names(value: object) -> object:
    """Splits "a, b" into its parts and drops empty ones."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


Folder = Annotated[Path, AfterValidator(_refuse_file), Means("a folder; `~` is your home folder")]
# Reading the dataset refuses a file, because its message explains how to cut a recording.
DatasetFolder = Annotated[Path, AfterValidator(_expand_path), Means("a folder; `~` is your home folder")]
Device = Annotated[
    str,
    StringConstraints(pattern=rf"^({DEVICE_PATTERN})$"),
    BeforeValidator(device_name),
    Means("auto, cpu, gpu or cuda (the best GPU), gpu:N or cuda:N", words=True),
]
SampleDevice = Annotated[
    str,
    StringConstraints(pattern=rf"^(off|{DEVICE_PATTERN})$"),
    BeforeValidator(device_name),
    Means("auto, cpu, gpu or cuda, gpu:N or cuda:N, or off", words=True),
]
Text = Annotated[str, StringConstraints(min_length=1)]
PathOrWord = Annotated[
    Text, AfterValidator(lambda text: str(_expand_home(Path(text))) if text[0] == "~" else text)
]
Address = Annotated[str, StringConstraints(pattern=r"^https?://[^/\s?#@]+(/[^\s?#]*)?$")]
Switch = Annotated[bool, Means("on or off", words=True)]
Positive = Annotated[int, Field(ge=1, lt=2**63)]
Count = Annotated[Positive, Means("a whole number from 1")]
AutoCount = Annotated[Positive | None, Means("a whole number from 1, or auto", none="auto")]
Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
Port = Annotated[int, Field(ge=1, le=65535), Means("a port from 1 to 65535")]


def fields(kind: type[object]) -> dict[str, FieldInfo]:
    """The fields of a settings class with their descriptions, the program's first, then the shared
    ones."""
    merged: dict[str, FieldInfo] = {}
    for base in kind.__mro__:
        infos: dict[str, FieldInfo] = base.__dict__.get("__pydantic_fields__", {})
        annotations = inspect.get_annotations(base)
        # pydantic reads the docstrings only of a class's own fields, so take each field from the
        # class that declares it.
        merged |= {name: info for name, info in infos.items() if name in annotations and name not in merged}
    return merged


def means(info: FieldInfo) -> Means:
    """What a user may write for a field; the outermost declaration counts."""
    return [item for item in info.metadata if isinstance(item, Means)][-1]


def purpose(info: FieldInfo) -> str:
    """The description of a setting in one line, from the string under its field."""
    return " ".join((info.description or "").split())


def display(info: FieldInfo, value: object) -> str:
    """A value as a user would write it; a secret as asterisks."""
    if value is None:
        return means(info).none
    if means(info).secret:
        return "********"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def flag_of(name: str) -> str:
    """NUM_EPOCHS -> --num-epochs"""
    return "--" + name.lower().replace("_", "-")
