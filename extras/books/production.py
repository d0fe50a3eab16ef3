"""`python -m xtts read`: plans a book, speaks it, and writes its files.

Importing this module does not import torch.
"""

import argparse
import hashlib
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from extras.books.book import Book, BookError, Chapter
from extras.books.order import Order, order_of
from extras.common.steps import Steps
from machine import commands
from machine.errors import SotaqueError
from machine.storage.files import make_folder, read_json, remove_stale, replace_file, replacing, write_json
from machine.storage.locks import LockHeld, exclusive
from machine.text import quantity
from xtts.text.languages import short_code

if TYPE_CHECKING:
    from extras.books.plan import ChapterPlan, Measurements
    from extras.books.speaking.narration import ChosenTake, Listener
    from extras.books.speaking.sentences import Sentence
    from extras.books.writing.binding import BoundChapter
    from xtts.inference.loaded_voice import LoadedVoice
    from xtts.text.tokenizer import Tokenizer

# These formats have one file for the book, instead of one for each chapter.
_WHOLE_BOOK_FORMATS = ("m4b", "epub")
_PRINT_INTERVAL_SECONDS, _WRITE_INTERVAL_SECONDS = 10.0, 2.0
_MAX_SHOWN_LETTERS = 40


def run(arguments: argparse.Namespace, open_voice: "Callable[[], LoadedVoice]", *, typed: bool = True) -> int:
    """Plans or speaks a book.

    Args:
        arguments: Those of `add_arguments`, with a language and a seed.
        open_voice: Opens the voice, here and in workers.
        typed: Whether a person typed the command; the report then shows how to repeat it.

    Raises the errors of books, voices, texts and storage.
    """
    order = order_of(arguments)
    make_folder(order.folder)
    try:
        with exclusive(order.folder / ".lock"):
            for folder in (order.folder, *(order.folder / "sentences").glob("??")):
                remove_stale(folder)
            steps = order.new_steps()
            try:
                book_run = _BookRun(order, arguments, open_voice, steps, _typed_command() if typed else [])
                measurements = book_run.plan()
                if not arguments.plan:
                    book_run.speak(measurements)
            finally:
                steps.close()
    except LockHeld as error:
        raise BookError(
            f"Process {error} is writing to {order.folder}. Wait for it, or name another folder."
        ) from None
    return 0


