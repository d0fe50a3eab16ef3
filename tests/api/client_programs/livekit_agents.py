"""livekit-plugins-openai: the frames that an agent would play."""

import asyncio
import sys
from pathlib import Path

from livekit.agents.utils import http_context
from livekit.plugins import openai

address, _, text, folder = sys.argv[1:]


async def main() -> None:
    """Speaks as samples and as MP3, the plugin's default, which it decodes itself."""
    async with http_context.open():
        for form in ("pcm", "mp3"):
            tts = openai.TTS(
                base_url=f"{address}/v1", api_key="none", model="sotaque", voice="demo", response_format=form
            )
            sound = b""
            async with tts.synthesize(text) as stream:
                async for event in stream:
                    frame = event.frame
                    assert (frame.sample_rate, frame.num_channels) == (24_000, 1)
                    sound += bytes(frame.data)
            await tts.aclose()
            name = "frames.padded" if form == "pcm" else "decoded_by_it.lossy"
            Path(folder, name).write_bytes(sound)


asyncio.run(main())
