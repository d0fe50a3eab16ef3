"""Plain text, Markdown and HTML are read into chapters."""

import time

import pytest

from extras.books.book import Book, BookError, Kind
from extras.books.formats.book_reader import read_book

GUTENBERG = """The Project Gutenberg eBook of Moby
Title: Moby Dick
Author: Herman Melville
Language: English
*** START OF THE PROJECT GUTENBERG EBOOK MOBY ***

CHAPTER 1. Loomings.

Call me _Ishmael_. Some years
ago, never mind.

[Illustration: a whale]

II.

It is a way I have.
*** END OF THE PROJECT GUTENBERG EBOOK MOBY ***
The licence.
"""
MARKDOWN = """---
title: "Of Ships"
author: N. Bowditch
lang: en-US
---
# Of Ships

## First

A *fine* [ship](http://x.y)[^1] with `sails`,
and **two** masts.

```c
int main() {}
```

- one rope
- two ropes

| Year | Ships |
|------|-------|
| 1901 | 12    |

Second
------

> It is said.

[^1]: A note.
"""


def of(path, name: str, text: str) -> Book:
    (path / name).write_text(text, encoding="utf-8")
    return read_book(path / name)


def texts(book: Book) -> list[tuple[str, list[str]]]:
    return [(chapter.title, [said.text for said in chapter.paragraphs]) for chapter in book.chapters]


def test_a_text_of_project_gutenberg(tmp_path):
    book = of(tmp_path, "b.txt", GUTENBERG)
    assert (book.title, book.author, book.language) == ("Moby Dick", "Herman Melville", "en")
    assert texts(book) == [
        ("CHAPTER 1. Loomings.", ["CHAPTER 1. Loomings.", "Call me Ishmael. Some years ago, never mind."]),
        ("II.", ["II.", "It is a way I have."]),
    ]


OLD_GUTENBERG = """The Project Gutenberg EBook of The Adventures

Title: The Adventures
       of Sherlock
Author: Him
Language: German

*** START OF THIS PROJECT GUTENBERG EBOOK THE ADVENTURES
OF SHERLOCK ***

Produced by A. Person and the Online
Distributed Proofreading Team

Chapter I

To Sherlock[1] she is [Pg 12]always _the_ woman.

[Footnote 1: A note.]

End of Project Gutenberg's The Adventures of Sherlock, by Him

*** END OF THIS PROJECT GUTENBERG EBOOK THE ADVENTURES ***
"""


def test_an_older_text_of_project_gutenberg(tmp_path):
    for text in (OLD_GUTENBERG, OLD_GUTENBERG.replace("\n", "\r\n")):
        book = of(tmp_path, "b.txt", text)
        assert (book.title, book.author, book.language) == ("The Adventures of Sherlock", "Him", "de")
        assert texts(book) == [
            ("Chapter I", ["Chapter I", "To Sherlock she is always the woman.", "A note."])
        ]
        assert book.chapters[0].paragraphs[-1].kind is Kind.FOOTNOTE


@pytest.mark.parametrize(
    ("text", "title", "chapters"),
    [
        ("The Old House\n\nIt was old.\n", "The Old House", ["The Old House"]),
        ("The Old House\n\nChapter 1\n\nIt was old.\n", "The Old House", ["The Old House Chapter 1"]),
        ("Title: The Old House\nAuthor: Her\n\nIt was old.\n", "The Old House", ["The Old House"]),
        # Not titles: a sentence, a chapter, a long line, the only line.
        ("It was old.\n\nAnd it was dark.\n", "my-file", ["my-file"]),
        ("Chapter 1\n\nIt was old.\n", "my-file", ["Chapter 1"]),
        ("It was old and dark " * 5 + "\n\nThe end.\n", "my-file", ["my-file"]),
        ("The Old House\n", "my-file", ["my-file"]),
    ],
)
def test_the_title_is_that_of_the_text(tmp_path, text, title, chapters):
    book = of(tmp_path, "my-file.txt", text)
    assert (book.title, [chapter.title for chapter in book.chapters]) == (title, chapters)
    said = [paragraph.text for chapter in book.chapters for paragraph in chapter.paragraphs]
    assert "my-file" not in said and not any("Title:" in sentence for sentence in said)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["b.txt", "b.md", "b.html"])
def test_encodings_of_unicode(tmp_path, encoding, name):
    (tmp_path / name).write_bytes("# Eins\n\nEin schöner Tag.\n".encode(encoding))
    said = [paragraph.text for part in read_book(tmp_path / name).chapters for paragraph in part.paragraphs]
    assert said[-1].endswith("Ein schöner Tag.")


@pytest.mark.parametrize("declared", ["charset=windows-1252", 'content="text/html; charset=cp1252"'])
def test_html_is_read_in_the_encoding_that_it_declares(tmp_path, declared):
    page = f"<!DOCTYPE html>\n<html><head><meta {declared}></head><p>Ein schöner Tag, „sagt“ er."
    (tmp_path / "b.html").write_bytes(page.encode("windows-1252"))
    assert texts(read_book(tmp_path / "b.html"))[0][1] == ["Ein schöner Tag, „sagt“ er."]


