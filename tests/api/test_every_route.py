"""Rules for every route. The list comes from the application, so it includes new routes."""

import contextlib
import http.client
import inspect
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from api.app import build
from tests.api.conftest import Running, running, settings_in
from tests.api.judged_run import write_judged_run
from tests.installed import has, missing

KEY = "correct-horse"
# Answered without a key on purpose: the page that asks for it, the reference, and probes.
OPEN = {
    *(("GET", path) for path in ("/", "/docs", "/livez", "/readyz", "/page/style.css", "/page/styles.css"))
}
# Paths outside the routers: the document, and the page's files.
MORE = {("GET", "/openapi.json"), ("GET", "/page/style.css"), ("GET", "/nothing/here")}
JSON = b'{"input": "x", "name": "x", "text": "x", "language": "en"}'
SECRET = "this is nobody's business"
TRICKS = (
    "..",
    "../../secret",
    "..%2fsecret",
    "..%2f..%2fsecret",
    "%2e%2e%2f%2e%2e%2fsecret",
    "%2e%2e",
    "..%5c..%5csecret",
    "%252e%252e%252fsecret",
    "....//....//secret",
    "%2fetc%2fpasswd",
    "secret%00",
    "%00",
    "%ff%fe",
    "x" * 3_000,
    "~",
    "secret",
)


class Answer(NamedTuple):
    """An answer; code: of a refusal."""

    status: int
    code: str
    body: bytes


def routes_of(service: Running) -> set[tuple[str, str]]:
    """Every method and path, with the parameters in braces."""
    routes = service.server.config.app.state.routes  # type: ignore[union-attr]
    return {(method, route.path) for route in routes for method in route.methods}


def filled(path: str, value: str = "1") -> str:
    """The path with `value` for each of its parameters."""
    return re.sub(r"\{\w+\}", lambda _: value, path)


def ask(service: Running, method: str, path: str, size: int | None = None, **headers: str) -> Answer:
    """Sends the path unchanged: no client normalises it. size: of a body that is not sent."""
    line = http.client.HTTPConnection(service.address.removeprefix("http://"), timeout=30)
    with contextlib.closing(line):
        line.putrequest(method, path, skip_host="host" in headers, skip_accept_encoding=True)
        body = JSON if method != "GET" and size is None else b""
        length = str(len(body) if size is None else size)
        told = {"content-type": "application/json", "content-length": length, **headers}
        for name, value in told.items():
            line.putheader(name.replace("_", "-"), value)
        line.endheaders(body)
        answer = line.getresponse()
        if path == "/events" and answer.status == 200:  # it has no end
            return Answer(200, "", b"")
        content = answer.read()
    code = re.search(rb'"code":"(\w+)"', content) if answer.status >= 400 else None
    return Answer(answer.status, code[1].decode() if code else "", content)


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service without a key; the files next to its folders must not be readable."""
    folder = tmp_path_factory.mktemp("free")
    write_judged_run(folder)
    for where in (folder, folder / "output", folder / "voices", folder / "output" / "samples"):
        where.mkdir(exist_ok=True)
        for name in ("secret", "secret.wav", "secret.json"):
            (where / name).write_text(SECRET, encoding="utf-8")
    with running(settings_in(folder, voices_dir=folder / "voices")) as service:
        yield service


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(settings_in(tmp_path_factory.mktemp("locked"), api_key=KEY)) as service:
        yield service


def test_the_routes_are_those_of_the_document(free, tmp_path):
    """These tests see all routes: the document is generated from the application."""
    document = build(settings_in(tmp_path)).openapi()
    told = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert len(told) > (20 if missing() else 45)
    # Hidden in the document: the page that shows it, the page's styles, and an address of
    # xtts-api-server with one more slash.
    hidden = {("GET", "/docs"), ("GET", "/page/styles.css")} | (
        {("GET", "/tts_stream/")} if has("dialects") else set()
    )
    assert routes_of(free) - told == hidden and not told - routes_of(free)


def test_each_asks_for_the_key(locked):
    every = routes_of(locked) | MORE
    for sent in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {KEY}"}):
        answers = {route: ask(locked, route[0], filled(route[1]), **sent) for route in every}
        answered = {route for route, answer in answers.items() if answer.status != 401}
        # / tells a browser only where the page is; a program needs the key.
        assert answered == OPEN - {("GET", "/")}, sent
    assert ask(locked, "GET", "/", accept="text/html").status == 200
    assert ask(locked, "GET", "/v1/voices", authorization=f"Bearer {KEY}").status == 200


def test_none_answers_to_a_name_that_a_site_has_pointed_here(free):
    """With DNS rebinding the page has the same origin."""
    sent = {"host": "evil.example", "origin": "http://evil.example"}
    answers = {route: ask(free, route[0], filled(route[1]), **sent)[:2] for route in routes_of(free) | MORE}
    assert set(answers.values()) == {(403, "foreign_host")}, answers


def test_none_speaks_or_changes_anything_for_a_page_of_another_site(free):
    routes = free.server.config.app.state.routes  # type: ignore[union-attr]
    speaking = {route.path for route in routes if "speech" in route.tags}
    costly = {asked for asked in routes_of(free) if asked[0] != "GET" or asked[1] in speaking}
    # Limited routes cost something; for a GET, only its tag shows that.
    limited = {route.path for route in routes if "check_rate" in inspect.getsource(route.endpoint)}
    gets = {path for method, path in routes_of(free) if method == "GET"}
    posted = {path for method, path in routes_of(free) if method == "POST"}
    only_read = gets - posted
    assert limited & only_read == speaking & only_read and len(speaking & gets) == (
        6 if has("dialects") else 2
    )
    assert speaking - only_read <= limited | {"/api/tts"}
    assert len(costly) >= (10 if missing() else 20)
    for origin in ("https://evil.example", "null"):
        answers = {asked: ask(free, asked[0], filled(asked[1]), origin=origin)[:2] for asked in costly}
        assert set(answers.values()) == {(403, "foreign_origin")}, answers
    image = {"sec_fetch_site": "cross-site", "sec_fetch_dest": "audio"}
    for method, path in costly:
        if method == "GET":
            assert ask(free, method, path, **image)[:2] == (403, "foreign_origin")


def test_a_path_trick_leads_nowhere(free):
    """No file, no 500, and no folder name of this machine."""
    folder = str(free.state.settings.output_dir.parent).encode()
    tried = 0
    for method, path in sorted(routes_of(free)):
        # In each parameter, with existing values in the others.
        for name, trick in itertools.product(re.findall(r"\{\w+\}", path), TRICKS):
            filled_path = path.replace(name, trick).replace("{run_id}", "current")
            filled_path = filled_path.replace("{which}", "output").replace("{candidate}", "base")
            answer = ask(free, method, filled(filled_path))
            tried += 1
            assert 400 <= answer.status < 500, (method, filled_path, answer)
            assert not any(secret in answer.body for secret in (SECRET.encode(), folder, b"root:"))
    assert tried > 200


def test_no_body_is_larger_than_it_may_be(free):
    recordings = "/v1/datasets/{dataset}/recordings"
    max_bytes = {"/v1/books": 128 << 20, recordings: 1 << 40, "/v1/voices/import": 8 << 30}
    for method, path in routes_of(free):
        if method in ("GET", "DELETE"):
            continue
        takes_a_file = path.endswith(
            ("/voices", "/voice_consents", "/clone_speaker", "/recordings", "/take", "/text")
        )
        most = max_bytes.get(path, 21 << 20 if takes_a_file else 64 << 10)
        assert ask(free, method, filled(path), size=most + 1).status == 413, path
