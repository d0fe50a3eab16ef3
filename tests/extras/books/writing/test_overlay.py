"""epubcheck accepts the EPUB with sound."""

import json
import shutil
import subprocess

import pytest

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
    assert [(one["ID"], one["message"]) for one in messages] == []
