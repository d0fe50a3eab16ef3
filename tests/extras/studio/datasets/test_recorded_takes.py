"""Takes on disk: stored at once, replaced, deleted, whole after a kill, and read by training."""

import csv
import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api.errors import APIError
from extras.studio.datasets import clips, recorded_takes
from extras.studio.datasets.dataset_store import Datasets, UploadedDataset, changing_dataset
from extras.studio.take_schemas import CheckedTake
from tests.api.sounds import file_of, speech
from tests.forked import in_child
from train.dataset.metadata import read_entries

TEXTS = ("One sentence.", "Another one.", "And a third.")


def found(seconds: float = 2.0, *kinds: str) -> CheckedTake:
    findings = [{"kind": kind, "sentence": f"It is {kind}."} for kind in kinds]
    return CheckedTake.model_validate(
        {"findings": findings, "usable": True, "seconds": seconds, "levels": [-60, -20], "heard": ""}
    )


@pytest.fixture
def datasets(tmp_path: Path) -> Datasets:
    return Datasets(tmp_path / "datasets", 1 << 30)


@pytest.fixture
def dataset(datasets: Datasets) -> UploadedDataset:
    made = datasets.create("Anna", "en")
    recorded_takes.make_prompts(made, "own", TEXTS)
    return made


def keep(datasets: Datasets, dataset: UploadedDataset, number: int, seconds: float = 2.0) -> str:
    wav = file_of(speech(seconds))
    return recorded_takes.keep(datasets, dataset, number, wav, found(seconds)).name


def metadata(dataset: UploadedDataset) -> dict[str, str]:
    with (dataset.clips / "metadata.csv").open(encoding="utf-8") as file:
        return dict(csv.reader(file, delimiter="|"))


def wavs(dataset: UploadedDataset) -> set[str]:
    return {path.name for path in (dataset.clips / "wavs").iterdir()}


def test_each_take_is_at_once_a_clip_that_training_reads(datasets, dataset):
    for number, text in enumerate(TEXTS, start=1):
        name = keep(datasets, dataset, number, 1.5 + number / 10)
        assert metadata(dataset)[name] == text
        read = read_entries(dataset.clips, "auto", "en")
        assert [take.text for take in read] == list(TEXTS[:number])
    assert clips.summary(dataset)["clips"].kept == 3


def test_a_new_take_is_in_the_place_of_the_one_before(datasets, dataset):
    first = keep(datasets, dataset, 2)
    second = keep(datasets, dataset, 2, 3.0)
    assert first != second and wavs(dataset) == {f"{second}.wav"}
    assert list(metadata(dataset)) == [second]
    recorded_takes.forget(dataset, 2)
    assert wavs(dataset) == set() and metadata(dataset) == {}
    with pytest.raises(APIError, match="neither recorded nor skipped"):
        recorded_takes.forget(dataset, 2)


def test_a_sentence_is_skipped_and_read_after_all(datasets, dataset):
    recorded_takes.skip(dataset, 1)
    assert recorded_takes.read_takes(dataset)[1].state == "skipped"
    name = keep(datasets, dataset, 1)
    assert list(metadata(dataset)) == [name]
    with pytest.raises(APIError, match="already recorded"):
        recorded_takes.skip(dataset, 1)
    with pytest.raises(APIError, match="no sentence 4"):
        recorded_takes.skip(dataset, 4)


def test_other_sentences_are_given_only_before_the_first_take(datasets, dataset):
    recorded_takes.skip(dataset, 1)
    recorded_takes.make_prompts(dataset, "own", ("Only one.",))
    assert recorded_takes.read_takes(dataset) == {}
    keep(datasets, dataset, 1)
    with pytest.raises(APIError, match="already recorded"):
        recorded_takes.make_prompts(dataset, "own", TEXTS)


def test_damaged_takes_are_never_taken_for_none(datasets, dataset):
    keep(datasets, dataset, 1)
    (dataset.folder / "takes.json").write_text('{"takes": {"1": 3}}')
    for act in (lambda: keep(datasets, dataset, 2), lambda: recorded_takes.skip(dataset, 2)):
        with pytest.raises(APIError, match=r"takes\.json of this dataset cannot be read"):
            act()
    assert len(metadata(dataset)) == 1


def test_replicas_keep_at_the_same_time_and_lose_nothing(datasets, dataset):
    recorded_takes.make_prompts(dataset, "own", tuple(f"Sentence {number}." for number in range(1, 25)))
    with ThreadPoolExecutor(6) as pool:
        other = Datasets(datasets.folder, 1 << 30)
        list(pool.map(lambda n: keep(other, other.find(dataset.id), n, 1 + n / 50), range(1, 25)))
    assert len(recorded_takes.read_takes(dataset)) == len(metadata(dataset)) == len(wavs(dataset)) == 24


@pytest.mark.parametrize(
    "place",
    [
        "take.sound",
        "take.named",
        "take.published",
        "after replace:takes.json",
        "after replace:clips.jsonl",
        "after replace:metadata.csv",
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_a_kill_anywhere_leaves_what_training_reads_whole(datasets, dataset, place, again):
    kept = {keep(datasets, dataset, 1), *([keep(datasets, dataset, 2)] if again else [])}
    before = metadata(dataset)
    killed = in_child(lambda: keep(datasets, datasets.find("anna"), 2, 3.0), crash_at=place)
    assert killed == -signal.SIGKILL
    # As the kill left it: each name has its sound, and no earlier take is missing.
    now = metadata(dataset)
    assert {f"{name}.wav" for name in now} <= wavs(dataset)
    assert set(now) >= {name for name in kept if name.startswith("0001")}
    assert len(now) >= len(before)
    with changing_dataset(dataset):
        recorded_takes.repair(dataset)
    named = {take.name for take in recorded_takes.read_takes(dataset).values()}
    assert set(metadata(dataset)) == named and wavs(dataset) == {f"{name}.wav" for name in named}
    assert len(read_entries(dataset.clips, "auto", "en")) == len(named)
    rows = (dataset.clips / "clips.jsonl").read_text().splitlines()
    assert {json.loads(row)["name"] for row in rows} == named
