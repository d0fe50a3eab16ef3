"""EPUBs are read in spine order with titles from the contents; hostile files are refused."""

import time
import zipfile
from pathlib import Path

import pytest

from extras.books.book import BookError, Kind
from extras.books.formats import archive
from extras.books.formats.book_reader import read_book
from tests.extras.books.books_made import CONTAINER, PNG, chapter, page, write_epub


@pytest.mark.parametrize("version", [2, 3])
def test_the_spine_orders_and_the_contents_name(tmp_path, version):
    documents = {f"c{n}.xhtml": chapter(n) for n in (2, 1, 3)}
    lines = [(f"The {n}th", f"c{n}.xhtml") for n in (1, 2, 3)]
    book = read_book(write_epub(tmp_path / "b.epub", documents, lines, version=version))
    assert [chapter.title for chapter in book.chapters] == ["The 2th", "The 1th", "The 3th"]
    assert (book.title, book.author, book.language) == ("A Small Book", "A. Writer", "en")
    assert book.cover == PNG and not book.notes
    assert [paragraph.kind for paragraph in book.chapters[0].paragraphs] == [Kind.HEADING, Kind.TEXT]


@pytest.mark.parametrize(
    ("languages", "code"),
    [
        (["eng"], "en"),
        (["ger"], "de"),
        (["en_US"], "en"),
        (["English"], "en"),
        (["pt-BR"], "pt"),
        (["und", "fra"], "fr"),
        (["mul", "de"], "de"),
        (["zxx"], ""),
        ([], ""),
        (["haw"], "haw"),
    ],
)
def test_the_language_however_it_is_written(tmp_path, languages, code):
    documents = {"a.xhtml": chapter(1)}
    path = write_epub(tmp_path / "b.epub", documents, [], languages=languages)
    assert read_book(path).language == code


def test_the_language_of_the_documents_where_the_package_has_none(tmp_path):
    documents = {"a.xhtml": chapter(1).replace("<html", "<html xml:lang='deu'")}
    path = write_epub(tmp_path / "b.epub", documents, [], languages=["und"])
    assert read_book(path).language == "de"


def test_half_of_the_chapters_are_outside_the_contents(tmp_path):
    documents = {f"c{n}.xhtml": chapter(n) for n in range(1, 7)}
    documents["c2b.xhtml"] = page("<p>This goes on from the last one.</p>")
    lines = [(f"Named {n}", f"c{n}.xhtml") for n in (1, 3, 5)]
    order = ["c1.xhtml", "c2.xhtml", "c2b.xhtml", *(f"c{n}.xhtml" for n in range(3, 7))]
    book = read_book(write_epub(tmp_path / "b.epub", documents, lines, spine=order))
    titles = [chapter.title for chapter in book.chapters]
    assert titles == ["Named 1", "Chapter 2", "Named 3", "Chapter 4", "Named 5", "Chapter 6"]
    assert book.chapters[1].paragraphs[-1].text == "This goes on from the last one."


def test_contents_that_point_into_one_document(tmp_path):
    text = page(
        "<p>Before.</p><h2 id='a'>One</h2><p>First.</p><h2>Inside</h2><p>More.</p>"
        "<h2 id='b'>Two</h2><p>Second.</p>"
    )
    lines = [("One", "all.xhtml#a"), ("Two", "all.xhtml#b"), ("Nowhere", "gone.xhtml")]
    book = read_book(write_epub(tmp_path / "b.epub", {"all.xhtml": text}, lines))
    texts = [[paragraph.text for paragraph in chapter.paragraphs] for chapter in book.chapters]
    assert texts == [["Before."], ["One", "First.", "Inside", "More."], ["Two", "Second."]]


def test_without_contents_each_document_is_a_chapter(tmp_path):
    documents = {"a.xhtml": chapter(1), "b.xhtml": page("<p>No heading.</p>", "B")}
    book = read_book(write_epub(tmp_path / "b.epub", documents, None))
    assert [chapter.title for chapter in book.chapters] == ["Chapter 1"]
    assert "titles come from headings" in book.notes[0]