class _BookRun:
    """One run of the command."""

    def __init__(
        self,
        order: Order,
        arguments: argparse.Namespace,
        open_voice: "Callable[[], LoadedVoice]",
        steps: Steps,
        command: Sequence[str],
    ) -> None:
        from extras.books.speaking.book_voice import BookVoice
        from extras.books.speaking.narration import Narration, NarrationSettings
        from extras.books.speaking.take_folder import TakeFolder
        from extras.books.writing.worst_sentences import WorstSentences

        self.order, self.folder, self.command = order, order.folder, command
        voice = open_voice()
        self.language = arguments.language or _choose_language(order.book, voice)
        settings = NarrationSettings(
            self.language,
            arguments.seed,
            arguments.retakes,
            order.speakers,
            arguments.footnotes,
            self._rejected_takes(arguments.again),
        )
        self.takes = TakeFolder(self.folder / "sentences", voice.files.mark)
        tokenizer = voice.model.tokenizer
        listener = _open_listener(arguments.recogniser, tokenizer, self.language)
        voice.prepare()
        take_options = {"takes": arguments.takes, "recogniser": _recogniser_of_takes(arguments)}
        book_voice = BookVoice(voice, arguments.at_once, **take_options)
        if type(steps) is not Steps:
            from extras.books.speaking.ray_voice import RayBookVoice

            book_voice = RayBookVoice(voice, arguments.at_once, steps, open_voice, **take_options)
        self.narration = Narration(order.book, book_voice, self.takes, settings, listener)
        self.worst = WorstSentences()
        self.bound_chapters: dict[int, BoundChapter] = {}
        self.rate_of_samples = 0.0

    def _rejected_takes(self, again: Sequence[str]) -> frozenset[str]:
        """The keys of takes that a person rejected, with those of this run, which are stored."""
        path = self.folder / "rejected.json"
        rejected = [str(key) for key in read_json(path).get("takes", [])]
        if wrong := [key for key in again if not re.fullmatch(r"[0-9a-f]{40}", key)]:
            raise BookError(f"--again {wrong[0]} is not the key of a sentence; see report.html.")
        if again:
            write_json(path, {"takes": list(dict.fromkeys([*rejected, *again]))})
        return frozenset([*rejected, *again])

    def plan(self) -> "Measurements":
        """Speaks the sample sentences, and prints and writes the plan."""
        from extras.books.plan import chapter_plan, names_file, plan_lines, unknown_words, unreadable_letters

        measurements, samples = self._speak_samples()
        tokenizer = self.narration.tokenizer
        plans = [
            chapter_plan(number, self._chapter(number).title, self._sentences(number), measurements.pace)
            for number in self._chapter_numbers
        ]
        chosen = [plans[number - 1] for number in self.order.chapters]
        print("\n".join(plan_lines(self.order.book, chosen, measurements, self.order.forms)))
        names = unknown_words(self._all_sentences(), self.language, tokenizer.pronounced(self.language))
        names_sha256 = self._write_names(names_file(names).encode() if names else b"")
        self._print_names(names)
        unreadable = unreadable_letters(self._all_sentences(), tokenizer, self.language)
        letters = " ".join(letter for letter, _ in unreadable.most_common(_MAX_SHOWN_LETTERS))
        if letters:
            print(f"The voice does not know these letters and skips words that have them: {letters}")
        self._write_plan(measurements, plans, samples, names, names_sha256, letters)
        return measurements

    def _print_names(self, names: Counter[str]) -> None:
        from extras.books.plan import MAX_SHOWN_NAMES

        if names:
            path = self.folder / "names.txt"
            examples = ", ".join(f"{word} ({count})" for word, count in names.most_common(MAX_SHOWN_NAMES))
            print(
                f"The voice guesses the pronunciation of {quantity(len(names), 'word')}: {examples}. "
                f"Correct them in {path} and add --pronunciations {path}."
            )

    def _write_plan(
        self,
        measurements: "Measurements",
        plans: "Sequence[ChapterPlan]",
        samples: "Sequence[ChosenTake]",
        names: Counter[str],
        names_sha256: str,
        unreadable: str,
    ) -> None:
        from extras.books.plan import MAX_STORED_NAMES

        book = self.order.book
        write_json(
            self.folder / "plan.json",
            {
                "title": book.title,
                "author": book.author,
                "language": self.language,
                "pace": measurements.pace,
                "rate": measurements.rate,
                "chapters": [vars(plan) for plan in plans],
                "left_out": [
                    {"title": chapter.title, "reason": chapter.left_out}
                    for chapter in book.chapters
                    if chapter.left_out
                ],
                "names": [
                    {"word": word, "count": count} for word, count in names.most_common(MAX_STORED_NAMES)
                ],
                "names_sha256": names_sha256,
                "unreadable": unreadable,
                "notes": list(book.notes),
                "samples": [{"key": sample.take.key, "text": sample.take.text} for sample in samples],
            },
        )

    def _write_names(self, content: bytes) -> str:
        """Writes the list of names, unless a person edited it. content: empty without names.
        Returns the SHA-256 of the list that was last written."""
        path = self.folder / "names.txt"
        last_sha256 = str(read_json(self.folder / "plan.json").get("names_sha256", ""))
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() != last_sha256:
            print(f"{path} has your corrections and is not written again.")
        elif content:
            replace_file(path, lambda file: file.write(content))
            return hashlib.sha256(content).hexdigest()
        return last_sha256

    def _chapter(self, number: int) -> Chapter:
        return self.order.book.read_aloud[number - 1]

    def _sentences(self, number: int) -> "Iterator[Sentence]":
        return self.narration.sentences(number)

    @property
    def _chapter_numbers(self) -> range:
        """The numbers of all chapters: the plan covers the whole book, even if only some are
        read."""
        return range(1, len(self.order.book.read_aloud) + 1)

    def _all_sentences(self) -> "Iterator[Sentence]":
        for number in self._chapter_numbers:
            yield from self._sentences(number)

    def _speak_samples(self) -> "tuple[Measurements, list[ChosenTake]]":
        """Measures the voice with sample sentences, and returns these. If the sentences of the last
        plan are already spoken, its rate is reused."""
        from extras.books.plan import Measurements

        sentences = self._sample_sentences()
        samples: list[ChosenTake] = []
        if all(self.narration.chosen(sentence, number) for number, sentence in sentences):
            print("The sample sentences of the last plan:", flush=True)
        else:
            print("Speaking five sample sentences to measure this machine ...", flush=True)
        self.narration.speak(
            iter(sentences), lambda _chapter, _sentence, chosen: samples.append(chosen) if chosen else None
        )
        if not samples:
            raise BookError(
                f"No sentence of this book can be spoken in {self.language}. Choose the language "
                "that it is written in, and a voice that speaks it."
            )
        for number, sample in enumerate(samples, start=1):
            print(f"  sample {number}: {self.takes.sound_path(sample.take.key)}  {sample.take.text[:60]}")
        seconds = sum(sample.take.seconds for sample in samples)
        pace = seconds / sum(len(sample.take.text) for sample in samples)
        last_rate = read_json(self.folder / "plan.json").get("rate")
        self.rate_of_samples = self.narration.rate
        rate = self.rate_of_samples / max(self.narration.voice.batch_usage, 1e-6)
        if isinstance(last_rate, float) and self.narration.spoken_seconds <= 0.5 * seconds:
            rate = last_rate
        return Measurements(pace, rate), samples

    def _sample_sentences(self) -> "list[tuple[int, Sentence]]":
        """(chapter number, sentence) of the samples of the last plan if the book still contains
        them, else of new ones from the chapters to read."""
        from extras.books.plan import choose_samples

        last_texts = [
            sample.get("text") for sample in read_json(self.folder / "plan.json").get("samples", [])
        ]
        sentences = [
            (number, sentence) for number in self._chapter_numbers for sentence in self._sentences(number)
        ]
        first_with_text = {sentence.text: (number, sentence) for number, sentence in reversed(sentences)}
        if last_texts and all(text in first_with_text for text in last_texts):
            return [first_with_text[text] for text in last_texts]
        to_read = [(number, sentence) for number, sentence in sentences if number in set(self.order.chapters)]
        samples = {id(sentence) for sentence in choose_samples([sentence for _, sentence in to_read])}
        return [(number, sentence) for number, sentence in to_read if id(sentence) in samples]

    def speak(self, measurements: "Measurements") -> None:
        """Speaks the chapters. Writes each when its sentences are spoken, and then the
        audiobook."""
        progress = _Progress(self, measurements)
        sentences = [
            (number, sentence) for number in self.order.chapters for sentence in self._sentences(number)
        ]
        num_unspoken = Counter(number for number, _ in sentences)
        progress.characters = sum(len(sentence.text) for _, sentence in sentences)
        takes: dict[int, dict[int, ChosenTake]] = {number: {} for number in self.order.chapters}
        position_of = {id(sentence): position for position, (_, sentence) in enumerate(sentences)}

        def add(number: int, sentence: "Sentence", chosen: "ChosenTake | None") -> None:
            if chosen is None:
                self.worst.add_unread(number, sentence.text)
            else:
                self.worst.add(number, chosen)
                takes[number][position_of[id(sentence)]] = chosen
            num_unspoken[number] -= 1
            progress.add(number, sentence)
            if not num_unspoken[number]:
                chapter_takes = takes.pop(number)
                self._write_chapter(number, [chapter_takes[position] for position in sorted(chapter_takes)])

        self.narration.speak(iter(sentences), add)
        self._write_book()
        progress.path.unlink(missing_ok=True)

    def _write_chapter(self, number: int, sentences: "Sequence[ChosenTake]") -> None:
        """Writes the files of a chapter, unless they exist already."""
        from extras.books.writing.binding import BoundChapter, file_stem

        if not sentences:
            return
        title = self._chapter(number).title
        chapter = BoundChapter(number, title, sentences, self.takes)
        stem = file_stem(number, title)
        state_file = self.folder / "chapters.json"
        state = read_json(state_file)
        forms = [form for form in self.order.forms if form not in _WHOLE_BOOK_FORMATS]
        for name in (*forms, *self.order.captions):
            path = self.folder / f"{stem}.{name}"
            if state.get(path.name) == chapter.fingerprint and path.is_file():
                continue
            if name in self.order.captions:
                chapter.write_words(path)
            else:
                chapter.write(path, name)
            state[path.name] = chapter.fingerprint
            write_json(state_file, state)
        # Without word times, which are most of a sentence's memory and not used in the audiobook.
        chapter.sentences = [
            replace(chosen, take=replace(chosen.take, words=None)) for chosen in chapter.sentences
        ]
        self.bound_chapters[number] = chapter

    def _write_book(self) -> None:
        """Writes the files of the whole book and the report, and prints a summary."""
        from extras.books.plan import clock

        chapters = [self.bound_chapters[number] for number in sorted(self.bound_chapters)]
        if not chapters:
            raise BookError("These chapters have nothing that could be read aloud; see report.html.")
        book = self.order.book
        self.worst.write(self.folder / "report.html", book.title, self.takes, self.command)
        report = {"chapters": list(self.order.chapters), **self.worst.as_json()}
        write_json(self.folder / "report.json", report)
        self._write_whole_book_files(chapters)
        seconds = sum(chapter.seconds for chapter in chapters)
        spoken = self.narration.spoken_seconds
        # A short book may have no sentence beside its samples.
        rate = self.narration.rate or self.rate_of_samples
        pace = f" ({rate:.2f} x real time)" if rate else ""
        print(
            f"{self.folder}: {clock(seconds)} of speech, {clock(spoken)} of it new{pace}. "
            f"{self.worst.faulty:,} of "
            f"{quantity(self.worst.sentences, 'sentence')} ended badly; listen to them in "
            f"{self.folder / 'report.html'}."
        )

    def _write_whole_book_files(self, chapters: "Sequence[BoundChapter]") -> None:
        """Writes the files of the whole book."""
        from extras.books.writing.audiobook import write_audiobook
        from extras.books.writing.binding import file_stem
        from extras.books.writing.overlay import write_overlay

        book = self.order.book
        stem = file_stem(0, book.title)[3:] or "book"
        for form in (form for form in _WHOLE_BOOK_FORMATS if form in self.order.forms):
            # The folder may contain the source book under the same name.
            path = self.folder / (f"{stem}.m4b" if form == "m4b" else f"{stem} with sound.epub")
            if form == "m4b":
                write_audiobook(path, book, chapters)
            else:
                with replacing(path) as file:
                    write_overlay(file, book, chapters, self.language)
            print(f"{path}: {quantity(len(chapters), 'chapter')}")


