"""Voices as files over HTTP: imported, sent, refused, and the same speech to the bit."""

import io
import os
import shutil
import socket
import time
import zipfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from machine.storage.checksums import sha256_of
from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.heard import refusal, samples
from tests.api.sounds import file_of, speech, upload
from tests.marked import comment
from tests.xtts.voices.adapters import exported_adapter
from tests.xtts.voices.files.made import MADE, Base, latents, of_base, voice_file, with_manifest
from train.export import export
from xtts.marks import Mark
from xtts.voices.base_models import DEMO
from xtts.voices.files.manifest import Preview
from xtts.voices.files.packing import PackingOptions, pack
from xtts.voices.voice_files import VoiceSpec, find_voice

IMPORT = "/v1/voices/import"
DEMO_SHA256 = sha256_of(DEMO / "model.pth")
PACKING = PackingOptions("kim", Preview("hi", "en"), with_reference=False)


def sent(service: Running, path: Path, **query: object):
    return service.client.post(IMPORT, content=path.read_bytes(), params=query)


def left(service: Running) -> set[str]:
    """The files in VOICES_DIR, but for locks. A folder may vanish meanwhile: `os.walk` passes over it."""
    voices = service.state.settings.voices_dir
    return {
        str((Path(folder) / name).relative_to(voices))
        for folder, _, names in os.walk(voices)
        for name in names
        if not name.endswith(".lock")
    }


def spoken(service: Running, voice: str) -> bytes:
    """PCM that was made as a whole: chunks of a stream equal it up to rounding."""
    answer = service.say("Good day.", voice=voice, seed=7)
    assert answer.status_code == 200, answer.text
    return samples(answer.content)


def rows(service: Running) -> dict[str, str]:
    listed = service.client.get("/v1/voices").json()["voices"]
    return {row["id"]: row["origin"] for row in listed}


def test_an_imported_voice_is_listed_heard_and_deleted(service, tmp_path):
    path = of_base(tmp_path / "anna.sotaque", DEMO_SHA256)
    answer = sent(service, path)
    assert answer.status_code == 201, answer.text
    assert (answer.json()["id"], answer.json()["origin"]) == ("Anna", "imported")
    assert sent(service, path).json()["id"] == "Anna-2"
    assert sent(service, path, name="Bea").json()["id"] == "Bea"
    assert sent(service, path, name="Bea", replace=True).json()["id"] == "Bea"
    assert rows(service) == {"default": "served", "Anna": "imported", "Anna-2": "imported", "Bea": "imported"}
    assert service.client.get("/v1/voices/anna").json()["id"] == "Anna"
    assert service.client.get("/v1/voices/Anna/preview.wav").content[:4] == b"RIFF"
    assert service.client.patch("/v1/voices/Anna", json={"name": "x"}).status_code == 409
    for name in ("Anna", "Anna-2", "Bea"):
        assert service.client.delete(f"/v1/voices/{name}").status_code == 204
    assert rows(service) == {"default": "served"} and left(service) == set()
    assert service.client.delete("/v1/voices/Anna").status_code == 404


def test_an_imported_voice_has_the_time_of_its_import(service, tmp_path):
    service.state.served_at -= 7200
    before = int(time.time())
    row = sent(service, of_base(tmp_path / "anna.sotaque", DEMO_SHA256), name="Time").json()
    assert before <= datetime.fromisoformat(row["created"]).timestamp() <= time.time()
    assert service.client.delete("/v1/voices/Time").status_code == 204


def test_what_is_refused_leaves_nothing(shared_service, tmp_path):
    path = tmp_path / "a.sotaque"
    faults = {
        b"GIF89a": "not a voice file",
        voice_file(path).read_bytes()[:-50]: "its end is missing",
        of_base(path, "c" * 64).read_bytes(): "was made from demo with SHA-256",
        of_base(path, DEMO_SHA256, "a-base").read_bytes(): "model.pth is missing",
        with_manifest(path, lambda made: made | {"format": 2}).read_bytes(): "reads 1",
    }
    for content, words in faults.items():
        answer = shared_service.client.post(IMPORT, content=content)
        assert refusal(answer) == (422, "not_a_voice", None), answer.text
        assert words in answer.json()["detail"] and str(tmp_path) not in answer.text
    assert shared_service.client.post(IMPORT, content=b"").status_code == 422
    answer = sent(shared_service, path, name="default")
    assert refusal(answer) == (422, "reserved_name", "name")
    assert left(shared_service) == set()


