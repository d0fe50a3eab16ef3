"""The key: it must be complete, a bearer token, and possible to send from every client."""

import re
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from api.gate import OriginRules, key_refusal, origin_refusal
from api.settings import load
from machine.settings.loading import SettingsError

KEY = "correct horse"
SCALE_OUT = Path(__file__).parents[2] / "docs" / "scale-out.md"


@pytest.mark.parametrize("sent", [f"Bearer {KEY}", f"bearer {KEY}", f"Bearer  {KEY} "])
def test_the_key_opens(sent):
    assert key_refusal(KEY, Headers({"authorization": sent})) is None


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {KEY[:1]}",
        f"Bearer {KEY[:-1]}",
        f"Bearer {KEY}r",
        f"Bearer {KEY.upper()}",
        f"Basic {KEY}",
        f"Token {KEY}",
        KEY,
        f" {KEY}",
        f"Bearer Bearer {KEY}",
        "Bearer ü",
    ],
)
def test_nothing_else_opens(sent):
    """Neither a part of the key, nor a longer one, nor another scheme."""
    refusal = key_refusal(KEY, Headers({"authorization": sent}))
    assert refusal is not None and refusal.status == 401


def test_a_wrong_key_is_told_from_none():
    wrong, none = (key_refusal(KEY, Headers(sent)) for sent in ({"authorization": "Bearer x"}, {}))
    assert wrong and none and wrong.detail != none.detail


@pytest.mark.parametrize("key", ["schlüssel", "key\u200b", "clé", "鍵"])
def test_a_key_that_not_every_client_can_send_is_refused_at_the_start(key):
    with pytest.raises(SettingsError, match="API_KEY has a character") as caught:
        load([], {"API_KEY": key}, None)
    assert key not in str(caught.value)


def proxied(example: str, browser: str) -> Headers:
    """The `Host` that nginx forwards for a page at `browser`, by the line of an example.

    `$http_host` is the browser's header, `$host` the same without its port.
    """
    (value,) = re.findall(r"proxy_set_header\s+Host\s+(\S+);", example)
    variables = {"$http_host": browser, "$host": browser.partition(":")[0]}
    return Headers({"host": variables[value], "origin": f"http://{browser}"})


@pytest.mark.parametrize("browser", ["sotaque.example:8005", "sotaque.example", "localhost:8005"])
def test_the_page_works_behind_the_documented_nginx(browser):
    headers = proxied(SCALE_OUT.read_text(encoding="utf-8"), browser)
    assert origin_refusal(headers, "POST", True, OriginRules(has_key=True)) is None
