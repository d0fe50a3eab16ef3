"""The arguments of `xtts read`, and the order that they make: a book, its chapters, voices and formats.

Importing this module does not import torch.
"""

import argparse
import contextlib
import re
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from extras.books.book import Book, BookError
from extras.books.formats.book_reader import FORMATS as BOOK_FORMATS
from extras.books.formats.book_reader import read_book
from extras.common.steps import Steps, steps_for
from machine.memory import address_space_bytes
from machine.text import size_words
from xtts.arguments import TAKES

FORMS = ("wav", "flac", "mp3", "opus", "m4a", "m4b", "epub")
MAX_RETAKES = 9
# 20 million characters in the shortest paragraphs needed 0.55 GB.
MAX_READING_BYTES = 2 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that `speak` does not have."""
    parser.add_argument("book", type=Path, metavar="BOOK", help=", ".join(BOOK_FORMATS))
    parser.set_defaults(called="")
    parser.add_argument(
        "--to",
        type=Path,
        required=True,
        metavar="DIR",
        help="the folder for the spoken sentences and the finished files",
    )
    parser.add_argument(
        "--plan", action="store_true", help="print the plan and speak five sample sentences only"
    )
    parser.add_argument(
        "--chapters", default="", metavar="1-3,5", help="the chapters to speak, by their numbers in the plan"
    )
    parser.add_argument(
        "--chapter-voice",
        action="append",
        default=[],
        metavar="2-4=anna",
        help="a named speaker of the voice for some chapters",
    )
    parser.add_argument(
        "--format",
        default="m4b,mp3",
        metavar="m4b,flac",
        help=f"the formats to write, any of {', '.join(FORMS)} (default: m4b,mp3)",
    )
    parser.add_argument(
        "--captions",
        default="",
        metavar="srt,vtt,json",
        help="also write captions with word times for each chapter",
    )
    parser.add_argument("--footnotes", action="store_true", help="speak footnotes too")
    parser.add_argument(
        "--retakes",
        type=int,
        default=1,
        help="the maximum number of retakes of a sentence that is faulty or misheard (default: 1)",
    )
    parser.add_argument(
        "--takes",
        type=int,
        default=1,
        metavar="N",
        help=f"{TAKES.min} to {TAKES.max}: speak N takes of each sentence "
        "together and keep the best, by its voice, words and endings "
        "(default: 1)",
    )
    parser.add_argument(
        "--recogniser",
        default="off",
        metavar="pocketsphinx|FOLDER|off",
        help="the recogniser that checks the words, for --retakes",
    )
    parser.add_argument(
        "--again", action="append", default=[], metavar="KEY", help="speak a sentence of report.html again"
    )
    parser.add_argument(
        "--at-once",
        type=int,
        metavar="N",
        help="the number of sentences spoken together (default: 4; with Ray: 1)",
    )
    parser.add_argument("--ray", action="store_true", help="speak on Ray; RAY_ADDRESS names a cluster")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="the number of Ray workers to start (default: all cores)"
    )


@dataclass(frozen=True)
class Order:
    """The checked arguments of a run.

    Attributes:
        chapters: The numbers of the chapters to speak.
        speakers: Named speakers, by chapter number.
        forms, captions: The formats to write.
    """

    book: Book
    folder: Path
    chapters: Sequence[int]
    speakers: dict[int, str]
    forms: Sequence[str]
    captions: Sequence[str]
    new_steps: Callable[[], Steps]


def order_of(arguments: argparse.Namespace) -> Order:
    """Reads the book and checks the arguments. Raises BookError; SotaqueError without Ray."""
    new_steps = steps_for(arguments.ray, arguments.workers)
    if arguments.at_once is None:
        arguments.at_once = 4 if new_steps is Steps else 1
    for name, value, minimum, maximum in (
        ("--retakes", arguments.retakes, 0, MAX_RETAKES),
        ("--at-once", arguments.at_once, 1, 64),
        ("--takes", arguments.takes, TAKES.min, TAKES.max),
    ):
        if not minimum <= value <= maximum:
            raise BookError(f"{name} is {value}; allowed: {minimum} to {maximum}.")
    forms = _parse_choices("--format", arguments.format, FORMS)
    captions = _parse_choices("--captions", arguments.captions, ("srt", "vtt", "json"))
    if {"m4b", "m4a"} & set(forms):
        from extras.books.writing.audiobook import missing_encoder
        from xtts.sound_endings import av_is_installed

        if not av_is_installed():
            raise BookError(missing_encoder())
    book = _read_with_limit(arguments.book, arguments.called)
    count = len(book.read_aloud)
    chapters = _parse_chapters("--chapters", arguments.chapters or f"1-{count}", count)
    speakers = dict[int, str]()
    for choice in arguments.chapter_voice:
        numbers, equals, name = choice.partition("=")
        if not equals or not name.strip():
            raise BookError(f"--chapter-voice {choice} is not valid: write 2=anna or 2-4=anna.")
        speakers |= dict.fromkeys(_parse_chapters("--chapter-voice", numbers, count), name.strip())
    return Order(book, arguments.to, chapters, speakers, forms, captions, new_steps)


def _read_with_limit(path: Path, called: str) -> Book:
    """Reads the book with a limit on memory, because it may be malicious."""
    try:
        with limited_memory(MAX_READING_BYTES):
            return read_book(path, called)
    except MemoryError:
        raise BookError(
            f"{path} needs more than {size_words(MAX_READING_BYTES)} of memory to be read, which "
            "is too much for a book. It is refused."
        ) from None


@contextlib.contextmanager
def limited_memory(num_bytes: int) -> Iterator[None]:
    """Limits this process, including its other threads, to `num_bytes` of further memory. Beyond
    that, allocations raise MemoryError."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    new_limit = address_space_bytes() + num_bytes
    if soft_limit != resource.RLIM_INFINITY:
        new_limit = min(new_limit, soft_limit)
    resource.setrlimit(resource.RLIMIT_AS, (new_limit, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft_limit, hard_limit))


def _parse_choices(name: str, value: str, allowed: Sequence[str]) -> list[str]:
    names = [part.strip() for part in value.split(",") if part.strip()]
    if unknown := [part for part in names if part not in allowed]:
        raise BookError(f"{name} names {', '.join(unknown)}; allowed: {', '.join(allowed)}.")
    return list(dict.fromkeys(names))


def _parse_chapters(name: str, value: str, count: int) -> list[int]:
    """The chapters of `1-3,5`."""
    numbers = set[int]()
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= count:
            raise BookError(
                f"{name} {value[:40]} is not valid: write numbers from 1 to {count}, as in 1-3,5."
            )
        numbers |= set(range(first, last + 1))
    return sorted(numbers)
