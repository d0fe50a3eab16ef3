"""A voice of several recordings over HTTP: three, ten, eleven, a bad one, and later additions."""

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from api.voices import recordings
from api.voices.recordings import DecodedRecording
from tests.api.conftest import Running
from tests.api.heard import refusal
from tests.api.sounds import file_of, speech, upload
from xtts.inference import latents_file


def take(number: int, seconds: float = 2.0, rate: int = 22_050) -> bytes:
    """Speech of the same person, different for each number."""
    return file_of(speech(seconds, rate) * (1 - 0.05 * number), rate)


def files(*takes: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    return [("file", (f"{number}.wav", take)) for number, take in enumerate(takes, start=1)]


def sent(service: Running, *takes: bytes, name: str = "Anna") -> httpx.Response:
    return service.client.post("/v1/voices", files=files(*takes), data={"name": name})


def added(service: Running, voice: dict[str, Any], *takes: bytes) -> httpx.Response:
    return service.client.post(f"/v1/voices/{voice['id']}/recordings", files=files(*takes))


def heard(service: Running, voice: dict[str, Any]) -> tuple[np.ndarray, int]:
    answer = service.client.get(voice["preview"])
    return soundfile.read(io.BytesIO(answer.content), dtype="float32")


def stored_files(service: Running) -> list[str]:
    folder = service.state.voices.folder
    return (
        sorted(
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.is_file() and path.name != ".lock"
        )
        if folder.is_dir()
        else []
    )


@pytest.fixture
def service(service_of_module: tuple[Running, Path]) -> Iterator[Running]:
    """The module's one service; each test begins without voices."""
    opened, _ = service_of_module
    yield opened
    for voice in opened.state.voices.all():
        opened.client.delete(f"/v1/voices/{voice.id}").raise_for_status()
    assert stored_files(opened) == []


def test_one_recording_is_kept_as_ever(service):
    voice = upload(service, take(0)).json()
    assert voice["recordings"] == 1
    assert stored_files(service) == [f"{voice['id']}.json", f"{voice['id']}.wav"]
    samples, rate = heard(service, voice)
    assert rate == 22_050 and np.abs(samples - speech()).max() < 1e-4
    assert service.client.get("/v1/voices").json()["voices"][0]["recordings"] is None


@pytest.mark.parametrize("count", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_several_recordings_are_one_voice_in_which_each_is_heard(service, count):
    answer = sent(service, *(take(number, 4.0) for number in range(count)))
    assert answer.status_code == 201, answer.text
    voice = answer.json()
    assert (voice["recordings"], voice["name"]) == (count, "Anna")
    assert voice["duration_seconds"] == pytest.approx(4.0 * count, abs=0.5 * count)
    samples, rate = heard(service, voice)
    assert len(samples) / rate == pytest.approx(voice["duration_seconds"], abs=0.01)
    # Each recording has its turn in the first ten seconds.
    turn = (2.0 if count <= 5 else 1.0) * rate
    loudest = [float(np.abs(samples[int(n * turn) : int((n + 1) * turn)]).max()) for n in range(count)]
    whole = float(np.abs(speech(4.0)).max())
    assert np.allclose([level / whole for level in loudest], [1 - 0.05 * n for n in range(count)], atol=0.03)
    assert len(stored_files(service)) == count + 2
    assert service.say("hello", voice="Anna").status_code == 200
    assert service.client.delete(f"/v1/voices/{voice['id']}").status_code == 204
    assert stored_files(service) == [] and not (service.state.voices.folder / voice["id"]).exists()


def test_eleven_recordings_are_refused_also_with_those_that_are_there(service):
    assert refusal(sent(service, *[take(0)] * 11)) == (422, "several_files", "file")
    voice = sent(service, *[take(number) for number in range(9)]).json()
    before = stored_files(service)
    assert refusal(added(service, voice, take(0), take(1))) == (409, "too_many_recordings", "file")
    assert stored_files(service) == before
    assert added(service, voice, take(9)).json()["recordings"] == 10
    assert refusal(added(service, voice, take(0))) == (409, "too_many_recordings", "file")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"GIF89a not sound", "not a WAV"),  # seen by its first bytes
        (file_of(np.zeros(44_100, dtype="float32")), "silent"),  # seen by its decoder
    ],
)
def test_a_bad_third_refuses_all_and_is_named(service, bad, words):
    voice = upload(service, take(0)).json()
    before = stored_files(service)
    for answer in (sent(service, take(1), take(2), bad), added(service, voice, take(1), take(2), bad)):
        assert answer.status_code == 422
        detail = answer.json()["detail"]
        assert detail.startswith("Recording 3 ('3.wav'): ") and words in detail
        assert detail.endswith("Nothing was kept.")
    assert stored_files(service) == before
    assert service.client.get(f"/v1/voices/{voice['id']}").json() == voice