def test_a_cut_upload_leaves_nothing(service, tmp_path):
    content = of_base(tmp_path / "a.sotaque", DEMO_SHA256).read_bytes()
    head = f"POST {IMPORT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(head.encode() + content[: len(content) // 2])
        folder = service.state.settings.voices_dir
        service.wait_until(lambda: any(folder.glob(".arriving-*")), 20)
    service.wait_until(lambda: left(service) == set(), 20)
    assert rows(service) == {"default": "served"}


def test_a_run_is_sent_by_the_verb_that_exports_it(service, tmp_path):
    (tmp_path / "output" / "checkpoints").mkdir(parents=True)
    (tmp_path / "output" / "checkpoints" / "checkpoint_epoch_1.json").write_text("{}")
    service.wait_until(lambda: "current" in service.state.follower.runs, 20)
    answer = service.client.get("/v1/runs/current/file?reference=false&adapter=true")
    assert answer.status_code == 200, answer.text
    assert answer.text.split() == [f"--output-dir={tmp_path / 'output'}", "--no-reference", "--adapter"]
    assert answer.headers["content-disposition"] == 'attachment; filename="current.sotaque"'
    assert "--adapter" not in service.client.get("/v1/runs/current/file").text
    assert service.client.get("/v1/runs/none/file").status_code == 404
    exports = service.state.settings.voices_dir / ".exports"
    service.wait_until(lambda: list(exports.iterdir()) == [])


def test_the_served_voice_has_no_file(shared_service):
    answer = shared_service.client.get("/v1/voices/default/file")
    assert refusal(answer) == (409, "served_voice", None) and "/v1/runs/" in answer.json()["detail"]
    assert shared_service.client.get("/v1/voices/none/file").status_code == 404


def test_an_uploaded_voice_of_a_checkpoint_has_no_file_and_the_refusal_says_what_does(tmp_path):
    path = tmp_path / "mine.pt"
    path.write_bytes(b"")
    with running(settings_in(tmp_path, voice=str(path))) as service:
        made = upload(service, file_of(speech()), "Kim").json()
        answer = service.client.get(f"/v1/voices/{made['id']}/file")
    assert refusal(answer) == (409, "no_base", None) and "VOICE=demo" in answer.json()["detail"]


def test_an_uploaded_voice_travels_with_and_without_its_recording(real, tmp_path):
    """From one service to another; here, both are the same one."""
    made = upload(real, file_of(speech()), "Kim").json()
    expected = spoken(real, made["id"])
    assert expected != spoken(real, "default")
    for number, query in enumerate(("", "?reference=false"), start=1):
        answer = real.client.get(f"/v1/voices/{made['id']}/file{query}")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-disposition"] == 'attachment; filename="Kim.sotaque"'
        packed = zipfile.ZipFile(io.BytesIO(answer.content))
        names = packed.namelist()
        assert comment(packed.read("preview.wav")) == Mark("Kim").text
        assert ("reference.wav" in names) == (number == 1) and names[0] == "manifest.json"
        path = tmp_path / "kim.sotaque"
        path.write_bytes(answer.content)
        name = sent(real, path).json()["id"]
        assert name == f"Kim-{number + 1}"  # the uploaded one has the name
        assert spoken(real, name) == expected
    for name in (made["id"], "Kim-2", "Kim-3"):
        assert real.client.delete(f"/v1/voices/{name}").status_code == 204


