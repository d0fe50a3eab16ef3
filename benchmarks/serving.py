"""`python -m benchmarks serving` measures a service at rest and its first byte.

A real service speaks the embedded voice, once with each backend. At rest, after one sentence, the
proportional set size (PSS: shared pages count once) of its processes is read. Then sentences are
requested one after another, and eight at once; a request's time ends with its first byte of audio.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks import measuring, texts

BACKENDS = ("torch", "onnx")
CONCURRENT_REQUESTS = 8
MAX_START_SECONDS = 180.0
# The name of each process of the service, by its command line.
ROLES = {"xtts.workers.server_main": "speaking", "xtts.workers.text_worker": "text"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=10, help="rounds of eight requests")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Figures of each backend."""
    figures: dict[str, object] = {}
    for backend in BACKENDS:
        with tempfile.TemporaryDirectory() as name, start_service(Path(name), backend) as (pid, url):
            figures[backend] = measure(pid, url, arguments.rounds)
    return figures


@contextmanager
def start_service(folder: Path, backend: str) -> Iterator[tuple[int, str]]:
    """A service that is ready: its process id and its address. Raises ChildFailed."""
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port = free_socket.getsockname()[1]
    settings = [f"--output-dir={folder / 'output'}", f"--backend={backend}", f"--api-port={port}"]
    command = [sys.executable, "-m", "api", *settings]
    url, log = f"http://127.0.0.1:{port}", folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + MAX_START_SECONDS
        while not _is_ready(url):
            if process.poll() is not None or time.monotonic() > deadline:
                lines = log.read_text(errors="replace").splitlines()
                raise measuring.ChildFailed(f"The service is not ready: {lines[-1:]}")
            time.sleep(0.2)
        yield process.pid, url
    finally:
        process.terminate()
        process.wait()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def measure(pid: int, url: str, rounds: int) -> dict[str, object]:
    """Memory at rest in MB; medians and 95th percentiles of the milliseconds to the first byte."""
    sentences = texts.sentences("choosing")[:CONCURRENT_REQUESTS]
    first_byte_ms(url, sentences[0])
    memory = memory_mb(pid)
    alone = [first_byte_ms(url, text) for _ in range(rounds) for text in sentences]
    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        together = [
            milliseconds
            for _ in range(rounds)
            for milliseconds in pool.map(lambda text: first_byte_ms(url, text), sentences)
        ]
    return {
        "memory_mb": memory,
        "first_byte_ms": {"alone": percentiles(alone), "eight": percentiles(together)},
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The median and the 95th percentile."""
    p50, p95 = statistics.median(values), statistics.quantiles(values, n=20)[-1]
    return {"p50": round(p50, 1), "p95": round(p95, 1)}


def first_byte_ms(url: str, text: str) -> float:
    """Milliseconds until the first byte of a text's audio. Reads the response to its end."""
    body = json.dumps({"input": text, "response_format": "pcm"}).encode()
    request = urllib.request.Request(f"{url}/v1/audio/speech", body, {"Content-Type": "application/json"})
    started_at = time.perf_counter()
    with urllib.request.urlopen(request, timeout=120) as response:
        response.read(1)
        milliseconds = 1e3 * (time.perf_counter() - started_at)
        response.read()
    return milliseconds


def memory_mb(pid: int) -> dict[str, float]:
    """The PSS of each process of a service, by what it does, and of all."""
    sizes: dict[str, float] = {}
    service = psutil.Process(pid)
    for process in (service, *service.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            words = " ".join(process.cmdline())
            role = next((role for module, role in ROLES.items() if module in words), "API")
            sizes[role] = sizes.get(role, 0.0) + process.memory_full_info().pss / 1e6
    return {name: round(size) for name, size in (sizes | {"all": sum(sizes.values())}).items()}
