"""TextError, and how its messages quote a text."""

from machine.errors import SotaqueError

_SHOWN_CHARACTERS = 24


class TextError(SotaqueError):
    """Text that cannot be spoken or learned; the message quotes it and says what is allowed."""


def excerpt(text: str) -> str:
    """A text for a message: quoted, and shortened to 24 characters."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")
