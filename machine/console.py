"""`sotaque VERB …`: runs a verb of training, of the model, of the service or of an extra."""

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from machine import commands, extras
from machine.devices.recovery import exit_after_fault
from machine.errors import SotaqueError

# The modules of the programs. Each has `main(words)`; training and the model also have `modules()`,
# verb -> module. They are imported by name when needed, because this package imports none of them.
_TRAIN, _XTTS, _API = "train.__main__", "xtts.__main__", "api.__main__"
# Aliases of verbs, for suggestions.
_ALIASES = {"run": "train", "finetune": "train", "say": "speak", "tts": "speak", "api": "serve"}
# The last lines of `sotaque --help`.
ENDING = """\
`sotaque COMMAND --help` describes a command. Settings are flags, lines of .env, or environment
variables (docs/settings.md). docs/errors.md lists the exit codes."""


@dataclass(frozen=True)
class Verb:
    """One verb.

    Attributes:
        summary: What it does, in one line.
        run: Runs it with the words that follow it, and returns its exit code.
        usage: The words after the verb, if its help does not include a usage.
    """

    summary: str
    run: Callable[[Sequence[str]], int]
    usage: str = ""


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
    name, *arguments = words or ["--help"]
    if name in ("-h", "--help"):
        sys.stdout.write(f"{_overview()}\n")
        return 0 if words else 2
    if name == "--version":
        sys.stdout.write(f"{commands.version()}\n")
        return 0
    try:
        verb = _find_verb(name)
        if not {"-h", "--help"} & set(arguments):
            return verb.run(arguments)
        if verb.usage:
            purpose = f"{verb.summary[0].upper()}{verb.summary[1:]}."
            sys.stdout.write(f"usage: sotaque {name} {verb.usage}\n\n{purpose}\n\n")
        try:
            return verb.run(arguments)
        finally:
            if pages := extras.first("HELP"):
                sys.stdout.write(pages.examples_of(name))
    except SotaqueError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def verbs() -> dict[str, Verb]:
    """All verbs by name."""
    train, xtts, api = (importlib.import_module(name) for name in (_TRAIN, _XTTS, _API))
    by_name: dict[str, Verb] = {}
    for name, module in train.modules().items():
        usage = "[settings]" if name == "run" else ""
        verb = Verb(_summary(module), partial(_run_after, train.main, name), usage)
        by_name["train" if name == "run" else name] = verb
    for name, module in xtts.modules().items():
        by_name[name] = Verb(_summary(module), partial(_run_after, xtts.main, name))
    by_name["serve"] = Verb("speak over HTTP, and show the page", api.main, "[settings]")
    for name, module in extras.verbs("sotaque").items():
        entry: Any = importlib.import_module(module)
        by_name[name] = Verb(_summary(module), entry.main, entry.USAGE)
    return by_name


def _overview() -> str:
    """The page of `sotaque --help`, in groups with examples if an extra has these."""
    if pages := extras.first("HELP"):
        return str(pages.overview())
    return "\n".join([*heading(), "", *rows(verbs()), "", ENDING])


def heading() -> list[str]:
    """The first lines of `sotaque --help`."""
    purpose = "Fine-tune XTTS-v2 on your voice, listen to every epoch, serve the best."
    return ["usage: sotaque COMMAND [options]", "", purpose]


def rows(verbs_by_name: Mapping[str, Verb]) -> list[str]:
    """A line for each verb, with its summary."""
    return [f"  {name:15}{verb.summary}" for name, verb in verbs_by_name.items()]


def _find_verb(name: str) -> Verb:
    verbs_by_name = verbs()
    if name in verbs_by_name:
        return verbs_by_name[name]
    closest = next(iter(difflib.get_close_matches(name, verbs_by_name, n=1)), _ALIASES.get(name, ""))
    hint = f"Did you mean `sotaque {closest}`? " if closest in verbs_by_name else ""
    raise SotaqueError(f"Unknown command {name!r}. {hint}`sotaque --help` lists the commands.")


def _summary(module: str) -> str:
    """The first line of a module's SUMMARY; the others are for `python -m train --help`."""
    first_line: str = importlib.import_module(module).SUMMARY.splitlines()[0]
    return first_line.partition("  [")[0]


def _run_after(program: Callable[[Sequence[str]], int], name: str, words: Sequence[str]) -> int:
    return program([name, *words])
