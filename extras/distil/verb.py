"""`python -m train distil`: the options of the command."""

import argparse
from pathlib import Path

from extras.distil.options import DEFAULT_EPOCHS, DEFAULT_MINUTES, DistilOptions
from train.settings import TrainSettings

SUMMARY = """distil the best weights into a voice with half the layers (docs/onnx.md)
--to DIR [--layers N] [--epochs N] [--minutes M] [--texts FILE] [--force]"""
PURPOSE = "Trains a voice with fewer layers to imitate the run's best weights."
USAGE = "--to DIR "
FOLDER = "DIR"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add("--to", type=Path, metavar="DIR", help="the folder to write")
    add("--layers", type=int, metavar="N", help="the layers to keep (default: half of them)")
    add(
        "--epochs",
        type=int,
        default=DEFAULT_EPOCHS,
        metavar="N",
        help=f"the number of passes over the lessons (default: {DEFAULT_EPOCHS})",
    )
    add(
        "--minutes",
        type=float,
        default=DEFAULT_MINUTES,
        metavar="M",
        help=f"the minutes of the teacher's speech, and the limit for clips (default: {DEFAULT_MINUTES:g})",
    )
    add(
        "--texts",
        type=Path,
        metavar="FILE",
        help="the texts for the teacher, a sentence per line "
        "(default: the transcripts and combinations of them)",
    )
    add("--force", action="store_true", help="replace the voice in DIR")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `extras.distil.distillation.run`."""
    from extras.distil import distillation

    return distillation.run(settings, DistilOptions(**vars(arguments)))
