"""Adapters in VOICES_DIR: found while the service runs, requested as voices, refused by name."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from api.voices.adapters import Adapters
from tests.api.conftest import Running, running, settings_in
from tests.api.heard import asked, refusal
from tests.api.paths import served
from tests.api.sounds import file_of, speech, upload
from tests.xtts.voices.adapters import exported_adapter
from xtts.voices.base_models import DEMO
from xtts.voices.files.unpacking import ADAPTERS_FOLDER

# The hash that the fake child reports for the packaged voice.
SERVED_SHA256 = "0" * 64


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three adapters of the served base, one of another base."""
    folder = tmp_path_factory.mktemp("exports")
    for seed, name in enumerate(("anna", "anna:whisper", "Ben")):
        exported_adapter(folder / name, DEMO, seed, base_sha256=SERVED_SHA256)
    exported_adapter(folder / "carl", DEMO, 9, base_sha256="c" * 64)
    return folder


@pytest.fixture
def folder(tmp_path: Path, exports: Path) -> Path:
    to = tmp_path / "voices" / ADAPTERS_FOLDER
    to.parent.mkdir()
    return Path(shutil.copytree(exports, to))


@pytest.fixture
def service(tmp_path: Path, folder: Path, monkeypatch) -> Iterator[Running]:
    monkeypatch.setattr("api.runs.following.POLL_SECONDS", 0.02)
    with running(settings_in(tmp_path)) as opened:
        yield opened


def names(service: Running) -> dict[str, str]:
    rows = service.client.get("/v1/voices").json()["voices"]
    return {row["id"]: row["origin"] for row in rows}


def until(condition) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_they_are_listed_and_asked_for_in_every_way(service, folder):
    assert names(service) == {
        "default": "served",
        "anna": "adapter",
        "anna:whisper": "adapter",
        "Ben": "adapter",
    }
    with asked() as orders:
        for fields in (
            {"voice": "anna"},
            {"voice": "BEN"},
            {"voice": "ben.wav"},
            {"voice": "anna", "style": "whisper"},
            {"voice": "default"},
        ):
            assert service.say("hello", **fields).status_code == 200
    folders = [folder / "anna", folder / "Ben", folder / "Ben", folder / "anna:whisper", None]
    assert [path for ask, path in orders if ask.text == "hello"] == [
        folder and str(folder) for folder in folders
    ]
    heard = service.client.get("/v1/voices/Ben/preview.wav")
    assert heard.content == (folder / "Ben" / "reference.wav").read_bytes()
    for path in served("/v1/audio/voices", "/speakers_list"):
        told = str(service.client.get(path, params={"legacy": "true"}).json())
        assert {"anna", "anna:whisper", "Ben"} <= set(told.replace("'", " ").split())
    code = refusal(service.client.delete("/v1/voices/anna"))
    assert code[:2] == (409, "served_voice")


def test_an_upload_may_not_have_the_name_of_one(service):
    upload_ben = upload(service, file_of(speech()), "BEN")
    assert refusal(upload_ben) == (409, "name_taken", "name")
    voice = upload(service, file_of(speech()), "Kim").json()["id"]
    rename = service.client.patch(f"/v1/voices/{voice}", json={"name": "anna"})
    assert refusal(rename) == (409, "name_taken", "name")


def test_one_of_another_base_is_refused_by_its_name(service):
    answer = service.say("hello", voice="Carl")
    assert refusal(answer) == (409, "other_base", "voice")
    assert "cccccccccccc" in answer.json()["detail"] and "VOICE" in answer.json()["detail"]
    assert refusal(service.say("hello [voice:carl] there"))[:2] == (409, "other_base")
    assert refusal(service.say("hello", voice="dora"))[:2] == (404, "no_voice")


def test_what_is_put_there_replaced_or_removed_meanwhile_is_noticed(service, folder, monkeypatch):
    forgotten = []
    monkeypatch.setattr(service.state.engine, "forget", forgotten.append)
    service.state.adapters.read_folders()
    shutil.copytree(folder / "anna", folder / "dora")
    until(lambda: "dora" in names(service))
    shutil.rmtree(folder / "anna")
    until(lambda: "anna" not in names(service))
    assert refusal(service.say("hello", voice="anna"))[:2] == (404, "no_voice")


def test_who_is_gone_or_replaced_is_told(folder):
    adapters = Adapters(folder, "torch")
    assert adapters.read_folders() == [] and adapters.read_folders() == []
    shutil.rmtree(folder / "Ben")
    exported_adapter(folder / "Ben", DEMO, 7, base_sha256=SERVED_SHA256)
    shutil.rmtree(folder / "anna")
    assert adapters.read_folders() == [str(folder / "Ben"), str(folder / "anna")]
    assert adapters.read_folders() == []


def test_what_is_no_adapter_is_told_once_and_is_no_voice(folder, caplog):
    (folder / ".dora.17.sotaque-part").mkdir()
    (folder / "notes").mkdir()
    (folder / "Nova").mkdir()
    (folder / "README").touch()
    adapters = Adapters(folder, "torch")
    adapters.read_folders(), adapters.read_folders()
    assert set(adapters.of_weights(SERVED_SHA256)) == {"anna", "anna:whisper", "Ben"}
    told = [message for message in caplog.messages if "is not a voice" in message]
    assert len(told) == 2
    assert "bundle.json cannot be read" in told[1] and "always means the served voice" in told[0]


def test_with_onnx_runtime_there_are_none_and_it_is_said(folder):
    adapters = Adapters(folder, "onnx")
    adapters.read_folders()
    assert adapters.of_weights(SERVED_SHA256) == {}
    with pytest.raises(Exception, match="BACKEND=torch"):
        adapters.refuse_other_base("anna", SERVED_SHA256, "voice")


def test_a_speaker_of_the_voice_wins_over_an_adapter_of_that_name(service):
    standing = service.state.engine.served_voice
    speakers = service.state.speakers_of(replace(standing, speakers={"ANNA": "/kept/1.wav"}))
    assert speakers["ANNA"] == "/kept/1.wav" and "anna" not in speakers and "Ben" in speakers
