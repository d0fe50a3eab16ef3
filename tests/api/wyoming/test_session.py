"""Wyoming by the protocol's own client, on the fake child: events, voices, streams, refusals."""

import asyncio
import json
import re

import pytest
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeVoice,
)

from tests.api.dialects.heard import asked, said
from tests.api.wyoming.conftest import BothPorts, HeardEvents, heard, say

TEXT = "Good morning, how did you sleep?"


async def described(client: AsyncTcpClient) -> Info:
    await client.write_event(Describe().event())
    event = await client.read_event()
    assert event is not None and Info.is_type(event.type)
    return Info.from_event(event)


def test_every_voice_is_listed_in_every_language(ports: BothPorts) -> None:
    async def ask() -> Info:
        async with ports.client() as client:
            return await described(client)

    (program,) = asyncio.run(ask()).tts
    assert program.installed and program.supports_synthesize_streaming
    found = [(one.name, one.description, one.languages) for one in program.voices]
    assert found == [
        (f"{name} ({language})", name, [language])
        for name in ("demo", "Anna", "Élodie") for language in ("en", "pt")
    ]  # fmt: skip
    assert all(one.installed for one in program.voices)


def test_each_listed_voice_speaks_as_itself(
    ports: BothPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Home Assistant sends nothing of a voice but its name."""

    async def each() -> list[HeardEvents]:
        async with ports.client() as client:
            names = [one.name for one in (await described(client)).tts[0].voices]
        return [await say(ports, TEXT, SynthesizeVoice(name=name)) for name in names]

    with asked(monkeypatch) as orders:
        found = asyncio.run(each())
    assert {one.pcm for one in found} == {said(TEXT)}
    rows = ports.http.parts.voices.all()
    paths = [None, *(str(ports.http.parts.voices.recording(row)) for row in rows)]
    wanted = [(language, path) for path in paths for language in ("en", "pt")]
    assert [(ask.language, recording) for ask, recording in orders] == wanted


def test_a_sound_begins_comes_and_ends(ports: BothPorts) -> None:
    found = asyncio.run(say(ports, TEXT))
    assert found.kinds == ["audio-start", "audio-chunk", "audio-stop"]
    assert found.pcm == said(TEXT) and found.error is None


@pytest.mark.parametrize("text", ["\ud83d", "Good \ud83d morning."])
def test_a_text_that_is_no_unicode_is_refused(ports: BothPorts, text: str) -> None:
    """Other programs write it as JSON's escape; the protocol's own client sends none."""

    async def send(*kinds: str) -> list[str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.port)
        for kind in kinds:
            writer.write(json.dumps({"type": kind, "data": {"text": text}}).encode() + b"\n")
        answer = (await asyncio.wait_for(reader.read(), 20)).decode()
        writer.close()
        return re.findall(r'"(?:type|code)": "(\w[\w-]*)"', answer)

    for kinds in (["synthesize"], ["synthesize-start", "synthesize-chunk"]):
        assert asyncio.run(send(*kinds)) == ["error", "invalid_request"]


@pytest.mark.parametrize(
    ("voice", "language", "recorded"),
    [
        (None, "", False),
        (SynthesizeVoice(language="pt-BR"), "pt", False),
        (SynthesizeVoice(name="alloy"), "", False),
        (SynthesizeVoice(name="anna"), "", True),
    ],
)
def test_voices_are_named_as_over_http(
    ports: BothPorts,
    monkeypatch: pytest.MonkeyPatch,
    voice: SynthesizeVoice | None,
    language: str,
    recorded: bool,
) -> None:
    with asked(monkeypatch) as orders:
        assert asyncio.run(say(ports, TEXT, voice)).pcm == said(TEXT)
    ((ask, recording),) = orders
    assert (ask.language, recording is not None) == (language, recorded)


def test_what_a_client_sends_as_null_is_not_chosen(ports: BothPorts) -> None:
    """Not every client leaves out what it has no value for."""
    voice = {"name": None, "language": None, "speaker": None}

    async def ask() -> HeardEvents:
        async with ports.client() as client:
            await client.write_event(Event("synthesize", {"text": TEXT, "voice": voice}))
            return await heard(client)

    assert asyncio.run(ask()).pcm == said(TEXT)


async def streamed(client: AsyncTcpClient, *chunks: str, again: bool = True) -> None:
    """As Home Assistant streams: the chunks, the whole text for servers without streams, an end."""
    await client.write_event(SynthesizeStart().event())
    for chunk in chunks:
        await client.write_event(SynthesizeChunk(text=chunk).event())
    if again:
        await client.write_event(Synthesize(text="".join(chunks)).event())
    await client.write_event(SynthesizeStop().event())


def test_streamed_text_is_spoken_once_and_to_its_end(ports: BothPorts) -> None:
    async def ask() -> HeardEvents:
        async with ports.client() as client:
            await streamed(client, "Good mor", "ning. How did you", " sleep? Well", ".")
            return await heard(client, "synthesize-stopped")

    found = asyncio.run(ask())
    assert found.kinds == ["audio-start", "audio-chunk", "audio-stop", "synthesize-stopped"]
    wholes = [("Good morning.", "How did you sleep? Well."),
              ("Good morning. How did you sleep?", "Well."),
              ("Good morning. How did you sleep? Well.",),
              ("Good morning.", "How did you sleep?", "Well.")]  # fmt: skip
    assert found.pcm in [b"".join(map(said, parts)) for parts in wholes]


def test_it_speaks_before_the_text_has_ended(ports: BothPorts) -> None:
    async def ask() -> tuple[bytes, HeardEvents]:
        async with ports.client() as client:
            await client.write_event(SynthesizeStart().event())
            await client.write_event(SynthesizeChunk(text="Good morning. How").event())
            first, wanted = b"", said("Good morning.")
            while len(first) < len(wanted):
                event = await asyncio.wait_for(client.read_event(), 10)
                assert event is not None and event.type in ("audio-start", "audio-chunk")
                first += event.payload or b""
            # Its first sentence is heard; only now comes the rest.
            await client.write_event(SynthesizeChunk(text=" did you sleep?").event())
            await client.write_event(SynthesizeStop().event())
            return first, await heard(client, "synthesize-stopped")

    first, rest = asyncio.run(ask())
    assert first == said("Good morning.") and rest.pcm == said("How did you sleep?")


def test_texts_of_a_connection_are_spoken_in_their_order(ports: BothPorts) -> None:
    async def ask() -> list[bytes]:
        async with ports.client() as client:
            for text in ("one", "two", "three"):
                await client.write_event(Synthesize(text=text).event())
            return [(await heard(client)).pcm for _ in range(3)]

    assert asyncio.run(ask()) == [said("one"), said("two"), said("three")]


def test_a_text_without_a_word_is_an_empty_sound(ports: BothPorts) -> None:
    found = asyncio.run(say(ports, " \n "))
    assert found.kinds == ["audio-start", "audio-stop"] and found.pcm == b""


def test_it_answers_a_ping_while_it_speaks(ports: BothPorts) -> None:
    async def ask() -> HeardEvents:
        async with ports.client() as client:
            await client.write_event(Synthesize(text="long " * 40 + "text").event())
            await client.write_event(Ping(text="there?").event())
            return await heard(client)

    found = asyncio.run(ask())
    assert Pong(text="x").event().type in found.kinds and found.pcm == said("long " * 40 + "text")


def test_what_is_not_for_a_voice_changes_nothing(ports: BothPorts) -> None:
    async def ask() -> HeardEvents:
        async with ports.client() as client:
            for kind in ("transcribe", "select-program", "made-up", "synthesize-chunk"):
                event = Synthesize(text="x").event()
                event.type = kind
                await client.write_event(event)
            await client.write_event(Synthesize(text=TEXT).event())
            return await heard(client)

    assert asyncio.run(ask()).pcm == said(TEXT)


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
def test_a_refusal_is_told_and_ends_the_connection(
    ports: BothPorts, text: str, voice: SynthesizeVoice | None, code: str
) -> None:
    """Home Assistant waits for the end of a sound, and knows no error: only the end ends that."""
    found = asyncio.run(say(ports, text, voice))
    assert found.ended and found.error is not None and found.error.code == code
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
)  # fmt: skip
def test_what_is_no_event_ends_the_connection_and_nothing_is_spoken(
    ports: BothPorts, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A web page that posts events to this port sends a request line before them."""

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.port)
        writer.write(sent)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionError:
            return b""
        finally:
            writer.close()

    with asked(monkeypatch) as orders:
        answer = asyncio.run(ask())
    assert orders == []
    if answer:
        head = json.loads(answer.splitlines()[0])
        assert head["type"] == "error"
    assert asyncio.run(say(ports, "hi")).pcm == said("hi")


def test_requests_are_counted_as_others_are(ports: BothPorts) -> None:
    def counts() -> tuple[float, float]:
        found = ports.http.client.get("/metrics").text
        lines = dict(line.rsplit(" ", 1) for line in found.splitlines() if line[0] != "#")
        return (
            float(lines['tts_requests_total{code="200"}']),
            float(lines.get('tts_refusals_total{code="no_voice",status="404"}', 0)),
        )

    asyncio.run(say(ports, "hi"))
    before = counts()
    asyncio.run(say(ports, "hi"))
    asyncio.run(say(ports, "hi", SynthesizeVoice(name="nobody")))
    assert counts() == (before[0] + 1, before[1] + 1)
