"""Uploads: what becomes a voice, what is refused, and that nothing an upload holds does harm."""

import io
import json
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from api.errors import APIError
from api.voices.recordings_child import decoded
from api.voices.store import Voices
from tests.api.conftest import Running
from xtts.inference import latents_folder


def speech(seconds: float = 2.0, rate: int = 22_050) -> np.ndarray:
    time_axis = np.arange(int(seconds * rate)) / rate
    return (0.3 * np.sin(2 * np.pi * 180 * time_axis)).astype("float32")


def file_of(sound: np.ndarray, rate: int = 22_050, **how: Any) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, sound, rate, **({"format": "WAV"} | how))
    return out.getvalue()


def upload(service: Running, data: bytes, name: str = "Anna") -> Any:
    return service.client.post("/v1/voices", files={"file": ("x.wav", data)}, data={"name": name})


def test_a_voice_lives_from_upload_to_deletion(service: Running) -> None:
    made = upload(service, file_of(speech()))
    assert made.status_code == 201
    voice = made.json()
    assert voice["name"] == "Anna" and voice["origin"] == "upload"
    assert voice["duration_seconds"] == 2.0
    listed = service.client.get("/v1/voices").json()["voices"]
    assert [one["id"] for one in listed] == ["default", voice["id"]]
    assert service.client.get(f"/v1/voices/{voice['id']}").json() == voice
    assert service.say("hello", voice=voice["id"]).status_code == 200
    assert service.client.delete(f"/v1/voices/{voice['id']}").status_code == 204
    for call in (service.client.get, service.client.delete):
        assert call(f"/v1/voices/{voice['id']}").status_code == 404
    assert service.say("hello", voice=voice["id"]).status_code == 404
    assert list(service.parts.voices.folder.iterdir()) == []


@pytest.mark.parametrize(
    "how", [{"format": "FLAC"}, {"format": "OGG"}, {"subtype": "FLOAT"}, {"subtype": "PCM_24"}]
)
def test_other_forms_are_read_too(service: Running, how: dict[str, Any]) -> None:
    stereo = np.stack([speech(), speech()], axis=1)
    assert upload(service, file_of(stereo, **how)).status_code == 201


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no WAV"),
        (b"GIF89a not sound", "no WAV"),
        (b"RIFF\0\0\0\0WAVE", "cannot be decoded"),
        (file_of(speech(0.5)), "0.50 s long"),
        (file_of(speech(61.0, 8_000), 8_000), "at most 60 s"),
        (file_of(np.zeros(44_100, dtype="float32")), "silent"),
        (file_of(np.full(44_100, np.nan, dtype="float32"), subtype="FLOAT"), "non-finite"),
        (file_of(speech(), 22_051), "22051 samples a second"),
        (file_of(np.zeros((44_100, 9), dtype="float32")), "9 channels"),
    ],
)
def test_what_is_no_usable_recording_is_refused(service: Running, data: bytes, words: str) -> None:
    answer = upload(service, data)
    assert answer.status_code == 422 and words in answer.json()["detail"]
    assert not service.parts.voices.all()


def test_a_bomb_is_refused_by_its_header_in_no_time(service: Running) -> None:
    """250 kB of FLAC that hold an hour of silence, 302 MB decoded."""
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", 22_050, 1, "PCM_16", format="FLAC") as file:
        for _ in range(60):
            file.write(np.zeros(22_050 * 60, dtype="int16"))
    bomb = out.getvalue()
    assert len(bomb) < 400_000
    started = time.monotonic()
    answer = upload(service, bomb)
    assert answer.status_code == 422 and "3,600 s long" in answer.json()["detail"]
    assert time.monotonic() - started < 8
    # The same with a header that says nothing of its length.
    hidden = bytearray(bomb)
    hidden[21] &= 0xF0
    hidden[22:26] = bytes(4)
    assert upload(service, bytes(hidden)).status_code == 422


@pytest.mark.parametrize(
    "name", ["", " ", "\u200b", "\x00", "x" * 101], ids=["empty", "space", "zero", "nul", "long"]
)
def test_a_name_that_cannot_be_seen_is_refused(service: Running, name: str) -> None:
    assert upload(service, file_of(speech()), name).status_code == 422


def test_a_file_is_needed_and_not_more_than_is_allowed(service: Running) -> None:
    client = service.client
    assert client.post("/v1/voices", data={"name": "x"}).status_code == 422
    assert client.post("/v1/voices", content=b"x").status_code == 422
    wrong = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/v1/voices", content=b"--y", headers=wrong).status_code in (400, 422)
    assert upload(service, b"RIFF" + bytes(21 << 20)).status_code == 413
    assert client.delete("/v1/voices/default").status_code == 409


