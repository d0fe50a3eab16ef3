"""elevenlabs: whole speech, its stream, and text that arrives word by word."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from elevenlabs.client import ElevenLabs

address, text, folder = sys.argv[1:]


def words() -> Iterator[str]:
    for word in text.split():
        yield f"{word} "
        time.sleep(0.1)


client = ElevenLabs(base_url=address, api_key="none")
assert [voice.voice_id for voice in client.voices.get_all().voices] == ["default"]
speech = client.text_to_speech
# It opens wss:// for http://, too.
speech._ws_base_url = address.replace("http", "ws")
sounds = {
    "whole.pcm": speech.convert("default", text=text, output_format="pcm_24000"),
    "streamed.pcm": speech.stream("default", text=text, output_format="pcm_24000"),
    "turn.pcm": speech.convert_realtime(
        "default", text=words(), model_id="eleven_flash_v2_5", output_format="pcm_24000"
    ),
    "turn.mp3": speech.convert_realtime("default", text=words(), model_id="eleven_flash_v2_5"),
}
for name, chunks in sounds.items():
    Path(folder, name).write_bytes(b"".join(chunks))
Path(folder, "report.json").write_text(json.dumps({}))
