"""The service against its own OpenAPI document: schemathesis with every check, and every phase in
`make test-slow`.

All of the thousand examples take a quarter of an hour; CONTRACT_EXAMPLES says how many otherwise.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.run_folders import write_epoch

# A text without a letter, a language of another model, a recording that is none: no schema can say
# so, and the answer is a 4xx all the same. 503: it is full. 413: no schema has a size in bytes.
EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "1000"))
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 415, 422, 429, 503, 507]
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv("FAKE_STEP", "0")
    for epoch in (1, 2):
        write_epoch(tmp_path / "output", epoch)
    limits = replace(QUICK, slots=16, queue=64, hang=60.0)
    with running(settings_in(tmp_path), limits=limits) as found:
        found.wait_ready()
        yield found


def judged(
    service: Running, folder: Path, examples: int, phases: str
) -> subprocess.CompletedProcess[str]:
    """What schemathesis says. /events has no end, and is tested in test_run_routes."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run",
         f"{service.address}/openapi.json", "--checks", "all",
         "--phases", phases, "--max-examples", str(examples),
         "--mode", "all", "--exclude-path", "/events", "--request-timeout", "60", "--no-color",
         "--generation-deterministic", "--max-response-time", "30"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def alive_and_unhurt(service: Running) -> None:
    service.wait_ready()
    assert service.parts.engine.happened.restarts == 0
    assert service.say("hello").status_code == 200
    assert 'code="500"' not in service.client.get("/metrics").text


def test_a_few_examples_of_each_operation(service: Running, tmp_path: Path) -> None:
    """Two drawn ones; boundary cases and calls in a row take half a minute more."""
    done = judged(service, tmp_path, 2, "examples,fuzzing")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    alive_and_unhurt(service)


@pytest.mark.slow
def test_a_thousand_examples_of_each_operation(service: Running, tmp_path: Path) -> None:
    done = judged(service, tmp_path, EXAMPLES, "examples,coverage,fuzzing,stateful")
    print(done.stdout[-2000:])
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    alive_and_unhurt(service)
