"""Previews a candidate of a run without serving it.

One preview voice is open in addition to the served one, for all callers and within the same limits.
"""

import asyncio
import os
from dataclasses import replace
from functools import partial

import pytest

from api.app import child_options
from api.engine.child import VoiceTarget
from api.engine.engine import Engine
from api.engine.queue import DEADLY_COUNT, SpeechStream
from api.errors import APIError
from api.metrics import ServiceMetrics
from tests.api.conftest import PATIENT, settings_in
from tests.api.heard import refused, said, samples
from tests.api.judged_run import CANDIDATES, preview, row, served
from tests.api.threads import at_once
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.run_folder import RunFolder


def test_a_candidate_speaks_for_its_caller_alone(still):
    before = still.status()["voice"]
    counted = still.state.metrics.requests.labels("200")._value.get()
    for name, who in (("epoch_2", "checkpoint_epoch_2.pt"), ("base", "checkpoint_epoch_2.pt base")):
        answer = preview(still, name, "!who")
        assert samples(answer.content) == said(f"!who {who}", 0)
        assert samples(still.say("!who").content) == said("!who checkpoint_epoch_1.pt", 0)
    assert still.status()["voice"] == before
    assert served(still)["candidate"] == "epoch_1" and not row(still, "epoch_2")["is_served"]
    assert still.state.metrics.requests.labels("200")._value.get() == counted + 4


def test_the_served_candidate_is_not_opened_twice(still):
    before = still.state.engine.previewed
    assert preview(still, "epoch_1", "hello").content == still.say("hello").content
    assert still.state.engine.previewed is before


def test_one_candidate_is_open_at_a_time_and_it_is_closed_again(service):
    engine = service.state.engine
    preview(service, "epoch_2", "hello")
    first = engine.previewed.key
    preview(service, "epoch_2", "hello again")
    assert engine.previewed.key == first  # still open
    preview(service, "base", "hello")
    assert engine.previewed.voice.name.startswith("base of the current run (")
    engine.limits = replace(PATIENT, preview_seconds=0.05)
    service.wait_until(lambda: engine.previewed is None, 10)
    assert preview(service, "epoch_2", "hello").status_code == 200


def test_those_who_want_another_candidate_wait_for_those_who_speak(still):
    """Both candidates answer completely, but are never open at the same time."""
    names, text = ("epoch_2", "epoch_2", "base", "base"), "p" * 200
    answers = at_once([partial(preview, still, name, text, seed=n) for n, name in enumerate(names)])
    assert [samples(answer.content) for answer in answers] == [said(text, n) for n in range(4)]


def test_who_waits_too_long_for_another_candidate_is_told_to_come_back(service):
    engine = service.state.engine
    engine.limits = replace(PATIENT, deadline_seconds=0.3)
    body = {"input": "v" * 4000, "response_format": "pcm"}
    with service.client.stream("POST", f"{CANDIDATES}/epoch_2/speech", json=body) as answer:
        sound = answer.iter_raw()
        next(sound)
        busy = preview(service, "base", "hello")
    assert refused(busy) == (503, "preview_busy") and int(busy.headers["retry-after"]) > 0
    # A client that disconnects frees it.
    engine.limits = PATIENT
    assert preview(service, "base", "hello").status_code == 200


def test_a_candidate_that_dies_is_told_and_the_served_voice_comes_back(service):
    assert preview(service, "epoch_2", "!signal SIGSEGV").status_code == 503
    assert service.state.engine.previewed is None
    service.wait_ready()
    assert served(service)["candidate"] == "epoch_1"
    # The same words are not suspect when another voice speaks them.
    assert len(service.state.engine.requests.deaths) == 1
    assert preview(service, "epoch_2", "hello").status_code == 200


def test_a_deadly_input_is_refused_before_its_candidate_is_opened(tmp_path):
    engine = Engine(child_options(settings_in(tmp_path)), PATIENT, ServiceMetrics(), lambda: None)
    asked = SpeechStream(SynthesisRequest("hello", "en"), target=VoiceTarget("epoch 2", {}))
    engine.requests.deaths[asked.digest] = DEADLY_COUNT
    with pytest.raises(APIError) as caught:  # without a child, any later step would be `starting`
        asyncio.run(engine.preview(asked))
    assert caught.value.code == "deadly_input"


