"""Page numbers, notes, licences and the like are left out as real books mark them; text stays."""

import time
from itertools import groupby
from pathlib import Path

import pytest

from extras.books.book import Book, Kind
from extras.books.formats.book_reader import read_book
from extras.books.formats.furniture import title_of_book
from tests.extras.books.books_made import page, write_epub


def book_of(folder: Path, body: str, version: int = 3) -> Book:
    return read_book(write_epub(folder / "b.epub", {"a.xhtml": page(body)}, [], version=version))


def read_aloud(book: Book) -> list[str]:
    return [
        paragraph.text
        for part in book.read_aloud
        for paragraph in part.paragraphs
        if paragraph.kind is not Kind.FOOTNOTE
    ]


def notes_of(book: Book) -> list[str]:
    return [
        paragraph.text
        for part in book.read_aloud
        for paragraph in part.paragraphs
        if paragraph.kind is Kind.FOOTNOTE
    ]


PAGE_NUMBERS = [
    "<span class='pagenum'>(Pg 12)</span>",
    "<span class='pagenum'><a name='Page_12' id='Page_12'>[Pg 12]</a></span>",
    "<span class='pagenum'>[Pg <a id='Page_12'>12</a>]</span>",
    "<span class='pageno' title='12'>12</span>",
    "<span class='folionum'>xii</span>",
    "<span class='page-number'>12</span>",
    "<span class='page_num'>[Blank Page]</span>",
    "<span class='x-ebookmaker-pageno' title='12'><a id='page_12'></a></span>",
    "<span epub:type='pagebreak' id='p12' title='12'>12</span>",
    "<span role='doc-pagebreak' aria-label='12'>12</span>",
    "<div class='pagenum'>12</div>",
    "<a id='page12'>(p. 12)</a>",
    "<a id='p12'>12</a>",
    "<span class='page'>Page 12</span>",
    # Class names from Calibre and from tools in other languages.
    "<span class='pagenum1'>12</span>",
    "<span id='c-12' class='page_number3'>xii</span>",
    "<span class='seitenzahl'>[12]</span>",
    "<span class='pagenr'>12</span>",
    "<span class='pn'>12</span>",
    "<span class='ocr-page'>12</span>",
    "<small class='verse-num'>3</small>",
    "<span class='superscript'><a href='n.xhtml#n3'>3</a></span>",
    "<span class='pb'>|12|</span>",
    "[Pg 12]",
    "[Page xii]",
    "(Pg 12)",
    "{12}",
    "{Page 12}",
    "<span class='linenum'>12</span>",
    "<span class='line-number'>12</span>",
    "<span class='runningheader'>THE SHIP</span>",
    "<span style='display: none'>12</span>",
]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mark", PAGE_NUMBERS)
def test_page_numbers_are_not_read(tmp_path, mark, version):
    body = f"<h1>One</h1><p>We went along the{mark} river. Then {mark}we sat.</p>"
    assert read_aloud(book_of(tmp_path, body, version)) == ["One", "We went along the river. Then we sat."]


@pytest.mark.parametrize(
    "element",
    [
        "<p class='pagenum'>12</p>",
        "<div class='pagenum'><p>[Pg 12]</p></div>",
        "<p class='page'>12</p>",
        "<p id='Page_12'>12</p>",
        "<h6 class='pagenum'>12</h6>",
    ],
)
def test_page_numbers_that_are_paragraphs_are_not_read(tmp_path, element):
    assert read_aloud(book_of(tmp_path, f"<p>One.</p>{element}<p>Two.</p>")) == ["One.", "Two."]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<div class='page'><p>It was then</p><p>1914.</p></div>", ["It was then", "1914."]),
        ("<div id='page12'><h2>XII</h2><p>All of it.</p></div>", ["XII", "All of it."]),
        ("<p class='p1'>1914</p><p id='p12'>12 men came.</p>", ["1914", "12 men came."]),
        ("<p><span class='page'>A page of text that is long.</span></p>", ["A page of text that is long."]),
        (
            "<span class='pagenum'>12 and it never closes, for all of the paragraph that follows it.",
            ["12 and it never closes, for all of the paragraph that follows it."],
        ),
        (
            "<p>x<sup>2</sup>, see (p. 12), [12] and <a href='#Page_12'>12</a>.</p>",
            ["x², see (p. 12), [12] and 12."],
        ),
        ("<p class='note'>N. B.</p><div class='content'><p>All.</p></div>", ["N. B.", "All."]),
        ("<div class='toc-page' id='contents'><h1 class='toc'>One</h1><p>All.</p></div>", ["One", "All."]),
        ("<h2 id='toc'>Two</h2><p>All.</p>", ["Two", "All."]),
        (
            "<header><h1>One</h1></header><p>All.</p><footer><p>The end.</p></footer>",
            ["One", "All.", "The end."],
        ),
        ("<div class='header'><h1>One</h1></div><p>All.</p>", ["One", "All."]),
        ("<h2>CONTENTS</h2><p>A list.</p><h3>CHAPTER I</h3><p>All.</p>", ["CHAPTER I", "All."]),
        (
            "<section epub:type='dedication'><p>To her.</p></section>"
            "<section epub:type='epigraph'><p>So be it.</p></section>",
            ["To her.", "So be it."],
        ),
    ],
)
def test_what_only_resembles_it_is_read(tmp_path, body, said):
    assert read_aloud(book_of(tmp_path, body)) == said


