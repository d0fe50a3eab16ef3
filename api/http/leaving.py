"""Work for one response, which ends when its client leaves."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive


async def while_connected(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Runs `work` to its end, or cancels it once the client has disconnected. Raises what `work`
    raises."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
