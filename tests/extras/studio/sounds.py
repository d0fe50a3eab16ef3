"""The routes of the studio that send sound (`tests/api/test_marks.py`): clips of recordings."""

from collections.abc import Callable, Iterator

import httpx

from tests.api.conftest import Running
from tests.extras.studio.datasets.calls import Dataset

Sound = tuple[httpx.Response, bytes | None]


def clip(service: Running) -> Iterator[Sound]:
    dataset = Dataset(service, "Tapes", "en")
    dataset.uploaded("tape.wav")
    dataset.cut()
    yield service.client.get(dataset.clips()[0]["sound"]), None


SPOKEN: dict[tuple[str, str], Callable[[Running], Iterator[Sound]]] = {}
RECORDED = {("GET", "/v1/datasets/{dataset}/clips/{clip}.wav"): clip}