NOTES = [
    # (the mark, the note, the text read with --footnotes)
    (
        "<a class='fnanchor' id='FNanchor_1_1' href='#Footnote_1_1'>[1]</a>",
        "<div class='footnote'><p><a id='Footnote_1_1' href='#FNanchor_1_1'><span class='label'>[1]"
        "</span></a> A note.</p></div>",
    ),
    (
        "<a class='fnanchor' href='#Footnote_A_1'>[A]</a>",
        "<p><a id='Footnote_A_1' href='#FNanchor_A_1'>[A]</a> A note.</p>",
    ),
    ("<a href='#fn1' id='fnref1'>1</a>", "<p id='fn1'>A note. <a href='#fnref1'>↩</a></p>"),
    (
        "<a href='notes.xhtml#note-3' id='noteref-3' epub:type='noteref'>3</a>",
        "<ol><li id='note-3' epub:type='endnote'><p>A note. <a href='#noteref-3' "
        "epub:type='backlink'>↩</a></p></li></ol>",
    ),
    (
        "<a href='#_ftn1' id='_ftnref1'><sup>1</sup></a>",
        "<p class='MsoFootnoteText'><a href='#_ftnref1' id='_ftn1'>[1]</a> A note.</p>",
    ),
    ("<sup class='footnote'>1</sup>", "<aside class='footnotes'><p>A note.</p></aside>"),
    ("<sup>[1]</sup>", "<h4>Footnotes:</h4><p>A note.</p>"),
    ("<a role='doc-noteref' href='#x'>a</a>", "<div role='doc-footnote'>A note.</div>"),
    ("<span class='footnote'>A note.</span>", ""),
]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("mark", "note"), NOTES)
def test_footnotes_are_footnotes(tmp_path, mark, note, version):
    book = book_of(tmp_path, f"<h1>One</h1><p>He left{mark} early.</p>{note}", version)
    assert read_aloud(book) == ["One", "He left early."]
    assert notes_of(book)[-1] == "A note."


