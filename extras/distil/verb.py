"""`python -m train distil`: its options, and what they become."""

import argparse
from pathlib import Path

from train.settings import TrainSettings

SUMMARY = """make a voice with half the layers, of the best weights (docs/onnx.md)
--to DIR [--layers N] [--epochs N] [--minutes M] [--texts FILE] [--force]"""
PURPOSE = "Makes a voice with fewer layers, which learns to speak as the run's best weights."
USAGE = "--to DIR "
FOLDER = "DIR"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add("--to", type=Path, metavar="DIR", help="the folder to write")
    add("--layers", type=int, metavar="N", help="the layers to keep (default: half of them)")
    add("--epochs", type=int, metavar="N", help="how often the lessons are learned "
        "(default: 15)")  # fmt: skip
    add("--minutes", type=float, metavar="M", help="the minutes of speech that the teacher "
        "says, and the most of the clips (default: 30)")  # fmt: skip
    add("--texts", type=Path, metavar="FILE", help="what the teacher says, a sentence a line "
        "(default: the transcripts, and halves of two)")  # fmt: skip
    add("--force", action="store_true", help="replace the voice that DIR holds")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `extras.distil.command.run`."""
    from extras.distil import command

    return command.run(settings, command.Asked(**vars(arguments)))
