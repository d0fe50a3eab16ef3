"""pipecat-ai: its services for OpenAI and for XTTS, each in a pipeline."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import aiohttp
from pipecat.frames.frames import EndFrame, ErrorFrame, Frame, TTSAudioRawFrame, TTSSpeakFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineParams, PipelineTask
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.services.xtts.tts import XTTSService

address, _, text, folder = sys.argv[1:]


class Ear(FrameProcessor):
    """Collects the sound."""

    def __init__(self) -> None:
        super().__init__()
        self.sound = b""
        self.errors: list[str] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Implements pipecat's FrameProcessor."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            assert (frame.sample_rate, frame.num_channels) == (24_000, 1)
            self.sound += frame.audio
        elif isinstance(frame, ErrorFrame):
            self.errors.append(frame.error)
        await self.push_frame(frame, direction)


async def spoken(service: Any) -> bytes:
    """The sound from a pipeline with the service."""
    ear = Ear()
    params = PipelineParams(audio_out_sample_rate=24_000)
    task = PipelineTask(Pipeline([service, ear]), params=params)
    await task.queue_frames([TTSSpeakFrame(text), EndFrame()])
    await PipelineRunner(handle_sigint=False).run(task)
    assert not ear.errors, ear.errors
    return ear.sound


async def main() -> None:
    """Runs both services."""
    openai = OpenAITTSService(
        api_key="none", base_url=f"{address}/v1", settings=OpenAITTSService.Settings(voice="nova")
    )
    Path(folder, "openai.pcm").write_bytes(await spoken(openai))
    async with aiohttp.ClientSession() as session:
        xtts = XTTSService(
            aiohttp_session=session, base_url=address, settings=XTTSService.Settings(voice="demo")
        )
        Path(folder, "xtts.pcm").write_bytes(await spoken(xtts))


asyncio.run(main())
