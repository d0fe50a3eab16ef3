"""Wyoming with the protocol's client, on the fake child: events, voices, streams, refusals."""

import asyncio
import json
import re

import pytest
from wyoming.event import Event, Eventable
from wyoming.info import Describe, Info, TtsProgram
from wyoming.ping import Ping
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice

from tests.api.heard import asked, said
from tests.extras.wyoming.conftest import BothPorts, answered, heard, say, send
from xtts.marks import Mark

TEXT = "Good morning, how did you sleep?"
LONG = "long " * 40 + "text"


def described(ports: BothPorts) -> TtsProgram:
    told = asyncio.run(answered(ports, Describe(), last="info")).last
    assert told is not None
    (program,) = Info.from_event(told).tts
    return program


def test_every_voice_is_listed_in_every_language(ports):
    program = described(ports)
    assert program.installed and program.supports_synthesize_streaming
    found = [(voice.name, voice.description, voice.languages) for voice in program.voices]
    assert found == [
        (f"{name} ({language})", told, [language])
        for name, told in (("default", "demo"), ("Anna", "Anna"), ("Élodie", "Élodie"))
        for language in ("en", "pt")
    ]
    assert all(voice.installed for voice in program.voices)


def test_each_listed_voice_speaks_as_itself(ports):
    """Home Assistant sends only the name of a voice."""
    with asked() as orders:
        for voice in described(ports).voices:
            assert say(ports, TEXT, SynthesizeVoice(name=voice.name)).pcm == said(TEXT)
    kept = ports.http.state.voices
    paths = [None, *(str(kept.reference_path(row)) for row in kept.all())]
    expected = [(language, path) for path in paths for language in ("en", "pt")]
    assert [(ask.language, recording) for ask, recording in orders] == expected


@pytest.mark.parametrize(("voice", "name"), [(None, "demo"), ("élodie (pt)", "Élodie")])
@pytest.mark.parametrize("text", [TEXT, ""])
def test_the_start_of_the_audio_is_marked(ports, voice, name, text):
    voice_asked = SynthesizeVoice(name=voice) if voice else None
    event = Synthesize(text=text, voice=voice_asked)
    start = asyncio.run(answered(ports, event, last="audio-start")).last
    assert start is not None and start.data["ai_generated"] == Mark(name).text


@pytest.mark.parametrize("text", ["\ud83d", "Good \ud83d morning."])
@pytest.mark.parametrize("kinds", [["synthesize"], ["synthesize-start", "synthesize-chunk"]])
def test_a_text_that_is_no_unicode_is_refused(ports, text, kinds):
    """Other programs write it as a JSON escape; the protocol's client never sends one."""
    events = [json.dumps({"type": kind, "data": {"text": text}}) + "\n" for kind in kinds]
    answer = asyncio.run(bytes_answered(ports, "".join(events).encode())).decode()
    assert re.findall(r'"(?:type|code)": "(\w[\w-]*)"', answer) == ["error", "invalid_request"]


@pytest.mark.parametrize(
    ("voice", "language", "recorded"),
    [
        (None, "", False),
        ({"language": "pt-BR"}, "pt", False),
        ({"name": "alloy"}, "", False),
        ({"name": "anna"}, "", True),
        # Names of the served voice that an earlier version listed.
        ({"name": "epoch 2 at 30% (905c8a39) (pt)"}, "pt", False),
        ({"name": "demo (en)"}, "en", False),
        ({"name": "epoch 2 (905c8a39)"}, "", False),
        # Some clients send null for a missing value.
        ({"name": None, "language": None, "speaker": None}, "", False),
    ],
)
def test_voices_are_named_as_over_http(ports, voice, language, recorded):
    with asked() as orders:
        event = Event("synthesize", {"text": TEXT, "voice": voice} if voice else {"text": TEXT})
        found = asyncio.run(answered(ports, event))
    assert found.pcm == said(TEXT) and found.error is None
    assert found.kinds == ["audio-start", "audio-chunk", "audio-stop"]
    ((ask, recording),) = orders
    assert (ask.language, recording is not None) == (language, recorded)


def test_streamed_text_is_spoken_once_and_to_its_end(ports):
    """Like Home Assistant: the chunks, the whole text for servers without streams, an end."""
    chunks = ("Good mor", "ning. How did you", " sleep? Well", ".")
    events: list[Eventable] = [SynthesizeStart(), *map(SynthesizeChunk, chunks)]
    events += [Synthesize("".join(chunks)), SynthesizeStop()]
    found = asyncio.run(answered(ports, *events, last="synthesize-stopped"))
    assert found.kinds == ["audio-start", "audio-chunk", "audio-stop", "synthesize-stopped"]
    wholes = [
        ("Good morning.", "How did you sleep? Well."),
        ("Good morning. How did you sleep?", "Well."),
        ("Good morning. How did you sleep? Well.",),
        ("Good morning.", "How did you sleep?", "Well."),
    ]
    assert found.pcm in [b"".join(map(said, parts)) for parts in wholes]


