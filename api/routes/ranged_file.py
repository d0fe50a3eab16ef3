"""Serves a file, whole or in the byte ranges that players request."""

import asyncio
import os
from pathlib import Path
from typing import Any

from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from api.errors import APIError, response
from api.schemas import PROBLEMS


def ranged_responses(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """The responses of a route that sends files of these types, for /openapi.json."""
    content: dict[str, Any] = {one.partition(";")[0]: {} for one in media_types}
    return {
        200: {"content": content},
        206: {"content": {**content, "multipart/byteranges": {}}},
        416: {**PROBLEMS[404], "description": "The range begins after the end of the file."},
    }


WAV_RESPONSES = ranged_responses("audio/wav")


class RangedFile(FileResponse):
    """Starlette's file response, with this service's error body for a range beyond the file. An
    invalid Range is ignored, and the whole file sent (RFC 9110, 14.2).

    Files are replaced atomically, so clients must revalidate them.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused: Message | None = None

        async def sending(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] in (400, 416):
                refused = message
            if refused is None:
                await send(message)

        await super().__call__(scope, receive, sending)
        if refused is None:
            return
        if refused["status"] == 400:
            plain = [pair for pair in scope["headers"] if pair[0] != b"range"]
            await super().__call__({**scope, "headers": plain}, receive, send)
            return
        text = "The range begins after the end of the file."
        refusal = APIError(416, "range_not_satisfiable", text)
        # The length of the file.
        length = dict(refused["headers"]).get(b"content-range")
        refusal.headers = {"Content-Range": length.decode()} if length else {}
        await response(refusal, scope)(scope, receive, send)


async def wav_file(path: Path, *, cached: str = "no-cache") -> RangedFile:
    """A WAV file. cached: the header Cache-Control. Raises APIError (404) if it was deleted."""
    try:
        stat = await asyncio.to_thread(os.stat, path)
    except FileNotFoundError:
        raise APIError(404, "no_sample", "The recording was deleted.") from None
    return RangedFile(
        path, media_type="audio/wav", headers={"Cache-Control": cached}, stat_result=stat
    )
