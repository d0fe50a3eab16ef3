"""`python -m xtts accent`: the options of the command."""

import argparse
from pathlib import Path

SUMMARY = "measure how far an accent is on the way from a base to a person"
EPILOG = "It needs pocketsphinx and eight sentences, better 40 s in all; see docs/develop/evaluation.md."
_FOLDERS = {
    "person": "the person's recordings, a dataset with its English texts",
    "base": "the base voice, saying the same texts in files of the same names",
    "candidate": "the voice to measure, as the base",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    for role, what in _FOLDERS.items():
        parser.add_argument(f"--{role}", type=Path, metavar="DIR", required=True, help=what)
    parser.add_argument("--json", action="store_true", help="print JSON with stable names")


def run(arguments: argparse.Namespace) -> int:
    """As `extras.accent.comparison.run`."""
    from extras.accent import comparison

    return comparison.run(arguments.base, arguments.person, arguments.candidate, as_json=arguments.json)
