"""Uploads: accepted, refused, and harmless whatever they contain."""

import io
import json
import re
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from api.errors import APIError
from api.routes.uploads import MEDIA_TYPES
from api.voices.decoding import decode
from api.voices.recordings import DecodedRecording
from api.voices.store import Voices
from tests.api.heard import refusal
from tests.api.sounds import file_of, speech, upload
from tests.test_architecture import ROOT
from xtts.inference import latents_file

RECORDING = DecodedRecording(b"RIFF", 1.0, {})
OTHER = DecodedRecording(b"RIFF stays", 1.0, {})
SINE = 0.3 * np.sin(np.arange(44_100) / 10)


def test_an_uploaded_voice_is_listed_and_leaves_nothing(service):
    made = upload(service, file_of(speech()))
    assert made.status_code == 201
    voice = made.json()
    assert (voice["name"], voice["origin"], voice["duration_seconds"]) == ("Anna", "upload", 2.0)
    listed = service.client.get("/v1/voices").json()["voices"]
    assert [row["id"] for row in listed] == ["default", voice["id"]]
    assert service.client.get(f"/v1/voices/{voice['id']}").json() == voice
    assert service.client.delete(f"/v1/voices/{voice['id']}").status_code == 204
    assert [path.name for path in service.state.voices.folder.iterdir()] == [".lock"]


def stereo(**how: Any) -> Callable[[], bytes]:
    return lambda: file_of(np.stack([speech(), speech()], axis=1), **how)


ID3 = b"ID3\x04\0\0\0\0\0\x14" + bytes(20)


@pytest.mark.parametrize(
    "recording",
    [
        *(stereo(format=form) for form in ("FLAC", "OGG", "MP3", "AIFF", "CAF", "RF64")),
        *(stereo(format=form, subtype="PCM_16") for form in ("AU", "W64")),
        *(stereo(subtype=form) for form in ("FLOAT", "PCM_24")),
        lambda: ID3 + file_of(speech(), format="MP3"),
    ],
    ids=["flac", "ogg", "mp3", "aiff", "caf", "rf64", "au", "w64", "float", "24 bit", "mp3 with a tag"],
)
def test_other_forms_are_read_too(shared_service, recording):
    answer = upload(shared_service, recording())
    assert answer.status_code == 201, answer.text
    assert answer.json()["duration_seconds"] == pytest.approx(2.0, abs=0.1)
    shared_service.client.delete(f"/v1/voices/{answer.json()['id']}")


