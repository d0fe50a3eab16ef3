"""`python -m train extend`: its options, and what they become."""

import argparse
from pathlib import Path

from train.settings import TrainSettings

SUMMARY = """add a language that the base model does not speak (docs/languages.md)
--language L --dataset DIR --to BASE [--like L] [--pieces N]"""
PURPOSE = "Adds a language to the base model: tag, characters, pieces and their rows."
USAGE = "--language L --to BASE "
FOLDER = "BASE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add("--dataset", type=Path, metavar="DIR", help="the clips (default: DATASET_DIR)")
    add("--to", type=Path, metavar="BASE", help="the folder to write, for BASE_MODEL")
    add("--like", metavar="L", help="the base's language as whose tag the new one begins "
        "(default: the most similar)")  # fmt: skip
    add("--pieces", type=int, metavar="N",
        help="the most pieces of several characters to add (default: 500)")  # fmt: skip


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `extras.languages.command.run`."""
    from extras.languages import command

    return command.run(
        settings, to=arguments.to, dataset=arguments.dataset, like=arguments.like,
        most_pieces=arguments.pieces,
    )  # fmt: skip