def test_marks_in_brackets_are_the_authors_where_there_are_no_footnotes(tmp_path):
    book = of(tmp_path, "b.txt", "He saw [1] and [A].\n\nThe end.\n")
    assert texts(book)[0][1] == ["He saw [1] and [A].", "The end."]


def test_a_text_without_blank_lines(tmp_path):
    lines = "\n".join(["This is a long line of a book that has no blank lines at all. " * 3] * 4)
    (chapter,) = of(tmp_path, "b.txt", lines).chapters
    assert len(chapter.paragraphs) == 4


def test_markdown(tmp_path):
    book = of(tmp_path, "b.md", MARKDOWN)
    assert (book.title, book.author, book.language) == ("Of Ships", "N. Bowditch", "en")
    assert texts(book) == [
        (
            "Of Ships First",
            [
                "Of Ships",
                "First",
                "A fine ship with sails, and two masts.",
                "one rope",
                "two ropes",
                "Year, Ships",
                "1901, 12",
            ],
        ),
        ("Second", ["Second", "It is said.", "A note."]),
    ]
    assert book.chapters[1].paragraphs[-1].kind is Kind.FOOTNOTE


def test_html_that_is_not_well_formed(tmp_path):
    text = (
        "<html lang=de><meta name=author content='K. M.'><title>Ein &amp; Alles</title><body>"
        "<h1>Eins<h1>Zwei</h1><p>Erster<p>Zweiter <b>fett<p>&Uuml;ber &lt;b&gt; &#8212; Ende"
    )
    book = of(tmp_path, "b.html", text)
    assert (book.title, book.author, book.language) == ("Ein & Alles", "K. M.", "de")
    said = [paragraph.text for chapter in book.chapters for paragraph in chapter.paragraphs]
    assert said == ["Eins", "Zwei", "Erster", "Zweiter fett", "Über <b> — Ende"]


@pytest.mark.parametrize(("name", "megabytes"), [("b.txt", 20), ("b.html", 4), ("b.md", 4)])
def test_a_paragraph_of_twenty_megabytes(tmp_path, name, megabytes):
    text = "Never did the sun so beautifully steep. " * (megabytes * 25_000)
    started = time.process_time()
    book = of(tmp_path, name, text)
    assert len(book.chapters[0].paragraphs[0].text) == len(text) - 1
    assert time.process_time() - started < 60


@pytest.mark.parametrize("name", ["b.txt", "b.md", "b.html"])
def test_more_text_than_a_book_has_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr("extras.books.formats.book_reader.MAX_CHARACTERS", 99)
    with pytest.raises(BookError, match="has 100 characters of text; at most 99 are read"):
        of(tmp_path, name, "a" * 60 + "\n\n<p>" * (name == "b.html") + "b" * 40)


