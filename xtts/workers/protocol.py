"""Frames between a service and its speech server: JSON header, then bytes.

    header length, body length     two unsigned 32-bit numbers, big endian
    header                         UTF-8 JSON, an object
    body                           sound, or nothing

Nothing in a frame can run: no pickle. Lengths are checked before anything is read. The other
workers speak JSON lines (`machine.process.JsonLineProcess`), a question and an answer at a time;
here sound is bytes, many requests are under way at once, and the child also speaks unasked.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

from machine.errors import SotaqueError

PREFIX = struct.Struct(">II")
MOST_HEADER_BYTES = 1 << 20
MOST_BODY_BYTES = 1 << 26


class FrameError(SotaqueError):
    """What came over the pipe is no frame."""


def packed(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """One frame as bytes."""
    text = json.dumps(header, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return PREFIX.pack(len(text), len(body)) + text + body


def lengths(prefix: bytes) -> tuple[int, int]:
    """Header and body length. Raises FrameError for a length that no frame has."""
    header, body = PREFIX.unpack(prefix)
    if not 2 <= header <= MOST_HEADER_BYTES or body > MOST_BODY_BYTES:
        raise FrameError(f"A frame says it has {header:,} and {body:,} bytes.")
    return header, body


def header_of(text: bytes) -> dict[str, Any]:
    """The header's object. Raises FrameError for anything else."""
    try:
        found = json.loads(text.decode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise FrameError(f"A frame's header is no JSON ({error}).") from error
    if not isinstance(found, dict):
        raise FrameError("A frame's header is no object.")
    return found


def read(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """The next frame; None at the end of the stream, also in the middle of a frame."""
    prefix = stream.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        return None
    header, body = lengths(prefix)
    text, rest = stream.read(header), stream.read(body)
    if len(text) < header or len(rest) < body:
        return None
    return header_of(text), rest
