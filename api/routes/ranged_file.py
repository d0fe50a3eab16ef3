"""Serves a file, whole or in the byte ranges that players request."""

import asyncio
import os
from pathlib import Path

from starlette.responses import FileResponse, MalformedRangeHeader, RangeNotSatisfiable

from api.errors import APIError
from api.schemas import PROBLEMS, Responses
from machine.storage.files import JsonObject
from xtts.marks import UNNAMED


def ranged_responses(*media_types: str) -> Responses:
    """The responses of a route that sends files of these types, for /openapi.json."""
    content: JsonObject = {media_type.partition(";")[0]: {} for media_type in media_types}
    return {
        200: {"content": content},
        206: {"content": {**content, "multipart/byteranges": {}}},
        416: {**PROBLEMS[404], "description": "The range begins after the end of the file."},
    }


WAV_RESPONSES = ranged_responses("audio/wav")
# For files with the speech of a voice; the mark in the file names the voice.
SPOKEN = UNNAMED.headers


class RangedFile(FileResponse):
    """Starlette's file response, with this service's error body for a range beyond the file. An
    invalid Range is ignored, and the whole file sent (RFC 9110, 14.2).

    Files are replaced atomically, so clients must revalidate them.
    """

    @classmethod
    def _parse_range_header(cls, http_range: str, file_size: int) -> list[tuple[int, int]]:
        try:
            return super()._parse_range_header(http_range, file_size)
        except MalformedRangeHeader:
            return []
        except RangeNotSatisfiable:
            text = "The range begins after the end of the file."
            refusal = APIError(416, "range_not_satisfiable", text)
            refusal.headers = {"Content-Range": f"bytes */{file_size}"}
            raise refusal from None


async def wav_file(path: Path, *, cached: str = "no-cache", spoken: bool = False) -> RangedFile:
    """A WAV file. cached: the header Cache-Control; spoken: whether a voice has spoken it, and not
    a person. Raises APIError (404) if it was deleted."""
    try:
        stat = await asyncio.to_thread(os.stat, path)
    except FileNotFoundError:
        raise APIError(404, "no_sample", "The recording was deleted.") from None
    headers = {"Cache-Control": cached, **(SPOKEN if spoken else {})}
    return RangedFile(path, media_type="audio/wav", headers=headers, stat_result=stat)
