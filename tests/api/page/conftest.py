"""Chromium, driven by Playwright; and a page that may neither complain nor leave its host."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.page.desk import DESK, PATIENCE_MILLISECONDS
from tests.api.page.fake import serving
from tests.api.page.world import World

Open = Callable[..., Any]


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Open]:
    """open_page(address, **context): the page, once its epochs are shown or known to be none;
    `browser`: another one than `chromium`.

    At the end the console may have said nothing but what the test names in `page.provoked` (the
    browser notes every status of 400 and more), and no request may have gone to another host.
    """
    contexts = []

    def opened(address: str, *, ready: str = "#state", browser: Any = None, **options: Any) -> Any:
        context = (browser or chromium).new_context(**options)
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        page = context.new_page()
        page.complaints, page.provoked, page.hosts = [], [], set()
        page.on("console", lambda told: page.complaints.append(f"{told.type}: {told.text}"))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda asked: page.hosts.add(urlsplit(asked.url).netloc))
        contexts.append((context, page, urlsplit(address).netloc))
        page.goto(address)
        page.wait_for_selector(ready)
        return page

    yield opened
    for context, page, host in contexts:
        told = [one for one in page.complaints if not any(word in one for word in page.provoked)]
        hosts = page.hosts - {""}
        context.close()
        assert told == []
        assert hosts == {host}


@pytest.fixture
def world() -> World:
    """What the fake server knows; tests change it before or while the page looks."""
    return World()


@pytest.fixture
def address(world: World) -> Iterator[str]:
    """The fake server's address."""
    with serving(world) as (url, _):
        yield url


@pytest.fixture
def opened(address: str, open_page: Open) -> Open:
    """As `open_page`, on the fake server."""
    return partial(open_page, address)


@pytest.fixture
def page(opened: Open) -> Any:
    """The page on the fake server, with the newest epoch on its desk."""
    return opened(ready=DESK)
