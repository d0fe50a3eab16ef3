"""Sound and the times of its words together, as JSON: Kokoro-FastAPI's captioned speech. Pure.

Shapes after github.com/remsky/Kokoro-FastAPI, api/src/structures/schemas.py
(`CaptionedSpeechResponse`, `WordTimestamp`); `pieces` and `cut_pieces` are ours.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

# A word, and the seconds at which it begins and ends, as the speaking process tells it.
Timed = Sequence[Any]


def timestamps(words: Sequence[Timed]) -> list[dict[str, Any]]:
    """The words under Kokoro's names."""
    return [{"word": word, "start_time": start, "end_time": end} for word, start, end in words]


def captioned(
    audio: bytes, media_type: str, words: Sequence[Timed] | None, more: Mapping[str, Any] = {}
) -> bytes:
    """A JSON object of sound and words.

    Args:
        audio: Bytes of the format.
        media_type: Of them.
        words: Those whose times became known with it; None where there are none to be had.
        more: Further fields: what became of the pieces.
    """
    told = None if words is None else timestamps(words)
    sound = base64.b64encode(audio).decode()
    found = {"audio": sound, "audio_format": media_type, "timestamps": told, **more}
    return json.dumps(found, ensure_ascii=False).encode()