class _Progress:
    """Shows the progress: a line every ten seconds, and `progress.json` until the end."""

    def __init__(self, book_run: _BookRun, measurements: "Measurements") -> None:
        self._book_run, self._measurements = book_run, measurements
        self.characters = 0
        self._characters_done = 0
        self._printed_at = self._written_at = time.monotonic()
        self.path = book_run.folder / "progress.json"

    def add(self, chapter: int, sentence: "Sentence") -> None:
        """Counts a sentence and shows the progress."""
        self._characters_done += len(sentence.text)
        now = time.monotonic()
        if now - self._written_at < _WRITE_INTERVAL_SECONDS:
            return
        self._written_at = now
        rate = self._book_run.narration.rate or self._measurements.rate
        characters_left = self.characters - self._characters_done
        progress = {
            "chapter": chapter,
            "share": round(self._characters_done / max(1, self.characters), 4),
            "seconds_left": round(characters_left * self._measurements.pace / max(rate, 1e-6)),
            "audio_seconds_a_second": round(rate, 3),
        }
        write_json(self.path, progress)
        if now - self._printed_at >= _PRINT_INTERVAL_SECONDS:
            self._printed_at = now
            from extras.books.plan import clock

            print(
                f"chapter {chapter}  {100 * progress['share']:.1f} %  {rate:.2f} x real time  "
                f"{clock(progress['seconds_left'])} left",
                flush=True,
            )


