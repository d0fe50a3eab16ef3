"""The EPUB with sound: epubcheck accepts it, and what its files say of each other is true."""

import io
import json
import mimetypes
import shutil
import subprocess
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import soundfile

from extras.books.book import Book, Kind
from extras.books.speaking.sentences import Sentence
from extras.books.writing.overlay import write_overlay
from tests.extras.books.books_made import PNG
from tests.extras.books.writing.chapters_made import bound

SAID = (
    Sentence("One: a <B> & more", 1.2, 0, Kind.HEADING),
    Sentence('"Who is there?" she asked.', 0.2, 1),
    Sentence("[voice:ben]Nobody said a word.", 0.6, 1),
    Sentence("He was in a hurry.", 0.6, 2),
    Sentence("A note at the foot.", 0.6, 3, Kind.FOOTNOTE),
)


@pytest.mark.system
@pytest.mark.parametrize("cover", [PNG, None], ids=["with a cover", "without"])
@pytest.mark.parametrize("language", ["en", "pt-br", "zh-cn"])
def test_epubcheck_finds_nothing(tmp_path, cover, language):
    program = shutil.which("epubcheck")
    if program is None:
        pytest.skip("epubcheck is not installed; on Debian: apt-get install epubcheck")
    chapters = [
        bound(tmp_path / "takes", 1, "One: a <B> & more", SAID),
        bound(tmp_path / "takes", 3, "Part 3", SAID[1:2]),
    ]
    book = Book('A "Small" Book & more', "A. Writer, B. Other", "en", [], cover)
    path, told = tmp_path / "book.epub", tmp_path / "told.json"
    with path.open("wb") as file:
        write_overlay(file, book, chapters, language)
    # Debian's epubcheck is a jar, which not every kernel can execute.
    command = ["java", "-jar", program, str(path), "--json", str(told)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert told.is_file(), done.stderr
    messages = json.loads(told.read_text(encoding="utf-8"))["messages"]
    assert [(message["ID"], message["message"]) for message in messages] == []


OPF, SMIL = "{http://www.idpf.org/2007/opf}", "{http://www.w3.org/ns/SMIL}"


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, bytes]:
    """The files of an EPUB with two chapters and a cover, by name."""
    chapters = [bound(tmp_path, 1, "One", SAID), bound(tmp_path, 3, "Three", SAID[1:2])]
    file = io.BytesIO()
    write_overlay(file, Book("A Book", "A. Writer", "en", [], PNG), chapters, "en")
    with zipfile.ZipFile(file) as made:
        assert made.infolist()[0].filename == "mimetype"
        assert made.infolist()[0].compress_type == zipfile.ZIP_STORED
        return {name: made.read(name) for name in made.namelist()}


def clips(smil: bytes) -> list[tuple[float, float]]:
    """(begin, end) of each clip of sound, in seconds."""
    found = ElementTree.fromstring(smil).iter(f"{SMIL}audio")
    return [(float(element.get("clipBegin")[:-1]), float(element.get("clipEnd")[:-1])) for element in found]


def test_the_durations_in_the_package_are_those_of_the_clips(parts):
    package = ElementTree.fromstring(parts["OPS/book.opf"])
    durations = {
        element.get("refines", ""): float(element.text[:-1])
        for element in package.iter(f"{OPF}meta")
        if element.get("property") == "media:duration"
    }
    chapters = {
        f"#o{number}": sum(end - begin for begin, end in clips(parts[f"OPS/c{number}.smil"]))
        for number in (1, 3)
    }
    assert durations == pytest.approx({**chapters, "": sum(chapters.values())}, abs=0.01)
    for number in (1, 3):
        whole = soundfile.info(io.BytesIO(parts[f"OPS/c{number}.mp3"])).duration
        spans = clips(parts[f"OPS/c{number}.smil"])
        assert 0 < spans[0][0] and spans == sorted(spans) and spans[-1][1] <= whole + 0.05


def test_the_package_lists_every_file_and_each_clip_has_its_text(parts):
    package = ElementTree.fromstring(parts["OPS/book.opf"])
    items = {element.get("href"): element for element in package.iter(f"{OPF}item")}
    assert {f"OPS/{name}" for name in items} | {"mimetype", "META-INF/container.xml", "OPS/book.opf"} == set(
        parts
    )
    kinds = {name: mimetypes.guess_type(name)[0] for name in items if not name.endswith("smil")}
    assert {name: items[name].get("media-type") for name in kinds} == kinds
    ids = {item.get("id"): item.get("href") for item in items.values()}
    spine = [ids[element.get("idref")] for element in package.iter(f"{OPF}itemref")]
    assert spine == ["c1.xhtml", "c3.xhtml"]
    assert items["nav.xhtml"].get("properties") == "nav"
    assert items["cover.png"].get("properties") == "cover-image"
    for page in spine:
        overlay = ids[items[page].get("media-overlay")]
        assert overlay == page.replace("xhtml", "smil")
        texts = [
            element.get("src")
            for element in ElementTree.fromstring(parts[f"OPS/{overlay}"]).iter(f"{SMIL}text")
        ]
        spans = ElementTree.fromstring(parts[f"OPS/{page}"]).iter("{http://www.w3.org/1999/xhtml}span")
        assert texts == [f"{page}#{span.get('id')}" for span in spans] and texts
