"""Finds the requested voice: the served one, one of its speakers or adapters, or an uploaded one.

`anna:whisper` is the style `whisper` of any such voice `anna`.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from api.engine.child import OpenedVoiceState
from api.errors import APIError, shown
from api.state import AppState
from api.voices import store
from machine.text import plain_name
from xtts.text.markup import STYLE_MARK, of_request
from xtts.voices import speakers


class Speakers:
    """The voices that an open model can speak with: its own, its named speakers, the adapters of
    its weights, and the uploaded voices.

    opened: None while no voice is open; there are no named speakers then.
    """

    def __init__(self, opened: OpenedVoiceState | None, parts: AppState) -> None:
        self._own_name = opened.own_name if opened else ""
        self._sha256 = opened.sha256 if opened else ""
        self._named = {name: Path(path) for name, path in parts.speakers_of(opened).items()}
        self._parts = parts

    async def recording_of(self, wanted: str, param: str = "voice") -> str | None:
        """The recording of the voice with this id or name, with or without a style; None for the
        open voice's own. Raises APIError."""
        if store.is_served(wanted):
            return None
        if (voice := self._parts.voices.get(wanted)) is not None:
            return str(self._parts.voices.recording(voice))
        uploaded = await asyncio.to_thread(self._parts.voices.all)
        if not store.is_name_of(wanted, uploaded):
            # Clients that treat voices as files add their suffix to the name.
            name = speakers.find(wanted.removesuffix(".wav"), self._own_name, self._named)
            if name is not None:
                return str(self._named[name]) if name else None
            if self._sha256:  # else the served weights are not known yet
                self._parts.adapters.check(speakers.plain(wanted), self._sha256, param)
            self._check_style(wanted, uploaded, param)
        voice = store.find_by_name(wanted, self._parts.served_name, uploaded, param)
        return str(self._parts.voices.recording(voice)) if voice else None

    def _check_style(
        self, wanted: str, uploaded: Sequence[store.UploadedVoice], param: str
    ) -> None:
        """Raises APIError (404) if the person exists, but not in this style."""
        person, mark, style = wanted.rpartition(STYLE_MARK)
        there = self.styles_of(person, uploaded) if mark else []
        if there:
            text = f"{shown(person)} has no style {shown(style)}. It has {', '.join(there)}."
            raise APIError(404, "no_style", text, param=param)

    def styles_of(self, person: str, uploaded: Sequence[store.UploadedVoice]) -> list[str]:
        """The styles of a person, by name."""
        own = speakers.plain(person)
        if store.is_served(own):
            own = speakers.plain(self._own_name).partition(STYLE_MARK)[0]
        names = [*self._named, *(voice.name for voice in uploaded)]
        pairs = [name.rpartition(STYLE_MARK) for name in names if STYLE_MARK in name]
        return [style.strip() for who, _, style in pairs if speakers.plain(who) == own]


async def styled(voice: str, style: str, instructions: str, parts: AppState) -> str:
    """The name of a voice in a style: `style`, else the only style of the voice that is a word of
    the instructions. Without a style, the voice's own name."""
    if style.strip():
        return of_request(f"{STYLE_MARK}{style}", voice)
    words = set(re.findall(r"[\w-]+", plain_name(instructions)))
    if not words:
        return voice
    known = Speakers(parts.engine.standing, parts)
    there = known.styles_of(voice, await asyncio.to_thread(parts.voices.all))
    meant = [one for one in there if plain_name(one) in words]
    return of_request(f"{STYLE_MARK}{meant[0]}", voice) if len(meant) == 1 else voice
