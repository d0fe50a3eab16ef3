"""An evaluated run, a service that follows it, and requests about both."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import PATIENT, Running, running, settings_in
from tests.api.run_folders import candidate, write_epoch, write_evaluated

CANDIDATES = "/v1/runs/current/candidates"


def write_judged_run(folder: Path) -> Path:
    """Writes two epochs, the first of them the best, to `folder`/output."""
    output = folder / "output"
    write_epoch(output, 1, loss=2.5)
    write_epoch(output, 2, loss=1.5)
    epoch = candidate(output, "epoch", 1, 1.0, words=0.8)
    two = candidate(
        output,
        "epoch",
        2,
        1.0,
        words=0.3,
        ruled_out="Two sentences never end.",
        unfinished=2,
        remarks=["It speaks 20 % too fast."],
    )
    write_evaluated(output, epoch, epoch, two)
    return output


@contextmanager
def judged_service(folder: Path) -> Iterator[Running]:
    """A ready service with a fake child and such a run, which it checks ten times a second."""
    write_judged_run(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("api.runs.following.POLL_SECONDS", 0.1)
        with running(settings_in(folder), limits=PATIENT) as service:
            yield service


def rows(service: Running) -> list[dict[str, Any]]:
    """The candidates as /v1/runs lists them; the service checks the folder periodically."""
    run = service.client.get("/v1/runs").json()["runs"][0]
    return run["evaluation"]["candidates"]


def row(service: Running, name: str) -> dict[str, Any]:
    """The row of a candidate that is already listed."""
    return next(row for row in rows(service) if row["id"] == name)


def served(service: Running) -> Any:
    """The served voice according to /v1/runs."""
    return service.client.get("/v1/runs").json()["served"]


def preview(service: Running, name: str, text: str, **more: Any) -> httpx.Response:
    """The answer to a preview request for a candidate of the current run."""
    body = {"input": text, "response_format": "wav", **more}
    return service.client.post(f"{CANDIDATES}/{name}/speech", json=body)
