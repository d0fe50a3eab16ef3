"""Datasets and trainings, for the tests of stores (`tests/api/routes/test_common_limits.py`)."""

import shutil

import httpx

from extras.studio.part import Studio
from tests.api.conftest import Running
from tests.api.sounds import file_of, speech
from tests.api.stores import Store
from tests.extras.studio.datasets.calls import with_tape


def add_dataset(service: Running, name: str) -> httpx.Response:
    return service.client.post("/v1/datasets", json={"name": name, "language": "en"})


def add_job(service: Running, name: str) -> httpx.Response:
    datasets = service.state.part(Studio).datasets
    if not datasets.all():
        add_dataset(service, "spoken")
        clips = datasets.all()[0].clips
        (clips / "wavs").mkdir(parents=True)
        (clips / "wavs" / "a.wav").write_bytes(file_of(speech()))
        (clips / "metadata.csv").write_text("a|one two three\n")
    body = {"run": "my-run", "dataset": datasets.all()[0].id, "settings": {}}
    return service.client.post("/v1/trainings", json=body)


def with_a_dataset(service: Running) -> None:
    """A dataset without a job."""
    add_job(service, "x")
    shutil.rmtree(service.state.settings.queue_dir)


def upload(service: Running) -> httpx.Response:
    (row,) = service.client.get("/v1/datasets").json()["datasets"]
    return service.client.post(f"/v1/datasets/{row['id']}/recordings?name=tape.wav", content=b"x")


def cut(service: Running) -> list[str]:
    """The addresses of a clip and of the table of a cut dataset."""
    dataset = with_tape(service, "cut")
    dataset.cut()
    return [dataset.clips()[0]["sound"], f"/v1/datasets/{dataset.id}/account.csv"]


STORES = [
    Store("/v1/datasets", "dataset", "datasets", add_dataset, grow=upload, changing=cut),
    Store("/v1/trainings", "training", "queue", add_job, prepare=with_a_dataset, deletes=False, named=False),
]