GUTENBERG_HEADER = (
    "<section class='pg-boilerplate pgheader' id='pg-header' lang='en'><h2 id='pg-header-heading'>"
    "The Project Gutenberg eBook of Moby Dick</h2><div>This eBook is for the use of anyone.</div>"
    "<div id='pg-machine-header'><p><strong>Title</strong>: Moby Dick</p></div>"
    "<div id='pg-start-separator'><span>*** START OF THE PROJECT GUTENBERG EBOOK MOBY DICK ***"
    "</span></div></section>"
)
GUTENBERG_FOOTER = (
    "<section class='pg-boilerplate pgfooter' id='pg-footer'><div id='pg-end-separator'>*** END OF "
    "THE PROJECT GUTENBERG EBOOK MOBY DICK ***</div><h2>THE FULL PROJECT GUTENBERG LICENSE</h2>"
    "<p>Please read this.</p></section>"
)
OLD_HEADER = (
    "<p>The Project Gutenberg EBook of Moby Dick, by Herman Melville</p><p>This eBook is for the "
    "use of anyone.</p><p>Title: Moby Dick</p><p>***START OF THIS PROJECT GUTENBERG EBOOK MOBY "
    "DICK***</p><p>E-text prepared by Jonathan Ingram</p>"
)
OLD_FOOTER = (
    "<p>End of the Project Gutenberg EBook of Moby Dick, by Herman Melville</p><p>*** END OF THIS "
    "PROJECT GUTENBERG EBOOK MOBY DICK ***</p><p>***** This file should be named x *****</p>"
)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("header", "footer"), [(GUTENBERG_HEADER, GUTENBERG_FOOTER), (OLD_HEADER, OLD_FOOTER)]
)
def test_an_epub_of_project_gutenberg(tmp_path, header, footer, version):
    """The header shares a document with the first chapter; the licence may share one, too."""
    documents = {
        "h-0.xhtml": page(
            f"<div id='pgepub-root-div'>{header}<h1>MOBY DICK</h1><h2>CONTENTS.</h2>"
            "<table><tr><td>I.</td><td>Loomings</td></tr></table>"
            "<h2 id='c1'>CHAPTER 1. Loomings.</h2><p>Call me Ishmael.</p></div>",
            "The Project Gutenberg eBook of Moby Dick, by Herman Melville",
        ),
        "h-1.xhtml": page(f"<h2>CHAPTER 2.</h2><p>I stuffed a shirt.</p>{footer}"),
        "h-2.xhtml": page("<p>Section 1. General Terms of Use.</p>"),
    }
    lines = [("CHAPTER 1. Loomings.", "h-0.xhtml#c1"), ("CHAPTER 2.", "h-1.xhtml")]
    book = read_book(write_epub(tmp_path / "b.epub", documents, lines, version=version))
    assert [(chapter.title, [said.text for said in chapter.paragraphs]) for chapter in book.read_aloud] == [
        ("MOBY DICK", ["MOBY DICK"]),
        ("CHAPTER 1. Loomings.", ["CHAPTER 1. Loomings.", "Call me Ishmael."]),
        ("CHAPTER 2.", ["CHAPTER 2.", "I stuffed a shirt."]),
    ]
    assert {chapter.left_out for chapter in book.chapters} == {"", "licence", "contents"}
    # Nothing is lost: each text that is not read aloud is kept with its reason.
    licence = [
        said.text for chapter in book.chapters if chapter.left_out == "licence" for said in chapter.paragraphs
    ]
    assert "This eBook is for the use of anyone." in licence
    assert licence[-1] == "Section 1. General Terms of Use."


def test_a_page_of_project_gutenberg(tmp_path):
    (tmp_path / "b.html").write_text(
        "<html lang='eng'><title>Moby Dick | Project Gutenberg</title><body>"
        f"{GUTENBERG_HEADER}<h2>One</h2><p>Call me Ishmael.</p>{GUTENBERG_FOOTER}"
    )
    book = read_book(tmp_path / "b.html")
    assert (book.title, book.language) == ("Moby Dick", "en")
    assert read_aloud(book) == ["One", "Call me Ishmael."]


def test_a_book_of_standard_ebooks(tmp_path):
    def section(kind: str, body: str, matter: str = "frontmatter") -> str:
        return page(f"<section id='{kind}' epub:type='{kind}'>{body}</section>", kind, matter)

    documents = {
        "titlepage.xhtml": section("titlepage", "<h1>Moby Dick</h1><p>By <b>Him</b>.</p>"),
        "imprint.xhtml": section("imprint", "<h2>Imprint</h2><p>This ebook is a product.</p>"),
        "dedication.xhtml": section("dedication", "<p>To Hawthorne.</p>"),
        "halftitlepage.xhtml": section("halftitlepage", "<h2>Moby Dick</h2>"),
        "chapter-1.xhtml": section(
            "chapter",
            "<h2>I</h2><p>Call me Ishmael.<a href='endnotes."
            "xhtml#note-1' id='noteref-1' epub:type='noteref'>1</a></p>",
            "bodymatter",
        ),
        "endnotes.xhtml": section(
            "endnotes",
            "<h2>Endnotes</h2><ol><li id='note-1'><p>Or not. "
            "<a epub:type='backlink' href='#'>↩</a></p></li></ol>",
            "backmatter",
        ),
        "colophon.xhtml": section("colophon", "<h2>Colophon</h2><p>Published in 1851.</p>"),
        "uncopyright.xhtml": section("copyright-page", "<h2>Uncopyright</h2><p>Free.</p>"),
    }
    lines = [(name.removesuffix(".xhtml").title(), name) for name in documents]
    for contents in (lines, []):
        book = read_book(write_epub(tmp_path / "b.epub", documents, contents))
        assert read_aloud(book) == ["To Hawthorne.", "I", "Call me Ishmael."]
        reasons = [chapter.left_out for chapter in book.chapters if chapter.left_out]
        assert [reason for reason, _ in groupby(reasons)] == [
            "title page",
            "copyright",
            "title page",
            "notes",
            "copyright",
        ]


