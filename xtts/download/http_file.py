"""One file over HTTP: it appears under its name when it is whole and the published one.

What has come lies beside it as `NAME.part`, whatever ends the transfer, and the next start goes on
behind it. `decide` and `of_fault` say what an answer means, without asking or writing anything
(Range and If-Range: RFC 9110, sections 13 to 15); `fetch` asks and writes.

Not huggingface_hub (2.4 was tried under this module's tests): it compares sizes and no SHA-256,
raises where a peer closes inside the body instead of going on, and only warns of a full disk.
"""

import email.utils
import hashlib
import http.client
import logging
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, BinaryIO
from urllib.parse import urlsplit

from machine.errors import SotaqueError
from machine.storage.atomic import (
    DiskFull,
    WriteError,
    Written,
    crash_point,
    is_full,
    require_space,
    sync_folder,
)

log = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
# 425 Too Early and 429 Too Many Requests pass by themselves; so do a gateway's own troubles.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_REASONS = {
    401: "it asks for a key (401)",
    403: "it refuses this download (403)",
    404: "the file is not there (404); is XTTS_V2_URL right?",
    407: "the proxy asks for a name and password (407); set HTTPS_PROXY with both",
    410: "the file is not there any more (410)",
}


class DownloadError(SotaqueError):
    """A file that could not be had; the sentence says from where, why, and what is kept."""


class Interrupted(SotaqueError):
    """Ctrl-C; what has come is kept."""

    exit_code = 130


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


def part_of(target: Path) -> Path:
    """Where the unfinished file lies."""
    return target.with_name(f"{target.name}.part")


def fetch(url: str, target: Path, expected: Written, patience: RetryPolicy | None = None) -> None:
    """Downloads `url` to `target`, going on behind `NAME.part` where there is one.

    Raises DownloadError, DiskFull, WriteError, and Interrupted for Ctrl-C; the part stays in every
    case but that of wrong content.
    """
    transfer = _Transfer(url, target, expected, patience or RetryPolicy())
    try:
        with _writing(target, expected.bytes):
            transfer.run()
    except KeyboardInterrupt:
        raise Interrupted(f"{target.name}: stopped. {transfer.kept()}") from None