def nested(levels: int) -> str:
    """An NCX of nested entries, each for a document; the second has no title."""
    line = '<navPoint><navLabel><text>Line {0}</text></navLabel><content src="c{0}.xhtml"/>'
    begun = [line.format(number) for number in range(levels)]
    begun[1] = '<navPoint><content src="c1.xhtml"/>'
    return f"<ncx><navMap>{''.join(begun)}{'</navPoint>' * levels}</navMap></ncx>"


@pytest.mark.parametrize(("levels", "first"), [(190, "Line 0"), (100_000, "Chapter 0")])
def test_contents_deep_in_one_another_are_read_or_noted(tmp_path, levels, first):
    documents = {f"c{n}.xhtml": chapter(n) for n in range(3)}
    path = write_epub(tmp_path / "b.epub", documents, None, version=2, others={"OPS/toc.ncx": nested(levels)})
    book = read_book(path)
    assert [chapter.title for chapter in book.chapters] == [first, "Chapter 1", first.replace("0", "2")]
    assert all("more than 200 levels of nesting" in note for note in book.notes)
    assert len(book.notes) == (levels > 200)


def test_what_a_reader_would_not_say(tmp_path):
    body = (
        "<h1>One</h1><p>He left<a epub:type='noteref' href='#n'>1</a> early<sup><a href='#n'>2</a>"
        "</sup> today<a href='#n'><sup>3</sup></a> at x<sup>2</sup> <a href='#c'>page 4</a>.</p>"
        "<span epub:type='pagebreak'>17</span><script>var x = '<p>no</p>';</script>"
        "<table><tr><th>Year</th><th>Ships</th></tr><tr><td>1901</td><td>Twelve.</td></tr></table>"
        "<p>so\u00adft <ruby>kanji<rt>reading</rt></ruby></p>"
        "<aside epub:type='footnote' id='n'><p>1. A note.</p></aside>"
    )
    documents = {
        "cover.xhtml": page("<p>Cover of it</p>", kind="cover"),
        "c.xhtml": page("<h1>Copyright</h1><p>All rights.</p>"),
        "one.xhtml": page(body),
    }
    book = read_book(write_epub(tmp_path / "b.epub", documents, [("One", "one.xhtml")]))
    assert [chapter.left_out for chapter in book.chapters] == ["cover", "copyright", ""]
    (read,) = book.read_aloud
    assert [(paragraph.kind.value, paragraph.text) for paragraph in read.paragraphs] == [
        ("heading", "One"),
        ("text", "He left early today at x² page 4."),
        ("table", "Year, Ships"),
        ("table", "1901, Twelve."),
        ("text", "soft kanji"),
        ("footnote", "1. A note."),
    ]


def test_more_chapters_than_a_book_has_are_refused_within_seconds(tmp_path):
    documents = {f"c{n}.xhtml": chapter(n) for n in range(5_001)}
    lines = [(f"Number {n}", f"c{n}.xhtml") for n in range(5_001)]
    path = write_epub(tmp_path / "b.epub", documents, lines)
    started = time.process_time()
    assert "has 5,001 chapters; at most 5,000 are read. Split it." in refused(path)
    assert time.process_time() - started < 60


def test_long_titles_authors_and_notes_are_cut(tmp_path):
    documents = {"a.xhtml": chapter(1)}
    lines = [("t" * 100_000, "a.xhtml")]
    path = write_epub(tmp_path / "b.epub", documents, lines, title="b" * 100_000, author="w" * 100_000)
    book = read_book(path)
    (kept,) = book.chapters
    assert (book.title, book.author, kept.title) == ("b" * 200, "w" * 200, "t" * 200)


def test_a_mass_of_lines_for_one_document_takes_seconds(tmp_path):
    lines = [("One", "a.xhtml")] * 20_000
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": chapter(1)}, lines)
    started = time.process_time()
    assert [chapter.title for chapter in read_book(path).chapters] == ["One"]
    assert time.process_time() - started < 10


def test_right_to_left_and_mixed_scripts(tmp_path):
    body = "<h1>פרק א</h1><p dir='rtl'>\u202bשלום\u202c world, 你好 и مرحبا.</p>"
    book = read_book(write_epub(tmp_path / "b.epub", {"a.xhtml": page(body)}, []))
    assert book.chapters[0].title == "פרק א"
    assert book.chapters[0].paragraphs[1].text == "שלום world, 你好 и مرحبا."


