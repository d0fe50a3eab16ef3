"""Voices over HTTP in any order of calls, compared with a dictionary of expected voices.

The calls: upload, list, play, rename, speak by id and by name, delete, and use after deletion.
"""

from collections import Counter
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from api.voices import recordings
from api.voices.recordings import DecodedRecording
from tests.api.conftest import Running, running, settings_in
from xtts.encoding import encode

# Few, so that two voices often share a name. None is an id or a name of OpenAI's.
NAMES = st.sampled_from(["Anna", "anna", "Élodie", "a b", "x" * 100, "Anna.wav"])

QUALITY = {
    "word": "good",
    "remarks": [],
    "speech_seconds": 0.1,
    "snr_db": 60.0,
    "level_db": -20.0,
    "clipped_share": 0.0,
}


def sound_of(number: int) -> bytes:
    """A unique wav."""
    return encode("wav", number.to_bytes(2, "little") * 2_400)


async def undecoded(data: bytes) -> DecodedRecording:
    """Takes the upload for a decoded mono wav; test_recordings tests decoding."""
    return DecodedRecording(data, 0.1, QUALITY)


class VoiceCalls(RuleBasedStateMachine):
    """The possible calls to a service's voices. done: how often each kind of answer occurred."""

    service: Running
    done: ClassVar[Counter[str]] = Counter()
    voices = Bundle("voices")
    gone = Bundle("gone")

    def __init__(self) -> None:
        super().__init__()
        self.expected: dict[str, tuple[str, bytes]] = {}
        for voice in self.service.client.get("/v1/voices").json()["voices"][1:]:
            self.service.client.delete(f"/v1/voices/{voice['id']}").raise_for_status()

    def is_taken(self, name: str, but: str = "") -> bool:
        return any(
            identity != but and other.casefold() == name.casefold()
            for identity, (other, _) in self.expected.items()
        )

    @rule(target=voices, name=NAMES, number=st.integers(0, 2**16 - 1))
    def upload(self, name: str, number: int) -> Any:
        sound = sound_of(number)
        answer = self.service.client.post("/v1/voices", files={"file": sound}, data={"name": name})
        if self.is_taken(name):
            assert answer.status_code == 409
            self.done["taken"] += 1
            return multiple()
        assert answer.status_code == 201
        self.expected[answer.json()["id"]] = (name, sound)
        return str(answer.json()["id"])

    @rule(voice=voices)
    def hear(self, voice: str) -> None:
        answer = self.service.client.get(f"/v1/voices/{voice}/preview.wav")
        assert (answer.status_code, answer.content) == (200, self.expected[voice][1])

    @rule(voice=voices, name=NAMES)
    def rename(self, voice: str, name: str) -> None:
        answer = self.service.client.patch(f"/v1/voices/{voice}", json={"name": name})
        if self.is_taken(name, but=voice):
            assert answer.status_code == 409
            return
        assert (answer.status_code, answer.json()["name"]) == (200, name)
        self.expected[voice] = (name, self.expected[voice][1])

    @rule(voice=voices)
    def speak(self, voice: str) -> None:
        assert self.service.say("hi", voice=voice).status_code == 200
        name = self.expected[voice][0]
        status = self.service.say("hi", voice=name).status_code
        self.done[f"by name {status}"] += 1
        assert status == 200

    @rule(target=gone, voice=consumes(voices))
    def delete(self, voice: str) -> str:
        assert self.service.client.delete(f"/v1/voices/{voice}").status_code == 204
        del self.expected[voice]
        return voice

    @rule(voice=gone)
    def ask_for_what_is_gone(self, voice: str) -> None:
        where = f"/v1/voices/{voice}"
        client = self.service.client
        answers = [
            client.get(where),
            client.get(f"{where}/preview.wav"),
            client.delete(where),
            client.patch(where, json={"name": "x"}),
            self.service.say("hi", voice=voice),
        ]
        assert [answer.status_code for answer in answers] == [404] * 5
        self.done["gone"] += 1

    @invariant()
    def every_list_has_each(self) -> None:
        listed = self.service.client.get("/v1/voices").json()["voices"][1:]
        assert {row["id"]: row["name"] for row in listed} == {
            voice: name for voice, (name, _) in self.expected.items()
        }
        others = self.service.client.get("/v1/audio/voices").json()["voices"]
        assert {other["id"] for other in others} == {"default", *self.expected}
        files = {path.name for path in self.service.state.voices.folder.glob("[!.]*.*")}
        assert files == {f"{identity}.{kind}" for identity in self.expected for kind in ("wav", "json")}


def test_voices_are_what_was_made_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "decode", undecoded)
    monkeypatch.setenv("FAKE_STEP", "0")
    with running(settings_in(tmp_path)) as service:
        monkeypatch.setattr(VoiceCalls, "service", service, raising=False)
        run_machine(
            VoiceCalls,
            settings=settings(
                max_examples=8,
                stateful_step_count=30,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
        assert service.state.engine.history.restarts == 0
        # Every kind of answer must occur.
        assert set(VoiceCalls.done) == {"by name 200", "taken", "gone"}
