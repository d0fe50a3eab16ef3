"""Recordings on the page of the real service: uploaded, cut, corrected, deleted. Most tests use a
fake cut, and one uses `python -m train cut`."""

import re
from pathlib import Path
from typing import Any

import pytest

from extras.studio.part import Studio
from tests.api.conftest import Running, running, settings_in
from tests.api.page.conftest import Open
from tests.api.page.desk import EVIL, LOOKS, faults, is_only_words, says, too_small, until
from tests.extras.studio.datasets.calls import Dataset, with_tape
from tests.installed import needs
from tests.tapes import demo_texts, join_demo

pytestmark = pytest.mark.system
STATE = "document.getElementById('cut-info').textContent"


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Uploaded in three pieces."""
    found = tmp_path / "tape.wav"
    found.write_bytes(bytes(range(256)) * 20_000)
    return found


def with_clips(service: Running, name: str = "Anna") -> Dataset:
    found = with_tape(service, name, text=b"Words.")
    assert found.cut()["clips"]["total"] == 2
    return found


def opened(service: Running, open_page: Open, **options: Any) -> Any:
    """The page with the clips of the first dataset."""
    return open_page(service.address, view="train/recordings", ready="#clip-list li", **options)


def test_a_recording_becomes_a_dataset_by_keyboard_alone(service, open_page, tape, tmp_path):
    text = tmp_path / "tape.srt"
    text.write_text("Words.")
    page = open_page(service.address, view="train/recordings")
    until(page, "document.getElementById('dataset-language').value === 'en'")
    page.focus("#dataset-name")
    page.keyboard.type("Anna")
    page.keyboard.press("Enter")
    page.wait_for_selector("#dataset-works:not([hidden])")
    assert page.input_value("#dataset-language") == "en"  # for the next dataset
    assert page.is_disabled("#cut")
    page.set_input_files("#recording-files", tape)  # The browser's file dialog.
    page.wait_for_selector("#recording-list li:has-text('5.1 MB')")
    until(page, "!document.querySelector('#recording-list progress')")
    kept = service.state.part(Studio).datasets.folder / "anna/recordings/tape.wav"
    assert kept.read_bytes() == tape.read_bytes()
    page.set_input_files("#recording-text", text)
    until(page, "document.getElementById('text-info').textContent.includes('srt')")
    page.focus("#cut")
    page.keyboard.press("Enter")
    page.wait_for_selector("#clip-list li >> nth=1")
    assert page.text_content("#cut-info").startswith("Cut.")
    assert page.text_content("#clip-list li .name") == "tape-0002"  # odd clips first
    shares = page.eval_on_selector_all("#account .number:last-child", "all => all.map((o) => o.textContent)")
    assert sum(float(share.rstrip(" %")) for share in shares) == pytest.approx(100, abs=0.2)
    line = page.text_content("#train-line")
    assert re.fullmatch(r"DATASET_DIR=\S+/anna/clips LANGUAGE=en make train", line)
    metadata = service.state.part(Studio).datasets.folder / "anna/clips/metadata.csv"
    page.focus("[data-clip='tape-0001'] textarea")
    page.keyboard.press("Control+a")
    page.keyboard.type("By hand.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("[data-clip='tape-0001'] [role=status]:has-text('Corrected.')")
    assert "tape-0001|By hand.\n" in metadata.read_text()
    page.keyboard.press("Tab")  # The Drop button.
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-clip='tape-0001'].dropped")
    assert "tape-0001" not in metadata.read_text()
    page.focus("[aria-label='Play tape-0002']")
    page.keyboard.press("Enter")
    page.wait_for_selector("[aria-label='Stop tape-0002']")
    page.wait_for_selector("[aria-label='Play tape-0002']")
    page.focus("#dataset-remove")
    page.keyboard.press("Enter")
    assert page.text_content("#dataset-remove") == "Confirm: delete dataset"
    page.keyboard.press("Enter")
    page.wait_for_selector("#dataset-works", state="hidden")
    assert not (service.state.part(Studio).datasets.folder / "anna").exists()


def test_an_upload_that_breaks_off_is_told_and_can_be_sent_again(service, open_page, tape):
    Dataset(service)
    page = open_page(service.address, view="train/recordings")
    page.wait_for_selector("#dataset-works:not([hidden])")
    page.route("**/recordings?name=*", lambda route: route.abort())
    page.provoked.append("ERR_FAILED")
    page.set_input_files("#recording-files", tape)
    page.wait_for_selector("#upload-fault:has-text('tape.wav: The server does not respond.')")
    page.wait_for_selector("#recording-list li", state="detached")
    page.unroute("**/recordings?name=*")
    page.set_input_files("#recording-files", tape)
    page.wait_for_selector("#recording-list [aria-label='Delete tape.wav']")
    kept = service.state.part(Studio).datasets.folder / "anna/recordings/tape.wav"
    assert kept.read_bytes() == tape.read_bytes()


def test_an_upload_can_be_cancelled(service, open_page, tape):
    Dataset(service)
    page = open_page(service.address, view="train/recordings")
    page.wait_for_selector("#dataset-works:not([hidden])")
    held: list[Any] = []
    page.route("**/recordings?name=*", lambda route: held.append(route))
    page.provoked.append("ERR_ABORTED")
    page.set_input_files("#recording-files", tape)
    page.wait_for_selector("#recording-list progress[aria-label='Upload of tape.wav']")
    page.click("[aria-label='Cancel tape.wav'], #recording-list li button")
    page.wait_for_selector("#recording-list li", state="detached")
    assert page.is_hidden("#upload-fault")


def test_a_cut_is_waited_for_and_stopped_and_its_fault_is_told(service, open_page, monkeypatch):
    monkeypatch.setenv("FAKE_CUT", "hang")
    with_tape(service)
    page = open_page(service.address, view="train/recordings")
    page.wait_for_selector("#cut:not(:disabled)")
    page.click("#cut")
    until(page, f"{STATE}.includes('Cutting. tape: 320 of 640 s heard')")
    assert page.is_disabled("#cut") and page.is_disabled("#recording-text")
    page.click("#cut-stop")
    until(page, f"{STATE}.startsWith('Stopped.')")
    monkeypatch.setenv("FAKE_CUT", "refuse")
    page.click("#cut")
    until(page, f"{STATE}.includes('The text does not fit tape.wav')")
    assert page.text_content("#cut") == "Cut again"
    assert page.text_content("#cut-advice").startswith("Compare the transcript with the recording")
    monkeypatch.setenv("FAKE_CUT", "breathless")
    page.click("#cut")
    until(page, f"{STATE}.includes('no pause of 0.12 s from 0:00:01 to 0:01:19 (78.5 s)')")
    assert page.text_content("#cut-advice").startswith("Record again with pauses of 0.12 s or more")
    monkeypatch.delenv("FAKE_CUT")
    page.click("#cut")
    page.wait_for_selector("#clip-list li")
    assert page.is_hidden("#cut-advice")


def test_a_part_without_a_pause_says_where_and_how_long(service, open_page, monkeypatch):
    monkeypatch.setenv("FAKE_CUT", "long")
    with_clips(service)
    page = opened(service, open_page)
    page.wait_for_selector("#pauseless li")
    assert page.text_content("#pauseless summary").startswith("2 parts left out")
    assert page.locator("#pauseless li").all_inner_texts() == [
        "tape: 1:05.0 to 1:27.5, 22.5 s",
        "tape: 0:05.0 to 0:17.5, 12.5 s",
    ]


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("tape: 9.0 s unsure words, 1.0 s clipped.", "Compare the transcript"),
        ("40% of the speech is clipped: 9.0 s unsure words.", "Record again at a lower level"),
        ("No space left for the clips: 9 bytes needed, 1 free in a.", "Free space"),
        ("The cut ended with exit code 1. ZeroDivisionError: a fault of ours", "Press Cut again."),
        ("tape.srt contains no words.", "Compare the transcript"),
        ("", "Correct what the message names"),
    ],
)
def test_every_failed_cut_has_advice(page, message, advice):
    found = page.evaluate(
        "message => import('/page/studio/account.js').then((m) => m.adviceFor(message))", message
    )
    assert found.startswith(advice)


@LOOKS
def test_names_contrast_and_width(service, open_page, width, scheme):
    with_clips(service, "A name that is long enough to need more than one line of a phone")
    size = {"width": width, "height": 844}
    page = opened(service, open_page, color_scheme=scheme, viewport=size, has_touch=width < 400)
    page.click("#unheard summary")
    page.click("[data-clip='tape-0001'] button:has-text('Drop')")
    page.wait_for_selector(".dropped")
    assert faults(page, width, 60) == []
    if width < 400:
        parts = "#recordings :is(button, select, textarea, input, summary)"
        assert too_small(page, parts) == []


def test_markup_in_a_name_or_a_text_stays_text(service, open_page):
    dataset = with_clips(service, EVIL)
    dataset.correct("tape-0001", text=EVIL)
    page = opened(service, open_page)
    assert page.input_value("[data-clip='tape-0001'] textarea") == EVIL
    assert page.text_content("#dataset option") == EVIL
    assert is_only_words(page)


def test_with_a_key_recordings_are_sent_and_heard(open_page, tmp_path):
    with running(settings_in(tmp_path, api_key="secret")) as service:
        service.client.headers["authorization"] = "Bearer secret"
        with_clips(service)
        page = open_page(service.address, view="train/recordings", ready="#key-dialog[open]")
        page.provoked.append("401")
        page.fill("#key", "secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#clip-list li")
        says(page, "live", "Live")
        (tmp_path / "b.wav").write_bytes(b"b" * 1000)
        page.set_input_files("#recording-files", tmp_path / "b.wav")
        page.wait_for_selector("#recording-list li:has-text('b.wav'):has-text('1 kB')")
        page.click("[aria-label='Play tape-0001']")
        page.wait_for_selector("[aria-label='Stop tape-0001']")


@needs("cut")
@pytest.mark.timeout(900)
def test_a_true_recording_is_cut_by_the_true_command(open_page, tmp_path):
    """From a tape and its text to a training table, with a picture."""
    pytest.importorskip("pocketsphinx", reason="it has wheels for Python 3.11 and 3.13")
    numbers = [1, 2, 3, 5, 7, 8]
    join_demo(tmp_path / "tape.wav", numbers)
    (tmp_path / "tape.txt").write_text(" ".join(demo_texts()[number - 1] for number in numbers))
    settings = settings_in(tmp_path, datasets_host_path="datasets")
    with running(settings, children={"cuts": "train"}) as service:
        page = open_page(service.address, view="train/recordings", viewport={"width": 1280, "height": 900})
        # The form is in the page before its script has been loaded.
        until(page, "document.getElementById('dataset-language').value === 'en'")
        page.fill("#dataset-name", "Anna")
        page.click("#dataset-form button")
        page.wait_for_selector("#dataset-works:not([hidden])")
        page.set_input_files("#recording-files", tmp_path / "tape.wav")
        page.set_input_files("#recording-text", tmp_path / "tape.txt")
        page.wait_for_selector("#text-remove:not([hidden])")
        until(page, "!document.querySelector('#recording-list progress')")
        page.click("#cut")
        # It only uses spare CPU time, which is short on a busy machine.
        page.wait_for_selector("#clip-list li canvas", timeout=600_000)
        found = service.client.get("/v1/datasets/anna").json()
        assert found["clips"]["kept"] == found["clips"]["total"] >= 2
        (row,) = found["account"]
        assert sum(row["seconds_by_reason"].values()) == pytest.approx(row["seconds"], abs=1e-4)
        inked = page.evaluate("""(() => {
          const sheet = document.querySelector("#clip-list canvas");
          const { data } = sheet.getContext("2d").getImageData(0, 0, sheet.width, sheet.height);
          return data.filter((value, i) => i % 4 === 3 && value).length;
        })()""")
        assert inked > 100
        line = "DATASET_DIR=datasets/anna/clips LANGUAGE=en make train"
        assert page.text_content("#train-line") == line
        page.locator("#recordings").screenshot(path=tmp_path / "page-recordings.png")
        print(tmp_path / "page-recordings.png")