@pytest.mark.parametrize("kind", ["adapter", pytest.param("weights", marks=pytest.mark.slow)])
def test_an_adapter_and_weights_speak_over_http_as_their_folder_does(real, tmp_path, kind):
    """The folder is that of the service which exported the voice. Weights of another model are
    opened beside the served one."""
    voices, name = real.state.settings.voices_dir, f"ben-{kind}"
    if kind == "adapter":
        folder = exported_adapter(voices / "adapters" / name, DEMO, 3)
    else:
        folder = voices / "imported" / name
        base = {"name": "demo", "sha256": DEMO_SHA256}
        about = {"base": base, "fingerprint": {"data_sha256": "d" * 64}, "epoch": 1}
        export(replace(find_voice(VoiceSpec("demo")), provenance=about), folder)
    real.wait_until(lambda: name in rows(real), 20)
    expected = spoken(real, name)
    assert len(expected) > 1_000
    assert (expected == spoken(real, "default")) == (kind == "weights")  # of the demo itself
    path = tmp_path / "kim.sotaque"
    pack(find_voice(VoiceSpec(str(folder))), folder, path, PACKING)
    preview = zipfile.ZipFile(path).read("preview.wav")
    assert comment(preview) == Mark("kim").text
    assert sent(real, path).json()["id"] == "kim"
    heard = real.client.get("/v1/voices/kim/preview.wav")
    assert heard.content == preview and "x-ai-generated" in heard.headers
    assert spoken(real, "kim") == expected
    assert (voices / "imported" / "kim" / "model.pth").exists() == (kind == "weights")
    assert real.client.delete("/v1/voices/kim").status_code == 204
    shutil.rmtree(folder)
    assert refusal(real.say("Good day.", voice="kim"))[0] == 404


@pytest.mark.slow
def test_voice_names_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = exported_adapter(tmp_path / "exported", DEMO, 3)
    path = tmp_path / "kim.sotaque"
    pack(find_voice(VoiceSpec(str(folder))), folder, path, PACKING)
    sounds = []
    for number, voice in enumerate((folder, path)):
        settings = settings_in(tmp_path / str(number), voice=str(voice))
        limits = replace(QUICK, deadline_seconds=120.0, hang_seconds=60.0)
        with running(settings, limits=limits, threads=1) as service:
            assert service.status()["voice"] == voice.name
            sounds.append(spoken(service, "default"))
    assert sounds[0] == sounds[1] and len(sounds[0]) > 1_000


@pytest.mark.parametrize("name", ["nova", "default", "Alloy"])
def test_a_file_with_a_reserved_name_gets_a_number(service, tmp_path, name):
    path = voice_file(tmp_path / "a.sotaque", replace(MADE, name=name, base=Base("demo", DEMO_SHA256)))
    answer = sent(service, path)
    assert answer.status_code == 201 and answer.json()["name"] == f"{name}-2"
    assert service.client.delete(f"/v1/voices/{answer.json()['id']}").status_code == 204


def test_a_name_of_the_served_voice_is_marked_with_its_name(service):
    for name in ("Nova", "DEMO", "default.wav"):
        answer = service.say("Good day.", voice=name)
        assert answer.status_code == 200
        assert f"voice: {service.state.served_name}" in answer.headers["x-ai-generated"], name


def test_latents_of_another_width_refuse_their_own_request_alone(tmp_path):
    """They once ended the speaking process, and every request with it."""
    limits = replace(QUICK, deadline_seconds=120.0, hang_seconds=60.0)
    with running(settings_in(tmp_path), limits=limits, threads=1) as service:
        made = replace(MADE, name="Evil", base=Base("demo", DEMO_SHA256))
        path = voice_file(tmp_path / "a.sotaque", made, voice__safetensors=latents(256, 7))
        assert sent(service, path).status_code == 201
        assert service.say("Hi there.", voice="Evil").status_code == 422
        assert service.say("Hi there.").status_code == 200
        assert service.state.engine.history.restarts == 0


def test_a_form_is_told_to_be_the_body(service, tmp_path):
    content = voice_file(tmp_path / "a.sotaque").read_bytes()
    answer = service.client.post(IMPORT, files={"file": ("a.sotaque", content)})
    assert refusal(answer)[:2] == (415, "not_the_file") and "--data-binary" in answer.text
