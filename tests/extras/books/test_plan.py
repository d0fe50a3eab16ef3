"""The plan of a book: its totals, and the letters that a voice cannot read."""

from collections.abc import Sequence

import pytest

from extras.books.book import Book
from extras.books.plan import (
    ChapterPlan,
    Measurements,
    chapter_plan,
    plan_lines,
    unknown_words,
    unreadable_letters,
)
from extras.books.speaking.sentences import Sentence
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer
from xtts.voices.base_models import DEMO


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(ModelConfig.read(DEMO), DEMO)


def sentences(*texts: str) -> Sequence[Sentence]:
    return [Sentence(text, 0.5, number) for number, text in enumerate(texts)]


def test_the_time_is_the_speech_over_the_rate():
    chapters = [ChapterPlan(1, "One", 300, 20, 110.0, 100.0), ChapterPlan(2, "Two", 50, 2, 22, 20)]
    told = " ".join(plan_lines(Book("B", "", "en", []), chapters, Measurements(0.06, 2.0), ("wav",)))
    assert "350 words in 2 chapters: about 0:02:12 of speech." in told
    assert "(2.00 x real time," in told
    # Pauses add duration and bytes, but take no time to compute.
    assert "takes about 0:01:00 on this machine" in told and "wav 6.3 MB" in told


def test_one_of_a_thing_is_no_plural():
    told = plan_lines(Book("B", "", "en", []), [ChapterPlan(1, "O", 1, 1, 1, 1)], Measurements(1, 1), ())
    assert "1 word in 1 chapter: about 0:00:01 of speech." in told


def test_a_chapter_is_its_characters_and_pauses():
    plan = chapter_plan(3, "One", sentences("[voice:ben] It was day.", "All slept."), 0.1)
    assert (plan.number, plan.words, plan.sentences) == (3, 5, 2)
    assert plan.speech_seconds == pytest.approx(3.3) and plan.seconds == pytest.approx(4.3)


def test_only_letters_that_the_voice_cannot_read_are_reported(tokenizer):
    """Not punctuation, which no voice speaks, or the names in tags."""
    text = "“Yes” — he said – ‘ok’ … ¿no? café · [voice:ольга] done. [style:טו] שלום ש"
    lost = unreadable_letters(sentences(text), tokenizer, "en")
    assert set(lost) == set("שלום")


def test_words_in_tags_are_no_names():
    found = unknown_words(sentences("[voice:Qxyz] The Zxq came, and Zxq left."), "en")
    assert found == {"Zxq": 2}
