"""Wyoming with the embedded voice: the time to the first sound.

Slow: the model computes, and needs the machine to itself.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from wyoming.audio import AudioChunk
from wyoming.tts import Synthesize

from tests.api.conftest import QUICK
from tests.extras.wyoming.conftest import BothPorts, both, send

pytestmark = pytest.mark.slow
TEXT = "Good morning, how did you sleep?"
ROUNDS = int(os.environ.get("WYOMING_ROUNDS", "20"))


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothPorts]:
    folder: Path = tmp_path_factory.mktemp("wyoming")
    limits = replace(QUICK, slots=4, queue=32, deadline_seconds=600.0, hang_seconds=120.0)
    with both(folder, limits=limits, threads=1) as found:
        yield found


def test_its_first_sound_is_as_soon_as_that_of_http(ports):
    """In turns, each on a new connection; the samples are equal."""

    def by_http():
        first, _, sound = ports.http.timed(TEXT)
        return first, sound

    async def ask():
        started, first, sound = time.monotonic(), 0.0, b""
        async with ports.client() as client:
            await send(client, Synthesize(TEXT))
            while (event := await client.read_event()) is not None and event.type != "audio-stop":
                if AudioChunk.is_type(event.type):
                    first = first or time.monotonic() - started
                    sound += event.payload or b""
        return first, sound

    def by_wyoming():
        return asyncio.run(ask())

    by_http(), by_wyoming()
    later = []
    for number in range(ROUNDS):
        order = (by_http, by_wyoming) if number % 2 else (by_wyoming, by_http)
        found = {way: way() for way in order}
        assert found[by_http][1] == found[by_wyoming][1]
        later.append(found[by_wyoming][0] - found[by_http][0])
    print(
        f"first sound {1000 * statistics.median(later):+.1f} ms against HTTP's; all of them "
        f"{[round(1000 * seconds, 1) for seconds in sorted(later)]}"
    )
    assert statistics.median(later) < 0.050
