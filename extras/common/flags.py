"""The flags of a settings class and their fixed words, for shell completion."""

from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from machine.settings.types import fields, flag_of, means


def flag_values(kind: type[Any]) -> dict[str, tuple[str, ...]]:
    """Every flag of a settings class with its fixed words; none for a flag of any other value."""
    return {flag_of(name): _words(info) for name, info in fields(kind).items()}


def _words(info: FieldInfo) -> tuple[str, ...]:
    if info.annotation is bool:
        return ("on", "off")
    literals = _literals(info.annotation)
    none = means(info).none
    return (*literals, none) if literals and none else literals


def _literals(annotation: object) -> tuple[str, ...]:
    inner = get_args(annotation)
    if get_origin(annotation) is Literal:
        return inner
    return tuple(word for part in inner for word in _literals(part))
