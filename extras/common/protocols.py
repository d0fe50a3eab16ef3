"""What other programs' protocols share: lists of voices by label, and the length of a text."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from api.errors import APIError
from api.schemas import MAX_CHARACTERS, SERVED, is_served
from api.state import AppState
from api.voices.store import UploadedVoice
from machine.text import plain_name


async def labels(state: AppState) -> dict[str, str]:
    """Label -> id of every voice, as `labels_of`."""
    uploaded = await asyncio.to_thread(state.voices.all)
    return labels_of(uploaded, state.speakers)


def labels_of(uploaded: Sequence[UploadedVoice], speakers: Iterable[str] = ()) -> dict[str, str]:
    """Label -> id, for lists that show only labels: the served voice, its named speakers, then the
    uploaded voices. A label is the voice's name if a request can use it, else its id.

    Programs store labels, so the served voice is `default`: its name changes with its epoch.
    """
    uses = Counter(plain_name(voice.name) for voice in uploaded)
    listed = {SERVED: SERVED}
    listed |= {name: name for name in speakers if plain_name(name) not in uses}
    for voice in uploaded:
        name = plain_name(voice.name)
        plain = uses[name] == 1 and not is_served(name) and not name.endswith(".wav")
        listed[voice.name if plain else voice.id] = voice.id
    return listed


def check_length(text: str) -> None:
    """Raises APIError (422) for a text above the length limit."""
    if len(text) > MAX_CHARACTERS:
        message = f"text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are allowed."
        raise APIError(422, "invalid_request", message, param="text")