def test_utf_16_is_read(tmp_path):
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": chapter(1)}, [])
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    parts["OPS/a.xhtml"] = chapter(1, "Ein schöner Tag.").replace("utf-8", "utf-16").encode("utf-16")
    with zipfile.ZipFile(path, "w") as made:
        for name, content in parts.items():
            made.writestr(name, content)
    assert read_book(path).chapters[0].paragraphs[1].text == "Ein schöner Tag."


# Hostile and broken files


def refused(path: Path) -> str:
    with pytest.raises(BookError) as caught:
        read_book(path)
    return str(caught.value)


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 20))
BOMB = f'<!DOCTYPE x [<!ENTITY l0 "lol">{LAUGHS}]>'
FILE = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize("doctype", [BOMB, FILE], ids=["billion laughs", "a file"])
@pytest.mark.parametrize("where", ["OPS/a.xhtml", "OPS/book.opf", "OPS/toc.ncx"])
def test_entities_are_refused(tmp_path, doctype, where):
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": chapter(1)}, [], version=2)
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name).decode("latin-1") for name in old.namelist()}
    root = "<html" if where.endswith("xhtml") else "<package" if "opf" in where else "<ncx"
    _, after = parts[where].split(root, 1)
    parts[where] = f"{doctype}{root}{after.replace('Chapter', '&e;&l19;')}"
    with zipfile.ZipFile(path, "w") as made:
        for name, content in parts.items():
            made.writestr(name, content.encode("latin-1"))
    assert "entit" in refused(path)


def test_a_zip_bomb_is_refused_while_it_unpacks(tmp_path):
    documents = {"a.xhtml": page("<p>" + "a" * 5_000_000 + "</p>")}
    assert "more than 200 times its size" in refused(write_epub(tmp_path / "b.epub", documents, []))


def test_many_parts_are_refused_together(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 20_000)
    documents = {f"c{n}.xhtml": chapter(n) for n in range(100)}
    assert "together" in refused(write_epub(tmp_path / "b.epub", documents, []))
    monkeypatch.setattr(archive, "MAX_PARTS", 50)
    assert "has 106 parts" in refused(write_epub(tmp_path / "c.epub", documents, []))


def test_no_spine_is_refused(tmp_path):
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": chapter(1)}, [], spine=[])
    assert "lacks a spine" in refused(path)


@pytest.mark.parametrize("name", ["META-INF/rights.xml", "META-INF/license.lcpl"])
def test_drm_is_refused(tmp_path, name):
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": chapter(1)}, [], others={name: "<x/>"})
    assert "DRM" in refused(path)


def encryption(algorithm: str) -> dict[str, str]:
    return {
        "META-INF/encryption.xml": '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:'
        'container" xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData>'
        f'<e:EncryptionMethod Algorithm="{algorithm}"/><e:CipherData>'
        '<e:CipherReference URI="OPS/a.xhtml"/></e:CipherData></e:EncryptedData></encryption>'
    }


def test_encrypted_text_is_refused_and_scrambled_fonts_are_not(tmp_path):
    aes = encryption("http://www.w3.org/2001/04/xmlenc#aes256-cbc")
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": chapter(1)}, [], others=aes)
    assert "OPS/a.xhtml is encrypted" in refused(path)
    font = encryption("http://www.idpf.org/2008/embedding")
    path = write_epub(tmp_path / "c.epub", {"a.xhtml": chapter(1)}, [], others=font)
    assert read_book(path).chapters


