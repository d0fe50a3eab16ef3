"""Books on the page of the real service: uploaded, planned, corrected, read, saved, deleted."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.page.conftest import Open
from tests.api.page.desk import EVIL, LOOKS, faults, says, too_small, until
from tests.extras.books.test_book_routes import Book
from tests.extras.books.uploads.fake_reader import WAV

pytestmark = pytest.mark.system
# Whether `part` is vertically centred on the text of each row, or on its first line.
BESIDE = """([row, part]) => [...document.querySelectorAll(row)].every((one) => {
  const a = one.querySelector(part).getBoundingClientRect();
  const text = [...one.childNodes].filter((each) => !each.matches?.(part)).map((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return range.getClientRects()[0];
  }).find(Boolean);
  return text.left >= a.right && text.top < a.bottom && text.bottom > a.top;
})"""
STATE = "document.getElementById('book-info').textContent"


def opened(service: Any, open_page: Open, **options: Any) -> Any:
    """The page with the plan of the first book."""
    return open_page(service.address, view="books", ready="#book-chapters tr", **options)


def test_a_book_is_planned_corrected_read_and_saved(service, open_page, tmp_path):
    text = tmp_path / "A Small Book.txt"
    text.write_text("Chapter 1\n\nThe ship left the port. Nobody had seen Qxyz.\n")
    page = open_page(service.address, view="books")
    page.set_input_files("#book-file", str(text))
    until(page, f"{STATE} === 'Planned.'")
    assert page.text_content("#book-title") == "A Small Book, A. Writer"
    assert "Not read aloud: Index (index)." in page.text_content("#book-notes")
    (row,) = service.client.get("/v1/books").json()["books"]
    book = Book.__new__(Book)
    book.service, book.id = service, row["id"]
    page.fill("#book-names input", "kicks us")
    page.click("#book-correct")
    service.wait_until(lambda: book.given()["pronunciations"] == "Qxyz = kicks us\n")
    until(page, f"{STATE} === 'Planned.' && !document.getElementById('book-read').disabled")
    page.uncheck("#book-chapters tr:nth-child(2) input")
    page.check("#book-form input[value=srt]")
    page.focus("#book-read")
    page.keyboard.press("Enter")
    until(page, f"{STATE} === 'Done.'")
    assert {"--chapters=1", "--captions=srt", "--retakes=1"} <= set(book.given()["others"])
    page.wait_for_selector("#book-files li")
    with page.expect_download() as kept:
        page.click("#book-files li button")
    assert kept.value.suggested_filename == "01 One.m4b"
    assert Path(kept.value.path()).read_bytes() == WAV
    # A new plan keeps the ticks; sentences are read again with the options of the last reading.
    assert not page.is_checked("#book-chapters tr:nth-child(2) input")
    page.check("#book-chapters tr:nth-child(2) input")
    page.click("#book-report summary")
    assert "A bad one. cut" in page.text_content("#book-worst")
    page.click("#book-worst li button:nth-of-type(2)")
    until(page, f"{STATE} !== 'Done.'")
    until(page, f"{STATE} === 'Done.'")
    others = book.given()["others"]
    assert any(word.startswith("--again=0123") for word in others) and "--chapters=1" in others
    page.click("#book-read")
    service.wait_until(lambda: "--chapters=1-2" in book.given()["others"])
    until(page, f"{STATE} === 'Done.'")
    page.click("#book-remove")
    page.click("#book-remove")
    until(page, "document.getElementById('book-works').hidden")
    assert service.client.get("/v1/books").json()["books"] == []


def test_a_reading_is_followed_and_stopped(service, open_page, monkeypatch):
    monkeypatch.setenv("FAKE_READER", "hang")
    Book(service).hanging()
    page = opened(service, open_page)
    until(page, f"{STATE}.includes('Chapter 1, 25 %, about 2 min left.')")
    assert page.get_attribute("#book-read", "disabled") is not None
    page.focus("#book-stop")
    page.keyboard.press("Enter")
    until(page, f"{STATE}.startsWith('Stopped.')")


def test_a_refusal_is_shown_as_its_sentence_and_words_stay_words(service, open_page, tmp_path):
    Book(service, f"{EVIL.replace('/', '')[:60]}.txt").ended()
    page = opened(service, open_page)
    page.provoked.append("422")
    wrong = tmp_path / "book.pdf"
    wrong.write_text("x")
    page.set_input_files("#book-file", str(wrong))
    page.wait_for_selector("#books-fault:not([hidden])")
    assert "does not have the ending of a book" in page.text_content("#books-fault")
    for box in page.query_selector_all("#book-chapters input"):
        box.uncheck()
    page.click("#book-read")
    says(page, "books-fault", "Choose a chapter.")


@LOOKS
def test_it_can_be_read_and_touched_at_every_width(service, open_page, scheme, width):
    book = Book(service)
    book.ended()
    book.read()
    size = {"width": width, "height": 844}
    page = opened(service, open_page, color_scheme=scheme, viewport=size, has_touch=width < 400)
    page.wait_for_selector("#book-files li")
    assert faults(page, width, 55) == []
    page.click("#book-report summary")
    # The box is level with the title, and each button with the name of its file or sentence.
    for row, parts in (
        ("#book-chapters .check", "input"),
        ("#book-files li", "button"),
        ("#book-samples li", "button"),
    ):
        assert page.evaluate(BESIDE, [row, parts]), row
    if width < 400:
        touched = "button, .check, input:not([type=checkbox]), select"
        assert too_small(page, f"#books :is({touched})") == []
