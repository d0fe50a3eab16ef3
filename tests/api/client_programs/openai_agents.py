"""openai-agents[voice]: the speech model of its voice pipeline."""

import asyncio
import sys
from pathlib import Path

from agents.voice import OpenAIVoiceModelProvider, TTSModelSettings
from openai import AsyncOpenAI

address, _, text, folder = sys.argv[1:]


async def main() -> None:
    """Speaks as the voice pipeline does."""
    client = AsyncOpenAI(base_url=f"{address}/v1", api_key="none")
    model = OpenAIVoiceModelProvider(openai_client=client).get_tts_model("sotaque")
    sound = b""
    async for chunk in model.run(text, TTSModelSettings(voice="alloy")):
        sound += chunk
    Path(folder, "chunks.pcm").write_bytes(sound)


asyncio.run(main())
