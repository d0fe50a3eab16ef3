"""`python -m train queue`: its options."""

import argparse

from train.settings import TrainSettings

SUMMARY = "take trainings out of QUEUE_DIR, one at a time  [--once]"
PURPOSE = "Takes trainings out of QUEUE_DIR, oldest first, one at a time (docs/page.md)."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--once", action="store_true", help="end when no training is left")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `extras.studio.jobs.trainer.run`."""
    from extras.studio.jobs import trainer

    return trainer.run(settings, once=arguments.once)