class _Transfer:
    """The state of one download: the part, how much of it is there, and its hash so far."""

    def __init__(self, url: str, target: Path, expected: Written, patience: RetryPolicy) -> None:
        self.url = url
        self.target = target
        self.part = part_of(target)
        self.etag_file = target.with_name(f"{target.name}.part.etag")
        self.expected = expected
        self.patience = patience
        self.opener = urllib.request.build_opener(Redirects)
        self.received = 0
        self.hash = hashlib.sha256()
        self.farthest = 0
        # Whether all of it came in one answer: if it is wrong then, a second time would be in vain.
        self.in_one_piece = False
        self.misfitted = False
        self.progress = ProgressReport(target.name, expected.bytes, patience.told_every_seconds)

    def run(self) -> None:
        require_space(self.target.parent, self.expected.bytes - _size(self.part), self.target.name)
        fruitless = 0
        with self.part.open("ab", buffering=0) as file:
            self._read_back(file)
            self.farthest = self.received
            for _ in range(self.patience.tries):
                step = self._attempt(file)
                if step.act is TransferAction.DONE:
                    break
                fruitless = 0 if self.received > self.farthest else fruitless + 1
                self.farthest = max(self.farthest, self.received)
                if step.act is TransferAction.REFUSE or fruitless >= self.patience.fruitless:
                    raise self._failed(step, fruitless)
                seconds = self.patience.seconds_before(fruitless, step.wait_seconds)
                log.info("%s: %s; trying again in %.0f s.", self.target.name, step.reason, seconds)
                self.patience.wait(seconds)
            else:
                raise self._failed(step, self.patience.tries)
            os.fsync(file.fileno())
        self._give_name()

    def kept(self) -> str:
        """What the next start finds."""
        if not _size(self.part):
            return "Nothing is kept of it."
        return (
            f"{_size(self.part):,} of {self.expected.bytes:,} bytes are kept in {self.part}; the "
            "same command goes on from there."
        )

    def _read_back(self, file: BinaryIO) -> None:
        """Hashes what an earlier start has left."""
        if not 0 < _size(self.part) <= self.expected.bytes:
            self._drop(file)
            return
        with self.part.open("rb") as kept:
            self.hash = hashlib.file_digest(kept, "sha256")
        self.received = _size(self.part)
        log.info("%s: going on behind %s.", self.target.name, _megabytes(self.received))

    def _attempt(self, file: BinaryIO) -> TransferStep:
        """One request, and what came of it."""
        if self.received == self.expected.bytes:
            return self._judged(file)
        try:
            with self._ask() as response:
                reply = HttpReply.of(response.status, response.headers)
                step = decide(reply, self.received, self.expected.bytes)
                if step.act is TransferAction.DISCARD:
                    self._drop(file)
                    return _retry(step.reason)
                if step.act not in (TransferAction.APPEND, TransferAction.REPLACE):
                    return step
                if step.act is TransferAction.REPLACE:
                    self._drop(file)
                self.in_one_piece = self.received == 0
                self._note(reply.etag)
                self._receive(response, file, more_may_come=reply.length is None)
        except (OSError, http.client.HTTPException, RedirectRefused, ValueError) as error:
            return of_fault(error)
        if self.received < self.expected.bytes:
            return _retry(f"the connection ended behind {_megabytes(self.received)}")
        return self._judged(file)

    def _ask(self) -> Any:
        headers = {"User-Agent": "sotaque", "Accept-Encoding": "identity"}
        if self.received:
            headers["Range"] = f"bytes={self.received}-"
            if etag := self._noted():
                headers["If-Range"] = etag
        request = urllib.request.Request(self.url, headers=headers)
        try:
            return self.opener.open(request, timeout=self.patience.timeout_seconds)
        except urllib.error.HTTPError as error:
            return error  # an answer like any other

    def _receive(self, response: Any, file: BinaryIO, *, more_may_come: bool) -> None:
        """Writes the body; one byte too many is enough to know that it is another file."""
        end = self.expected.bytes + more_may_come
        # read1 and not read: what has come must not be lost when nothing more comes in time.
        while chunk := response.read1(min(_CHUNK_BYTES, end - self.received)):
            with _writing(self.target, self.expected.bytes - self.received):
                _write_all(file, chunk)
            self.received += len(chunk)
            self.hash.update(chunk)
            crash_point("downloading", self.target)
            self.progress.tell(self.received)

    def _judged(self, file: BinaryIO) -> TransferStep:
        """Whether what has come is the published file; if not, nothing of it is kept."""
        found, size, fresh = self.hash.hexdigest(), self.received, self.in_one_piece
        if (size, found) == (self.expected.bytes, self.expected.sha256):
            return TransferStep(TransferAction.DONE)
        self._drop(file)
        if not fresh and not self.misfitted:
            self.misfitted, self.farthest = True, 0
            return _retry("what came in several tries does not fit together")
        if size > self.expected.bytes:
            return _refuse(f"it sends more than the {self.expected.bytes:,} bytes of it")
        return _refuse(
            f"it sends another file: the SHA-256 is {found[:12]}…, of the published one "
            f"{self.expected.sha256[:12]}…"
        )

    def _drop(self, file: BinaryIO) -> None:
        file.truncate(0)
        self.received, self.hash, self.in_one_piece = 0, hashlib.sha256(), False

    def _note(self, etag: str) -> None:
        """Remembers which version of the file the part is of."""
        with _writing(self.target, 0):
            self.etag_file.write_text(etag, encoding="latin-1", errors="replace")

    def _noted(self) -> str:
        try:
            return self.etag_file.read_text(encoding="latin-1").strip()
        except OSError:
            return ""

    def _give_name(self) -> None:
        crash_point("downloaded", self.target)
        os.replace(self.part, self.target)
        sync_folder(self.target.parent)
        self.etag_file.unlink(missing_ok=True)
        log.info("%s: %s, SHA-256 as published.", self.target.name, _megabytes(self.received))

    def _failed(self, step: TransferStep, tries: int) -> DownloadError:
        if not _size(self.part):
            self.part.unlink(missing_ok=True)
            self.etag_file.unlink(missing_ok=True)
        often = f" ({tries} tries)" if tries > 1 and step.act is not TransferAction.REFUSE else ""
        return DownloadError(
            f"{self.target.name} could not be downloaded from {self.url}: {step.reason}{often}. "
            f"{self.kept()}"
        )