@given(st.text(max_size=80))
def test_no_id_leaves_the_folder(identity: str) -> None:
    voices = Voices(Path("/nonexistent/voices"))
    with pytest.raises(Exception, match="no voice of that id") as caught:
        voices.find(identity)
    assert caught.value.status == 404


@settings(max_examples=150)
@given(
    st.sampled_from([b"RIFF", b"RIFX", b"RF64"]), st.integers(0, 2**32 - 1), st.integers(0, 65535),
    st.integers(0, 65535), st.integers(0, 2**32 - 1), st.integers(0, 64), st.integers(0, 2**32 - 1),
    st.binary(max_size=200), st.booleans(),
)  # fmt: skip
def test_a_wav_header_of_any_kind_is_a_recording_or_a_sentence(
    magic: bytes, riff: int, form: int, channels: int, rate: int, bits: int, size: int,
    rest: bytes, data_first: bool,
) -> None:  # fmt: skip
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, form, channels, rate, 0, 0, bits)
    data = struct.pack("<4sI", b"data", size) + rest
    parts = data + fmt if data_first else fmt + data
    try:
        decoded(magic + struct.pack("<I", riff) + b"WAVE" + parts, 60.0)
    except ValueError as error:
        assert str(error).endswith(".")


@pytest.mark.parametrize("identity", ["../secret", "SECRET1234567", "secret", "x" * 12 + "\n"])
def test_what_is_no_id_is_no_voice_even_where_its_file_is(tmp_path: Path, identity: str) -> None:
    voices = Voices(tmp_path / "voices")
    voices.folder.mkdir()
    about = {"id": identity, "name": "x", "created": "", "duration_seconds": 1.0, "sha256": ""}
    (voices.folder / f"{identity}.json").write_text(json.dumps(about), encoding="utf-8")
    (voices.folder / f"{identity}.wav").write_bytes(b"")
    with pytest.raises(APIError) as caught:
        voices.find(identity)
    assert caught.value.status == 404


def test_the_thousandth_voice_is_the_last(tmp_path: Path) -> None:
    voices = Voices(tmp_path)
    for number in range(999):
        about = {"id": f"{number:012}", "name": "x", "created": "", "duration_seconds": 1.0,
                 "sha256": ""}  # fmt: skip
        (tmp_path / f"{number:012}.json").write_text(json.dumps(about), encoding="utf-8")
        (tmp_path / f"{number:012}.wav").write_bytes(b"")
    last = voices.add("x", b"RIFF", 1.0)
    with pytest.raises(APIError) as caught:
        voices.add("x", b"RIFF", 1.0)
    assert (caught.value.status, caught.value.code) == (409, "too_many_voices")
    voices.remove(last)
    voices.add("x", b"RIFF", 1.0)


def test_deleting_a_voice_deletes_its_latents_of_every_model(tmp_path: Path) -> None:
    voices = Voices(tmp_path)
    gone, stays = voices.add("x", b"RIFF gone", 1.0), voices.add("x", b"RIFF stays", 1.0)
    latents = [
        latents_folder.path_of(voices.latents, weights, voice.sha256)
        for voice in (gone, stays) for weights in ("a" * 64, "b" * 64)
    ]  # fmt: skip
    # An earlier version kept them side by side, without a word about whose they are.
    for path in (*latents, old := voices.latents / f"{'c' * 64}.safetensors"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"latents")
    voices.remove(gone)
    assert [path.exists() for path in (*latents, old)] == [False, False, True, True, False]
    assert not any(gone.sha256 in str(path) or gone.id in str(path) for path in tmp_path.rglob("*"))


def test_nothing_of_a_deleted_voice_remains(real: Running) -> None:
    """With the embedded model: what it took from the recording is on the disk, and then is not."""
    folder = real.parts.voices.folder

    def files() -> set[Path]:
        return {path for path in folder.rglob("*") if path.is_file()}

    before = files()
    voice = upload(real, file_of(speech(3.0))).json()["id"]
    assert real.say("Yes.", voice=voice).status_code == 200
    assert any(path.suffix == ".safetensors" for path in files() - before)
    assert real.client.delete(f"/v1/voices/{voice}").status_code == 204
    assert files() - before == set()
    assert real.say("Yes.", voice=voice).status_code == 404
