"""pipecat-ai: ElevenLabsTTSService in a pipeline, with text that arrives word by word."""

import asyncio
import json
import sys
import time
from pathlib import Path

from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineParams, PipelineTask
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.elevenlabs.tts import ElevenLabsTTSService
from pipecat.services.tts_service import TextAggregationMode

address, text, folder = sys.argv[1:]


class Ear(FrameProcessor):
    """Collects sound and words, with their times in nanoseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        self.sound, self.first = b"", 0.0
        self.words: list[tuple[str, int]] = []
        self.stopped = asyncio.Event()
        self.sounded = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Implements pipecat's FrameProcessor."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            assert (frame.sample_rate, frame.num_channels) == (24_000, 1)
            self.first = self.first or time.monotonic()
            self.sound += frame.audio
            self.sounded.set()
        elif isinstance(frame, TTSTextFrame):
            self.words.append((frame.text, frame.pts or 0))
        elif isinstance(frame, TTSStoppedFrame):
            self.stopped.set()
        elif isinstance(frame, ErrorFrame):
            raise AssertionError(frame.error)
        await self.push_frame(frame, direction)


async def turn(task: PipelineTask, ear: Ear) -> dict[str, object]:
    """One turn of an assistant, and when its first sound came after the word behind the clause."""
    ear.begin()
    await task.queue_frame(LLMFullResponseStartFrame())
    clause = 0.0
    for number, word in enumerate(text.split()):
        await task.queue_frame(LLMTextFrame(f"{word} "))
        if not clause and number >= 3 and word.endswith((",", ".")):
            clause = time.monotonic()
        await asyncio.sleep(0.1)
    await task.queue_frame(LLMFullResponseEndFrame())
    await asyncio.wait_for(ear.stopped.wait(), 60)
    await asyncio.sleep(1.0)  # the last words follow
    first = ear.words[0][1] if ear.words else 0
    words = [(word, (at - first) / 1e9) for word, at in ear.words]
    return {"first_sound": ear.first - clause, "words": words}


async def spoken(name: str, mode: TextAggregationMode) -> dict[str, object]:
    ear = Ear()
    service = ElevenLabsTTSService(
        url=address.replace("http", "ws"),
        api_key="none",
        settings=ElevenLabsTTSService.Settings(voice="default"),
        text_aggregation_mode=mode,
    )
    params = PipelineParams(audio_out_sample_rate=24_000)
    task = PipelineTask(Pipeline([service, ear]), params=params)
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    reports = [await turn(task, ear) for _ in range(3)]
    Path(folder, f"{name}.pcm").write_bytes(ear.sound)
    # An interruption, and another turn after it.
    ear.begin()
    await task.queue_frame(LLMFullResponseStartFrame())
    await task.queue_frame(LLMTextFrame(f"{text} " * 10))
    await asyncio.wait_for(ear.sounded.wait(), 60)
    await task.queue_frame(InterruptionFrame())
    await asyncio.sleep(0.5)
    await turn(task, ear)
    Path(folder, f"{name}_after_interruption.pcm").write_bytes(ear.sound)
    await task.queue_frame(EndFrame())
    await asyncio.wait_for(running, 60)
    return min(reports, key=lambda report: report["first_sound"])


async def main() -> None:
    report = {
        "sentences": await spoken("sentences", TextAggregationMode.SENTENCE),
        "tokens": await spoken("tokens", TextAggregationMode.TOKEN),
    }
    Path(folder, "report.json").write_text(json.dumps(report))


asyncio.run(main())