def test_who_waited_while_the_child_died_is_told_to_come_back(tmp_path):
    engine = Engine(child_options(settings_in(tmp_path)), PATIENT, ServiceMetrics(), lambda: None)
    engine.child = engine.served_voice = object()

    async def wait_while_it_dies() -> None:
        asked = SpeechStream(SynthesisRequest("hello", "en"), target=VoiceTarget("epoch 2", {}))
        async with engine._preview_lock:
            waiting = asyncio.create_task(engine.preview(asked))
            await asyncio.sleep(0)
            engine.child = None
        await waiting

    with pytest.raises(APIError) as caught:
        asyncio.run(wait_while_it_dies())
    assert (caught.value.status, caught.value.code) == (503, "starting")


class SlowChild:
    """A child that opens each voice once `has_opened` is set."""

    def __init__(self) -> None:
        self.sent: list[dict[str, object]] = []
        self.has_opened = asyncio.Event()

    async def ask(self, message, limit_seconds):
        self.sent.append(message)
        await self.has_opened.wait()
        return {"languages": ["en"]}

    def send(self, message) -> None:
        self.sent.append(message)


def test_a_voice_whose_caller_left_while_it_was_opened_is_closed_and_blamed_for_no_later_death(tmp_path):
    engine = Engine(child_options(settings_in(tmp_path)), PATIENT, ServiceMetrics(), lambda: None)
    engine.served_voice = object()
    voice = VoiceTarget("epoch 2", {})

    async def leave_while_it_opens() -> None:
        child = engine.child = SlowChild()
        speech = SpeechStream(SynthesisRequest("hello", "en"), target=voice)
        preview = asyncio.create_task(engine.preview(speech))
        await asyncio.sleep(0.01)
        preview.cancel()
        await asyncio.wait([preview])
        assert list(engine._openings.values()) == [voice.name]  # it would be blamed for a death now
        child.has_opened.set()
        await asyncio.sleep(0.01)
        assert child.sent[-1] == {"do": "close", "key": child.sent[0]["key"]}
        assert not engine._openings

    asyncio.run(leave_while_it_opens())


def test_a_pruned_epoch_is_refused_and_can_still_be_heard(service, output):
    run = RunFolder(output)
    run.manifest_path(2).unlink()
    run.checkpoint_path(2).unlink()
    service.wait_until(lambda: service.state.follower.runs["current"].epochs[2].state == "pruned")
    answer = preview(service, "epoch_2", "hello")
    assert refused(answer) == (409, "no_checkpoint")
    assert "pruned" in answer.json()["detail"] and not row(service, "epoch_2")["can_speak"]
    assert service.client.get(f"{CANDIDATES}/epoch_2/sentences/0.wav").status_code == 200


def test_a_candidate_that_cannot_be_opened_is_refused_without_its_path(service, output):
    os.rename(output, output.with_name("bad"))
    (output.with_name("output")).symlink_to(output.with_name("bad"))
    service.state.follower.settings = settings_in(output.parent, output_dir=output.parent / "bad")
    service.wait_until(lambda: "bad" in str(service.state.follower.runs["current"].epochs[2].checkpoint), 10)
    answer = preview(service, "epoch_2", "hello")
    assert refused(answer) == (422, "refused") and "/secret" not in answer.text
    assert service.say("hello").status_code == 200


@pytest.mark.parametrize(
    ("name", "text", "compute", "limits", "code"),
    [
        ("epoch_9", "hello", {}, {}, (404, "no_candidate")),
        ("epoch_2", "!nan", {}, {}, (503, "not_finite")),
        # When there is no memory for a second voice.
        ("epoch_2", "hello", {"low_memory": True}, {}, (409, "no_preview")),
        ("epoch_2", "hello", {"backend": "onnx"}, {}, (409, "no_preview")),
        # No more requests may wait for a candidate than for their turn.
        ("epoch_2", "hello", {}, {"queue": 0}, (503, "queue_full")),
    ],
)
def test_why_a_candidate_is_not_heard_is_told_and_the_service_stays_ready(
    still, name, text, compute, limits, code
):
    engine = still.state.engine
    with pytest.MonkeyPatch.context() as patch:
        options = replace(engine.options, compute=replace(engine.options.compute, **compute))
        patch.setattr(engine, "options", options)
        patch.setattr(engine, "limits", replace(PATIENT, **limits))
        assert refused(preview(still, name, text)) == code
    assert engine.is_ready
