"""What an answer means, row by row; the rows that need a server are in test_download.py."""

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime
from email.message import Message

import pytest

from xtts.download.http_file import (
    HttpReply,
    RedirectRefused,
    Redirects,
    RetryPolicy,
    TransferAction,
    decide,
    of_fault,
)

SIZE = 1_000


def headers(**values: str) -> Message:
    message = Message()
    for name, value in values.items():
        message[name.replace("_", "-")] = value
    return message


@pytest.mark.parametrize(
    ("reply", "received", "act"),
    [
        (HttpReply(200, length=SIZE), 0, TransferAction.REPLACE),
        (HttpReply(200), 0, TransferAction.REPLACE),
        (HttpReply(200, length=SIZE), 500, TransferAction.REPLACE),
        (HttpReply(200, length=SIZE - 500), 500, TransferAction.REFUSE),
        (HttpReply(206, start=500, total=SIZE), 500, TransferAction.APPEND),
        (HttpReply(206, start=500), 500, TransferAction.APPEND),
        (HttpReply(206, start=400, total=SIZE), 500, TransferAction.DISCARD),
        (HttpReply(206), 500, TransferAction.DISCARD),
        (HttpReply(206, start=500, total=SIZE + 1), 500, TransferAction.REFUSE),
        (HttpReply(416), 500, TransferAction.DISCARD),
        (HttpReply(200, length=SIZE, encoding="identity"), 0, TransferAction.REPLACE),
        (HttpReply(200, length=SIZE, encoding="br"), 0, TransferAction.REFUSE),
        (HttpReply(204), 0, TransferAction.REFUSE),
        (HttpReply(304), 0, TransferAction.REFUSE),
        (HttpReply(302), 0, TransferAction.REFUSE),
        (HttpReply(429, retry_after_seconds=3), 0, TransferAction.RETRY),
        (HttpReply(404), 0, TransferAction.REFUSE),
    ],
)
def test_the_answer_decides(reply, received, act):
    step = decide(reply, received, SIZE)
    assert step.act is act
    assert step.reason or act in (TransferAction.APPEND, TransferAction.REPLACE)


def test_headers_are_read_and_garbled_ones_do_not_count():
    reply = HttpReply.of(
        206, headers(Content_Range="bytes 100-199/500", Content_Length="100", ETag='"a"')
    )
    assert (reply.start, reply.total, reply.length, reply.etag) == (100, 500, 100, '"a"')
    reply = HttpReply.of(
        200, headers(Content_Range="pages 1-2/3", Content_Length="-5", ETag='W/"a"')
    )
    assert reply == HttpReply(200)
    assert HttpReply.of(206, headers(Content_Range="bytes 1-2/*")).total is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("120", 120.0), ("Fri, 20 Nov 2026 12:00:30 GMT", 30.0),
     ("Fri, 20 Nov 2026 11:00:00 GMT", 0.0), ("soon", None), ("", None)],
)  # fmt: skip
def test_retry_after_is_a_number_or_a_date(text, seconds):
    now = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
    assert HttpReply.of(503, headers(Retry_After=text), now).retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("error", "act", "says"),
    [
        (
            urllib.error.URLError(socket.gaierror(-2, "unknown")),
            TransferAction.RETRY,
            "is there a network",
        ),
        (
            urllib.error.URLError(ConnectionRefusedError(111, "Refused")),
            TransferAction.RETRY,
            "refused",
        ),
        (TimeoutError(), TransferAction.RETRY, "nothing came"),
        (http.client.RemoteDisconnected(), TransferAction.RETRY, "broke off"),
        (http.client.IncompleteRead(b""), TransferAction.RETRY, "broke off"),
        (ValueError("unknown url type"), TransferAction.REFUSE, "no address"),
        (RedirectRefused("only https is followed"), TransferAction.REFUSE, "only https"),
    ],
)
def test_a_fault_of_the_line_is_told_in_words(error, act, says):
    step = of_fault(error)
    assert step.act is act
    assert says in step.reason


def test_a_certificate_that_is_not_trusted_is_not_tried_again():
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_message = "self-signed certificate"
    step = of_fault(urllib.error.URLError(error))
    assert step.act is TransferAction.REFUSE
    assert "self-signed certificate" in step.reason
    assert "SSL_CERT_FILE" in step.reason


@pytest.mark.parametrize(
    ("old", "new", "followed"),
    [
        ("https://a/x", "https://b/x", True),
        ("http://a/x", "https://b/x", True),
        ("http://a/x", "http://b/x", True),
        ("https://a/x", "http://b/x", False),
        ("https://a/x", "ftp://b/x", False),
    ],
)
def test_https_is_never_given_up(old, new, followed):
    request = urllib.request.Request(old, headers={"Range": "bytes=5-"})
    if not followed:
        with pytest.raises(RedirectRefused, match="only https is followed"):
            Redirects().redirect_request(request, None, 302, "", None, new)
        return
    onward = Redirects().redirect_request(request, None, 302, "", None, new)
    assert onward.full_url == new
    assert onward.headers["Range"] == "bytes=5-"


def test_the_waits_double_up_to_a_limit():
    patience = RetryPolicy(first_wait_seconds=1, longest_wait_seconds=10)
    assert [patience.seconds_before(n, None) for n in range(6)] == [1, 1, 2, 4, 8, 10]
    assert patience.seconds_before(1, 5.0) == 5.0
    assert patience.seconds_before(1, 500.0) == 10.0
