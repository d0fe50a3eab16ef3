"""A hand on the page: it presses what a person would press, and counts."""

import time
from pathlib import Path
from typing import Any

from tests.api.page.desk import until

# Whether an element is whole in the window, with nothing over its first and last line.
_IN_VIEW = """(one) => {
  const { top, bottom, left, width } = one.getBoundingClientRect();
  const isFree = (y) => {
    const at = document.elementFromPoint(left + Math.min(width / 2, 40), y);
    return at && (one.contains(at) || at.contains(one));
  };
  return top >= 0 && bottom <= innerHeight && isFree(top + 2) && isFree(bottom - 2);
}"""
# For the page to answer a press; a busy machine needs it.
_PATIENCE_SECONDS = 10.0


class Hand:
    """presses; scrolls: to reach what is pressed; unseen: results of a press that are not in the
    window without a scroll."""

    def __init__(self, page: Any, is_touch: bool) -> None:
        self.page, self.is_touch = page, is_touch
        self.presses = 0
        self.scrolls: list[str] = []
        self.unseen: list[str] = []

    def press(self, chosen: str, result: str = "") -> None:
        """Presses an element; `result` is what a person then looks for."""
        one = self._reach(chosen)
        if self.is_touch:
            one.tap()
        else:
            one.click()
        if result:
            self.sees(result, chosen)

    def sees(self, result: str, after: str) -> None:
        """Waits for the result of a press, and notes it if it is not in the window."""
        one = self._visible(result)
        end = time.monotonic() + _PATIENCE_SECONDS
        while not one.evaluate(_IN_VIEW):
            if time.monotonic() > end:
                self.unseen.append(f"{after} -> {result}")
                return
            self.page.wait_for_timeout(50)

    def type(self, field: str, text: str) -> None:
        """Presses a field and types in place of what it holds."""
        self.press(field)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def choose_file(self, field: str, path: Path) -> None:
        """Presses a file field; the system's dialog is not counted."""
        self._reach(field).set_input_files(path)

    def waits(self, expression: str) -> None:
        until(self.page, expression)

    def _visible(self, chosen: str) -> Any:
        one = self.page.locator(f"{chosen} >> visible=true").first
        one.wait_for()
        return one

    def _reach(self, chosen: str) -> Any:
        one = self._visible(chosen)
        if not one.evaluate(_IN_VIEW):
            self.scrolls.append(chosen)
            one.evaluate("(one) => one.scrollIntoView({ block: 'center' })")
        self.presses += 1
        return one
