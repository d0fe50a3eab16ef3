"""kill -9 of a service that stores takes, at random: no take that it answered is lost."""

import contextlib
import random
import threading
import time

import httpx
import pytest

from extras.studio.datasets import recorded_takes
from extras.studio.datasets.dataset_store import Datasets
from tests.api.raw import process
from tests.api.sounds import file_of, speech
from tests.ports import free_port
from train.dataset.metadata import read_entries

pytestmark = pytest.mark.slow
KILLS, SENTENCES = 5, 400


def keeps(port: int, answered: list[int], ended: threading.Event) -> None:
    """Sends takes in turn, each with another length, and sometimes replaces the last one."""
    where = f"http://127.0.0.1:{port}/v1/datasets/ana/prompts"
    with contextlib.suppress(httpx.TransportError), httpx.Client(timeout=30) as client:
        number = max(answered, default=0)
        while not ended.is_set() and number < SENTENCES:
            number = number + 1 if number % 4 or random.random() < 0.5 else max(1, number - 1)
            wav = file_of(speech(1.2 + number / 500))
            answer = client.put(f"{where}/{number}/take?keep=1", content=wav)
            assert answer.status_code == 200, answer.text
            answered.append(number)


def test_five_kills_lose_no_take_that_was_answered(tmp_path):
    drawn, answered = random.Random(5), list[int]()
    dataset = None
    for _ in range(KILLS):
        port = free_port()
        command = ("tests.api.stopped_service", str(tmp_path), str(port), "1")
        with process(*command, port=port, folder=tmp_path) as service:
            if dataset is None:
                dataset = Datasets(tmp_path / "datasets", 1 << 30).create("Ana", "pt")
                texts = tuple(f"Frase número {number}." for number in range(1, SENTENCES + 1))
                recorded_takes.make_prompts(dataset, "own", texts)
            before, ended = len(answered), threading.Event()
            sending = threading.Thread(target=keeps, args=(port, answered, ended))
            sending.start()
            end = time.monotonic() + 60
            while len(answered) < before + 2 and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(drawn.uniform(0.0, 1.0))
            service.kill()
            service.wait(30)
            ended.set()
            sending.join(60)
        assert len(answered) >= before + 2
        # As the kill left it.
        takes = recorded_takes.read_takes(dataset)
        assert set(answered) <= set(takes)
        entries = read_entries(dataset.clips, "auto", "pt")
        assert all(entry.path.is_file() for entry in entries)
        numbers = {int(entry.name[:4]) for entry in entries}
        assert set(answered) <= numbers <= set(takes)
    print(f"{len(set(answered))} takes over {KILLS} kills")
