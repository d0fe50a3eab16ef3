"""Downloads one file over HTTP, with resume and a check of its SHA-256.

The file gets its name only when it is complete and verified. Until then the data is in `NAME.part`,
and the next start resumes there. `goes_on` and `of_fault` interpret an answer without any input or
output (Range: RFC 9110, section 14); `fetch` sends requests and writes. A part of another file is
found by its SHA-256, so no ETag is kept.

huggingface_hub is not used (2.4 was tried twice with this module's tests): it deletes the part when
a download fails or is stopped, so that the next start begins again with 1.9 GB; it compares sizes
but no SHA-256, and only warns about a full disk.
"""

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
from email.message import Message
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
# Temporary errors: 425 Too Early, 429 Too Many Requests, and errors of a gateway.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_REASONS = {
    401: "the server requires a key (401)",
    403: "the server refuses this download (403)",
    404: "the file does not exist (404); check HF_ENDPOINT",
    407: "the proxy requires a name and password (407); set HTTPS_PROXY with both",
    410: "the file no longer exists (410)",
}


class DownloadError(SotaqueError):
    """A download failed; the message has the address, the reason, and the downloaded part."""


class Interrupted(SotaqueError):
    """The user pressed Ctrl-C; the downloaded part is kept."""

    exit_code = 130


@dataclass(frozen=True)
class RetryPolicy:
    """How long to retry. fruitless: the allowed number of tries in a row without new data."""

    timeout_seconds: float = 30.0
    fruitless: int = 5
    tries: int = 200
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 60.0
    progress_seconds: float = 5.0
    wait: Callable[[float], object] = time.sleep

    def seconds_before(self, fruitless: int, retry_after: float | None) -> float:
        """The wait before the next try. retry_after: the seconds that the server requests."""
        doubled = self.first_wait_seconds * 2.0 ** max(0, fruitless - 1)
        return min(doubled if retry_after is None else retry_after, self.longest_wait_seconds)


class Retry(Exception):
    """The next try may succeed.

    Attributes:
        wait_seconds: The wait that the server requests.
        useless: Whether the data so far must be discarded.
    """

    def __init__(
        self, reason: str, wait_seconds: float | None = None, *, useless: bool = False
    ) -> None:
        super().__init__(reason)
        self.wait_seconds, self.useless = wait_seconds, useless