@pytest.mark.parametrize(
    "mark", ["class='{}'", "id='{}'", "epub:type='{}'"], ids=["class", "id", "epub:type"]
)
@pytest.mark.parametrize(
    "name", ["titlepage", "halftitlepage", "copyright-page", "imprint", "colophon", "toc", "loi"]
)
def test_sections_of_one_document_by_any_of_their_names(tmp_path, mark, name):
    body = f"<section {mark.format(name)}><h2>Of it</h2><p>No story.</p></section><p>It begins.</p>"
    book = book_of(tmp_path, body)
    assert read_aloud(book) == ["It begins."]
    assert [said.text for chapter in book.chapters if chapter.left_out for said in chapter.paragraphs] == [
        "Of it",
        "No story.",
    ]


@pytest.mark.parametrize(
    "links",
    [
        "<nav><a href='a'>Back</a> <a href='b'>On</a></nav>",
        "<div class='navigation'><a href='a'>Back</a></div>",
        "<p role='navigation'><a href='a'>Back</a></p>",
        "<p class='back-to-top'><a href='#top'>Back</a></p>",
    ],
)
def test_links_to_move_about_are_not_read(tmp_path, links):
    assert read_aloud(book_of(tmp_path, f"{links}<h1>One</h1><p>All.</p>{links}")) == ["One", "All."]


def test_a_guide_that_leads_into_the_book_leaves_nothing_out(tmp_path):
    path = write_epub(
        tmp_path / "b.epub",
        {"a.xhtml": page("<h1>One</h1><p>All.</p>")},
        [],
        version=2,
        guide={"toc": "a.xhtml#toc"},
    )
    assert read_aloud(read_book(path)) == ["One", "All."]
    write_epub(
        path,
        {"a.xhtml": page("<p>A list.</p>"), "b.xhtml": page("<p>All.</p>")},
        [],
        version=2,
        guide={"title-page": "a.xhtml"},
    )
    assert read_aloud(read_book(path)) == ["All."]


@pytest.mark.parametrize(
    ("begun", "said"),
    [
        ("<p><img class='dropcap' alt='W' src='w.png'/>hen it was day.</p>", "When it was day."),
        ("<p><span class='letra'><img src='i' alt='I'/></span>T is a truth.</p>", "IT is a truth."),
        ("<p>“<img alt='W'/> hen it was day.</p>", "“When it was day."),
        ("<div class='figleft'><img alt='W'/></div><p>hen it was day.</p>", "When it was day."),
        ("<div class='figleft'><img alt='W'/></div><p>HEN it was day.</p>", "WHEN it was day."),
        ("<p><img alt='Decorative letter W'/>hen it was day.</p>", "When it was day."),
        ("<p><img alt='A drop cap O'/>nce it was day.</p>", "Once it was day."),
        ("<p class='dropcap'>W</p><p>hen it was day.</p>", "When it was day."),
        ("<div class='drop-cap'>W</div>\n<p>hen it was day.</p>", "When it was day."),
        ("<p>W</p><p>hen it was day.</p>", "When it was day."),
        ("<p><span class='dropcap'>W</span>\n hen it was day.</p>", "When it was day."),
        ("<p><span class='first-letter'>“W</span>hen it was day.</p>", "“When it was day."),
        ("<p><img alt='A'/> man came.</p>", "A man came."),
        ("<p><img alt='A'/>nd he came.</p>", "And he came."),
        ("<p><img alt='I'/>t was day.</p>", "It was day."),
        ("<p class='dropcap'>I</p><p>walked on.</p>", "I walked on."),
        # Letters with marks: a combining accent, vowel signs and conjuncts of Indic scripts.
        ("<p><span class='dropcap'>E\u0301</span>t il vint.</p>", "E\u0301t il vint."),
        ("<p><span class='dropcap'>କି</span>ଛି ନାହିଁ।</p>", "କିଛି ନାହିଁ।"),
        ("<p><span class='dropcap'>हि</span>न्दी है।</p>", "हिन्दी है।"),
        ("<p class='dropcap'>क्ष</p><p>मा करो।</p>", "क्षमा करो।"),
        ("<p><span class='dropcap'>क</span>िताब है।</p>", "किताब है।"),
        # Not drop caps.
        ("<p><img alt='A ship at sea'/>It was day.</p>", "It was day."),
        ("<div><img alt='X'/></div><p>The map was old.</p>", "The map was old."),
        ("<p>Press <img alt='X'/> now.</p>", "Press now."),
        ("<p><span class='dropcap'>W</span>hen it was day.</p>", "When it was day."),
    ],
)
def test_a_first_letter_belongs_to_its_word(tmp_path, begun, said):
    assert read_aloud(book_of(tmp_path, f"<h2>One</h2>{begun}<p>The end.</p>")) == ["One", said, "The end."]


