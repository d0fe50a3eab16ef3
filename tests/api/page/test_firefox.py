"""The main path in Firefox: speak, hear takes, compare, serve, voices, a phone's width."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.page.desk import DONE, POSITION, SECONDS, WORKS
from tests.api.page.firefox import Firefox, firefox, sound_server
from tests.api.page.world import World, evaluation

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(shutil.which("firefox-esr") is None, reason="firefox-esr is not installed"),
]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Firefox]:
    folder = tmp_path / "profile"
    folder.mkdir()
    with sound_server(tmp_path) as environment, firefox(folder, environment) as found:
        yield found


@pytest.mark.skipif(shutil.which("pulseaudio") is None, reason="pulseaudio is not installed")
def test_firefox_speaks_compares_serves_and_plays_voices(browser: Firefox, world: World, address: str):
    world.evaluation = evaluation()
    browser.goto(f"{address}/#/speak", 1280, 800)
    browser.until("document.getElementById('live').textContent === 'Live'")
    for number, text in enumerate(("Good morning.", " Good night."), start=1):
        browser.click("#text")
        browser.type(text)
        browser.click("#say")
        browser.until(f"{SECONDS} > 0.2")
        browser.until(f"{DONE} && document.querySelectorAll('#take-list > li').length === {number}")
    assert (
        browser.evaluate("document.getElementById('spoken-text').textContent") == "Good morning. Good night."
    )
    browser.click("#take-list > li:nth-child(2) .round")
    browser.until("document.querySelector('#take-list > li:nth-child(2) .playing')")
    browser.until(DONE)
    # Keys play and seek while no control has the focus.
    browser.click("#takes-title")
    browser.type(" ")
    browser.until("document.querySelector('#player-toggle.playing')")
    browser.click("#index a[href='#/compare']")
    browser.until("!document.getElementById('judgement').hidden")
    browser.click("tr[data-candidate=epoch_1] .row-play")
    browser.until(f"{WORKS} && {POSITION} > 0.2")
    browser.type("x")
    browser.until("document.querySelector('.lane.heard').dataset.track === 'reference'")
    browser.click("tr[data-candidate=epoch_1] .serve button")
    browser.until("document.getElementById('served').textContent.startsWith('Serving epoch 1')")
    browser.click("#index a[href='#/voices']")
    browser.until("document.querySelector('#voice-list li')")
    browser.evaluate("history.back()")
    browser.until("location.hash === '#/compare'")
    assert browser.complaints == []


def test_firefox_shows_every_view_at_a_phones_width(browser: Firefox, world: World, address: str):
    browser.goto(f"{address}/#/speak", 390, 844)
    browser.until("document.getElementById('live').textContent === 'Live'")
    for view in ("voices", "train", "compare", "books", "speak"):
        browser.click(f"#index a[href='#/{view}']")
        browser.until(f"!document.querySelector('[data-view={view}]').hidden")
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390, view
    assert browser.complaints == []