@contextmanager
def _writing(target: Path, num_bytes: int) -> Iterator[None]:
    """Turns a fault of the disk into its sentence: no fault of the network comes through here."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            require_space(target.parent, num_bytes, target.name)
            raise DiskFull(
                f"{target} could not be written ({error.strerror}): {num_bytes:,} bytes more are "
                "needed. What has come is kept; free space and give the same command again."
            ) from error
        raise WriteError(
            f"{target} could not be written ({error.strerror}). Make {target.parent} writable for "
            "this user, or set XTTS_V2_DIR to another folder."
        ) from error


def _write_all(file: BinaryIO, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:  # a raw file may take less, on a disk that gets full
        view = view[file.write(view) :]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"


class ProgressReport:
    """A line every few seconds: how much, how fast, how long still."""

    def __init__(self, name: str, total: int, every_seconds: float) -> None:
        self.name, self.total, self.every_seconds = name, total, every_seconds
        self.told_at, self.told_bytes = time.monotonic(), -1

    def tell(self, received: int) -> None:
        if self.told_bytes < 0:  # the clock starts when something comes
            self.told_at, self.told_bytes = time.monotonic(), received
        seconds = time.monotonic() - self.told_at
        if seconds < self.every_seconds or received >= self.total:
            return
        speed = max(1.0, (received - self.told_bytes) / max(seconds, 1e-3))
        log.info("%s: %d of %d MB (%d %%), %.1f MB/s, %.0f s left.", self.name, received / 1e6,
                 self.total / 1e6, 100 * received // self.total, speed / 1e6,
                 (self.total - received) / speed)  # fmt: skip
        self.told_at, self.told_bytes = time.monotonic(), received


def decide(reply: HttpReply, received: int, expected_bytes: int) -> TransferStep:
    """What to do with an answer, when `received` bytes of the file are there already."""
    if reply.status in _PASSING:
        return _retry(f"the server says {reply.status}", reply.retry_after_seconds)
    if reply.status == 416:
        return _discard(f"the server has nothing behind byte {received:,}")
    if reply.status not in (200, 206):
        return _refuse(_REASONS.get(reply.status, f"the server says {reply.status}"))
    if reply.encoding not in ("", "identity"):
        return _refuse(f"the server sends it as {reply.encoding}, which was not asked for")
    total = reply.total if reply.status == 206 else reply.length
    if total is not None and total != expected_bytes:
        return _refuse(
            f"the server offers {total:,} bytes, and the published file has {expected_bytes:,}: "
            "that is another file, or a page of a proxy"
        )
    if reply.status == 200:
        return TransferStep(TransferAction.REPLACE)
    if reply.start != received:
        return _discard(f"the server goes on at {reply.start}, not at {received:,}")
    return TransferStep(TransferAction.APPEND)


def of_fault(error: Exception) -> TransferStep:
    """What to do when no answer came, or it broke off."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, RedirectRefused):
        return _refuse(str(cause))
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _refuse(
            f"its certificate is not trusted ({cause.verify_message}). Behind a company's proxy "
            "set SSL_CERT_FILE to its certificates"
        )
    if isinstance(cause, socket.gaierror):
        return _retry("its name is not known here; is there a network?")
    if isinstance(cause, TimeoutError):
        return _retry("nothing came for a while")
    if isinstance(cause, http.client.InvalidURL | ValueError):
        return _refuse(f"that is no address ({cause})")
    if isinstance(cause, OSError) and cause.strerror:
        return _retry(cause.strerror.lower())
    return _retry("the connection broke off")


def _refuse(reason: str) -> TransferStep:
    return TransferStep(TransferAction.REFUSE, reason)


def _discard(reason: str) -> TransferStep:
    return TransferStep(TransferAction.DISCARD, reason)


def _retry(reason: str, wait_seconds: float | None = None) -> TransferStep:
    return TransferStep(TransferAction.RETRY, reason, wait_seconds)


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
