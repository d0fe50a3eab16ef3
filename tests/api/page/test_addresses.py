"""Every address of the page is relative, so that a proxy can put the service below a path."""

import re

from api.page_files import STYLE_NAMES, styles
from api.parts import PAGE, page_folders

# An address of this host that begins at its root.
ABSOLUTE = re.compile(r"""(?:href|src|action)=["']/|url\(["']?/|from ["']/|import\(["'`]/""")
ASKING = re.compile(r"\bfetch\(|XMLHttpRequest|new EventSource|new WebSocket|sendBeacon|location\.origin")


def test_no_address_of_the_page_begins_at_the_root_of_the_host():
    files = [
        path
        for folder in (PAGE, *page_folders().values())
        for path in folder.rglob("*")
        if path.suffix in {".html", ".css", ".js"}
    ]
    assert len(files) > 20
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert {name: ABSOLUTE.findall(text) for name, text in texts.items() if ABSOLUTE.search(text)} == {}
    # `request` alone asks the service, and completes its paths.
    assert [name for name, text in texts.items() if ASKING.search(text)] == ["server.js"]


def test_every_style_sheet_is_served_but_that_of_the_reference():
    assert {path.stem for path in PAGE.glob("*.css")} == {*STYLE_NAMES, "reference"}
    assert all(
        path.read_text(encoding="utf-8") in styles()
        for path in PAGE.glob("*.css")
        if path.stem in STYLE_NAMES
    )
