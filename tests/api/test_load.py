"""Three times its capacity in an open model, and what HTTP adds to the engine.

Requests arrive whether or not others are answered. Slow: it takes a minute and needs an idle
machine.
"""

import asyncio
import contextlib
import gc
import re
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.api.conftest import running, settings_in
from tests.api.raw import process, request
from tests.ports import free_port

pytestmark = pytest.mark.slow

# 25 chunks of 5 ms and more, four at once: some 20 requests a second.
STEP, TEXT, SLOTS = 0.005, "load " * 5, 4
DEADLINE, SECONDS = 3.0, 15.0
PAGE = resource.getpagesize()
BUSY = ("waiting", "speaking")


@dataclass(frozen=True)
class Answered:
    status: int
    first_seconds: float
    retry_after: str | None


@contextlib.contextmanager
def without_pauses() -> Iterator[None]:
    """Keeps the garbage collector out of the measurement.

    A pass over everything that pytest has imported takes 0.2 s and more, and would count as the
    service's time.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


async def ask(port: int, seed: int) -> Answered:
    """Sends one request and notes when its answer began.

    Over a plain socket: httpx's pool takes longer to find a connection than the service to answer.
    """
    body = {"input": TEXT, "response_format": "pcm", "seed": seed}
    started = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request("POST /v1/audio/speech", body, connection="close"))
    answer = (await reader.readuntil(b"\r\n\r\n")).decode()
    first = time.monotonic() - started
    await reader.read()
    writer.close()
    retry = re.search(r"retry-after: (\S+)", answer, re.IGNORECASE)
    return Answered(int(answer.split()[1]), first, retry and retry[1])


async def loaded(port: int) -> list[Answered]:
    """The answers to three times as many requests as the service can answer, evenly spaced."""
    started = time.monotonic()
    for number in range(10):
        await asyncio.gather(*(ask(port, 4 * number + seed) for seed in range(SLOTS)))
    rate = 3 * 10 * SLOTS / (time.monotonic() - started)
    tasks, begun = [], time.monotonic()
    for number in range(int(rate * SECONDS)):
        await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
        tasks.append(asyncio.create_task(ask(port, number)))
    return list(await asyncio.gather(*tasks))


def test_three_times_too_much(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_STEP", str(STEP))
    port = free_port()
    limits = (str(SLOTS), "32", str(DEADLINE))  # as many as may wait by default
    command = ("tests.api.stopped_service", str(tmp_path), str(port), *limits)
    with process(*command, port=port, folder=tmp_path) as service, without_pauses():
        before = _peak_kilobytes(service.pid)
        status = f"http://127.0.0.1:{port}/status"
        result = asyncio.run(loaded(port))
        ended = time.monotonic()
        while any(httpx.get(status).json()["queue"][outcome] for outcome in BUSY):
            assert time.monotonic() - ended < 5
            time.sleep(0.05)
        grown = _peak_kilobytes(service.pid) - before
    accepted = sorted(outcome.first_seconds for outcome in result if outcome.status == 200)
    refused = sorted(outcome.first_seconds for outcome in result if outcome.status == 503)
    print(f"{len(accepted)} spoken, {len(refused)} refused, {grown} kB more")
    print(
        [
            [round(times[int(share * len(times))], 3) for share in (0.5, 0.9, 0.95, 0.99)]
            for times in (accepted, refused)
        ]
    )
    assert len(accepted) + len(refused) == len(result) and len(refused) > len(accepted) / 2
    assert accepted[int(0.99 * len(accepted))] < DEADLINE
    assert refused[int(0.99 * len(refused))] < 0.1
    assert all(int(outcome.retry_after or 0) >= 1 for outcome in result if outcome.status == 503)
    assert grown < 50 << 10


def test_ten_thousand_odd_inputs_cost_no_memory(tmp_path):
    with running(settings_in(tmp_path)) as service:
        odd = [
            b"{",
            b"[]",
            b'{"input": ""}',
            b'{"input": "\\ud800"}',
            b'{"input": "\\u0000"}',
            b'{"input": "x", "voice": "../x"}',
            b'{"input": 1e999}',
            b"\xff" * 100,
        ]
        sizes = []
        headers = {"content-type": "application/json"}

        def send(number):
            content = odd[number % len(odd)]
            answer = service.client.post("/v1/audio/speech", content=content, headers=headers)
            return answer.status_code

        for _ in range(2):
            with ThreadPoolExecutor(8) as pool:
                statuses = set(pool.map(send, range(5_000)))
            assert max(statuses) < 500, statuses
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE)
        assert sizes[1] - sizes[0] < 20 << 20
        assert service.state.engine.history.restarts == 0


def _peak_kilobytes(process: int) -> int:
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert match is not None
    return int(match[1])
