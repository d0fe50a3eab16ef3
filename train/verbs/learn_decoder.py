"""`python -m train learn-decoder`: trains the decoder of the best weights again."""

import argparse

from train.settings import TrainSettings

SUMMARY = "train the decoder of the best weights again, with more clips or time  [--minutes M]"
PURPOSE = "Trains the decoder of the best weights again, on up to 64 clips."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--minutes", type=float, metavar="M", help="the time limit (default: 10)")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `train.run_commands.learn_decoder`."""
    from train import run_commands

    return run_commands.learn_decoder(settings, minutes=arguments.minutes)
