"""Downloads one file over HTTP, with resume and a check of its SHA-256.

The file gets its name only when it is complete and verified. Until then the data is in `NAME.part`,
and the next start resumes there. The SHA-256 detects a part of another file, so no ETag is kept.

huggingface_hub is not used (2.4 was tried twice with this module's tests). It deletes the part when
a download fails or is stopped, so that the next start begins again with 1.9 GB. It compares sizes
but no SHA-256, and only warns about a full disk.
"""

import http.client
import logging
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

from machine.errors import SotaqueError
from machine.storage.checksums import sha256_of
from machine.storage.files import Written, crash_point, require_space, sync_folder, writing_to

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 30.0
# The maximum number of tries in a row without new data.
MAX_FRUITLESS_TRIES = 5
MAX_WAIT_SECONDS = 60.0
SECONDS_BETWEEN_REPORTS = 5.0
_CHUNK_BYTES = 1 << 20
# 425 Too Early, 429 Too Many Requests, and errors of a gateway.
_TEMPORARY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_REASON_OF_STATUS = {
    401: "the server requires a key (401)",
    404: "the file does not exist (404); check HF_ENDPOINT",
    407: "the proxy requires a name and password (407); set HTTPS_PROXY with both",
}


class DownloadError(SotaqueError):
    """A download failed; the message has the address, the reason, and the downloaded part."""


class Interrupted(SotaqueError):
    """The user pressed Ctrl-C; the downloaded part is kept."""

    exit_code = 130


