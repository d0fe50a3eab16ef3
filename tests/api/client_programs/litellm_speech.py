"""litellm: speech() of an OpenAI-compatible provider."""

import sys
from pathlib import Path

import litellm

address, _, text, folder = sys.argv[1:]
for form in ("wav", "mp3", "pcm"):
    answer = litellm.speech(
        model="openai/sotaque",
        voice="demo",
        input=text,
        api_base=f"{address}/v1",
        api_key="none",
        response_format=form,
    )
    Path(folder, f"whole.{form}").write_bytes(answer.content)
