"""Progress bar, or a log line now and then, while many clips are read.

Called where clips are judged (`train.dataset.dataset`) and where their features are computed.
"""

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

log = logging.getLogger("train")

_TELL_EVERY_SECONDS = 10.0


def with_progress(
    items: Iterable[T], total: int, what: str, *, patience_seconds: float = 0.0
) -> Iterator[T]:
    """The items one by one. Nothing is shown for what takes less than `patience_seconds`."""
    from tqdm import tqdm

    quiet = not sys.stderr.isatty()
    bar = tqdm(items, what, total, unit="clip", disable=quiet, delay=patience_seconds)
    last = time.monotonic()
    for done, item in enumerate(bar):
        if quiet and time.monotonic() - last > _TELL_EVERY_SECONDS:
            log.info("%s: %d of %d clips.", what, done, total)
            last = time.monotonic()
        yield item