def test_a_letter_that_begins_no_word_is_read(tmp_path):
    body = "<p>A</p><p>ABBEY: a house.</p><ul><li>B</li><li>banana</li></ul><p>C</p>"
    assert read_aloud(book_of(tmp_path, body)) == ["A", "ABBEY: a house.", "B", "banana", "C"]


@pytest.mark.parametrize(
    ("title", "own"),
    [
        (
            "The Project Gutenberg eBook of Moby Dick; Or, The Whale, by Herman Melville.",
            "Moby Dick; Or, The Whale",
        ),
        ("Moby Dick | Project Gutenberg", "Moby Dick"),
        ("Project Gutenberg's Moby Dick, by Herman Melville", "Moby Dick"),
        ("The Project Gutenberg Etext of Stand by Me by Him", "Stand"),
        ("Death by Water", "Death by Water"),
    ],
)
def test_the_title_without_the_name_of_project_gutenberg(title, own):
    assert title_of_book(title) == own


@pytest.mark.parametrize(
    "tags",
    [
        "<img alt='W'>",
        "<span class='footnote'>a b</span>",
        "<a id='Page_1'>1</a> b ",
        "<span class='dropcap'>",
        "<p>W</p>",
        "<span class='pagenum'>1",
        "<p class='toc'>a",
    ],
)
def test_a_mass_of_furniture_takes_seconds(tmp_path, tags):
    (tmp_path / "b.html").write_text("<p>Hello.</p><p>W" + tags * (100_000 // len(tags)))
    started = time.process_time()
    assert read_book(tmp_path / "b.html").read_aloud
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "letter",
    [
        "<img src='cover.png' alt='' title='W'/>",
        "<img src='cover.png' alt='[W]'/>",
        "<span style='float: left; font-size: 3em'>W</span>",
        "<span style='font-size: 300%; line-height: 1; float:left'>W</span>",
        "<span class='dropcap4'>W</span>",
    ],
)
def test_first_letters_by_style_title_and_brackets(tmp_path, letter):
    body = f"<h1>One</h1><p>{letter}e went along.</p><p>Y, <img alt='A boat' title='X'/>again.</p>"
    assert read_aloud(book_of(tmp_path, body)) == ["One", "We went along.", "Y, again."]


def test_notes_in_the_margin_do_not_cut_a_sentence(tmp_path):
    note = "<span class='sidenote'>The river.</span>"
    book = book_of(tmp_path, f"<h1>One</h1><p>We went{note} along.</p><p class='notetx'>1 So.</p>")
    assert read_aloud(book) == ["One", "We went along."]
    assert notes_of(book) == ["The river.", "1 So."]


def test_an_index_is_left_out_by_its_class(tmp_path):
    body = "<h1>One</h1><p>We went.</p><div class='index'><p>apple, 3</p></div>"
    assert read_aloud(book_of(tmp_path, body)) == ["One", "We went."]
    assert read_aloud(book_of(tmp_path, body.replace("class=", "id="))) == ["One", "We went.", "apple, 3"]
