"""The tools of an assistant: with a service, and without one."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import soundfile
from pydantic import SecretStr

from extras.mcp.api_client import Service, ServiceError
from extras.mcp.tools import ToolError, Tools
from tests.api.conftest import Running, running, settings_in
from tests.datasets import make_dataset
from tests.ports import free_port


@pytest.fixture
def service(tmp_path):
    with running(settings_in(tmp_path / "service")) as opened:
        yield opened


@pytest.fixture
def silent() -> Service:
    """An address at which nothing listens."""
    return Service(f"http://127.0.0.1:{free_port()}")


def test_a_service_speaks_into_new_files(service: Running, tmp_path: Path):
    tools = Tools(tmp_path / "speech", Service(service.address), required=True)
    first, second = (tools.speak("Good morning.", seed=3, ending="wav") for _ in range(2))
    assert Path(first["file"]).name == "speech-1.wav" and Path(second["file"]).name == "speech-2.wav"
    assert Path(first["file"]).read_bytes() == service.say("Good morning.", seed=3).content
    assert first["origin"] == "AI-generated"
    assert soundfile.info(tools.speak("Good morning.", ending="flac")["file"]).format == "FLAC"


def test_the_voices_of_a_service_are_listed_and_its_refusals_are_sentences(service: Running, tmp_path):
    tools = Tools(tmp_path, Service(service.address))
    rows = tools.voices()
    assert rows[0]["id"] == "default" and set(rows[0]) == {"id", "name"}
    with pytest.raises(ToolError, match="The text is empty"):
        tools.speak(" ")
    with pytest.raises(ServiceError, match="There is no voice with this id"):
        tools.speak("Hello.", voice="unknown")
    assert list(tmp_path.glob("*.wav")) == []


def test_calls_at_once_write_different_files(service: Running, tmp_path):
    tools = Tools(tmp_path / "speech", Service(service.address))
    with ThreadPoolExecutor(4) as pool:
        spoken = list(pool.map(lambda number: tools.speak(f"Number {number}."), range(4)))
    sounds = {Path(answer["file"]).read_bytes() for answer in spoken}
    assert len({answer["file"] for answer in spoken}) == len(sounds) == 4


def test_the_key_is_sent(tmp_path):
    with running(settings_in(tmp_path, api_key=SecretStr("secret"))) as opened:
        assert not Service(opened.address).answers
        tools = Tools(tmp_path, Service(opened.address, "secret"), required=True)
        assert tools.voices()[0]["id"] == "default"


def test_a_service_that_was_named_must_answer(silent, tmp_path):
    with pytest.raises(ToolError, match=f"No service answers at {silent.url}"):
        Tools(tmp_path, silent, required=True).speak("Hello.")


def test_without_a_service_the_command_speaks(silent, tmp_path):
    tools = Tools(tmp_path / "speech", silent)
    spoken = tools.speak("Good morning.", voice="demo", seed=2)
    assert 0.4 < soundfile.info(spoken["file"]).duration < 3
    with pytest.raises(ToolError, match="nowhere"):
        tools.speak("Hello.", voice=str(tmp_path / "nowhere"))
    assert [path.name for path in (tmp_path / "speech").iterdir()] == ["speech-1.wav"]


def test_the_voices_on_disk(silent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    default, demo = Tools(tmp_path, silent).voices()
    assert default["id"] == "default" and default["name"].startswith("demo: ")
    assert demo["id"] == "demo"


def test_recordings_are_checked(silent, tmp_path, monkeypatch):
    folder = make_dataset(tmp_path / "clips")
    monkeypatch.setenv("CACHE_DIR", str(tmp_path / "cache"))
    findings = Tools(tmp_path, silent).check(str(folder))
    assert findings["clips"] + findings["validation_clips"] + len(findings["refused"]) > 0
    with pytest.raises(ToolError, match="is not a folder"):
        Tools(tmp_path, silent).check(str(tmp_path / "none"))
