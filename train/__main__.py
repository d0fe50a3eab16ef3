"""The command line of training: finds the verb's module, parses its options and the settings."""

import argparse
import importlib
import logging
import sys
import textwrap
from collections.abc import Sequence
from typing import Protocol, cast

from machine import commands, extras
from machine.devices.recovery import exit_after_fault
from machine.errors import SotaqueError
from machine.threads import limit_omp_spinning
from train.settings import TrainSettings, load

log = logging.getLogger("train")

VERBS = {
    "run": "train.verbs.run",
    "check": "train.verbs.check",
    "prepare": "train.verbs.prepare",
    "sample": "train.verbs.sample",
    "evaluate": "train.verbs.evaluate",
    "learn-decoder": "train.verbs.learn_decoder",
    "export": "train.verbs.export",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code; prints the message of a SotaqueError."""
    limit_omp_spinning()
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in ("-h", "--help"):
        print(_help())
        return 0
    verb = words.pop(0) if words and not words[0].startswith("-") else "run"
    # With --json, stdout carries nothing but JSON.
    stream = sys.stderr if "--json" in words else sys.stdout
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=stream)
    logging.captureWarnings(True)
    try:
        verbs = modules()
        if verb not in verbs:
            raise SotaqueError(f"Unknown command {verb!r}. Use one of: {', '.join(verbs)}. See --help.")
        module, parser = open_verb(verb)
        options, rest = parser.parse_known_args(words)
        # Checked before anything large is imported.
        if (folder := getattr(module, "FOLDER", "")) and options.to is None:
            raise SotaqueError(f"{verb} needs --to {folder}, the folder to write. See --help.")
        settings, report = load(rest)
        for note in report.notes:
            log.info(note)
        if verb == "run":
            log.info(report.changed_settings())
        return module.run(settings, options)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:  # a run in progress handles its signals itself
        return 130


def modules() -> dict[str, str]:
    """Each verb and its module; the verbs of the extras come last."""
    return VERBS | extras.verbs("train")


class Verb(Protocol):
    """A module of `VERBS`. It may also have USAGE, FOLDER and `add_arguments`."""

    SUMMARY: str
    PURPOSE: str

    @staticmethod
    def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
        """Runs the verb and returns the exit code."""


def open_verb(verb: str) -> tuple[Verb, argparse.ArgumentParser]:
    """The module of a verb and the parser of its options. `run` has no options; its help lists the
    settings."""
    module = cast("Verb", importlib.import_module(modules()[verb]))
    parser = argparse.ArgumentParser(
        prog=commands.program(f"train {verb}"),
        add_help=verb != "run",
        allow_abbrev=False,
        usage=f"%(prog)s {getattr(module, 'USAGE', '')}[options] [settings]",
        description=module.PURPOSE,
        epilog=_settings_hint(),
    )
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    return module, parser


def _settings_hint() -> str:
    return (
        "Every setting is also a flag, such as --dataset-dir DIR. "
        f"`{commands.program('train run --help')}` lists the settings; docs/settings.md describes "
        "their values."
    )


def _help() -> str:
    lines = [f"usage: {commands.program('train')} [COMMAND] [options] [settings]", ""]
    lines += ["The command line of training; the default command is `run`.", ""]
    for verb, module in modules().items():
        first, *rest = importlib.import_module(module).SUMMARY.splitlines()
        lines += [f"{verb:15}{first}", *(f"{'':15}{line}" for line in rest)]
    return "\n".join([*lines, "", textwrap.fill(_settings_hint(), 79)])


if __name__ == "__main__":
    exit_after_fault(main())
