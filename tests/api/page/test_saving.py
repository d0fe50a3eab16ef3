"""Speech is saved as a file, in the formats that the service offers."""

import io
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.api.page.conftest import Open
from tests.api.page.desk import speak, until
from tests.api.page.world import World, speech, wav

pytestmark = pytest.mark.system

FORMATS = "[...document.getElementById('format').options].map((one) => one.textContent)"
# The first bytes of each container.
BEGINS = {"mp3": b"ID3", "flac": b"fLaC", "opus": b"OggS"}


def saved(page: Any, folder: Path) -> tuple[str, bytes]:
    """Name and content of the file that Save downloads."""
    with page.expect_download() as got:
        page.click("#keep-spoken")
    got.value.save_as(folder / "kept")
    return got.value.suggested_filename, (folder / "kept").read_bytes()


@pytest.fixture
def spoken(world: World, opened: Open) -> Any:
    """A page that has spoken, on a service whose FFmpeg lacks one encoder."""
    world.formats = ("wav", "pcm", "flac", "mp3", "opus")
    page = opened()
    page.click("#speak summary")
    page.fill("[name=seed]", "7")
    speak(page, "Good morning.")
    return page


def test_only_formats_that_the_service_makes_are_offered(spoken, world):
    assert spoken.evaluate(FORMATS) == ["WAV", "MP3", "FLAC", "Opus"]
    spoken.select_option("#format", "flac")
    world.formats = (*world.formats, "aac", "m4a")
    world.tell("status")
    until(spoken, f"{FORMATS}.join() === 'WAV,MP3,FLAC,Opus,AAC (M4A)'")
    assert spoken.input_value("#format") == "flac"


def test_a_wav_is_what_was_heard_and_asks_nobody(spoken, world, tmp_path):
    """Chunks of odd length are joined: the saved wav equals the server's, byte for byte."""
    assert saved(spoken, tmp_path) == ("sotaque_Good-morning..wav", wav(speech(2.4, 150)))
    assert len(world.bodies) == 1


@pytest.mark.parametrize("form", BEGINS)
def test_another_format_is_the_same_request_once_more(spoken, world, tmp_path, form):
    """The request is not streamed, so the header of the file holds its length."""
    spoken.fill("#text", "Something else, typed since.")
    spoken.select_option("#format", form)
    name, content = saved(spoken, tmp_path)
    assert name == f"sotaque_Good-morning..{form}" and content.startswith(BEGINS[form])
    samples, rate = soundfile.read(io.BytesIO(content))
    assert len(samples) / rate == pytest.approx(2.4, abs=0.15) and abs(samples).max() > 0.1
    heard, again = world.bodies
    assert again == {
        "model": "sotaque",
        "input": "Good morning.",
        "voice": "default",
        "seed": 7,
        "response_format": form,
        "stream": False,
    }
    assert heard["seed"] == again["seed"] and world.spoken_with[0] == world.spoken_with[1]
    until(spoken, "!document.getElementById('keep-spoken').disabled")
    assert spoken.is_hidden("#speak-fault")


def test_a_file_by_another_voice_than_was_heard_says_so(spoken, world, tmp_path):
    world.spoken_by = "epoch%204%20at%2030%25"
    spoken.select_option("#format", "mp3")
    saved(spoken, tmp_path)
    spoken.wait_for_selector("#speak-fault:not([hidden])")
    assert "the file is spoken by epoch 4 at 30%." in spoken.text_content("#speak-fault")


def test_a_file_that_the_service_refuses_is_told(spoken, world):
    spoken.select_option("#format", "mp3")
    world.fault = {"status": 503, "detail": "Too many speak; try again in 2 s."}
    spoken.click("#keep-spoken")
    spoken.wait_for_selector("#speak-fault:not([hidden])")
    assert spoken.text_content("#speak-fault") == world.fault["detail"]
    assert spoken.is_enabled("#keep-spoken") and spoken.text_content("#keep-spoken") == "Save"
    spoken.provoked.append("503")


def test_the_request_elsewhere_names_the_chosen_format(spoken):
    spoken.click("#request summary")
    spoken.select_option("#format", "flac")
    until(spoken, "document.getElementById('as-python').textContent.includes('flac')")
    assert '"response_format":"flac"' in spoken.text_content("#as-curl")
    assert "-o said.flac" in spoken.text_content("#as-curl")
    assert 'open("said.flac", "wb")' in spoken.text_content("#as-python")
