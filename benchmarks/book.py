"""`python -m benchmarks book` measures a book: plan, cost beside the plain batch, words, Ray.

Plan: `xtts read --plan` of a long book, with five spoken sentences. Speech: a book is spoken as
`xtts read` does it (takes with word times and verdicts, an MP3 for each chapter, an audiobook), and
some of its chapters also by the plain batch, in turns, which speaks the same sentences and keeps
nothing. The overhead is a ratio of CPU time over those chapters, which a busy machine changes less
than wall time. Words: paragraphs of the reporting set, in their first takes, after retakes by the
guard's verdicts, and after retakes by pocketsphinx, which also counts the errors: the last row is
by the judge that chose. Ray, only where it is asked for, with its package: `benchmarks.book_ray`.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import book_ray, guard_texts, measuring, tables, texts
from extras.books.book import Book, Chapter, Kind, Paragraph

if TYPE_CHECKING:
    from extras.books.speaking.book_voice import BookVoice
    from extras.books.speaking.narration import Chosen, Listener, Narration
    from extras.books.speaking.takes import TakeFolder

LANGUAGE = "en"
SENTENCES_A_PARAGRAPH = 5
FORM = "mp3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", default="plan,words,speech",
                        help="what is measured; also ray")  # fmt: skip
    parser.add_argument("--voice", default="demo", help="what `xtts read --voice` takes")
    parser.add_argument("--plan-words", type=int, default=60_000, help="of the book planned")
    parser.add_argument("--words", type=int, default=5_000, help="of the book spoken")
    parser.add_argument("--chapter-words", type=int, default=250)
    parser.add_argument("--every", type=int, default=2,
                        help="the plain batch speaks every so manieth chapter too")  # fmt: skip
    parser.add_argument("--texts", type=int, help="paragraphs of the reporting set; all by default")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--retakes", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="of Ray")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Figures of the parts."""
    parts, found = arguments.parts.split(","), dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if "plan" in parts:
            found["plan"] = plan(arguments, work)
        if "ray" in parts:
            path = text_file(made_book("workers", arguments.words, arguments.chapter_words), work)
            found["ray"] = book_ray.ways(path, arguments.voice, arguments.workers, work)
        if {"words", "speech"} & set(parts):
            from extras.books.speaking.book_voice import BookVoice
            from xtts.inference.compute_config import ComputeConfig
            from xtts.voices.loading import load_voice
            from xtts.voices.voice_files import VoiceSpec

            opened = load_voice(VoiceSpec(arguments.voice, tos_agreed=True), ComputeConfig())
            opened.prepare()
            voice = BookVoice(opened, arguments.at_once)
            if "words" in parts:
                found["words"] = words(arguments, voice, work / "words")
            if "speech" in parts:
                found["speech"] = speech(arguments, voice, work / "speech")
    return found


def made_book(name: str, words: int, chapter_words: int) -> Book:
    """A book of sentences from the grammar, no two alike; the same for a name and sizes."""
    grammar = guard_texts.grammar_of(f"book/{name}")
    said, chapters, total = set[str](), list[Chapter](), 0
    while total < words:
        lines: list[str] = []
        least = min(chapter_words, words - total)
        while (count := sum(texts.num_words(line) for line in lines)) < least:
            line = grammar.sentence()
            if line not in said:
                lines.append(line)
                said.add(line)
        total += count
        title = f"Chapter {len(chapters) + 1}"
        chapters.append(Chapter(title, [Paragraph(title, Kind.HEADING), *paragraphs(lines)]))
    return Book(f"A book of {name}", "A grammar", LANGUAGE, chapters)


def paragraphs(lines: Sequence[str]) -> list[Paragraph]:
    """Paragraphs of sentences."""
    places = range(0, len(lines), SENTENCES_A_PARAGRAPH)
    return [Paragraph(" ".join(lines[at : at + SENTENCES_A_PARAGRAPH])) for at in places]


def text_file(book: Book, folder: Path) -> Path:
    """The book as a file that `xtts read` takes."""
    path = folder / "book.txt"
    blocks = (one.text for chapter in book.chapters for one in chapter.paragraphs)
    path.write_text("\n\n".join(blocks), encoding="utf-8")
    return path


