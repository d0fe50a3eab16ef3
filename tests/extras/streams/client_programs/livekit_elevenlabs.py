"""livekit-plugins-elevenlabs: the frames that an agent would play, with text word by word."""

import asyncio
import json
import sys
import time
from pathlib import Path

from livekit.agents import tokenize
from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT
from livekit.agents.utils import http_context
from livekit.plugins import elevenlabs

address, text, folder = sys.argv[1:]


async def turn(tts: elevenlabs.TTS) -> tuple[bytes, dict[str, object]]:
    """One turn of an assistant."""
    clause, first, sound, words = 0.0, 0.0, b"", []
    async with tts.stream() as stream:

        async def write() -> None:
            nonlocal clause
            for number, word in enumerate(text.split()):
                stream.push_text(f"{word} ")
                if not clause and number >= 3 and word.endswith((",", ".")):
                    clause = time.monotonic()
                await asyncio.sleep(0.1)
            stream.end_input()

        writing = asyncio.create_task(write())
        async for event in stream:
            first = first or time.monotonic()
            sound += bytes(event.frame.data)
            for timed in event.frame.userdata.get(USERDATA_TIMED_TRANSCRIPT, ()):
                words.append((str(timed), timed.start_time))
        await writing
    return sound, {"first_sound": first - clause, "words": words}


async def main() -> None:
    """Its default, sentence by sentence, in samples and in MP3; and word by word."""
    report = {}
    ways = {
        "sentences.padded": {"encoding": "pcm_24000"},
        "mp3.lossy": {},
        "words.padded": {
            "encoding": "pcm_24000",
            "auto_mode": False,
            "word_tokenizer": tokenize.basic.WordTokenizer(ignore_punctuation=False),
        },
    }
    async with http_context.open():
        for name, more in ways.items():
            tts = elevenlabs.TTS(base_url=f"{address}/v1", api_key="none", voice_id="default", **more)
            assert [voice.id for voice in await tts.list_voices()] == ["default"]
            for _ in range(3):
                sound, found = await turn(tts)
                report[name] = min(report.get(name, found), found, key=lambda row: row["first_sound"])
            Path(folder, name).write_bytes(sound)
            await tts.aclose()
        tts = elevenlabs.TTS(base_url=f"{address}/v1", api_key="none", encoding="pcm_24000")
        whole = b""
        async with tts.synthesize(text) as stream:
            async for event in stream:
                whole += bytes(event.frame.data)
        Path(folder, "whole.padded").write_bytes(whole)
    Path(folder, "report.json").write_text(json.dumps(report))


asyncio.run(main())
