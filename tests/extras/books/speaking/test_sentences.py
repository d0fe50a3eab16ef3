"""A chapter is divided into sentences that are spoken one by one."""

import pytest

from extras.books.book import Chapter, Kind, Paragraph
from extras.books.speaking.sentences import MAX_SENTENCE_CHARACTERS, sentences_of, split_sentences


def texts(*paragraphs: str | Paragraph, **options) -> list[str]:
    held = [Paragraph(paragraph) if isinstance(paragraph, str) else paragraph for paragraph in paragraphs]
    return [sentence.text for sentence in sentences_of(Chapter("", held), "en", **options)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("He met Dr. A of St. B. They talked.", ["He met Dr. A of St. B. They talked."]),
        ("He met Dr. Smith in St. Ives. They sat.", ["He met Dr. Smith in St. Ives.", "They sat."]),
        ("J. R. R. Tolkien wrote it. He did!", ["J. R. R. Tolkien wrote it.", "He did!"]),
        ('"Stop!" he said. "Why?" She left.', ['"Stop!" he said.', '"Why?"', "She left."]),
        ("See e.g. the sea. No. 5 is lost.", ["See e.g. the sea.", "No. 5 is lost."]),
        ("What… is it? It is 3.5 m long.", ["What… is it?", "It is 3.5 m long."]),
        ("你好。再见！", ["你好。", "再见！"]),
    ],
)
def test_sentences_end_where_a_reader_breathes(text, parts):
    assert split_sentences(text) == parts


def test_a_very_long_sentence_is_divided_at_its_clauses():
    text = "it went on and on, " * 500
    assert max(map(len, split_sentences(text))) <= MAX_SENTENCE_CHARACTERS
    assert " ".join(split_sentences(text)) == text.strip()
    assert max(map(len, split_sentences("a" * 100_000))) <= MAX_SENTENCE_CHARACTERS


def test_a_short_sentence_joins_its_neighbour():
    long = "This is a sentence of some length that stands by itself."
    assert texts(f"No. {long} Yes! He left.") == [f"No. {long} Yes! He left."]
    assert texts(f"{long} {long}") == [long, long]


def test_pauses_follow_the_kind():
    held = [
        Paragraph("Chapter One", Kind.HEADING),
        Paragraph("One is here now, my dear friend. Two is here now, my dear friend."),
        Paragraph("x", Kind.FOOTNOTE),
    ]
    pauses = [sentence.pause_seconds for sentence in sentences_of(Chapter("", held), "en")]
    assert pauses == [1.2, 0.2, 0.6]
    assert texts(held[0], held[2], footnotes=True) == ["Chapter One", "x"]


def test_a_voice_applies_until_the_next_tag():
    first = "[voice:ben]This is the first sentence of it. This is the second sentence of it."
    assert texts(first, "[style:sad]And here is a third one, of course.", "[/voice]The end.") == [
        "[voice:ben]This is the first sentence of it.",
        "[voice:ben]This is the second sentence of it.",
        "[voice:ben][style:sad]And here is a third one, of course.",
        "[voice:ben:sad][/voice]The end.",
    ]


def test_what_looks_like_a_tag_in_a_book_is_words():
    (text,) = texts("A <b> and a [note:x] stand here, a [pause:500ms] too; 3 < 4.")
    assert text == "A  b> and a (note:x) stand here, a [pause:500ms] too; 3 < 4."


def test_forty_megabytes_are_divided_in_seconds():
    text = "Never did the sun so beautifully steep. " * 100_000
    assert len(split_sentences(text)) == 100_000