def test_it_speaks_before_the_text_has_ended(ports):
    async def ask():
        async with ports.client() as client:
            await send(client, SynthesizeStart(), SynthesizeChunk("Good morning. How"))
            first, expected = b"", said("Good morning.")
            while len(first) < len(expected):
                event = await asyncio.wait_for(client.read_event(), 10)
                assert event is not None and event.type in ("audio-start", "audio-chunk")
                first += event.payload or b""
            # Its first sentence has been spoken; the rest follows only now.
            await send(client, SynthesizeChunk(" did you sleep?"), SynthesizeStop())
            return first, await heard(client, "synthesize-stopped")

    first, rest = asyncio.run(ask())
    assert first == said("Good morning.") and rest.pcm == said("How did you sleep?")


def test_texts_of_a_connection_are_spoken_in_their_order(ports):
    async def ask():
        async with ports.client() as client:
            await send(client, *map(Synthesize, ("one", "two", "three")))
            return [(await heard(client)).pcm for _ in range(3)]

    assert asyncio.run(ask()) == [said("one"), said("two"), said("three")]


def test_a_text_without_a_word_is_an_empty_sound(ports):
    found = say(ports, " \n ")
    assert found.kinds == ["audio-start", "audio-stop"] and found.pcm == b""


def test_it_answers_a_ping_while_it_speaks(ports):
    found = asyncio.run(answered(ports, Synthesize(LONG), Ping("there?")))
    assert "pong" in found.kinds and found.pcm == said(LONG)


def test_what_is_not_for_a_voice_changes_nothing(ports):
    kinds = ("transcribe", "select-program", "made-up", "synthesize-chunk")
    others = [Event(kind, {"text": "x"}) for kind in kinds]
    assert asyncio.run(answered(ports, *others, Synthesize(TEXT))).pcm == said(TEXT)


@pytest.mark.parametrize(
    ("text", "voice", "code"),
    [
        ("!refuse", None, "refused"),
        ("x" * 4097, None, "invalid_request"),
        ("hi", SynthesizeVoice(name="nobody"), "no_voice"),
        ("hi", SynthesizeVoice(name="Anna+Élodie"), "unsupported"),
        ("hi", SynthesizeVoice(language="tlh"), "language_unsupported"),
        ("hi", SynthesizeVoice(name="../../etc/passwd"), "no_voice"),
    ],
)
def test_a_refusal_is_told_and_ends_the_connection(ports, text, voice, code):
    """Home Assistant waits for the end of the sound and ignores errors: it must be disconnected."""
    found = say(ports, text, voice)
    assert found.ended and found.error is not None and found.code == code
    assert found.error.text and "/etc" not in found.error.text


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\r\n"
        b'{"type": "synthesize", "data": {"text": "hello"}}\n',
        b"{\n",
        b"[]\n",
        b'{"type": 1}\n',
        b'{"data": {}}\n',
        b'{"type": "synthesize", "data": []}\n',
        b'{"type": "synthesize", "data": {"text": 7}}\n',
        b'{"type": "synthesize", "data": {"text": "x", "voice": {"name": 7}}}\n',
        b'{"type": "synthesize", "data_length": 1000000000}\n',
        b'{"type": "synthesize", "data_length": "x"}\n',
        b'{"type": "synthesize", "data_length": 2.5}\n',
        b'{"type": "audio-chunk", "payload_length": 1000000000}\n',
        b'{"type": "describe", "data_length": 1}\n7',
        b"[" * 60_000 + b"\n",
        b'{"type": "' + b"x" * 200_000,
        b"\xff\xfe\x00\n",
    ],
    ids=range(17),
)
def test_what_is_no_event_ends_the_connection_and_nothing_is_spoken(ports, sent):
    """A web page that posts events to this port sends a request line first."""
    with asked() as orders:
        answer = asyncio.run(bytes_answered(ports, sent))
    assert orders == []
    if answer:
        assert json.loads(answer.splitlines()[0])["type"] == "error"
    assert say(ports, "hi").pcm == said("hi")


async def bytes_answered(ports: BothPorts, sent: bytes) -> bytes:
    """The answer to bytes that are not an event, up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", ports.port)
    writer.write(sent)
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_requests_are_counted_as_others_are(ports):
    def counts():
        spoken = ports.http.counted("tts_requests_total", code="200")
        return spoken, ports.http.counted("tts_refusals_total", code="no_voice", status="404")

    say(ports, "hi")
    before = counts()
    say(ports, "hi")
    say(ports, "hi", SynthesizeVoice(name="nobody"))
    assert counts() == (before[0] + 1, before[1] + 1)