# ---- the plan ----


def plan(arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Seconds and memory of `xtts read --plan`, in a process of its own."""
    book = made_book("plans", arguments.plan_words, 3_000)
    path = text_file(book, work)
    command = [sys.executable, "-m", "xtts", "read", str(path), "--voice", arguments.voice,
               "--to", str(work / "planned"), "--plan"]  # fmt: skip
    peaks: list[int] = [0]
    began = time.perf_counter()
    code, usage = measuring.watched(
        command, lambda pid: peaks.append(measuring.memory_bytes("VmHWM", pid)), 0.1
    )
    if code:
        raise measuring.ChildFailed(f"{' '.join(command)} ended with {code}.")
    return {
        "words": sum(chapter.words for chapter in book.chapters),
        "chapters": len(book.chapters),
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(max(peaks) / 1e6),
    }


# ---- speech ----


@dataclass
class Cost:
    """CPU and wall seconds of a contestant."""

    cpu_seconds: float = 0.0
    seconds: float = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Adds what is done inside."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.cpu_seconds += time.process_time() - cpu
        self.seconds += time.perf_counter() - wall


def speech(arguments: argparse.Namespace, voice: "BookVoice", work: Path) -> dict[str, Any]:
    """The cost of a book beside that of its sentences alone, and its memory."""
    from extras.books.speaking.narration import Narration, Settings
    from extras.books.speaking.takes import TakeFolder
    from extras.books.writing.audiobook import write_audiobook
    from extras.books.writing.binding import BoundChapter
    from xtts.encoding import aac_is_installed

    book = made_book("chapters", arguments.words, arguments.chapter_words)
    narration = Narration(book, voice, TakeFolder(work / "sentences"), Settings(LANGUAGE))
    # Of the chapters that both speak; the others only fill the book.
    takes, files, alone, others = Cost(), Cost(), Cost(), Cost()
    bound, compared, resident = list[BoundChapter](), list[BoundChapter](), list[int]()
    plainly(voice, narration, 1)  # kernels are chosen, caches filled
    for number in range(1, len(book.chapters) + 1):
        both = number % arguments.every == 0 or len(book.chapters) < arguments.every
        # Who begins changes, so that neither has the warmer caches.
        plain_turns = (len(compared) % 2 == 0, len(compared) % 2 == 1) if both else (False, False)
        if plain_turns[0]:
            with alone.counted():
                plainly(voice, narration, number)
        with (takes if both else others).counted():
            taken = [one for one in settled(narration, number) if one is not None]
        chapter = BoundChapter(number, book.chapters[number - 1].title, taken, narration.takes)
        with (files if both else others).counted():
            chapter.write(work / f"{number}.{FORM}", FORM)
        if plain_turns[1]:
            with alone.counted():
                plainly(voice, narration, number)
        bound.append(chapter)
        compared += [chapter] if both else []
        resident.append(measuring.memory_bytes("VmRSS"))
        print(f"chapter {number} of {len(book.chapters)}: {takes.cpu_seconds:.1f} s, "
              f"{alone.cpu_seconds:.1f} s alone, {resident[-1] / 1e6:.0f} MB",
              file=sys.stderr, flush=True)  # fmt: skip
    if aac_is_installed():
        with files.counted():
            write_audiobook(work / "compared.m4b", book, compared)
        with others.counted():
            write_audiobook(work / "book.m4b", book, bound)
    seconds = sum(one.seconds for one in bound)
    wall = takes.seconds + files.seconds + others.seconds
    return {
        "words": sum(chapter.words for chapter in book.chapters),
        "chapters": len(bound),
        "sentences": sum(len(one.sentences) for one in bound),
        "audio_seconds": round(seconds),
        "audio_seconds_a_second": round(seconds / wall, 2),
        "compared_chapters": len(compared),
        "batch_cpu_seconds": round(alone.cpu_seconds, 1),
        "takes_cpu_seconds": round(takes.cpu_seconds, 1),
        "files_cpu_seconds": round(files.cpu_seconds, 1),
        "overhead_of_takes": round(takes.cpu_seconds / alone.cpu_seconds - 1, 4),
        "overhead_with_files": round(
            (takes.cpu_seconds + files.cpu_seconds) / alone.cpu_seconds - 1, 4
        ),
        "memory_mb_first_chapter": round(resident[0] / 1e6),
        "memory_mb_most": round(max(resident) / 1e6),
        "memory_mb_last_chapter": round(resident[-1] / 1e6),
        "memory_most_to_first": round(max(resident) / resident[0], 3),
    }


def settled(narration: "Narration", number: int) -> list["Chosen | None"]:
    """The takes of a chapter's sentences, in order."""
    from extras.books.speaking.sentences import Sentence

    lines = [(number, one) for one in narration.sentences(number)]
    found: dict[int, Chosen | None] = {}

    def add(_: int, sentence: Sentence, chosen: "Chosen | None") -> None:
        found[id(sentence)] = chosen

    narration.speak(iter(lines), add)
    return [found[id(sentence)] for _, sentence in lines]


def plainly(voice: "BookVoice", narration: "Narration", number: int) -> float:
    """The same sentences from the same batch, which nobody keeps: the samples."""
    from extras.books.speaking.book_voice import Ask
    from xtts.inference.synthesis_request import SynthesisRequest

    def asks() -> Iterator[Ask]:
        for place, sentence in enumerate(narration.sentences(number)):
            request = SynthesisRequest(sentence.text, LANGUAGE, 0)
            pieces = request.read(narration.tokenizer)
            yield Ask(str(place), SynthesisRequest(sentence.text, LANGUAGE, 0, pieces=pieces))

    waiting = asks()
    return sum(len(said.waveform) for said in voice.say(lambda: next(waiting, None)))


# ---- words ----


def words(arguments: argparse.Namespace, voice: "BookVoice", work: Path) -> dict[str, Any]:
    """Word errors of paragraphs of the reporting set."""
    from extras.books.speaking.narration import Listener
    from extras.books.speaking.takes import TakeFolder
    from xtts.evaluation import recogniser

    book = Book("Reporting", "", LANGUAGE, [
        Chapter("", paragraphs(texts.sentences("reporting"))[: arguments.texts])
    ])  # fmt: skip
    takes = TakeFolder(work / "sentences")
    heard = recogniser.opened(recogniser.POCKETSPHINX, LANGUAGE, 1)
    judge = Listener(recogniser.POCKETSPHINX, heard, voice.voice.model.tokenizer, LANGUAGE)
    kinds: Sequence[tuple[str, int, Listener | None]] = (
        ("first takes", 0, None),
        ("retakes by the guard", arguments.retakes, None),
        ("retakes by the recogniser", arguments.retakes, judge),
    )
    return {
        name: _words(book, voice, takes, judge, retakes, listener)
        for name, retakes, listener in kinds
    }


def _words(
    book: Book, voice: "BookVoice", takes: "TakeFolder", judge: "Listener", retakes: int,
    listener: "Listener | None",
) -> dict[str, Any]:  # fmt: skip
    import numpy as np

    from extras.books.speaking.narration import Narration, Settings
    from xtts.evaluation import recogniser

    before = len(list(takes.folder.rglob("*.wav")))
    settings = Settings(LANGUAGE, retakes=retakes)
    narration = Narration(book, voice, takes, settings, listener)
    chosen = [one for one in settled(narration, 1) if one is not None]
    errors = wanted = 0
    for one in chosen:
        text = one.take.text
        errors += judge.errors(text, takes.samples(one.take).astype(np.float32) / 32768.0)
        wanted += len(recogniser.words_of(narration.tokenizer, text, LANGUAGE))
    return {
        "word_errors": errors / max(1, wanted),
        "words": wanted,
        "sentences": len(chosen),
        "ended_badly": sum(bool(one.take.faults) for one in chosen),
        "spoken": len(list(takes.folder.rglob("*.wav"))) - before,
    }


def report(found: dict[str, Any]) -> str:
    """The parts, one after another."""
    return "\n\n".join(tables.text({name: part}) for name, part in found.items())
