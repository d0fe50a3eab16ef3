"""`python -m xtts doctor`: the options of the command."""

import argparse
import sys

SUMMARY = "check this machine and show how to fix it"
EPILOG = "It reads the environment and .env like the programs; see docs/settings.md."
# Each program, as messages name it, and the module that lists the settings it refuses.
_PREFLIGHTS = {"a run": "extras.common.training_preflight", "the service": "extras.doctor.serving_preflight"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--json", action="store_true", help="print JSON with stable names")
    parser.add_argument("--deep", action="store_true", help="also speak a sentence on each device")
    parser.add_argument("--no-cache", action="store_true", help="repeat every check")
    parser.add_argument("--fix-hints", action="store_true", help="print only the fixes")


def run(arguments: argparse.Namespace) -> int:
    """As `extras.doctor.examination.run`."""
    from extras.doctor import examination
    from extras.doctor.collection import ReadingPlace
    from xtts.voices.base_models import DEMO

    place = ReadingPlace(
        remembers=not arguments.no_cache,
        deep=arguments.deep,
        preflights=preflights(),
        trial=(sys.executable, "-m", "extras.doctor.trial_sentence"),
        models={"demo": DEMO / "model.pth"},
    )
    return examination.run(place, as_json=arguments.json, only_fixes=arguments.fix_hints)


def preflights() -> dict[str, tuple[str, ...]]:
    """Name of each program -> the command that checks its settings.

    The path of `.env` is appended to the command, which prints a JSON list of sentences.
    """
    return {program: (sys.executable, "-m", module) for program, module in _PREFLIGHTS.items()}
