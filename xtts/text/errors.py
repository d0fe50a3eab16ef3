"""TextError, and how its messages quote a text."""

from machine.errors import SotaqueError

_SHOWN_CHARACTERS = 24


class TextError(SotaqueError):
    """Text that cannot be spoken or learned; the sentence names it and what is allowed."""


def shown(text: str) -> str:
    """A word of a text in a message: quoted, and not too much of it."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")
