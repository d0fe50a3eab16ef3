"""Chromium, driven by Playwright. A page may not log errors or leave its host."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.page.desk import DESK, PATIENCE_MILLISECONDS, until
from tests.api.page.fake import serving
from tests.api.page.world import World

Open = Callable[..., Any]


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Open]:
    """open_page(address, **context): a view of the page once `ready` matches; `browser` replaces
    `chromium`.

    At the end, the console may hold only messages that match a word of `page.provoked` (the browser
    logs every status of 400 and more), and no request may have gone to another host.
    """
    contexts = []

    def opened(
        address: str, *, view: str = "speak", ready: str = "#index", browser: Any = None, **options: Any
    ) -> Any:
        context = (browser or chromium).new_context(**options)
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        page = context.new_page()
        page.complaints, page.provoked, page.hosts = [], [], set()
        page.on("console", lambda told: page.complaints.append(f"{told.type}: {told.text}"))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda asked: page.hosts.add(urlsplit(asked.url).netloc))
        contexts.append((context, page, urlsplit(address).netloc))
        page.goto(f"{address.rstrip('/')}/#/{view}")
        page.wait_for_selector(ready)
        until(page, "document.title.endsWith(' - Sotaque')")  # Its scripts have shown the view.
        return page

    yield opened
    for context, page, host in contexts:
        told = [
            complaint for complaint in page.complaints if not any(word in complaint for word in page.provoked)
        ]
        hosts = page.hosts - {""}
        context.close()
        assert told == []
        assert hosts == {host}


@pytest.fixture
def world() -> World:
    """The state of the fake server; tests change it before or during the page's requests."""
    return World()


@pytest.fixture
def address(world: World) -> Iterator[str]:
    """The fake server's address."""
    with serving(world) as (url, _):
        yield url


@pytest.fixture
def opened(address: str, open_page: Open) -> Open:
    """`open_page` on the fake server."""
    return partial(open_page, address)


@pytest.fixture
def page(opened: Open) -> Any:
    """The view that compares, on the fake server, with the newest epoch on its desk."""
    return opened(view="compare", ready=DESK)