def _choose_language(book: Book, voice: "LoadedVoice") -> str:
    """The book's language if the voice speaks it, else the voice's first."""
    short = {short_code(code): code for code in reversed(voice.languages)}
    if book.language in short:
        return short[book.language]
    if book.language:
        print(
            f"The book is in {book.language}, which this voice does not speak; it is read as "
            f"{voice.languages[0]}. Name another language with --language."
        )
    return voice.languages[0]


def _typed_command() -> list[str]:
    """The user's command without `--again KEY`, for the report."""
    words, typed = iter(sys.argv[1:]), list[str]()
    for word in words:
        if word == "--again":
            next(words, None)
        elif not word.startswith("--again="):
            typed.append(word)
    return shlex.split(commands.program("xtts")) + typed


def _recogniser_of_takes(arguments: argparse.Namespace) -> str:
    """--recogniser, or else EVALUATE_RECOGNISER, which is only read if takes are compared."""
    if arguments.takes == 1:
        return "off"
    from xtts.evaluation.recogniser_settings import evaluate_recogniser

    named = str(arguments.recogniser)
    return evaluate_recogniser() if named == "off" else named


def _open_listener(name: str, tokenizer: "Tokenizer", language: str) -> "Listener | None":
    if name == "off":
        return None
    from extras.books.speaking.narration import Listener
    from xtts.evaluation import recogniser

    if name == recogniser.POCKETSPHINX and language != "en":
        raise SotaqueError(
            f"pocketsphinx recognises English only, and the book is read in {language}. Name the "
            "folder of a Whisper model with --recogniser."
        )
    return Listener(name, recogniser.open_recogniser(name, language, 1), tokenizer, language)