def test_other_files_are_refused_with_a_sentence(tmp_path):
    (tmp_path / "b.epub").write_bytes(b"no zip")
    assert "cannot be opened as a ZIP file" in refused(tmp_path / "b.epub")
    assert "allowed are .epub" in refused(tmp_path / "b.pdf")
    assert "cannot be read" in refused(tmp_path / "gone.epub")
    with zipfile.ZipFile(tmp_path / "z.epub", "w") as made:
        made.writestr("a", "b")
    assert refused(tmp_path / "z.epub") == (
        f"{tmp_path}/z.epub is not an EPUB: it is a ZIP file without META-INF/container.xml. "
        "Download it again, or convert it to EPUB with Calibre."
    )
    with zipfile.ZipFile(tmp_path / "p.epub", "w") as made:
        made.writestr("META-INF/container.xml", CONTAINER)
    assert "META-INF/container.xml names OPS/book.opf, which is missing" in refused(tmp_path / "p.epub")
    damaged = write_epub(tmp_path / "d.epub", {"a.xhtml": chapter(1)}, [])
    content = bytearray(damaged.read_bytes())
    at = content.find(b"a.xhtml") + 10
    content[at : at + 8] = b"\xff" * 8
    damaged.write_bytes(content)
    assert "damaged" in refused(damaged)
    assert "no text" in refused(write_epub(tmp_path / "e.epub", {"a.xhtml": page("")}, []))


# Names of parts in other forms


def renamed(path: Path, names: dict[str, str]) -> Path:
    """Copies an archive with other names in it."""
    to = path.with_name(f"renamed {path.name}")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(to, "w") as made:
        for entry in source.infolist():
            made.writestr(names.get(entry.filename, entry.filename), source.read(entry))
    return to


