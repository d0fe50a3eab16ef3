"""`python -m train sample`: speaks with a saved epoch."""

import argparse

from train.settings import TrainSettings

SUMMARY = "speak the newest epoch again, or --epoch N"
PURPOSE = "Speaks with a saved epoch."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--epoch", type=int, metavar="N", help="the epoch (default: the newest)")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `train.run_commands.sample`."""
    from train import run_commands

    return run_commands.sample(settings, epoch=arguments.epoch)
