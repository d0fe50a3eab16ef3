"""Reads the sound in a response of the fake child's service, and records requests to the child."""

import io
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import soundfile

from api.engine.engine import Engine
from api.engine.queue import SpeechStream
from tests.api.fake_child import sound_of
from xtts.inference.synthesis_request import SynthesisRequest


def said(text: str, seed: int = 0) -> bytes:
    """The fake child's samples for a text."""
    return b"".join(sound_of(text, seed, number) for number in range(len(text)))


def samples(wav: bytes) -> bytes:
    """The samples of a WAV file or stream at 24 kHz."""
    sound, rate = soundfile.read(io.BytesIO(wav), dtype="int16")
    assert rate == 24_000
    return bytes(sound.astype("<i2").tobytes())


def refused(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer.status_code, answer.json()["code"]


def refusal(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and field of a refusal, which is an RFC 9457 body."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told = answer.json()
    assert told["status"] == answer.status_code and told["detail"] and told["title"]
    return answer.status_code, told["code"], told.get("param")


@contextmanager
def asked() -> Iterator[list[tuple[SynthesisRequest, str | None]]]:
    """The engine's requests inside this context, each with its recording."""
    orders: list[tuple[SynthesisRequest, str | None]] = []
    speak = Engine.speak

    def spy(self: Engine, spoken: SpeechStream) -> SpeechStream:
        orders.append((spoken.request, spoken.recording))
        return speak(self, spoken)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "speak", spy)
        yield orders
