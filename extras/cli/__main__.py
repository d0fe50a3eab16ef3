"""`sotaque VERB …`: runs a verb of training, of the model, of the service or of an extra."""

import difflib
import os
import sys
from collections.abc import Sequence

from extras.cli import help_pages, verbs
from machine import commands
from machine.devices.recovery import exit_after_fault
from machine.errors import SotaqueError

# Aliases of verbs, for suggestions.
_OTHER_NAMES = {"run": "train", "finetune": "train", "say": "speak", "tts": "speak", "api": "serve"}


def main() -> None:
    """The entry point of the console script."""
    try:
        try:
            code = run(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # For example, `… | head` has closed the pipe. Discards the rest of the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    exit_after_fault(code)


def run(words: Sequence[str]) -> int:
    """Runs one verb and returns its exit code; prints the message of a SotaqueError."""
    name, *rest = words or ["--help"]
    if name in ("-h", "--help"):
        print(help_pages.overview())
        return 0 if words else 2
    if name == "--version":
        print(commands.version())
        return 0
    try:
        verb = _found(name)
        if not {"-h", "--help"} & set(rest):
            return verb.run(rest)
        print(help_pages.beginning(name, verb), end="")
        try:
            return verb.run(rest)
        finally:
            print(help_pages.examples_of(name), end="")
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _found(name: str) -> verbs.Verb:
    known = verbs.find_all()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1) or [_OTHER_NAMES.get(name, "")]
    hint = f"Did you mean `sotaque {close[0]}`? " if close[0] in known else ""
    raise SotaqueError(f"Unknown command {name!r}. {hint}`sotaque --help` lists the commands.")


if __name__ == "__main__":
    main()
