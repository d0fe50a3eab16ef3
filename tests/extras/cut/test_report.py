"""`report.html` in a browser: corrections survive a reload and are in every saved file."""

from pathlib import Path
from typing import Any

import pytest

from extras.cut.cutter import CutResult
from extras.cut.writing import WrittenClip, write_report

pytestmark = pytest.mark.system


def report(folder: Path, fingerprint: str = "a" * 64) -> str:
    folder.mkdir()
    clips = [
        WrittenClip(f"tape-000{number}", "tape", 2.0 * number, 1.5, f"As cut {number}.", [-20], "")
        for number in (1, 2, 3)
    ]
    write_report(folder, clips, CutResult([], []), [], fingerprint)
    return (folder / "report.html").as_uri()


def saved(page: Any) -> list[str]:
    with page.expect_download() as download:
        page.click("#save")
    return Path(download.value.path()).read_text(encoding="utf-8").splitlines()


def opened(chromium: Any, address: str) -> Any:
    page = chromium.new_page()
    page.goto(address)
    return page


def test_what_was_corrected_is_in_the_next_file_too(chromium, tmp_path):
    page = opened(chromium, report(tmp_path / "cut"))
    page.get_by_label("What tape-0001 says").fill("The first | day.")
    first = ["tape-0001|The first , day.", "tape-0002|As cut 2.", "tape-0003|As cut 3."]
    assert saved(page) == first
    page.reload()
    assert page.get_by_label("What tape-0001 says").input_value() == "The first | day."
    page.get_by_label("What tape-0002 says").fill("The second day.")
    page.locator(".clip", has_text="tape-0003").get_by_role("checkbox").check()
    page.reload()
    assert saved(page) == [first[0], "tape-0002|The second day."]
    page.close()


def test_a_file_of_another_browser_is_read_and_no_row_of_it_is_lost(chromium, tmp_path):
    page = opened(chromium, report(tmp_path / "cut"))
    rows = ["tape-0001|The first day.", "tape-0003|As cut 3.", "by-hand|Another clip."]
    (tmp_path / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    page.set_input_files("#read", tmp_path / "metadata.csv")
    page.wait_for_function("document.getElementById('state').textContent.startsWith('3 rows')")
    page.get_by_label("What tape-0003 says").fill("The second day.")
    page.reload()
    assert saved(page) == [rows[0], "tape-0003|The second day.", rows[2]]
    (tmp_path / "other.csv").write_text("else|Another dataset.\n", encoding="utf-8")
    page.set_input_files("#read", tmp_path / "other.csv")
    page.wait_for_function("document.getElementById('state').textContent.includes('not read')")
    assert saved(page) == [rows[0], "tape-0003|The second day.", rows[2]]
    page.close()


def test_another_cut_has_none_of_it(chromium, tmp_path):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(report(tmp_path / "one"))
    page.get_by_label("What tape-0001 says").fill("Of the first cut.")
    page.goto(report(tmp_path / "other", "b" * 64))
    assert saved(page)[0] == "tape-0001|As cut 1."
    context.close()
