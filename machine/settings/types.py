"""Annotated types of settings, and how they are described.

Used by machine.settings.loading, and by the settings classes of both programs.
"""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.fields import FieldInfo

CONFIG = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False, extra="forbid")


@dataclass(frozen=True)
class Means:
    """What a person may write for a setting. `none` is the word for None (empty: no word).

    words: a choice among fixed words, in any case.
    """

    allowed: str
    none: str = ""
    words: bool = False
    secret: bool = False


def _home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:  # "~nobody"
        raise ValueError("There is no such home folder.") from error


def _reachable(path: Path) -> Path:
    found = _home(path)
    try:
        found.is_file()
    except OSError as error:  # a name that is too long, a folder above that may not be searched
        raise ValueError(f"{error.strerror}.") from error
    return found


def _folder(path: Path) -> Path:
    if (found := _reachable(path)).is_file():
        raise ValueError("It is a file.")
    return found


def _separated(value: Any) -> Any:
    """`a, b` as its parts; empty ones count for nothing."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


Folder = Annotated[Path, AfterValidator(_folder), Means("a folder; `~` is your home folder")]
# A file is refused by who reads the dataset: of a recording it says how to cut it.
DatasetFolder = Annotated[
    Path, AfterValidator(_reachable), Means("a folder; `~` is your home folder")
]
Text = Annotated[str, StringConstraints(min_length=1)]
Place = Annotated[
    Text,
    AfterValidator(lambda text: str(_home(Path(text))) if text[0] == "~" else text),
]
Address = Annotated[str, StringConstraints(pattern=r"^https?://[^/\s?#@]+(/[^\s?#]*)?$")]
Switch = Annotated[bool, Means("on or off", words=True)]
Positive = Annotated[int, Field(ge=1, lt=2**63)]
Count = Annotated[Positive, Means("a whole number from 1")]
AutoCount = Annotated[Positive | None, Means("a whole number from 1, or auto", none="auto")]
Names = Annotated[tuple[str, ...], BeforeValidator(_separated)]
SpeakPrecision = Literal["auto", "fp32", "bf16", "int8", "int4"]
Port = Annotated[int, Field(ge=1, le=65535), Means("a port from 1 to 65535")]


def fields(kind: type[Any]) -> dict[str, FieldInfo]:
    """The fields of a settings class, its own before the shared ones, each with its description."""
    found: dict[str, FieldInfo] = {}
    for base in kind.__mro__:
        known: dict[str, FieldInfo] = base.__dict__.get("__pydantic_fields__", {})
        own = inspect.get_annotations(base)
        # pydantic reads the docstrings of a class's own fields only: take each field where it is
        # declared.
        found |= {name: info for name, info in known.items() if name in own and name not in found}
    return found


def means(info: FieldInfo) -> Means:
    """What may be written there; the outermost declaration counts."""
    return [item for item in info.metadata if isinstance(item, Means)][-1]


def purpose(info: FieldInfo) -> str:
    """What a setting is: the string under its field, in one line."""
    return " ".join((info.description or "").split())


def shown(info: FieldInfo, value: Any) -> str:
    """A value as a person would write it; a secret as asterisks."""
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
