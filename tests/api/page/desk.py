"""Actions of a test on the page: press, wait, play, speak, check the layout."""

import time
from pathlib import Path
from typing import Any

import pytest

# On a loaded machine an action of one second may take a minute.
PATIENCE_MILLISECONDS = 120_000
CHECKS = (Path(__file__).parent / "checks.js").read_text(encoding="utf-8")
# The service has finished: nothing is generated.
GENERATED = "document.getElementById('stop').disabled"
# The speak box has finished: nothing is generated and nothing plays.
DONE = (
    f"{GENERATED} && (({{ disabled, textContent }}) => !disabled && textContent === 'Play')"
    "(document.getElementById('again'))"
)
# Positions of the desk and the speak box in seconds, and whether the desk is ready to play.
POSITION = "document.getElementById('position').valueAsNumber"
SECONDS = "Number(document.getElementById('spoken-playhead').dataset.seconds)"
WORKS = "!document.getElementById('desk-works').hidden"
DESK = "#desk-works:not([hidden])"
PHONE = {"width": 390, "height": 844}
LOOKS = pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
)
EVIL = "<img src=x onerror=\"document.title='taken'\"><b>bold</b>"


def until(page: Any, expression: str, seconds: float = PATIENCE_MILLISECONDS / 1000) -> None:
    """Waits until a JavaScript expression is true.

    It polls from Python: `page.wait_for_function` evaluates inside the page, whose policy forbids
    it.
    """
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never came true: {expression}"
        page.wait_for_timeout(25)


def go(page: Any, address: str) -> None:
    """Shows a view, or a place in it, as a link would."""
    view, _, place = address.partition("/")
    page.evaluate(f"location.hash = '#/{address}'")
    shown = f"!document.querySelector('[data-view={view}]').hidden"
    until(page, f"{shown} && !document.getElementById('{place}').hidden" if place else shown)


def says(page: Any, element: str, text: str) -> None:
    """Waits until the element with this id has this text."""
    until(page, f"document.getElementById('{element}').textContent === {text!r}")


def position(page: Any) -> float:
    return float(page.evaluate(POSITION))


def play(page: Any, track: str = "output", seconds: float = 0.2) -> None:
    """Plays a track on the desk until its position exceeds `seconds`."""
    page.click(f"#play-{track}")
    until(page, f"{POSITION} > {seconds}")


def seek(page: Any, seconds: float) -> None:
    page.evaluate(f"document.getElementById('position').value = {seconds}")
    page.dispatch_event("#position", "input")


def pressed(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def shows_serving(page: Any, number: int) -> None:
    """Waits until this epoch's row says "Serving"."""
    cell = f"document.querySelector('tr[data-epoch=\"{number}\"] .serving')"
    until(page, f"{cell}.textContent === 'Serving'")


def is_only_words(page: Any) -> bool:
    """Whether no part of EVIL became markup."""
    count = page.evaluate("document.querySelectorAll('img, b').length")
    return count == 0 and page.title().endswith(" - Sotaque")


def say(page: Any, text: str) -> None:
    """Starts the speak box."""
    go(page, "speak")
    page.fill("#text", text)
    page.click("#say")


def speak(page: Any, text: str) -> None:
    """Speaks a text in the speak box to the end."""
    say(page, text)
    until(page, DONE)


def pick(page: Any, of: str, button: str) -> None:
    """Presses a button in the menu of a thing, by keyboard."""
    page.focus(f"[aria-label='More for {of}']")
    page.keyboard.press("Enter")
    page.focus(f"details:has(> [aria-label='More for {of}']) button:text-is('{button}')")
    page.keyboard.press("Enter")


def add_voice(page: Any, recording: Path, name: str) -> None:
    """Uploads a recording through the form."""
    go(page, "voices")
    page.set_input_files("[name=file]", recording)
    page.fill("#voice-form [name=name]", name)
    page.click("#voice-form [type=submit]")


def faults(page: Any, width: int, least_texts: int) -> list[str]:
    """Accessibility faults, and elements that overflow a page of this width.

    The check must have looked at more than `least_texts` texts.
    """
    findings = page.evaluate(CHECKS)
    assert findings["texts"] > least_texts, findings["texts"]
    return findings["faults"] + outside(page, width, "button, input, select, td, dd")


def outside(page: Any, width: int, chosen: str) -> list[str]:
    """Those elements that overflow a page of this width, and whether it scrolls sideways. The
    headings of the evaluation scroll by themselves on a phone."""
    names = page.evaluate(f"""[...document.querySelectorAll("{chosen}")]
      .filter((one) => one.checkVisibility() && !one.closest("#judged-table thead"))
      .filter((one) => one.getBoundingClientRect().right > {width})
      .map((one) => one.id || one.textContent)""")
    scrolls = page.evaluate("document.documentElement.scrollWidth") > width
    return [*names, *(["the page scrolls sideways"] if scrolls else [])]


def too_small(page: Any, chosen: str) -> list[str]:
    """Those elements that are too small for a finger (WCAG 2.5.5: 44 px)."""
    return page.evaluate(f"""[...document.querySelectorAll("{chosen}")]
      .filter((one) => one.checkVisibility())
      .map((one) => [one.id || one.textContent, one.getBoundingClientRect()])
      .filter(([, box]) => Math.min(box.width, box.height) < 43.9).map(([name]) => name)""")