def test_recordings_that_take_too_much_when_they_are_decoded_are_refused(service, monkeypatch):
    """A minute at 192 kHz takes 22 MB: three of them exceed the limit of 64 MB."""
    voice = upload(service, take(0)).json()
    before = stored_files(service)
    minute = DecodedRecording(file_of(speech(1.0)).ljust(22 << 20, b"\0"), 60.0, {})

    async def decoded(_data: bytes) -> DecodedRecording:
        return minute

    monkeypatch.setattr(recordings, "decode", decoded)
    for answer in (sent(service, *[take(0)] * 3), added(service, voice, *[take(0)] * 3)):
        assert refusal(answer)[:2] == (413, "too_large")
        assert "more than 64 MB when decoded" in answer.json()["detail"]
    assert stored_files(service) == before


def test_a_voice_is_added_to_and_keeps_its_id_and_name(service):
    voice = upload(service, take(0)).json()
    alone = service.client.get(voice["preview"]).content
    changed = added(service, voice, take(1), take(2))
    assert changed.status_code == 200, changed.text
    changed = changed.json()
    same = ("id", "name", "created", "preview", "origin")
    assert [changed[key] for key in same] == [voice[key] for key in same]
    assert changed["recordings"] == 3 and changed["duration_seconds"] > 5
    assert service.client.get(f"/v1/voices/{voice['id']}").json() == changed
    assert service.client.get(voice["preview"]).content != alone
    # As if uploaded together.
    together = sent(service, take(0), take(1), take(2), name="Ben").json()
    preview, other = (service.client.get(v["preview"]).content for v in (changed, together))
    assert preview == other
    assert service.say("hello", voice=voice["id"]).status_code == 200


def test_a_voice_of_an_earlier_version_is_added_to(service):
    voice = upload(service, take(0)).json()
    path = service.state.voices.folder / f"{voice['id']}.json"
    lines = [line for line in path.read_text().splitlines() if '"recordings"' not in line]
    path.write_text("\n".join(lines).replace("},\n}", "}\n}"))
    assert service.client.get(f"/v1/voices/{voice['id']}").json() == voice
    assert added(service, voice, take(1)).json()["recordings"] == 2


def test_recordings_of_other_rates_are_joined_at_the_highest(service):
    voice = sent(service, take(0, 2.0, 8_000), take(0, 2.0, 44_100)).json()
    samples, rate = heard(service, voice)
    assert rate == 44_100 and voice["duration_seconds"] == pytest.approx(4.0, abs=0.7)
    voiced = samples[: 2 * rate] if len(samples) > 3 * rate else samples
    assert np.abs(voiced).max() == pytest.approx(np.abs(speech(2.0, 8_000)).max(), rel=0.1)


def test_remarks_name_the_bad_recording_and_length_counts_together(service):
    good, clipped = take(0, 6.0), file_of(np.clip(9 * speech(6.0), -1, 1))
    quality = sent(service, good, clipped, good).json()["quality"]
    assert any(remark.startswith("Recording 2: ") and "clipped" in remark for remark in quality["remarks"])
    assert not any(remark.startswith(("Recording 1", "Recording 3")) for remark in quality["remarks"])
    assert quality["word"] in ("usable", "poor")
    short = sent(service, *[take(n, 2.5) for n in range(4)], name="Ben").json()["quality"]
    assert (short["word"], short["remarks"]) == ("good", [])


def test_the_served_and_an_unknown_voice_are_not_added_to(service):
    assert refusal(added(service, {"id": "default"}, take(0)))[:2] == (409, "served_voice")
    assert refusal(added(service, {"id": "x" * 12}, take(0)))[:2] == (404, "no_voice")
    voice = upload(service, take(0)).json()
    assert service.client.post(f"/v1/voices/{voice['id']}/recordings").status_code == 422


def test_latents_follow_and_of_a_deleted_voice_none_is_left(service):
    voices = service.state.voices
    voice = upload(service, take(0)).json()
    first = voices.find(voice["id"])
    added(service, voice, take(1))
    second = voices.find(voice["id"])
    assert not (voices.latents_folder / first.sha256).exists() and first.sha256 != second.sha256
    added(service, voice, take(2))
    third = voices.find(voice["id"])
    # A reader of an earlier merged recording writes its latents late.
    for sha256 in (first, second, third):
        path = latents_file.path_of(voices.latents_folder, "a" * 64, sha256.sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"latents")
    assert service.client.delete(f"/v1/voices/{voice['id']}").status_code == 204
    assert stored_files(service) == []


def test_what_was_heard_before_stays_for_who_waits_and_goes_later(service):
    voice = sent(service, take(0), take(1)).json()
    before = service.state.voices.reference_path(service.state.voices.find(voice["id"]))
    added(service, voice, take(2))
    assert before.is_file()
    hours_ago = time.time() - 2 * 3600
    os.utime(before, (hours_ago, hours_ago))
    added(service, voice, take(3))
    assert not before.exists()
