"""The service against its own OpenAPI document, with every check of schemathesis.

`make test-slow` runs every phase: a hundred examples of each operation take ten minutes.
CONTRACT_EXAMPLES sets another number; a thousand take hours.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.judged_run import write_judged_run
from tests.installed import has

# A text without a letter, a language of another model, a recording with invalid content: no schema
# can express these, and the answer is still a 4xx. 503: it is full. 413: no schema has a size in
# bytes.
ROOT = Path(__file__).parents[2]
NOTES = "notes.jsonl"
FEW = 1
EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "100"))
# Regular expressions of paths. Each part gets a new service, without data from other parts.
OF_EXTRAS = {"books": ("books", "^/v1/books"), "studio": ("datasets", "^/v1/(datasets|trainings)")}
PARTS = {
    **dict(part for extra, part in OF_EXTRAS.items() if has(extra)),
    "voices": "^/v1/voices",
    "runs": "^/v1/runs",
    "speech": "^/(?!v1/(books|datasets|voices|runs|trainings))",
}
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 415, 416, 422, 429, 503, 507]
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503, 507]
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
# A field of a form is a text: what is no name by its type arrives as one.
[[operations]]
include-name = "POST /v1/voices"
checks.negative_data_rejection.enabled = false
[[operations]]
include-name = "POST /v1/voices/{voice_id}/recordings"
checks.negative_data_rejection.enabled = false
[[operations]]
include-path-regex = "^/v1/audio/voice(s|_consents)$"
checks.negative_data_rejection.enabled = false
# Nor is a field that a form leaves empty (`temperature=`) a wrong number: it is left out.
[[operations]]
include-name = "POST /api/tts-generate"
checks.negative_data_rejection.enabled = false
# A training that was cancelled stays in the list.
[[operations]]
include-path-regex = "^/v1/trainings/"
checks.use_after_free.enabled = false
"""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv("FAKE_STEP", "0")
    write_judged_run(tmp_path)
    limits = replace(QUICK, slots=16, queue=64, hang_seconds=60.0)
    with running(settings_in(tmp_path), limits=limits) as opened:
        yield opened


def judged(
    service: Running, folder: Path, examples: int, phases: str, *more: str
) -> subprocess.CompletedProcess[str]:
    """Runs schemathesis with `contract_hooks`. more: arguments, such as `--include-path /tts`.

    /events has no end and is tested in test_run_routes.
    """
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG, encoding="utf-8")
    # The first answer takes the longest, and schemathesis waits for ten seconds.
    assert service.client.get("/openapi.json").status_code == 200
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(config),
            "run",
            f"{service.address}/openapi.json",
            "--phases",
            phases,
            "--max-examples",
            str(examples),
            "--mode",
            "all",
            "--exclude-path",
            "/events",
            "--request-timeout",
            "60",
            "--no-color",
            "--generation-deterministic",
            "--max-response-time",
            "30",
            *more,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.api.contract_hooks",
            "CONTRACT_NOTES": str(folder / NOTES),
        },
    )


def alive_and_unhurt(service: Running) -> None:
    service.wait_ready()
    assert service.state.engine.history.restarts == 0
    assert service.say("hello").status_code == 200
    assert 'code="500"' not in service.metrics()


def declared(service: Running) -> set[tuple[str, str]]:
    """Every operation of the document, with each media type that it declares for success."""
    document = service.client.get("/openapi.json").json()
    return {
        (f"{method.upper()} {path}", media_type)
        for path, operations in document["paths"].items()
        if path != "/events"
        for method, operation in operations.items()
        for status, answer in operation["responses"].items()
        if status.startswith("2")
        for media_type in answer.get("content", {"": {}})
    }


def reached(folder: Path) -> set[tuple[str, str]]:
    """Every operation that succeeded, with each media type of a successful answer."""
    lines = (folder / NOTES).read_text(encoding="utf-8").splitlines()
    return {
        (operation, media_type) for operation, status, media_type in map(json.loads, lines) if status < 300
    }


def test_a_few_examples_of_the_operations_that_speak_and_of_voices(service, tmp_path):
    """Only a few random examples; boundary cases and sequences of calls take half a minute more."""
    paths = ("--include-path-regex", f"{PARTS['voices']}|{PARTS['speech']}")
    done = judged(service, tmp_path, FEW, "examples,fuzzing", *paths)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    alive_and_unhurt(service)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_many_examples_of_each_operation(service, tmp_path, part):
    paths = ("--include-path-regex", PARTS[part])
    done = judged(service, tmp_path, EXAMPLES, "examples,coverage,fuzzing,stateful", *paths)
    print(done.stdout[-2000:])
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    alive_and_unhurt(service)
    # Each operation succeeded at least once, except some: schemathesis is not a browser, which /
    # answers in HTML; the only run is current and cannot be deleted; the one book has files of one
    # type; its bytes are neither a recording nor a voice file, and the fake voice has no base for
    # one (tests/api/routes/test_voice_files.py has both).
    asked = {described for described in declared(service) if re.search(PARTS[part], described[0].split()[1])}
    never = {
        ("GET /", "text/html"),
        ("DELETE /v1/runs/{run_id}", ""),
        ("POST /v1/datasets/{dataset}/recordings", "application/json"),
        ("POST /v1/voices/import", "application/json"),
        ("GET /v1/voices/{voice_id}/file", "application/zip"),
    }
    met = reached(tmp_path)
    any_type = "GET /v1/books/{book}/files/{file}"
    if any_type in {operation for operation, _ in met}:
        never |= {described for described in asked if described[0] == any_type}
    unreached = asked - met - never
    assert asked
    assert sorted(unreached) == []