class Retry(Exception):
    """The next try may succeed. wait_seconds: the wait that the server requests."""

    def __init__(self, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds


class Refused(Exception):
    """No further try can succeed."""


def part_path(target: Path) -> Path:
    """The path of the unfinished file."""
    return target.with_name(f"{target.name}.part")


def fetch(url: str, target: Path, expected: Written) -> None:
    """Downloads `url` to `target`, resuming `NAME.part` if it exists.

    Raises DownloadError, DiskFull, WriteError, and Interrupted for Ctrl-C. The part is kept unless
    its content is wrong.
    """
    part = part_path(target)
    try:
        with writing_to(target, expected.bytes):
            if _size(part) > expected.bytes:  # of another file
                part.unlink()
            require_space(target.parent, expected.bytes - _size(part), target.name)
            _complete_part(url, part, expected)
            with part.open("ab") as file:
                os.fsync(file.fileno())
            crash_point("downloaded", target)
            os.replace(part, target)
            sync_folder(target.parent)
    except KeyboardInterrupt:
        raise Interrupted(f"{target.name}: stopped. {_part_note(part, expected)}") from None
    except (Retry, Refused) as error:
        tries = f" ({MAX_FRUITLESS_TRIES} tries)" if isinstance(error, Retry) else ""
        raise DownloadError(
            f"{target.name} could not be downloaded from {url}: {error}{tries}. {_part_note(part, expected)}"
        ) from None
    log.info("%s: %.1f MB, SHA-256 matches the published one.", target.name, expected.bytes / 1e6)


def _complete_part(url: str, part: Path, expected: Written) -> None:
    """Sends requests until the part is the published file. Raises Retry after five tries without
    new data, and Refused."""
    max_size, fruitless_tries, was_discarded = _size(part), 0, False
    while True:
        first_byte = _size(part)
        try:
            if first_byte != expected.bytes:
                first_byte = _request(url, part, expected, first_byte)
            if (size := _size(part)) < expected.bytes:
                raise Retry(f"the connection ended after {size / 1e6:,.1f} MB")
            if size == expected.bytes and sha256_of(part, fresh=True) == expected.sha256:
                return
            difference = _difference(part, expected)
            part.unlink()
            # If the whole file came in one answer, another try does not help.
            if first_byte == 0 or was_discarded:
                raise Refused(difference)
            was_discarded, max_size = True, 0
            raise Retry("the parts of several tries do not fit together")
        except Retry as retry:
            fruitless_tries = 0 if _size(part) > max_size else fruitless_tries + 1
            max_size = max(max_size, _size(part))
            if fruitless_tries >= MAX_FRUITLESS_TRIES:
                raise
            backoff_seconds = 2.0 ** max(0, fruitless_tries - 1)
            seconds = min(retry.wait_seconds or backoff_seconds, MAX_WAIT_SECONDS)
            log.info("%s: %s; retrying in %.0f s.", part.stem, retry, seconds)
            time.sleep(seconds)


def _request(url: str, part: Path, expected: Written, first_byte: int) -> int:
    """Requests the file from `first_byte` on, and writes the body into the part. Returns the byte of
    the file at which the body begins. Raises Retry, Refused, OSError."""
    headers = {"User-Agent": "sotaque", "Accept-Encoding": "identity"}
    if first_byte:
        headers["Range"] = f"bytes={first_byte}-"
    try:
        request = urllib.request.Request(url, headers=headers)
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        response = error  # handled like any other answer
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise classify_error(error) from error
    with response:
        body_start = start_of_body(response.status, response.headers, expected.bytes)
        if body_start not in (0, first_byte):
            part.unlink(missing_ok=True)
            raise Retry(f"the server cannot resume after byte {first_byte:,}")
        started_at = reported_at = time.monotonic()
        with part.open("ab" if body_start else "wb") as file:
            for chunk in _read_body(response):
                file.write(chunk)
                crash_point("downloading", part.with_suffix(""))
                now, size = time.monotonic(), file.tell()
                if size > expected.bytes:
                    break
                if now - reported_at >= SECONDS_BETWEEN_REPORTS:
                    _log_progress(part.stem, size, expected.bytes, (size - body_start) / (now - started_at))
                    reported_at = now
    return body_start


def _log_progress(name: str, size: int, expected_bytes: int, bytes_per_second: float) -> None:
    log.info(
        "%s: %d of %d MB (%d %%), %.1f MB/s, %.0f s left.",
        name,
        size / 1e6,
        expected_bytes / 1e6,
        100 * size // expected_bytes,
        bytes_per_second / 1e6,
        (expected_bytes - size) / bytes_per_second,
    )


def _read_body(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The chunks of a body. Raises Retry, Refused."""
    try:
        # read1 instead of read: data that has arrived must not be lost in a timeout.
        while chunk := response.read1(_CHUNK_BYTES):
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise classify_error(error) from error


def start_of_body(status: int, headers: Message, expected_bytes: int) -> int | None:
    """The byte of the file at which the body of an answer begins; None if it is not known (RFC 9110,
    section 14, Range). Raises Retry or Refused for an answer without a part of the file."""
    if status in _TEMPORARY_STATUSES:
        # In seconds; a date is ignored.
        raise Retry(f"the server answers with status {status}", _parse_number(headers.get("Retry-After")))
    if status == 416:
        return None
    if status not in (200, 206):
        raise Refused(_REASON_OF_STATUS.get(status, f"the server answers with status {status}"))
    encoding = headers.get("Content-Encoding", "")
    if encoding not in ("", "identity"):
        raise Refused(f"the server sends it as {encoding}, which was not requested")
    # `bytes 100-199/500`; an invalid header counts as missing.
    unit, _, range_ = headers.get("Content-Range", "").strip().partition(" ")
    span, _, total = range_.partition("/") if unit == "bytes" else ("", "", "")
    offered_bytes = _parse_number(total if status == 206 else headers.get("Content-Length"))
    if offered_bytes is not None and offered_bytes != expected_bytes:
        raise Refused(
            f"the server offers {offered_bytes:,} bytes, but the published file has {expected_bytes:,}: "
            "it is another file, or a page of a proxy"
        )
    return 0 if status == 200 else _parse_number(span.partition("-")[0])


def classify_error(error: Exception) -> Retry | Refused:
    """A connection error as a reason for a retry, or for none."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Refused(
            f"its certificate is not trusted ({cause.verify_message}). Behind a company's proxy, "
            "set SSL_CERT_FILE to the proxy's certificates"
        )
    if isinstance(cause, http.client.InvalidURL | ValueError):
        return Refused(f"the address is invalid ({cause})")
    if isinstance(cause, socket.gaierror):
        return Retry("its name cannot be resolved; check the network")
    if isinstance(cause, TimeoutError):
        return Retry("no data arrived in time")
    if isinstance(cause, OSError) and cause.strerror:
        return Retry(cause.strerror.lower())
    return Retry("the connection broke off")


def _difference(part: Path, expected: Written) -> str:
    """How a complete download differs from the published file."""
    if _size(part) > expected.bytes:
        return f"the server sends more than the {expected.bytes:,} bytes of it"
    return (
        f"the server sends another file: its SHA-256 is {sha256_of(part)[:12]}…, that of the "
        f"published file is {expected.sha256[:12]}…"
    )


def _part_note(part: Path, expected: Written) -> str:
    """A sentence about the data that is kept for the next start."""
    if not _size(part):
        part.unlink(missing_ok=True)
        return "No data was kept."
    return f"{_size(part):,} of {expected.bytes:,} bytes are kept in {part}; run the same command to resume."


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _parse_number(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdecimal() else None