class Refused(Exception):
    """No further try can succeed."""


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https or to the same scheme, and keeps Range."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: http.client.HTTPMessage, newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        new, old = urlsplit(newurl).scheme, urlsplit(req.full_url).scheme
        if new not in ("https", old):
            raise Refused(f"it redirects from {old} to {newurl}, and only https is followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def part_of(target: Path) -> Path:
    """The path of the unfinished file."""
    return target.with_name(f"{target.name}.part")


def fetch(url: str, target: Path, expected: Written, patience: RetryPolicy | None = None) -> None:
    """Downloads `url` to `target`, resuming `NAME.part` if it exists.

    Raises DownloadError, DiskFull, WriteError, and Interrupted for Ctrl-C. The part is kept unless
    its content is wrong.
    """
    transfer = _Transfer(url, target, expected, patience or RetryPolicy())
    try:
        with _writing(target, expected.bytes):
            transfer.run()
    except KeyboardInterrupt:
        raise Interrupted(f"{target.name}: stopped. {transfer.kept()}") from None


class _Transfer:
    """The state of one download: the part, its size, and its hash so far."""

    def __init__(self, url: str, target: Path, expected: Written, patience: RetryPolicy) -> None:
        self.url = url
        self.target = target
        self.part = part_of(target)
        self.expected = expected
        self.patience = patience
        self.opener = urllib.request.build_opener(Redirects)
        self.received = 0
        self.hash = hashlib.sha256()
        self.farthest = 0
        # Whether all of it came in one answer: if that is wrong, another try would not help.
        self.in_one_piece = False
        self.misfitted = False
        # The time and bytes of the last progress line; -1 before the first.
        self.reported_at, self.reported_bytes = 0.0, -1

    def run(self) -> None:
        require_space(self.target.parent, self.expected.bytes - _size(self.part), self.target.name)
        fruitless = 0
        with self.part.open("ab", buffering=0) as file:
            self._read_back(file)
            self.farthest = self.received
            for number in range(1, self.patience.tries + 1):
                try:
                    self._attempt(file)
                    break
                except Refused as refusal:
                    raise self._failed(refusal, 1) from None
                except Retry as trouble:
                    if trouble.useless:
                        self._drop(file)
                    fruitless = 0 if self.received > self.farthest else fruitless + 1
                    self.farthest = max(self.farthest, self.received)
                    gave_up = fruitless >= self.patience.fruitless
                    if gave_up or number == self.patience.tries:
                        raise self._failed(trouble, fruitless if gave_up else number) from None
                    seconds = self.patience.seconds_before(fruitless, trouble.wait_seconds)
                    log.info("%s: %s; retrying in %.0f s.", self.target.name, trouble, seconds)
                    self.patience.wait(seconds)
            os.fsync(file.fileno())
        self._give_name()

    def kept(self) -> str:
        """A sentence on the data that is kept for the next start."""
        if not _size(self.part):
            return "No data was kept."
        return (
            f"{_size(self.part):,} of {self.expected.bytes:,} bytes are kept in {self.part}; run "
            "the same command to resume."
        )

    def _read_back(self, file: BinaryIO) -> None:
        """Hashes the part that an earlier start left."""
        if not 0 < _size(self.part) <= self.expected.bytes:
            self._drop(file)
            return
        with self.part.open("rb") as kept:
            self.hash = hashlib.file_digest(kept, "sha256")
        self.received = _size(self.part)
        log.info("%s: resuming after %s.", self.target.name, _megabytes(self.received))

    def _attempt(self, file: BinaryIO) -> None:
        """Sends one request and checks the complete file. Raises Retry or Refused."""
        if self.received < self.expected.bytes:
            try:
                with self._ask() as response:
                    headers = response.headers
                    if not goes_on(response.status, headers, self.received, self.expected.bytes):
                        self._drop(file)
                    self.in_one_piece = self.received == 0
                    self._receive(response, file)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise of_fault(error) from error
        if self.received < self.expected.bytes:
            raise Retry(f"the connection ended after {_megabytes(self.received)}")
        self._check(file)

    def _ask(self) -> Any:
        headers = {"User-Agent": "sotaque", "Accept-Encoding": "identity"}
        if self.received:
            headers["Range"] = f"bytes={self.received}-"
        request = urllib.request.Request(self.url, headers=headers)
        try:
            return self.opener.open(request, timeout=self.patience.timeout_seconds)
        except urllib.error.HTTPError as error:
            return error  # handled like any other answer

    def _receive(self, response: Any, file: BinaryIO) -> None:
        """Writes the body; it reads one extra byte to detect a file that is too long."""
        end = self.expected.bytes + (_number(response.headers.get("Content-Length")) is None)
        # read1 instead of read: data that has arrived must not be lost in a timeout.
        while chunk := response.read1(min(_CHUNK_BYTES, end - self.received)):
            with _writing(self.target, self.expected.bytes - self.received):
                _write_all(file, chunk)
            self.received += len(chunk)
            self.hash.update(chunk)
            crash_point("downloading", self.target)
            self._tell()

    def _tell(self) -> None:
        """Logs progress, speed and remaining time every few seconds."""
        received, total = self.received, self.expected.bytes
        if self.reported_bytes < 0:  # the clock starts with the first data
            self.reported_at, self.reported_bytes = time.monotonic(), received
        seconds = time.monotonic() - self.reported_at
        if seconds < self.patience.progress_seconds or received >= total:
            return
        speed = max(1.0, (received - self.reported_bytes) / max(seconds, 1e-3))
        log.info("%s: %d of %d MB (%d %%), %.1f MB/s, %.0f s left.", self.target.name,
                 received / 1e6, total / 1e6, 100 * received // total, speed / 1e6,
                 (total - received) / speed)  # fmt: skip
        self.reported_at, self.reported_bytes = time.monotonic(), received

    def _check(self, file: BinaryIO) -> None:
        """Compares the download with the published file; discards it if it differs."""
        digest, size, fresh = self.hash.hexdigest(), self.received, self.in_one_piece
        if (size, digest) == (self.expected.bytes, self.expected.sha256):
            return
        self._drop(file)
        if not fresh and not self.misfitted:
            self.misfitted, self.farthest = True, 0
            raise Retry("the parts of several tries do not fit together")
        if size > self.expected.bytes:
            raise Refused(f"the server sends more than the {self.expected.bytes:,} bytes of it")
        raise Refused(
            f"the server sends another file: its SHA-256 is {digest[:12]}…, that of the published "
            f"file is {self.expected.sha256[:12]}…"
        )

    def _drop(self, file: BinaryIO) -> None:
        file.truncate(0)
        self.received, self.hash, self.in_one_piece = 0, hashlib.sha256(), False

    def _give_name(self) -> None:
        crash_point("downloaded", self.target)
        os.replace(self.part, self.target)
        sync_folder(self.target.parent)
        log.info(
            "%s: %s, SHA-256 matches the published one.",
            self.target.name, _megabytes(self.received),
        )  # fmt: skip

    def _failed(self, why: Exception, tries: int) -> DownloadError:
        if not _size(self.part):
            self.part.unlink(missing_ok=True)
        often = f" ({tries} tries)" if tries > 1 else ""
        return DownloadError(
            f"{self.target.name} could not be downloaded from {self.url}: {why}{often}. "
            f"{self.kept()}"
        )


@contextmanager
def _writing(target: Path, num_bytes: int) -> Iterator[None]:
    """Turns a disk error into a message; network errors do not pass through here."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            require_space(target.parent, num_bytes, target.name)
            raise DiskFull(
                f"{target} could not be written ({error.strerror}): {num_bytes:,} more bytes are "
                "needed. The downloaded part is kept. Free space and run the same command again."
            ) from error
        raise WriteError(
            f"{target} could not be written ({error.strerror}). Make {target.parent} writable for "
            "this user, or set XTTS_V2_DIR to another folder."
        ) from error


def _write_all(file: BinaryIO, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:  # a raw file may write less when the disk is nearly full
        view = view[file.write(view) :]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"


def goes_on(status: int, headers: Message, received: int, expected_bytes: int) -> bool:
    """Whether the body of an answer continues after the first `received` bytes of the file; False
    if it starts at the first byte.

    Raises Retry or Refused for an answer without a part of the file.
    """
    if status in _PASSING:
        # In seconds; a date is ignored.
        raise Retry(f"the server answers with status {status}", _number(headers.get("Retry-After")))
    if status == 416:
        raise Retry(f"the server has no data after byte {received:,}", useless=True)
    if status not in (200, 206):
        raise Refused(_REASONS.get(status, f"the server answers with status {status}"))
    encoding = headers.get("Content-Encoding", "")
    if encoding not in ("", "identity"):
        raise Refused(f"the server sends it as {encoding}, which was not requested")
    # `bytes 100-199/500`; an invalid header counts as missing.
    unit, _, range_ = headers.get("Content-Range", "").strip().partition(" ")
    span, _, whole = range_.partition("/") if unit == "bytes" else ("", "", "")
    total = _number(whole if status == 206 else headers.get("Content-Length"))
    if total is not None and total != expected_bytes:
        raise Refused(
            f"the server offers {total:,} bytes, but the published file has {expected_bytes:,}: "
            "it is another file, or a page of a proxy"
        )
    if status == 200:
        return False
    start = _number(span.partition("-")[0])
    if start != received:
        raise Retry(f"the server resumes at {start}, not at {received:,}", useless=True)
    return True


def of_fault(error: Exception) -> Retry | Refused:
    """Whether a connection error is worth a retry, and its reason."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Refused(
            f"its certificate is not trusted ({cause.verify_message}). Behind a company's proxy, "
            "set SSL_CERT_FILE to the proxy's certificates"
        )
    if isinstance(cause, socket.gaierror):
        return Retry("its name cannot be resolved; check the network")
    if isinstance(cause, TimeoutError):
        return Retry("no data arrived in time")
    if isinstance(cause, http.client.InvalidURL | ValueError):
        return Refused(f"the address is invalid ({cause})")
    if isinstance(cause, OSError) and cause.strerror:
        return Retry(cause.strerror.lower())
    return Retry("the connection broke off")


def _number(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdecimal() else None
