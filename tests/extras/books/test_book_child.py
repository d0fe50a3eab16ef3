"""The child process that reads a book for the service: arguments, messages and refusals."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from extras.books import book_child
from tests.extras.books.books_made import chapter, page, write_epub
from tests.models import tiny_voice


@pytest.fixture(autouse=True)
def of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the child's process-wide settings from other tests."""
    monkeypatch.setattr(book_child, "limit_omp_spinning", lambda: None)
    monkeypatch.setattr(book_child, "limit_onednn_cache", lambda: None)


def read(epub: Path, to: Path, voice: Path, *words: str) -> int:
    return book_child.main([str(epub), "--to", str(to), "--spec", json.dumps({"name": str(voice)}), *words])


def test_it_reads_as_the_command_does_and_its_report_names_no_command(tmp_path):
    documents = {"a.xhtml": chapter(1, "The word שלום was on the wall.")}
    epub, to = write_epub(tmp_path / "book.epub", documents), tmp_path / "out"
    voice = tiny_voice(tmp_path / "voice")
    assert read(epub, to, voice, "--format", "wav", "--retakes", "0") == 0
    assert json.loads((to / "plan.json").read_text())["title"] == "A Small Book"
    assert [path.name for path in to.glob("*.wav")] == ["01 Chapter 1.wav"]
    report = (to / "report.html").read_text()
    assert "left out: שלום" in report
    assert "Speak it again with" not in report and str(tmp_path) not in report
    # An uploaded text is stored under another name.
    (tmp_path / "book.txt").write_text("It was late.")
    assert read(tmp_path / "book.txt", to, voice, "--plan", "--called=The Sea.txt") == 0
    assert json.loads((to / "plan.json").read_text())["title"] == "The Sea"


def test_what_cannot_be_read_is_a_sentence_before_a_voice_is_loaded(tmp_path, capsys):
    (tmp_path / "book.epub").write_bytes(b"no zip")
    assert read(tmp_path / "book.epub", tmp_path / "out", tmp_path / "gone") == 2
    assert "cannot be opened as a ZIP file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# A new process: in this one, the memory that earlier tests freed would be enough.
LIMITED = """
import resource, sys
from extras.books import order
from extras.books import book_child
order.MAX_READING_BYTES = 32 << 20
before = resource.getrlimit(resource.RLIMIT_AS)
code = book_child.main(sys.argv[1:])
assert resource.getrlimit(resource.RLIMIT_AS) == before
sys.exit(code)
"""


@pytest.mark.slow
def test_a_book_that_takes_too_much_memory_is_refused(tmp_path):
    """A few kilobytes that unpack to a huge text, within all other limits."""
    documents = {f"c{n}.xhtml": page(f"<p>{'a' * 900_000}</p>") for n in range(80)}
    epub = write_epub(tmp_path / "book.epub", documents)
    assert epub.stat().st_size < 200_000
    words = (str(epub), "--to", str(tmp_path / "out"), "--spec", json.dumps({"name": "gone"}))
    command = (sys.executable, "-c", LIMITED, *words)
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "of memory to be read" in done.stderr
