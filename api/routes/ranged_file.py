"""Serves a file of this machine whole, or in the byte ranges that players ask for."""

import asyncio
import os
from pathlib import Path
from typing import Any

from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from api.errors import APIError, response
from api.schemas import PROBLEMS


def ranged_responses(media_type: str) -> dict[int | str, dict[str, Any]]:
    """What a route that sends such a file tells of itself."""
    return {
        200: {"content": {media_type: {}}},
        206: {"content": {media_type: {}, "multipart/byteranges": {}}},
        416: {**PROBLEMS[404], "description": "The range begins after the end of the file."},
    }


WAV_RESPONSES = ranged_responses("audio/wav")
_REFUSALS = {
    400: ("bad_range", "Range must have the form `bytes=0-999`."),
    416: ("range_not_satisfiable", "The range begins after the end of the file."),
}


class RangedFile(FileResponse):
    """The framework's file response, but with this service's error body for a refused range.

    Files are written atomically and may be written again, so clients must revalidate them.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused: APIError | None = None

        async def sending(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] in _REFUSALS:
                refused = APIError(message["status"], *_REFUSALS[message["status"]])
                # Of a 416: how long the file is.
                content_range = dict(message["headers"]).get(b"content-range")
                refused.headers = {"Content-Range": content_range.decode()} if content_range else {}
            if refused is None:
                await send(message)

        await super().__call__(scope, receive, sending)
        if refused is not None:
            await response(refused, scope)(scope, receive, send)


async def wav_file(path: Path, *, cached: str = "no-cache") -> RangedFile:
    """cached: the header Cache-Control. Raises APIError (404) where the file is gone by now."""
    try:
        stat = await asyncio.to_thread(os.stat, path)
    except FileNotFoundError:
        raise APIError(404, "no_sample", "The recording was deleted.") from None
    return RangedFile(
        path, media_type="audio/wav", headers={"Cache-Control": cached}, stat_result=stat
    )
