"""Which pages and host names are answered. Pure functions."""

import pytest
from starlette.datastructures import Headers

from api.gate import OriginRules, origin_refusal

OPEN = OriginRules(has_key=False)
CHAT = "http://chat.example:3000"
LISTED = OriginRules(
    has_key=False, origins=frozenset({CHAT, "http://localhost:8000"}), hosts=frozenset({"nas.lan"})
)
BROWSER = "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/145.0"


def code(
    rules: OriginRules, method: str, path: str = "/api/tts", host: str = "localhost:8005", **sent: str
) -> str | None:
    headers = {name.replace("_", "-"): value for name, value in sent.items()}
    refusal = origin_refusal(Headers({"host": host, **headers}), method, path == "/api/tts", rules)
    return refusal.code if refusal else None


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
def test_only_pages_that_are_named_may_change_anything(method):
    assert code(OPEN, method) is None
    assert code(OPEN, method, origin="http://localhost:8005") is None
    assert code(OPEN, method, origin=CHAT) == "foreign_origin"
    assert code(LISTED, method, origin=CHAT) is None
    assert code(LISTED, method, origin=CHAT.upper()) is None


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "https://chat.example:3000",
        "http://chat.example",
        "http://chat.example:30000",
        "http://evil.chat.example:3000",
        f"{CHAT}.evil",
        "http://localhost:8000@evil",
        "",
    ],
)
def test_an_origin_is_named_exactly(origin):
    assert code(LISTED, "POST", origin=origin) == ("foreign_origin" if origin else None)
    assert code(LISTED, "GET", origin=origin, sec_fetch_site="cross-site") == "foreign_origin"


def test_the_preflight_of_another_page_is_refused():
    asked = {"access_control_request_method": "POST"}
    assert code(OPEN, "OPTIONS", origin=CHAT, **asked) == "foreign_origin"
    assert code(LISTED, "OPTIONS", origin=CHAT, **asked) is None


FOREIGN: list[dict[str, str]] = [
    {"sec_fetch_site": "cross-site"},  # <img src=…> of a page that hides its address
    {"sec_fetch_site": "same-site"},  # from another port of this machine
    {"sec_fetch_site": "cross-site", "referer": "https://evil.example/page"},
    {"origin": "https://evil.example"},
    {"origin": "null", "sec_fetch_site": "cross-site"},
    {"referer": "http://evil.example/"},  # to an address of the network, without Fetch Metadata
    {"referer": "data:text/html,x"},
]
# Programs, direct visits, our own page, and a page listed in the settings.
OWN: list[dict[str, str]] = [
    {"user_agent": "curl/8.5"},
    {},
    {"user_agent": BROWSER, "sec_fetch_site": "none"},  # typed by a person
    {"user_agent": BROWSER, "sec_fetch_site": "same-origin"},
    {"user_agent": BROWSER, "referer": "http://localhost:8005/"},
    {"user_agent": BROWSER, "origin": "http://localhost:8005"},
]
NAMED: list[dict[str, str]] = [
    {"origin": CHAT, "sec_fetch_site": "cross-site"},
    {"referer": f"{CHAT}/chat", "sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},  # SillyTavern's <audio>: also on this host, without Referer
]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("has_key", [False, True])
@pytest.mark.parametrize("sent", FOREIGN)
def test_no_foreign_page_makes_it_speak_by_a_get(sent, has_key, method):
    rules = OriginRules(has_key=has_key)
    assert code(rules, method, user_agent=BROWSER, **sent) == "foreign_origin"
    # Without synthesis a request costs nothing, and without CORS no page reads its answer.
    assert code(rules, method, "/v1/voices", user_agent=BROWSER, **sent) is None


def test_programs_people_its_own_and_a_named_page_speak_by_a_get():
    assert [code(OPEN, "GET", **sent) for sent in OWN] == [None] * len(OWN)
    codes = [code(LISTED, "GET", user_agent=BROWSER, **sent) for sent in NAMED]
    assert codes == [None] * len(NAMED)


def test_a_browser_that_says_nothing_of_its_page_does_not_speak_without_a_key():
    """As from an https page that hides the Referer, to an http address in the home network."""
    at = {"host": "192.168.1.5:8005", "user_agent": BROWSER}
    assert code(OPEN, "GET", **at) == "foreign_origin"
    assert code(OriginRules(has_key=True), "GET", **at) is None


def test_a_page_of_this_host_is_let_in_only_where_one_of_it_is_named():
    only_chat = OriginRules(has_key=False, origins=frozenset({CHAT}))
    assert code(only_chat, "GET", sec_fetch_site="same-site") == "foreign_origin"
    assert code(LISTED, "GET", host="nas.lan:8005", sec_fetch_site="same-site") == "foreign_origin"


@pytest.mark.parametrize("path", ["/api/tts", "/v1/voices", "/livez"])
def test_without_a_key_a_public_name_is_refused_unless_it_is_listed(path):
    """A site may point its own name at this machine (DNS rebinding), but not another's."""
    for rules, hosts, expected in (
        (OPEN, ("evil.example", "nas.lan:8005", "127.0.0.1.evil.example"), "foreign_host"),
        (LISTED, ("evil.example", "x.nas.lan", "nas.lan.evil.example"), "foreign_host"),
        (LISTED, ("nas.lan:8005", "NAS.lan.", "nas.lan"), None),
        (OriginRules(has_key=True), ("evil.example",), None),
        # Addresses and local names.
        (OPEN, ("localhost", "127.0.0.1:8005", "[::1]:8005", "pi", "pi.local"), None),
    ):
        assert {code(rules, "GET", path, host) for host in hosts} == {expected}
    assert code(LISTED, "GET", path, "[::1") in ("foreign_host", None)
