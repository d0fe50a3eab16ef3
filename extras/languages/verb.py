"""`python -m train extend`: the options of the command."""

import argparse
from pathlib import Path

from train.settings import TrainSettings

SUMMARY = """add a language that the base model does not speak (docs/languages.md)
--language L --dataset DIR --to BASE [--like L] [--pieces N]"""
PURPOSE = "Adds a language to the base model: its tag, characters and pieces."
USAGE = "--language L --to BASE "
FOLDER = "BASE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add("--dataset", type=Path, metavar="DIR", help="the clips (default: DATASET_DIR)")
    add("--to", type=Path, metavar="BASE", help="the folder to write, for BASE_MODEL")
    add(
        "--like",
        metavar="L",
        help="the base's language whose tag initialises the new one (default: the most similar)",
    )
    add("--pieces", type=int, metavar="N", help="the most multi-character pieces to add (default: 500)")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `extras.languages.extension.run`."""
    from extras.languages import extension

    return extension.run(
        settings, to=arguments.to, dataset=arguments.dataset, like=arguments.like, max_pieces=arguments.pieces
    )
