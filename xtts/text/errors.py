"""TextError, and how its messages quote a text."""

from machine.errors import SotaqueError

_SHOWN_CHARACTERS = 24


class TextError(SotaqueError):
    """Text that cannot be spoken or learned; the message quotes it and says what is allowed."""


def shown(text: str) -> str:
    """A part of a text for a message: quoted and shortened."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")
