"""`python -m xtts read`: the options of the command."""

import argparse
import functools
from typing import TYPE_CHECKING

from extras.books import order, production
from xtts.text.languages import tag_of
from xtts.verbs import voice_arguments

if TYPE_CHECKING:
    from xtts.inference.loaded_voice import LoadedVoice

SUMMARY = "read a book aloud, into files with chapters"
USAGE = "BOOK --to DIR "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    voice_arguments.add_arguments(parser)
    parser.add_argument(
        "--language", default="", type=tag_of, help="language of the text (default: that of the book)"
    )
    order.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """As `extras.books.production.run`."""
    voice_arguments.take_settings(arguments)
    # Ray workers also use this to open the voice.
    return production.run(arguments, functools.partial(_voice_of, arguments))


def _voice_of(arguments: argparse.Namespace) -> "LoadedVoice":
    return voice_arguments.load_voice(arguments, voice_arguments.voice_files_of(arguments))