@pytest.mark.parametrize(
    "marks",
    [
        "<!--",
        "[",
        "[^",
        "![",
        "![](",
        "[a](",
        "<http://",
        "[Image",
        "# " + "#" * 49_999 + "x",
        "# " + " " * 9_999 + "x",
        " " * 99_999 + "x",
        "# a\n\n",
    ],
    ids=lambda marks: marks[:8].strip(),
)
@pytest.mark.parametrize("name", ["b.md", "b.txt"])
def test_a_mass_of_marks_that_nothing_closes_takes_seconds(tmp_path, name, marks):
    started = time.process_time()
    of(tmp_path, name, "Hello.\n\n" + marks * (100_000 // len(marks)))
    assert time.process_time() - started < 10


def test_comments_pictures_and_headings_of_markdown(tmp_path):
    text = '# One #\n\nA <!-- not\nsaid --> b ![a\npicture](x(1).png) c [link](u "t") 1 <!-- 2.\n'
    assert texts(of(tmp_path, "b.md", text)) == [("One", ["One", "A b .png) c link 1 <!-- 2."])]


def test_headings_in_a_row_make_no_long_title(tmp_path):
    (chapter,) = of(tmp_path, "b.html", "<h1>Heading</h1>" * 20_000 + "a").chapters
    assert len(chapter.title) == 200 and len(chapter.paragraphs) == 20_001


def test_a_chapter_a_line_is_refused(tmp_path):
    with pytest.raises(BookError, match="has 6,000 chapters; at most 5,000 are read"):
        of(tmp_path, "b.html", "<h1>1</h1>a" * 6_000)


@pytest.mark.parametrize(
    "tags",
    ["<b>", "<p><b>", "<b></b>", "</x>", "<table><tr><td>", "<", "&#", "a<sup>1</sup>", "1", "<math>a<mi/>"],
)
def test_a_mass_of_tags_takes_seconds(tmp_path, tags):
    started = time.process_time()
    of(tmp_path, "b.html", "<p>Hello.</p>" + tags * (200_000 // len(tags)))
    assert time.process_time() - started < 30


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "b.txt").write_bytes("Stra\xdfe".encode("latin-1"))
    with pytest.raises(BookError, match="is not UTF-8"):
        read_book(tmp_path / "b.txt")
    (tmp_path / "c.txt").write_text("\n\n")
    with pytest.raises(BookError, match="no chapter to read"):
        read_book(tmp_path / "c.txt")


@pytest.mark.parametrize("ending", [".txt", ".md", ".html"])
def test_a_text_without_a_title_is_called_as_its_file_was(tmp_path, ending):
    path = tmp_path / f"book{ending}"
    path.write_text("We went along the river.\n\nWe sat.")
    assert read_book(path).title == "book"
    assert read_book(path, "The_Long River.v2.txt").title == "The Long River.v2"
    path.write_text(
        {".html": "<title>The Ship</title><p>We sat."}.get(
            ending, "# The Ship\n\nWe sat." if ending == ".md" else "The Ship\n\nWe sat."
        )
    )
    assert read_book(path, "Other.txt").title == "The Ship"


def test_facts_in_toml_before_markdown(tmp_path):
    path = tmp_path / "a.md"
    path.write_text('+++\ntitle = "The Ship"\nlanguage = "de"\n+++\n\nWir gingen.')
    book = read_book(path)
    assert (book.title, book.language) == ("The Ship", "de")
    assert [paragraph.text for part in book.chapters for paragraph in part.paragraphs] == ["Wir gingen."]


@pytest.mark.parametrize("line", ["Chapitre premier", "CAPÍTULO PRIMERO", "Parte prima"])
def test_first_chapters_in_words(tmp_path, line):
    path = tmp_path / "a.txt"
    path.write_text(f"The Ship\n\nIt began so.\n\n{line}\n\nThe text.")
    assert [part.title for part in read_book(path).chapters] == ["The Ship", line]


STORY = "The story goes on for a while, and then it rests."


@pytest.mark.parametrize("ending", [".md", ".html"])
@pytest.mark.parametrize(
    ("above", "part", "name"),
    [
        ("", "PART {}: THE SHOP", "CHAPTER {} — Victory"),
        ("The Book", "Part {}", "Chapter {}"),
        ("", "The Shop {}", "Chapter {}"),
        ("", "Volume {}", "{}. A day"),
        ("", "Band {}", "Kapitel {}"),
    ],
)
def test_parts_do_not_swallow_chapters(tmp_path, ending, above, part, name):
    headings = [(1, above)] if above else []
    for number in (1, 2):
        headings.append((1 + bool(above), part.format(number)))
        chapters = range(3 * number - 2, 3 * number + 1)
        headings += [(2 + bool(above), name.format(chapter)) for chapter in chapters]
    lines = list[str]()
    for level, title in headings:
        is_chapter = level == 2 + bool(above)
        if ending == ".md":
            lines.append(f"{'#' * level} {title}\n\n{STORY if is_chapter else ''}\n")
        else:
            lines.append(f"<h{level}>{title}</h{level}>{f'<p>{STORY}</p>' if is_chapter else ''}")
    path = tmp_path / f"a{ending}"
    path.write_text("\n".join(lines), encoding="utf-8")
    titles = [chapter.title for chapter in read_book(path).chapters]
    assert len(titles) == 6
    assert [title.endswith(name.format(n)) for n, title in enumerate(titles, 1)] == [True] * 6
    assert part.format(1) in titles[0] and part.format(2) in titles[3]


def test_sections_of_chapters_are_no_chapters(tmp_path):
    path = tmp_path / "a.md"
    path.write_text(
        "".join(f"# Chapter {n}\n\n## A day\n\n{STORY}\n\n## A night\n\n{STORY}\n\n" for n in (1, 2))
    )
    assert [chapter.title for chapter in read_book(path).chapters] == ["Chapter 1", "Chapter 2"]


def test_words_divided_at_the_ends_of_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("It was a nega-\ntive and a well-\nknown thing, from 1914-\n1918.³\n\nThe end-\n\nof it.")
    texts = [paragraph.text for part in read_book(path).chapters for paragraph in part.paragraphs]
    assert texts == ["It was a negative and a well-known thing, from 1914-1918.", "The end-", "of it."]


def test_a_title_below_the_number_of_its_chapter_and_that_of_a_part(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(
        "THE LONG ROAD\n\n\nPART ONE\n\nTHE HOUSE\n\nCHAPTER I\n\nIt began.\n\nCHAPTER II.\n"
        "The Sea\n\nIt went on.\n\nPART TWO\n\nCHAPTER III\nThe End\n\nThey came back.\n"
    )
    titles = [chapter.title for chapter in read_book(path).chapters]
    assert titles == [
        "THE LONG ROAD PART ONE THE HOUSE CHAPTER I",
        "CHAPTER II. The Sea",
        "PART TWO CHAPTER III. The End",
    ]


def test_a_text_of_nothing_but_a_header_is_refused(tmp_path):
    with pytest.raises(BookError):
        of(tmp_path, "b.txt", "Title: The Old House\nAuthor: Her\n\n")