def test_the_page_offers_the_media_types_of_the_route():
    """tests/api/page/test_uploading.py uploads a file of each ending."""
    page = (ROOT / "api/page/index.html").read_text(encoding="utf-8")
    (offered,) = re.findall(r'name="file" data-drops multiple accept="([^"]+)"', page)
    assert {one for one in offered.split(",") if "/" in one} == set(MEDIA_TYPES)


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        (lambda: b"", "not a WAV"),
        (lambda: b"GIF89a not sound", "not a WAV"),
        (lambda: b"RIFF\0\0\0\0WAVE", "cannot be decoded"),
        (lambda: file_of(speech(0.5)), "0.50 s long"),
        (lambda: file_of(speech(61.0, 8_000), 8_000), "limit is 60 s"),
        (lambda: file_of(np.zeros(44_100, dtype="float32")), "silent"),
        (lambda: file_of(np.full(44_100, np.nan, dtype="float32"), subtype="FLOAT"), "non-finite"),
        (lambda: file_of(speech(), 22_051), "22051 samples a second"),
        (lambda: file_of(np.zeros((44_100, 9), dtype="float32")), "9 channels"),
        (lambda: file_of(SINE), "steady tone or noise"),
        (lambda: file_of(SINE * (np.arange(44_100) // 4_410 % 2)), "steady tone or noise"),
        (lambda: file_of(SINE / 2 + 0.1 * np.sin(np.arange(44_100) / 8)), "steady tone or noise"),
        (lambda: file_of(np.random.default_rng(0).normal(0, 0.1, 44_100)), "steady tone or noise"),
    ],
)
def test_what_is_no_usable_recording_is_refused(shared_service, recording, words):
    answer = upload(shared_service, recording())
    assert answer.status_code == 422 and words in answer.json()["detail"]
    assert not shared_service.state.voices.all()


def test_a_bomb_is_refused_by_its_header_in_no_time(shared_service):
    """250 kB of FLAC with an hour of silence, 302 MB decoded."""
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", 22_050, 1, "PCM_16", format="FLAC") as file:
        for _ in range(60):
            file.write(np.zeros(22_050 * 60, dtype="int16"))
    bomb = out.getvalue()
    assert len(bomb) < 400_000
    started = time.monotonic()
    answer = upload(shared_service, bomb)
    assert answer.status_code == 422 and "3,600 s long" in answer.json()["detail"]
    assert time.monotonic() - started < 8
    # The same with a header that states no length.
    hidden = bytearray(bomb)
    hidden[21] &= 0xF0
    hidden[22:26] = bytes(4)
    assert upload(shared_service, bytes(hidden)).status_code == 422


@pytest.mark.parametrize(
    "name", ["", " ", "\u200b", "\x00", "x" * 101], ids=["empty", "space", "zero", "nul", "long"]
)
def test_a_name_that_cannot_be_seen_is_refused(shared_service, name):
    assert upload(shared_service, file_of(speech()), name).status_code == 422


def test_a_file_is_needed_and_not_more_than_is_allowed(shared_service):
    client = shared_service.client
    assert client.post("/v1/voices", data={"name": "x"}).status_code == 422
    assert client.post("/v1/voices", content=b"x").status_code == 422
    wrong = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/v1/voices", content=b"--y", headers=wrong).status_code in (400, 422)
    assert upload(shared_service, b"RIFF" + bytes(21 << 20)).status_code == 413
    assert client.delete("/v1/voices/default").status_code == 409


@settings(max_examples=150)
@given(
    st.sampled_from([b"RIFF", b"RIFX", b"RF64"]),
    st.integers(0, 2**32 - 1),
    st.integers(0, 65535),
    st.integers(0, 65535),
    st.integers(0, 2**32 - 1),
    st.integers(0, 64),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=200),
    st.booleans(),
)
def test_a_wav_header_of_any_kind_is_a_recording_or_a_sentence(
    magic, riff, form, channels, rate, bits, size, rest, data_first
):
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, form, channels, rate, 0, 0, bits)
    data = struct.pack("<4sI", b"data", size) + rest
    parts = data + fmt if data_first else fmt + data
    try:
        decode(magic + struct.pack("<I", riff) + b"WAVE" + parts, 60.0)
    except ValueError as error:
        assert str(error).endswith(".")


@pytest.mark.parametrize("identity", ["../secret", "SECRET1234567", "secret", "x" * 12 + "\n"])
def test_what_is_no_id_is_no_voice_even_where_its_file_is(tmp_path, identity):
    voices = Voices(tmp_path / "voices")
    voices.folder.mkdir()
    about = {"id": identity, "name": "x", "created": "", "duration_seconds": 1.0, "sha256": ""}
    (voices.folder / f"{identity}.json").write_text(json.dumps(about), encoding="utf-8")
    (voices.folder / f"{identity}.wav").write_bytes(b"")
    with pytest.raises(APIError) as caught:
        voices.find(identity)
    assert caught.value.status == 404


def test_deleting_a_voice_deletes_its_latents_of_every_model(tmp_path):
    voices = Voices(tmp_path)
    gone, stays = voices.add("x", RECORDING), voices.add("y", OTHER)
    latents = [
        latents_file.path_of(voices.latents_folder, weights, voice.sha256)
        for voice in (gone, stays)
        for weights in ("a" * 64, "b" * 64)
    ]
    # An earlier version kept them side by side, without their owner.
    for path in (*latents, old := voices.latents_folder / f"{'c' * 64}.safetensors"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"latents")
    voices.remove(gone)
    assert [path.exists() for path in (*latents, old)] == [False, False, True, True, False]
    assert not any(gone.sha256 in str(path) or gone.id in str(path) for path in tmp_path.rglob("*"))


