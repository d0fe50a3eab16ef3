"""Adapters in the speaking process: one base, a different voice each, and no waiting for a file."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.models import tiny_voice
from tests.xtts.voices.adapters import exported_adapter
from tests.xtts.workers.test_server import Written
from xtts.inference.compute_config import ComputeConfig
from xtts.voices import adapter_file
from xtts.workers.server import SpeechServer

ASK = {"text": "…", "language": "en", "max_codes": 25}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_voice(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def folders(base: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str | None]:
    """The open voice itself, and seven adapters."""
    folder = tmp_path_factory.mktemp("adapters")
    return [None, *(str(exported_adapter(folder / str(n), base, n)) for n in range(1, 8))]


@pytest.fixture
def server(base: Path) -> SpeechServer:
    speech_server = SpeechServer(ComputeConfig(guard=False), 8, text_worker=Written())
    opened = {"do": "open", "id": "a1", "key": "v", "voice": {"name": str(base)}}
    list(speech_server.take(opened))
    while speech_server.waiting:
        list(speech_server.step())
        time.sleep(0.001)
    return speech_server


def speak(server: SpeechServer, name: str, recording: str | None) -> None:
    asked = {"do": "speak", "id": name, "key": "v", "recording": recording, "ask": ASK}
    assert list(server.take(asked)) == []


def heard(server: SpeechServer, names: set[str]) -> dict[str, bytes]:
    """Steps until these requests have ended; returns the sound of all of them."""
    sounds: dict[str, bytes] = {}
    while names:
        for header, body in server.step():
            assert header["say"] != "failed", header
            if header["say"] == "sound":
                sounds[header["id"]] = sounds.get(header["id"], b"") + body
            elif header["say"] == "done":
                names = names - {header["id"]}
    return sounds


def test_eight_voices_at_once_are_what_each_is_alone(server, folders):
    alone = {}
    for number, folder in enumerate(folders):
        speak(server, str(number), folder)
        alone |= heard(server, {str(number)})
    for number, folder in enumerate(folders):
        speak(server, str(number), folder)
    together = heard(server, set(alone))
    assert together == alone and len(set(alone.values())) == len(folders) == 8


def test_loading_one_stops_nobody(server, folders, monkeypatch):
    waiting, read = threading.Event(), adapter_file.read

    def slow(path: Path) -> Any:
        assert waiting.wait(30)
        return read(path)

    monkeypatch.setattr(adapter_file, "read", slow)
    speak(server, "loading", folders[1])
    speak(server, "speaking", None)
    assert set(heard(server, {"speaking"})) == {"speaking"}
    waiting.set()
    assert set(heard(server, {"loading"})) == {"loading"}


def test_a_replaced_adapter_is_read_again_and_one_of_another_base_is_refused(server, base, tmp_path):
    folder = tmp_path / "anna"
    sounds = []
    for seed in (1, 2):
        exported_adapter(folder, base, seed)
        list(server.take({"do": "forget", "recording": str(folder)}))
        speak(server, "one", str(folder))
        sounds.append(heard(server, {"one"}))
        folder.rename(tmp_path / f"old {seed}")
    assert sounds[0] != sounds[1]
    exported_adapter(folder, base, 1, base_sha256="c" * 64)
    list(server.take({"do": "forget", "recording": str(folder)}))
    speak(server, "other", str(folder))
    told: list[Any] = []
    while not told:
        told = [header for header, _ in server.step() if header["say"] == "failed"]
        time.sleep(0.001)
    assert told[0]["reason_code"] == "refused"
    assert "anna is an adapter of" in told[0]["reason"]