FORMS = {
    "accents": ("m%C3%A8re.xhtml", "OPS/me\u0300re.xhtml"),
    "accents composed": ("me%CC%80re.xhtml", "OPS/m\u00e8re.xhtml"),
    "case": ("Text/Chapter1.xhtml", "ops/text/chapter1.XHTML"),
    "backslash": ("text/a.xhtml", "OPS\\text\\a.xhtml"),
    "backslash in the href": ("text\\a.xhtml", "OPS/text/a.xhtml"),
    "encoded in the archive": ("a%20b.xhtml", "OPS/a%20b.xhtml"),
    "dots": ("./x/../a.xhtml", "OPS/a.xhtml"),
    "not encoded": ("a b \u00e9.xhtml", "OPS/a b \u00e9.xhtml"),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_names_of_parts_match_by_form(tmp_path, form, version):
    href, name = FORMS[form]
    documents = {href: chapter(1), "plain.xhtml": chapter(2)}
    contents = [("The First", href), ("The Second", "plain.xhtml")]
    path = write_epub(tmp_path / "b.epub", documents, contents, version=version)
    book = read_book(renamed(path, {f"OPS/{href}": name}))
    assert [chapter.title for chapter in book.chapters] == ["The First", "The Second"]
    assert not book.notes


def test_names_in_utf_8_without_its_flag(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.epub", "w") as made:
        source = write_epub(tmp_path / "a.epub", {"m%C3%A8re.xhtml": chapter(1)}, [])
        for name in zipfile.ZipFile(source).namelist():
            content = zipfile.ZipFile(source).read(name)
            made.writestr(name.replace("m%C3%A8re", "mXXre"), content)
    path = tmp_path / "b.epub"
    path.write_bytes(path.read_bytes().replace(b"mXXre", "mère".encode()))
    assert [chapter.title for chapter in read_book(path).chapters] == ["Chapter 1"]


def test_an_exact_name_wins(tmp_path):
    documents = {"A.xhtml": chapter(1), "a.xhtml": chapter(2)}
    book = read_book(write_epub(tmp_path / "b.epub", documents, []))
    assert [chapter.title for chapter in book.chapters] == ["Chapter 1", "Chapter 2"]


@pytest.mark.parametrize("kind", ["folder", "packed with its folder"])
def test_a_book_as_a_folder(tmp_path, kind):
    """Apple Books keeps books as folders, and people pack them with the folder."""
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": chapter(1)}, [("One", "a.xhtml")])
    folder = tmp_path / "Folder.epub"
    zipfile.ZipFile(path).extractall(folder)
    (folder / "iTunesMetadata.plist").write_text("")
    if kind != "folder":
        packed = tmp_path / "packed.epub"
        with zipfile.ZipFile(packed, "w") as made:
            for member in folder.rglob("*"):
                made.write(member, f"Some Book/{member.relative_to(folder)}")
                made.writestr(f"__MACOSX/Some Book/._{member.name}", b"x")
        folder = packed
    book = read_book(folder)
    assert [chapter.title for chapter in book.chapters] == ["One"] and book.cover == PNG


def test_a_folder_gives_no_file_outside_it(tmp_path):
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": chapter(1), "b.xhtml": chapter(2)}, [])
    folder = tmp_path / "Folder.epub"
    zipfile.ZipFile(path).extractall(folder)
    (tmp_path / "secret.xhtml").write_text(page("<p>A secret.</p>"))
    (folder / "OPS" / "b.xhtml").unlink()
    (folder / "OPS" / "b.xhtml").symlink_to(tmp_path / "secret.xhtml")
    book = read_book(folder)
    assert [chapter.title for chapter in book.chapters] == ["Chapter 1"] and "b.xhtml" in book.notes[0]


# Parts

STORY = "<p>The story goes on for a while, and then it rests.</p>"


def nested_nav(parts: dict[str, list[tuple[str, str]]], hrefs: list[str]) -> str:
    lines = "".join(
        f'<li><a href="{href}">{title}</a><ol>'
        + "".join(f'<li><a href="{target}">{name}</a></li>' for name, target in chapters)
        + "</ol></li>"
        for href, (title, chapters) in zip(hrefs, parts.items(), strict=True)
    )
    return page(f'<nav epub:type="toc"><ol>{lines}</ol></nav>')


@pytest.mark.parametrize("layout", ["one file", "a file for each part", "without contents"])
@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("Part {}", "Chapter {}"),
        ("Vol. {}: Road", "{}. A Title"),
        ("The Shop {}", "Chapter {}: A Day"),
        ("Zweites Buch {}", "Kapitel {}"),
    ],
)
def test_parts_do_not_swallow_chapters(tmp_path, layout, part, name):
    documents, parts, hrefs = dict[str, str](), dict[str, list[tuple[str, str]]](), list[str]()
    body = ""
    for number in (1, 2):
        file = "all.xhtml" if layout == "one file" else f"p{number}.xhtml"
        body += f"<h1 id='p{number}'>{part.format(number)}</h1>"
        chapters = [(name.format(n), f"{file}#c{n}") for n in range(3 * number - 2, 3 * number + 1)]
        for title, href in chapters:
            body += f"<h2 id='{href.partition('#')[2]}'>{title}</h2>{STORY}"
        parts[part.format(number)] = chapters
        hrefs.append(f"{file}#p{number}" if layout == "one file" else file)
        documents[file] = page(body)
        body = body if layout == "one file" else ""
    named = layout != "without contents"
    others = {"OPS/nav.xhtml": nested_nav(parts, hrefs)} if named else {}
    path = write_epub(tmp_path / "b.epub", documents, None, others=others)
    titles = [chapter.title for chapter in read_book(path).chapters]
    if named or name.startswith(("Chapter", "Kapitel")):
        expected = [name.format(n) for n in range(1, 7)]
        expected[0] = f"{part.format(1)} {expected[0]}"
        expected[3] = f"{part.format(2)} {expected[3]}"
        assert titles == expected
    else:
        assert len(titles) == 2


def test_sections_of_a_chapter_are_no_chapters(tmp_path):
    body = "".join(f"<h1 id='c{n}'>Chapter {n}</h1><h2 id='s{n}'>Section {n}</h2>{STORY}" for n in (1, 2, 3))
    parts = {f"Chapter {n}": [(f"Section {n}", f"a.xhtml#s{n}")] for n in (1, 2, 3)}
    nav = nested_nav(parts, [f"a.xhtml#c{n}" for n in (1, 2, 3)])
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": page(body)}, None, others={"OPS/nav.xhtml": nav})
    assert [chapter.title for chapter in read_book(path).chapters] == list(parts)


def test_formulas_that_are_left_out_are_counted_in_a_note(tmp_path):
    body = "<p>It is <math><mroot><mn>2</mn><mn>3</mn></mroot></math> here.</p>"
    path = write_epub(tmp_path / "b.epub", {"a.xhtml": page(body), "b.xhtml": page(body)}, [])
    assert read_book(path).notes == [
        "2 formulas are left out, because only simple ones can be read as words."
    ]
    (tmp_path / "a.html").write_text(body)
    assert "1 formula is left out" in read_book(tmp_path / "a.html").notes[0]
