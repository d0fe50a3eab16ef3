"""Cuts of recordings that join clips of the demo dataset (`tests.tapes`)."""

import csv
import hashlib
import importlib.util
from pathlib import Path

import pytest

from train.__main__ import main


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder and below."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def account_of(folder: Path, reason: str = "") -> list[dict[str, str]]:
    """The rows of a cut's account, or only those with a reason."""
    with (folder / "account.csv").open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if not reason or row["reason"] == reason]


def cut(recording: Path, to: Path, *more: object) -> int:
    return main(["cut", str(recording), "--to", str(to), *map(str, more)])


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Hides an installed package."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == package else real(name)
    )
