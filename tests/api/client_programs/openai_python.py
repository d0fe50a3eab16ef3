"""openai: complete, streamed, and as events."""

import asyncio
import base64
import sys
from pathlib import Path

from openai import AsyncOpenAI, OpenAI

address, _, text, folder = sys.argv[1:]
asked = {"model": "tts-1", "voice": "alloy", "input": text}
client = OpenAI(base_url=f"{address}/v1", api_key="none")
for form in ("wav", "pcm", "mp3", "flac", "opus", "aac"):
    client.audio.speech.create(**asked, response_format=form).write_to_file(Path(folder, f"whole.{form}"))


async def stream() -> None:
    """Speaks with the asynchronous client."""
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="none") as other:
        create = other.audio.speech.with_streaming_response.create
        for form in ("wav", "pcm", "mp3"):
            async with create(**asked, response_format=form) as answer:
                await answer.stream_to_file(Path(folder, f"streamed.{form}"))
        async with create(**asked, response_format="pcm", stream_format="sse") as answer:
            sound = b""
            async for line in answer.iter_lines():
                if '"speech.audio.delta"' in line:
                    sound += base64.b64decode(line.split('"audio": "')[1].split('"')[0])
        Path(folder, "events.pcm").write_bytes(sound)


asyncio.run(stream())
