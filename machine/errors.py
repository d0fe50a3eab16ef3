"""SotaqueError: the base of every error that a user can fix, with its exit code.

Its text says what is wrong, the value seen, and what to do. Entry points print the text without a
traceback and exit with `exit_code`.
"""


class SotaqueError(Exception):
    """An error whose text tells the user how to fix it."""

    exit_code: int = 2
