"""wyoming: Home Assistant's requests, complete and streamed, for each listed voice."""

import asyncio
import sys
import wave
from pathlib import Path

from wyoming.audio import AudioChunk, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

_, port, text, folder = sys.argv[1:]


async def listed() -> list[str]:
    """The names of the voices."""
    async with AsyncTcpClient("127.0.0.1", int(port)) as client:
        await client.write_event(Describe().event())
        event = await client.read_event()
        assert event is not None
        (program,) = Info.from_event(event).tts
        assert program.installed and program.supports_synthesize_streaming
        return [voice.name for voice in program.voices if voice.installed]


async def save(client: AsyncTcpClient, name: str, last: type) -> None:
    """Writes the sound up to the event `last` as a WAV."""
    with wave.open(str(Path(folder, f"{name}.wav")), "wb") as file:
        begun = False
        while True:
            event = await client.read_event()
            assert event is not None, "It ended without an end."
            if last.is_type(event.type):
                return
            if AudioChunk.is_type(event.type):
                chunk = AudioChunk.from_event(event)
                if not begun:
                    begun = True
                    file.setframerate(chunk.rate)
                    file.setsampwidth(chunk.width)
                    file.setnchannels(chunk.channels)
                file.writeframes(chunk.audio)


async def main() -> None:
    """Speaks each voice on a separate connection."""
    for number, name in enumerate(await listed()):
        voice = SynthesizeVoice(name=name)
        async with AsyncTcpClient("127.0.0.1", int(port)) as client:
            await client.write_event(Synthesize(text=text, voice=voice).event())
            await save(client, f"whole_{number}", AudioStop)
        async with AsyncTcpClient("127.0.0.1", int(port)) as client:
            await client.write_event(SynthesizeStart(voice=voice).event())
            for at in range(0, len(text), 5):
                await client.write_event(SynthesizeChunk(text=text[at : at + 5]).event())
            await client.write_event(Synthesize(text=text, voice=voice).event())
            await client.write_event(SynthesizeStop().event())
            await save(client, f"streamed_{number}", SynthesizeStopped)


asyncio.run(main())
