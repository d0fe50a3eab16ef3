"""The plan of a book: chapters, words, estimates of duration, time and disk space, and names."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from extras.books.book import Book, Kind
from extras.books.speaking.sentences import Sentence
from extras.books.speaking.voice_tags import ANY_TAG
from machine.text import printable, quantity, size_words, table
from xtts.text.errors import TextError
from xtts.text.languages import short_code
from xtts.text.pronunciations import MAX_CHARACTERS, is_known
from xtts.text.reading import speakable
from xtts.text.tokenizer import Tokenizer

NUM_SAMPLES = 5
_SAMPLE_CHARACTERS = range(50, 170)
# Typical bytes per second of encoded speech, one channel at 24 kHz.
BYTES_PER_SECOND = {
    "wav": 48_000,
    "flac": 20_000,
    "mp3": 6_000,
    "opus": 6_000,
    "m4a": 6_700,
    "m4b": 6_700,
    "epub": 6_000,
}
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
MAX_SHOWN_NAMES, MAX_STORED_NAMES = 20, 200
_NAME_CHARACTERS = range(2, MAX_CHARACTERS + 1)
# CMU's dictionary lacks many inflected forms, so a word is also known without these endings.
_ENDINGS = ("'s", "s", "es", "ed", "d", "ing", "ly", "'")


@dataclass(frozen=True)
class Measurements:
    """Measurements of sample sentences. pace: seconds of speech per character; rate: seconds of
    speech computed per second."""

    pace: float
    rate: float


@dataclass(frozen=True)
class ChapterPlan:
    """The size of a chapter. seconds: its estimated duration; speech_seconds: the same without
    pauses, which take no time to compute."""

    number: int
    title: str
    words: int
    sentences: int
    seconds: float
    speech_seconds: float


def choose_samples(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Five sentences of medium length, evenly spread over the book. Deterministic."""
    fitting = [
        sentence
        for sentence in sentences
        if sentence.kind is Kind.TEXT and len(sentence.text) in _SAMPLE_CHARACTERS
    ] or list(sentences)
    count = min(NUM_SAMPLES, len(fitting))
    return [fitting[(2 * index + 1) * len(fitting) // (2 * count)] for index in range(count)]


def chapter_plan(number: int, title: str, sentences: Iterable[Sentence], pace: float) -> ChapterPlan:
    """The plan of a chapter, by its characters and pauses."""
    num_words = num_sentences = num_characters = 0
    pause_seconds = 0.0
    for sentence in sentences:
        num_words += len(_WORD.findall(ANY_TAG.sub(" ", sentence.text)))
        num_sentences += 1
        num_characters += len(sentence.text)
        pause_seconds += sentence.pause_seconds
    speech_seconds = num_characters * pace
    seconds = speech_seconds + pause_seconds
    return ChapterPlan(number, title, num_words, num_sentences, seconds, speech_seconds)


def unknown_words(
    sentences: Iterable[Sentence], language: str, pronounced: Iterable[str] = ()
) -> Counter[str]:
    """Words whose pronunciation is a guess, with their counts: in English words that are not in
    CMU's dictionary, in other languages names (capitalised words within a sentence)."""
    listed = {word.casefold() for word in pronounced}
    is_english = short_code(language) == "en"
    unknown = Counter[str]()
    for sentence in sentences:
        words = _WORD.findall(ANY_TAG.sub(" ", sentence.text))
        for index, word in enumerate(words):
            name = word.replace("’", "'")
            if name.casefold() in listed or len(name) not in _NAME_CHARACTERS:
                continue
            if not _is_in_dictionary(name.lower()) if is_english else index > 0 and name.istitle():
                unknown[name] += 1
    return unknown


def _is_in_dictionary(word: str) -> bool:
    if is_known(word):
        return True
    stems = (word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending))
    return any(is_known(stem) or is_known(stem + "e") for stem in stems if len(stem) > 2)


def unreadable_letters(sentences: Iterable[Sentence], tokenizer: Tokenizer, language: str) -> Counter[str]:
    """Letters that are not in the voice's vocabulary, with their counts. Words with them are left
    out."""
    letters = Counter[str]()
    for sentence in sentences:
        letters.update(set(ANY_TAG.sub(" ", sentence.text)))
    return Counter(
        {
            letter: count
            for letter, count in letters.items()
            if speakable(letter) and not letter.isascii() and not _can_read(tokenizer, letter, language)
        }
    )


def _can_read(tokenizer: Tokenizer, letter: str, language: str) -> bool:
    try:
        tokenizer.encode(letter, language)
    except TextError:
        return False
    return True


def names_file(names: Counter[str]) -> str:
    """The unknown words as a list of pronunciations, each to be filled in."""
    lines = [f"# {name} =    ({count} times)" for name, count in names.most_common()]
    return "\n".join(
        [
            "# Words of this book whose pronunciation is a guess. Remove the # of a line, write the",
            "# pronunciation after the =, and remove the count: Hermione = her my oh nee",
            *lines,
            "",
        ]
    )


def clock(seconds: float) -> str:
    """Formats seconds as 1:02:03."""
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"


def plan_lines(
    book: Book, chapters: Sequence[ChapterPlan], measurements: Measurements, forms: Sequence[str]
) -> list[str]:
    """The plan as lines of text."""
    seconds = sum(plan.seconds for plan in chapters)
    computing_seconds = sum(plan.speech_seconds for plan in chapters) / max(measurements.rate, 1e-6)
    rows = [["", "chapter", "words", "sentences", "length"]]
    rows += [
        [
            str(plan.number),
            printable(plan.title)[:50],
            f"{plan.words:,}",
            f"{plan.sentences:,}",
            clock(plan.seconds),
        ]
        for plan in chapters
    ]
    skipped = [chapter for chapter in book.chapters if chapter.left_out]
    lines = [f"{printable(book.title)}, {printable(book.author) or 'no author'}", *table(rows)]
    if skipped:
        titles = ", ".join(f"{printable(chapter.title)[:30]} ({chapter.left_out})" for chapter in skipped[:8])
        lines.append(f"Not read aloud: {titles}{', …' if len(skipped) > 8 else ''}.")
    file_sizes = ", ".join(f"{form} {size_words(BYTES_PER_SECOND[form] * seconds)}" for form in forms)
    take_sizes = size_words(BYTES_PER_SECOND["wav"] * seconds)
    lines += [
        f"{quantity(sum(plan.words for plan in chapters), 'word')} in "
        f"{quantity(len(chapters), 'chapter')}: about {clock(seconds)} of speech.",
        f"Speaking all of it takes about {clock(computing_seconds)} on this machine "
        f"({measurements.rate:.2f} x real time, measured with the sample sentences).",
        f"Disk space: {file_sizes}, and {take_sizes} for the spoken sentences.",
    ]
    return lines + [f"Note: {printable(note)}" for note in book.notes]
