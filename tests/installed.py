"""The extras of this copy, for tests that cover all of them and the few that span two."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from machine import extras

ROOT = Path(__file__).parents[1]


def has(name: str) -> bool:
    return (ROOT / "extras" / name / "__init__.py").is_file()


def missing() -> list[str]:
    """The extras that were deleted from this copy."""
    return [name for name in importlib.import_module("extras").NAMES if not has(name)]


def is_deleted(name: str) -> bool:
    """Whether a module or a path belongs to an extra that was deleted from this copy."""
    top, _, inner = name.removeprefix("tests.").replace("/", ".").partition(".")
    return top == "extras" and inner.partition(".")[0] in missing()


def needs(name: str) -> pytest.MarkDecorator:
    """Marks a test that spans two extras, one of which may be deleted."""
    return pytest.mark.skipif(not has(name), reason=f"extras/{name} is not installed")


def tables(name: str) -> list[ModuleType]:
    """`tests.extras.EXTRA.NAME` of each extra that has one: its rows for a test of the core."""
    found = [f"{entry.__name__}.{name}" for entry in extras.entries()]
    return [
        importlib.import_module(f"tests.{one}")
        for one in found
        if (ROOT / "tests" / one.replace(".", "/")).with_suffix(".py").is_file()
    ]
