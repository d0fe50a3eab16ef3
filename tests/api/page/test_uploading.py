"""The page's recording picker against the real service: accepted types and lengths agree.

(It once offered .mp3, which the service refused, and stated other lengths.)
"""

import re
from collections.abc import Callable

import numpy as np
import pytest

from api.routes.uploads import MEDIA_TYPES
from api.voices import decoding, recordings, samples
from machine.storage.checksums import sha256_of
from tests.api.conftest import FAKE_TRAIN
from tests.api.page.desk import add_voice, pick, says, until
from tests.api.sounds import file_of, made, speech
from tests.xtts.voices.files.made import of_base
from xtts.voices.base_models import DEMO

pytestmark = pytest.mark.system

RECORDINGS: dict[str, Callable[[np.ndarray], bytes]] = {
    ".wav": lambda sound: file_of(sound, 48_000),
    ".flac": lambda sound: file_of(sound, 48_000, format="FLAC"),
    ".mp3": lambda sound: file_of(sound, 48_000, format="MP3"),
    ".ogg": lambda sound: file_of(sound, 48_000, format="OGG"),
    ".oga": lambda sound: file_of(sound, 48_000, format="OGG"),
    ".opus": lambda sound: file_of(sound, 48_000, format="OGG", subtype="OPUS"),
    ".aif": lambda sound: file_of(sound, 48_000, format="AIFF"),
    ".aiff": lambda sound: file_of(sound, 48_000, format="AIFF"),
    ".caf": lambda sound: file_of(sound, 48_000, format="CAF"),
    ".m4a": lambda sound: made("m4a", sound),
    ".aac": lambda sound: made("aac", sound),
    ".webm": lambda sound: made("webm", sound),
    ".weba": lambda sound: made("webm", sound),
}
VOICE_FILES = (".sotaque", ".ovsvoice", ".voicebox")
ANNOUNCED = "document.getElementById('announcement').textContent"


def test_every_type_that_the_picker_offers_becomes_a_voice(service, open_page, tmp_path):
    page = open_page(service.address, view="voices")
    offered = page.get_attribute("[name=file]", "accept").split(",")
    endings = [kind for kind in offered if kind.startswith(".") and kind not in VOICE_FILES]
    assert len(endings) == sum(kind.startswith(".") for kind in offered) - len(VOICE_FILES)
    assert set(endings) == set(RECORDINGS)
    assert {kind for kind in offered if "/" in kind} == set(MEDIA_TYPES)
    for ending in endings:
        path = tmp_path / f"said{ending}"
        path.write_bytes(RECORDINGS[ending](speech(2.0, 48_000)))
        add_voice(page, path, f"Anna of {ending}")
        page.wait_for_selector(f"#voice-list li:has-text('Anna of {ending}')")
    voices = service.client.get("/v1/voices").json()["voices"][1:]
    assert [voice["name"] for voice in voices] == [f"Anna of {ending}" for ending in endings]
    assert all(1.9 < voice["duration_seconds"] < 2.1 for voice in voices)


def test_a_voice_file_is_imported_saved_and_removed(service, open_page, tmp_path):
    page = open_page(service.address, view="voices")
    add_voice(page, of_base(tmp_path / "a.sotaque", sha256_of(DEMO / "model.pth")), "Kim")
    page.wait_for_selector("#voice-list li:has-text('Kim'):has-text('from a file')")
    service.state.exports.module = FAKE_TRAIN
    with page.expect_download() as saved:
        pick(page, "Kim", "Save as file")
    assert saved.value.suggested_filename == "Kim.sotaque"
    pick(page, "Kim", "Remove")
    page.keyboard.press("Enter")  # it asks first
    page.wait_for_selector("#voice-list li:has-text('Kim')", state="detached")
    assert [voice["id"] for voice in service.client.get("/v1/voices").json()["voices"]] == ["default"]


def test_the_hint_names_the_lengths_that_are_taken(service, open_page, tmp_path):
    page = open_page(service.address, view="voices")
    hint = page.text_content("#consent")
    least, most, good, _ = map(float, re.findall(r"\d+", hint))
    assert (least, most) == (decoding.MIN_SECONDS, recordings.MAX_SECONDS)
    # The service has no remark about this much speech. A recording has pauses too.
    assert samples.GOOD_SECONDS <= good < samples.GOOD_SECONDS + 2
    page.provoked.append("422")
    for seconds, taken in ((least - 0.1, False), (least + 0.1, True), (most + 1, False)):
        sound = np.resize(speech(2.0, 8_000), round(seconds * 8_000))
        path = tmp_path / f"{seconds}.wav"
        path.write_bytes(file_of(sound, 8_000))
        add_voice(page, path, f"{seconds} seconds")
        if taken:
            page.wait_for_selector(f"#voice-list li:has-text('{seconds} seconds')")
        else:
            page.wait_for_selector("#voices-fault:not([hidden])")
            assert " s long" in page.text_content("#voices-fault")


def test_several_files_are_one_voice_and_more_are_added_by_keyboard(service, open_page, tmp_path):
    paths = [tmp_path / f"{number}.wav" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(file_of(speech(2.0, 48_000) * (1 - 0.1 * number), 48_000))
    page = open_page(service.address, view="voices")
    page.on("filechooser", lambda _chooser: None)  # Catches dialogs from now on.
    page.set_input_files("[name=file]", paths[:3])
    assert page.text_content("#files-info") == "3 files chosen. They become one voice."
    says(page, "announcement", "3 files chosen. They become one voice.")
    page.fill("#voice-form [name=name]", "Anna")
    page.press("#voice-form [name=name]", "Enter")
    page.wait_for_selector("#voice-list li:has-text('3 recordings')")
    until(page, f"{ANNOUNCED}.startsWith('Anna is added with 3 recordings. Quality: ')")
    assert page.is_hidden("#files-info")
    with page.expect_file_chooser() as asked:
        pick(page, "Anna", "Add recordings")
    assert asked.value.is_multiple()
    asked.value.set_files(paths[3])
    page.wait_for_selector("#voice-list li:has-text('4 recordings')")
    until(page, f"{ANNOUNCED}.startsWith('1 file added; Anna has 4 recordings. Quality: ')")
    assert page.evaluate("document.activeElement.id") == "voices"
    (tmp_path / "bad.wav").write_bytes(b"no sound")
    page.provoked.append("422")
    with page.expect_file_chooser() as asked:
        pick(page, "Anna", "Add recordings")
    asked.value.set_files([paths[0], tmp_path / "bad.wav"])
    page.wait_for_selector("#voices-fault:has-text(\"Recording 2 ('bad.wav')\")")
    (voice,) = service.client.get("/v1/voices").json()["voices"][1:]
    assert (voice["name"], voice["recordings"]) == ("Anna", 4)
