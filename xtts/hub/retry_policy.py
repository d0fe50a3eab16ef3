"""What a server's answer means for a download: go on, start over, try again, or give up, and why.

Pure: `xtts.hub.download` asks and writes. Semantics of Range and If-Range: RFC 9110, sections 13 to
15.
"""

import email.utils
import http.client
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from enum import StrEnum
from typing import IO
from urllib.parse import urlsplit

# 425 Too Early and 429 Too Many Requests pass by themselves; so do a gateway's own troubles.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_REASONS = {
    401: "it asks for a key (401)",
    403: "it refuses this download (403)",
    404: "the file is not there (404); is XTTS_V2_URL right?",
    407: "the proxy asks for a name and password (407); set HTTPS_PROXY with both",
    410: "the file is not there any more (410)",
}


@dataclass(frozen=True)
class RetryPolicy:
    """How long to keep trying a server. fruitless: tries in a row that brought nothing new."""

    timeout_seconds: float = 30.0
    fruitless: int = 5
    tries: int = 200
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 60.0
    told_every_seconds: float = 5.0
    wait: Callable[[float], object] = time.sleep

    def seconds_before(self, fruitless: int, asked: float | None) -> float:
        """The wait before the next try. asked: what the server wishes (Retry-After)."""
        doubled = self.first_wait_seconds * 2.0 ** max(0, fruitless - 1)
        return min(doubled if asked is None else asked, self.longest_wait_seconds)


class TransferAction(StrEnum):
    """What to do with an answer."""

    APPEND = "append"  # its body goes behind what is there
    REPLACE = "replace"  # its body is the file from its first byte
    DISCARD = "discard"  # what is there fits nothing: drop it and ask again
    RETRY = "retry"
    REFUSE = "refuse"
    DONE = "done"


@dataclass(frozen=True)
class TransferStep:
    """The decision and its reason. wait_seconds: what the server wishes before the next try."""

    act: TransferAction
    reason: str = ""
    wait_seconds: float | None = None


@dataclass(frozen=True)
class HttpReply:
    """The head of an answer. length: of its body; start and total: of its Content-Range."""

    status: int
    length: int | None = None
    start: int | None = None
    total: int | None = None
    etag: str = ""
    encoding: str = ""
    retry_after_seconds: float | None = None

    @staticmethod
    def of(status: int, headers: Message, now: datetime | None = None) -> "HttpReply":
        """Reads the headers; what is garbled counts as not said."""
        start, total = _content_range(headers.get("Content-Range", ""))
        etag = headers.get("ETag", "")
        return HttpReply(
            status,
            length=_number(headers.get("Content-Length", "")),
            start=start,
            total=total,
            # If-Range compares strongly, so a weak tag is none (RFC 9110, 13.1.5).
            etag="" if etag.startswith("W/") else etag,
            encoding=headers.get("Content-Encoding", ""),
            retry_after_seconds=_seconds(headers.get("Retry-After", ""), now or datetime.now(UTC)),
        )


class RedirectRefused(Exception):
    """A redirect that would give up https, or leave HTTP."""


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to https, or to the scheme that it came by; Range and If-Range go along."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: http.client.HTTPMessage, newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        new, old = urlsplit(newurl).scheme, urlsplit(req.full_url).scheme
        if new not in ("https", old):
            raise RedirectRefused(f"it leads on from {old} to {newurl}, and only https is followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def decide(reply: HttpReply, received: int, expected_bytes: int) -> TransferStep:
    """What to do with an answer, when `received` bytes of the file are there already."""
    if reply.status in _PASSING:
        return TransferStep(
            TransferAction.RETRY, f"the server says {reply.status}", reply.retry_after_seconds
        )
    if reply.status == 416:
        return TransferStep(
            TransferAction.DISCARD, f"the server has nothing behind byte {received:,}"
        )
    if reply.status not in (200, 206):
        return TransferStep(
            TransferAction.REFUSE, _REASONS.get(reply.status, f"the server says {reply.status}")
        )
    if reply.encoding not in ("", "identity"):
        return TransferStep(
            TransferAction.REFUSE,
            f"the server sends it as {reply.encoding}, which was not asked for",
        )
    total = reply.total if reply.status == 206 else reply.length
    if total is not None and total != expected_bytes:
        return TransferStep(
            TransferAction.REFUSE,
            f"the server offers {total:,} bytes, and the published file has {expected_bytes:,}: "
            "that is another file, or a page of a proxy",
        )
    if reply.status == 200:
        return TransferStep(TransferAction.REPLACE)
    if reply.start != received:
        return TransferStep(
            TransferAction.DISCARD, f"the server goes on at {reply.start}, not at {received:,}"
        )
    return TransferStep(TransferAction.APPEND)


def of_fault(error: Exception) -> TransferStep:
    """What to do when no answer came, or it broke off."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, RedirectRefused):
        return TransferStep(TransferAction.REFUSE, str(cause))
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TransferStep(
            TransferAction.REFUSE,
            f"its certificate is not trusted ({cause.verify_message}). Behind a company's proxy "
            "set SSL_CERT_FILE to its certificates",
        )
    if isinstance(cause, socket.gaierror):
        return TransferStep(TransferAction.RETRY, "its name is not known here; is there a network?")
    if isinstance(cause, TimeoutError):
        return TransferStep(TransferAction.RETRY, "nothing came for a while")
    if isinstance(cause, http.client.InvalidURL | ValueError):
        return TransferStep(TransferAction.REFUSE, f"that is no address ({cause})")
    if isinstance(cause, OSError) and cause.strerror:
        return TransferStep(TransferAction.RETRY, cause.strerror.lower())
    return TransferStep(TransferAction.RETRY, "the connection broke off")


def _content_range(text: str) -> tuple[int | None, int | None]:
    """`bytes 100-199/500` -> (100, 500)"""
    unit, _, rest = text.strip().partition(" ")
    span, _, total = rest.partition("/")
    if unit != "bytes":
        return None, None
    return _number(span.partition("-")[0]), _number(total)


def _seconds(text: str, now: datetime) -> float | None:
    """Retry-After: a number of seconds, or a date."""
    if (number := _number(text)) is not None:
        return float(number)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None
