"""`python -m train evaluate`: judges the base, every saved epoch and blends."""

import argparse

from train.settings import TrainSettings

SUMMARY = "judge the base, every saved epoch and blends, and report the best one  [--json]"
PURPOSE = "Judges the base, every saved epoch and blends. Reports which is best, and why."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument(
        "--json", action="store_true", help="print evaluation.json; the log goes to stderr"
    )


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `train.run_commands.evaluate`."""
    from train import run_commands

    return run_commands.evaluate(settings, as_json=arguments.json)
