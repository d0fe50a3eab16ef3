"""A real uvicorn on a free port of loopback, with a fake child or the embedded voice."""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.app import build, child_options
from api.engine.child import ChildOptions
from api.engine.queue import EngineLimits
from api.http.connections import ConnectionLimits
from api.http.server import Server, server_of
from api.settings import ApiSettings
from api.state import AppState
from machine.devices.selection import Environment
from machine.settings.loading import with_extras
from machine.settings.types import fields
from tests.installed import tables

FAKE = "tests.api.fake_child"
FAKE_TRAIN = "tests.api.runs.fake_train"
NO_GPU = Environment(2, False, 8 << 30, False)
QUICK = EngineLimits(
    slots=4,
    queue=8,
    requests_per_minute=None,
    deadline_seconds=5.0,
    hang_seconds=30.0,
    start_seconds=60.0,
    ready_seconds=60.0,
    self_test_seconds=20.0,
)
# On a busy machine, the imports of the first answer stop the server's loop for seconds.
PATIENT = replace(QUICK, deadline_seconds=60.0, hang_seconds=60.0)


@dataclass
class Running:
    """A running server and a client for it."""

    address: str
    state: AppState
    client: httpx.Client
    server: Server

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def status(self) -> Any:
        return self.client.get("/status").json()

    def metrics(self) -> str:
        return self.client.get("/metrics").text

    def counted(self, name: str, **labels: str) -> float:
        """A value of /metrics; 0 if the row is missing."""
        words = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        row = re.escape(f"{name}{{{words}}}" if words else name)
        match = re.search(rf"^{row} (\S+)$", self.metrics(), re.MULTILINE)
        return float(match[1]) if match else 0.0

    def wait_until(self, true: Callable[[], bool], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, self.client.get("/status").text
            time.sleep(0.01)

    def wait_ready(self, seconds: float = 120.0) -> None:
        self.wait_until(lambda: self.state.engine.is_ready, seconds)

    def say(self, text: str, **more: Any) -> httpx.Response:
        form = more.pop("response_format", "wav")
        return self.client.post("/v1/audio/speech", json={"input": text, "response_format": form, **more})

    def timed(self, text: str, **more: Any) -> tuple[float, float, bytes]:
        """Seconds to the first and to the last sound, and all samples."""
        started, first, sound = time.monotonic(), 0.0, b""
        body = {"input": text, "response_format": "pcm", **more}
        with self.client.stream("POST", "/v1/audio/speech", json=body) as answer:
            for chunk in answer.iter_raw():
                first = first or time.monotonic() - started
                sound += chunk
        return first, time.monotonic() - started, sound


def fake_child(settings: ApiSettings) -> ChildOptions:
    """A fake child on a machine without a GPU."""
    return replace(child_options(settings), module=FAKE, look_at_machine=lambda: NO_GPU)


@contextlib.contextmanager
def running(
    settings: ApiSettings,
    how: ChildOptions | None = None,
    limits: EngineLimits = QUICK,
    connections: ConnectionLimits | None = None,
    listeners: Sequence[tuple[Any, Sequence[socket.socket]]] = (),
    children: Mapping[str, str] | None = None,
    ready: bool = True,
    threads: int | None = None,
) -> Iterator[Running]:
    """A service, ready to speak unless `ready` is False.

    The child dies with the thread that starts it, the server's, which ends here. children: the
    module of the children, by the name of an extra's queue; the default is the extra's double.
    threads: a real child with this number of CPU threads.
    """
    how = how or fake_child(settings)
    if threads is not None:
        real = child_options(settings)
        how = replace(
            real, look_at_machine=how.look_at_machine, compute=replace(real.compute, threads=threads)
        )
    app = build(settings, how, limits)
    app.state.service.exports.module = FAKE_TRAIN
    doubles = {name: module for table in tables("doubles") for name, module in table.QUEUES.items()}
    doubles |= children or {}
    for part in app.state.service.extras:
        for name in doubles.keys() & vars(part).keys():
            getattr(part, name).module = doubles[name]
            # At the lowest priority it would take minutes next to other tests.
            getattr(part, name).niceness = 0
    # With a protocol, as uvicorn's own: otherwise asyncio does not disable Nagle's algorithm.
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = server_of(app, connections, listeners)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive() and time.monotonic() < end
            time.sleep(0.01)
        try:
            with httpx.Client(base_url=address, timeout=120.0, trust_env=False, verify=False) as client:
                service = Running(address, app.state.service, client, server)
                if ready:
                    service.wait_ready(300)
                yield service
        finally:
            server.should_exit = True
            thread.join(30)


def settings_in(folder: Path, **more: Any) -> ApiSettings:
    """Settings that write everything into `folder`."""
    kind = with_extras(ApiSettings)
    folders = ("output_dir", "voices_dir", "datasets_dir", "queue_dir", "books_dir")
    given = {name: folder / name.removesuffix("_dir") for name in folders if name in fields(kind)}
    return kind(**given | more)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    """A ready service with a fake child."""
    with running(settings_in(tmp_path)) as opened:
        yield opened


@pytest.fixture(scope="module")
def service_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """For `shared_service`: a ready service with a fake child, and its folder."""
    folder = tmp_path_factory.mktemp("shared")
    with running(settings_in(folder), limits=PATIENT) as service:
        yield service, folder


@pytest.fixture
def shared_service(service_of_module: tuple[Running, Path]) -> Iterator[Running]:
    """One service for the tests of a module that change no file of it and do not end its child."""
    opened, folder = service_of_module
    engine = opened.state.engine
    before = files_in(folder), engine.child, engine.target
    yield opened
    assert (files_in(folder), engine.child, engine.target) == before


def files_in(folder: Path) -> dict[Path, bytes]:
    """The files below a folder with their contents, except locks, which stay."""
    every = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in every if not path.name.endswith(".lock")}


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with the embedded voice, as on a fresh clone; one for the session."""
    settings = settings_in(tmp_path_factory.mktemp("real"))
    limits = replace(QUICK, deadline_seconds=120.0, hang_seconds=60.0, queue=32)
    with running(settings, limits=limits, threads=1) as service:
        yield service
