"""Finds the weights of PerTh in the installed package, without importing torch."""

from importlib import metadata
from pathlib import Path

from machine import commands

PACKAGE = "resemble-perth"
WEIGHTS = "perth/perth_net/pretrained/implicit/perth_net_250000.pth.tar"


def weights_file() -> Path | None:
    """The weights; None without the package, or with a version that has others."""
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(WEIGHTS)))
    except metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def missing() -> str | None:
    """Why WATERMARK=perth cannot be used on this machine; None if it can."""
    if weights_file() is not None:
        return None
    command = commands.install_extra("watermark")
    return (
        f"WATERMARK=perth needs the weights of {PACKAGE}, which are not installed. Install them "
        f"with: {command}, or set WATERMARK=off."
    )
