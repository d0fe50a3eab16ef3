"""CuttingError: why recordings cannot be cut, with what to do about it."""

from machine.errors import SotaqueError


class CuttingError(SotaqueError):
    """Recordings, a text or a folder that cannot be used; nothing was written."""


class WorkersLost(SotaqueError):
    """Those who compute the steps of a cut cannot be had. What was heard is kept."""