def test_nothing_of_a_deleted_voice_remains(real):
    """With the embedded model: the latents on disk are removed with the voice."""
    folder = real.state.voices.folder

    def files():
        return {path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}

    before = files()
    voice = upload(real, file_of(speech(3.0))).json()["id"]
    assert real.say("Yes.", voice=voice).status_code == 200
    assert any(path.suffix == ".safetensors" for path in files() - before)
    assert real.client.delete(f"/v1/voices/{voice}").status_code == 204
    assert files() - before == set()
    assert real.say("Yes.", voice=voice).status_code == 404


def test_a_new_name_is_one_that_can_be_seen(service):
    voice = upload(service, file_of(speech())).json()
    where = f"/v1/voices/{voice['id']}"
    answer = service.client.patch(where, json={"name": "  Ben\u200b \n"})
    assert answer.status_code == 200 and answer.json() == voice | {"name": "Ben"}
    assert service.say("hello", voice="Ben").status_code == 200
    assert service.client.patch("/v1/voices/default", json={"name": "x"}).status_code == 409
    for name in ("", "\n", "x" * 101, None):
        assert service.client.patch(where, json={"name": name}).status_code == 422


@pytest.mark.parametrize("name", ["default", "alloy", " Nova ", "DEFAULT"])
def test_a_name_that_always_means_the_served_voice_is_refused(shared_service, name):
    voice = upload(shared_service, file_of(speech())).json()
    renamed = shared_service.client.patch(f"/v1/voices/{voice['id']}", json={"name": name})
    for answer in (upload(shared_service, file_of(speech()), name), renamed):
        assert refusal(answer) == (422, "reserved_name", "name")
    assert [uploaded.name for uploaded in shared_service.state.voices.all()] == ["Anna"]
    shared_service.client.delete(f"/v1/voices/{voice['id']}")


def test_a_voice_tells_the_quality_of_its_recording(service):
    quality = upload(service, file_of(speech())).json()["quality"]
    assert quality["word"] == "usable" and "s of speech" in quality["remarks"][0]
    clipped = upload(service, file_of(np.clip(9 * speech(12.0), -1, 1)), "B").json()["quality"]
    assert clipped["word"] == "poor" and "clipped" in clipped["remarks"][0]
    assert upload(service, file_of(speech(12.0)), "C").json()["quality"]["word"] == "good"
    assert service.client.get("/v1/voices").json()["voices"][0]["quality"] is None


def test_a_voice_of_an_earlier_version_has_no_quality(service):
    voice = upload(service, file_of(speech())).json()
    path = service.state.voices.folder / f"{voice['id']}.json"
    fields = json.loads(path.read_text())
    del fields["quality"]
    path.write_text(json.dumps(fields))
    assert service.client.get(f"/v1/voices/{voice['id']}").json()["quality"] is None


def test_a_name_that_exists_is_refused_at_upload_and_at_renaming(service):
    """With two voices of one name, every request with that name would be refused."""
    anna, ben = (upload(service, file_of(speech()), name=new_name).json()["id"] for new_name in ("Anna", "B"))
    for name in ("Anna", " anna ", "Anna\u200b"):
        answer = upload(service, file_of(speech()), name=name)
        assert refusal(answer) == (409, "name_taken", "name") and anna in answer.text
        answer = service.client.patch(f"/v1/voices/{ben}", json={"name": name})
        assert refusal(answer) == (409, "name_taken", "name")
    assert service.client.patch(f"/v1/voices/{anna}", json={"name": "ANNA"}).status_code == 200
    assert service.say("hello", voice="anna").status_code == 200
