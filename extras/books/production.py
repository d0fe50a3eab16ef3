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
    from extras.books.plan import Measured
    from extras.books.speaking.narration import ChosenTake, Listener
    from extras.books.speaking.sentences import Sentence
    from extras.books.writing.binding import BoundChapter
    from xtts.inference.loaded_voice import LoadedVoice
    from xtts.text.tokenizer import Tokenizer

# Formats of the whole book, instead of a file per chapter.
_WHOLE = ("m4b", "epub")
_PROGRESS_SECONDS, _WRITTEN_SECONDS = 10.0, 2.0


def run(arguments: argparse.Namespace, voice_of: "Callable[[], LoadedVoice]", *, typed: bool = True) -> int:
    """Plans or speaks a book.

    Args:
        arguments: Those of `add_arguments`, with a language and a seed.
        voice_of: Opens the voice, here and in workers.
        typed: Whether a person typed the command, which the report can then repeat.

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
                reader = _Reader(order, arguments, voice_of, steps, _command() if typed else [])
                measured = reader.plan()
                if not arguments.plan:
                    reader.speak(measured)
            finally:
                steps.close()
    except LockHeld as error:
        raise BookError(
            f"Process {error} is writing to {order.folder}. Wait for it, or name another folder."
        ) from None
    return 0


class _Reader:
    """One run of the command."""

    def __init__(
        self,
        order: Order,
        arguments: argparse.Namespace,
        voice_of: "Callable[[], LoadedVoice]",
        steps: Steps,
        command: Sequence[str],
    ) -> None:
        from extras.books.speaking.book_voice import BookVoice
        from extras.books.speaking.narration import Narration, NarrationSettings
        from extras.books.speaking.take_folder import TakeFolder
        from extras.books.writing.worst_sentences import Worst

        self.order, self.folder, self.command = order, order.folder, command
        voice = voice_of()
        self.language = arguments.language or _language(order.book, voice)
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
        listener = _listener(arguments.recogniser, tokenizer, self.language)
        voice.prepare()
        takes = {"takes": arguments.takes, "recogniser": _recogniser_of_takes(arguments)}
        speaking = BookVoice(voice, arguments.at_once, **takes)
        if type(steps) is not Steps:
            from extras.books.speaking.ray_voice import RayBookVoice

            speaking = RayBookVoice(voice, arguments.at_once, steps, voice_of, **takes)
        self.narration = Narration(order.book, speaking, self.takes, settings, listener)
        self.worst = Worst()
        self.bound: dict[int, BoundChapter] = {}
        self.samples_rate = 0.0

    def _rejected_takes(self, again: Sequence[str]) -> frozenset[str]:
        path = self.folder / "rejected.json"
        rejected = [str(key) for key in read_json(path).get("takes", [])]
        if wrong := [key for key in again if not re.fullmatch(r"[0-9a-f]{40}", key)]:
            raise BookError(f"--again {wrong[0]} is not the key of a sentence; see report.html.")
        if again:
            write_json(path, {"takes": list(dict.fromkeys([*rejected, *again]))})
        return frozenset([*rejected, *again])

    def plan(self) -> "Measured":
        """Speaks the sample sentences and prints the plan."""
        from extras.books.plan import (
            MAX_KEPT_NAMES,
            MAX_SHOWN_NAMES,
            chapter_plan,
            names_file,
            plan_lines,
            unknown_words,
            unreadable_characters,
        )

        (measured, samples), tokenizer = self._measure(), self.narration.tokenizer
        plans = [
            chapter_plan(number, self._chapter(number).title, self._sentences(number), measured.pace)
            for number in self._numbers
        ]
        chosen = [plans[number - 1] for number in self.order.chapters]
        print("\n".join(plan_lines(self.order.book, chosen, measured, self.order.forms)))
        names = unknown_words(self._all(), self.language, tokenizer.pronounced(self.language))
        written = self._write_names(names_file(names).encode() if names else b"")
        if names:
            path = self.folder / "names.txt"
            examples = ", ".join(f"{word} ({count})" for word, count in names.most_common(MAX_SHOWN_NAMES))
            print(
                f"The voice guesses the pronunciation of {quantity(len(names), 'word')}: {examples}. "
                f"Correct them in {path} and add --pronunciations {path}."
            )
        lost = unreadable_characters(self._all(), tokenizer, self.language)
        letters = " ".join(letter for letter, _ in lost.most_common(40))
        if lost:
            print(f"The voice does not know these letters and skips words that have them: {letters}")
        write_json(
            self.folder / "plan.json",
            {
                "title": self.order.book.title,
                "author": self.order.book.author,
                "language": self.language,
                "pace": measured.pace,
                "rate": measured.rate,
                "chapters": [vars(plan) for plan in plans],
                "left_out": [
                    {"title": chapter.title, "reason": chapter.left_out}
                    for chapter in self.order.book.chapters
                    if chapter.left_out
                ],
                "names": [
                    {"word": word, "count": count} for word, count in names.most_common(MAX_KEPT_NAMES)
                ],
                "names_sha256": written,
                "unreadable": letters,
                "notes": list(self.order.book.notes),
                "samples": [{"key": sample.take.key, "text": sample.take.text} for sample in samples],
            },
        )
        return measured

    def _write_names(self, content: bytes) -> str:
        """Writes the list of names, unless somebody edited it. content: empty without names.
        Returns the SHA-256 of what was last written."""
        path = self.folder / "names.txt"
        written = str(read_json(self.folder / "plan.json").get("names_sha256", ""))
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() != written:
            print(f"{path} has your corrections and is not written again.")
        elif content:
            replace_file(path, lambda file: file.write(content))
            return hashlib.sha256(content).hexdigest()
        return written

    def _chapter(self, number: int) -> Chapter:
        return self.order.book.read_aloud[number - 1]

    def _sentences(self, number: int) -> "Iterator[Sentence]":
        return self.narration.sentences(number)

    @property
    def _numbers(self) -> range:
        """The numbers of all chapters. The plan covers the whole book, even if only some are
        read."""
        return range(1, len(self.order.book.read_aloud) + 1)

    def _all(self) -> "Iterator[Sentence]":
        for number in self._numbers:
            yield from self._sentences(number)

    def _measure(self) -> "tuple[Measured, list[ChosenTake]]":
        """Measures the voice with sample sentences, and returns these. If the sentences of the last
        plan are already spoken, its rate is reused."""
        from extras.books.plan import Measured

        samples = self._sample_lines()
        samples_spoken: list[ChosenTake] = []
        if all(self.narration.chosen(sentence, number) for number, sentence in samples):
            print("The sample sentences of the last plan:", flush=True)
        else:
            print("Speaking five sample sentences to measure this machine ...", flush=True)
        self.narration.speak(
            iter(samples),
            lambda _chapter, _sentence, chosen: samples_spoken.append(chosen) if chosen else None,
        )
        if not samples_spoken:
            raise BookError(
                f"No sentence of this book can be spoken in {self.language}. Choose the language "
                "that it is written in, and a voice that speaks it."
            )
        for place, sample in enumerate(samples_spoken, start=1):
            print(f"  sample {place}: {self.takes.sound_path(sample.take.key)}  {sample.take.text[:60]}")
        seconds = sum(sample.take.seconds for sample in samples_spoken)
        pace = seconds / sum(len(sample.take.text) for sample in samples_spoken)
        last_rate = read_json(self.folder / "plan.json").get("rate")
        self.samples_rate = self.narration.rate
        rate = self.samples_rate / max(self.narration.voice.batch_usage, 1e-6)
        spoke = self.narration.spoken_seconds > 0.5 * seconds
        return Measured(
            pace, rate if spoke or not isinstance(last_rate, float) else last_rate
        ), samples_spoken

    def _sample_lines(self) -> "list[tuple[int, Sentence]]":
        """The sample sentences of the last plan if the book still contains them, else new ones from
        the wanted chapters."""
        from extras.books.plan import samples_of

        last = [sample.get("text") for sample in read_json(self.folder / "plan.json").get("samples", [])]
        lines = [(number, sentence) for number in self._numbers for sentence in self._sentences(number)]
        line_of = {sentence.text: (number, sentence) for number, sentence in reversed(lines)}
        if last and all(text in line_of for text in last):
            return [line_of[text] for text in last]
        chosen = [(number, sentence) for number, sentence in lines if number in set(self.order.chapters)]
        samples = {id(sentence) for sentence in samples_of([sentence for _, sentence in chosen])}
        return [(number, sentence) for number, sentence in chosen if id(sentence) in samples]

    def speak(self, measured: "Measured") -> None:
        """Speaks the chapters. Writes each when its sentences are spoken, and then the
        audiobook."""
        progress = _Progress(self, measured)
        lines = [(number, sentence) for number in self.order.chapters for sentence in self._sentences(number)]
        unspoken = Counter(number for number, _ in lines)
        progress.characters = sum(len(sentence.text) for _, sentence in lines)
        takes: dict[int, dict[int, ChosenTake]] = {number: {} for number in self.order.chapters}
        place_of = {id(sentence): place for place, (_, sentence) in enumerate(lines)}

        def add(number: int, sentence: "Sentence", chosen: "ChosenTake | None") -> None:
            if chosen is None:
                self.worst.add_unread(number, sentence.text)
            else:
                self.worst.add(number, chosen)
                takes[number][place_of[id(sentence)]] = chosen
            unspoken[number] -= 1
            progress.add(number, sentence)
            if not unspoken[number]:
                by_place = takes.pop(number)
                self._bind(number, [by_place[place] for place in sorted(by_place)])

        self.narration.speak(iter(lines), add)
        self._finish()
        progress.path.unlink(missing_ok=True)

    def _bind(self, number: int, sentences: "Sequence[ChosenTake]") -> None:
        """Writes the files of a chapter, unless they exist already."""
        from extras.books.writing.binding import BoundChapter, file_stem

        if not sentences:
            return
        title = self._chapter(number).title
        chapter = BoundChapter(number, title, sentences, self.takes)
        stem = file_stem(number, title)
        state_file = self.folder / "chapters.json"
        state = read_json(state_file)
        forms = [form for form in self.order.forms if form not in _WHOLE]
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
        self.bound[number] = chapter

    def _finish(self) -> None:
        chapters = [self.bound[number] for number in sorted(self.bound)]
        if not chapters:
            raise BookError("These chapters have nothing that could be read aloud; see report.html.")
        book = self.order.book
        self.worst.write(self.folder / "report.html", book.title, self.takes, self.command)
        report = {"chapters": list(self.order.chapters), **self.worst.told()}
        write_json(self.folder / "report.json", report)
        self._write_whole(chapters)
        from extras.books.plan import clock

        seconds = sum(chapter.seconds for chapter in chapters)
        spoken = self.narration.spoken_seconds
        # A short book may have no sentence beside its samples.
        rate = self.narration.rate or self.samples_rate
        pace = f" ({rate:.2f} x real time)" if rate else ""
        print(
            f"{self.folder}: {clock(seconds)} of speech, {clock(spoken)} of it new{pace}. "
            f"{self.worst.faulty:,} of "
            f"{quantity(self.worst.sentences, 'sentence')} ended badly; listen to them in "
            f"{self.folder / 'report.html'}."
        )

    def _write_whole(self, chapters: "Sequence[BoundChapter]") -> None:
        """Writes the files of the whole book."""
        from extras.books.writing.audiobook import write_audiobook
        from extras.books.writing.binding import file_stem
        from extras.books.writing.overlay import write_overlay

        book = self.order.book
        stem = file_stem(0, book.title)[3:] or "book"
        for form in (whole for whole in _WHOLE if whole in self.order.forms):
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

    def __init__(self, reader: _Reader, measured: "Measured") -> None:
        self._reader, self._measured = reader, measured
        self.characters = 0
        self._done = 0
        self._shown = self._written = time.monotonic()
        self.path = reader.folder / "progress.json"

    def add(self, chapter: int, sentence: "Sentence") -> None:
        """Counts a sentence and shows the progress."""
        self._done += len(sentence.text)
        now = time.monotonic()
        if now - self._written < _WRITTEN_SECONDS:
            return
        self._written = now
        rate = self._reader.narration.rate or self._measured.rate
        left = self.characters - self._done
        progress = {
            "chapter": chapter,
            "share": round(self._done / max(1, self.characters), 4),
            "seconds_left": round(left * self._measured.pace / max(rate, 1e-6)),
            "audio_seconds_a_second": round(rate, 3),
        }
        write_json(self.path, progress)
        if now - self._shown >= _PROGRESS_SECONDS:
            self._shown = now
            from extras.books.plan import clock

            print(
                f"chapter {chapter}  {100 * progress['share']:.1f} %  {rate:.2f} x real time  "
                f"{clock(progress['seconds_left'])} left",
                flush=True,
            )


def _language(book: Book, voice: "LoadedVoice") -> str:
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


def _command() -> list[str]:
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


def _listener(name: str, tokenizer: "Tokenizer", language: str) -> "Listener | None":
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
