"""Jobs of the training queue are read strictly: invalid ones are refused by name and not run."""

import errno
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from extras.studio.jobs import trainer
from extras.studio.training_jobs import (
    ALLOWED_SETTINGS,
    JobRefused,
    QueueFull,
    TrainingQueue,
    check_base,
    dataset_folder,
)
from machine.settings.loading import with_extras
from tests.extras.studio.jobs import FAKE
from train.settings import TrainSettings, load

# Including the studio's settings.
SETTINGS: Any = with_extras(TrainSettings)

IDENTITY = "20260101-000000-000-ana"
GOOD: dict[str, Any] = {
    "id": IDENTITY,
    "run": "ana",
    "dataset": "ana",
    "settings": {"NUM_EPOCHS": "2"},
    "asked": "2026-01-01T00:00:00+00:00",
}
NONSENSE: dict[str, tuple[Any, str]] = {
    "a list": ([1], "is not a valid job. Input should be an object"),
    "an unknown key": ({**GOOD, "priority": 9}, "priority: Unexpected"),
    "a command": ({**GOOD, "command": ["rm", "-rf", "/"]}, "command: Unexpected"),
    "a missing key": ({k: v for k, v in GOOD.items() if k != "run"}, "run: Field required"),
    "a number for a name": ({**GOOD, "run": 7}, "run: Input should be a valid string"),
    "another id": ({**GOOD, "id": "x"}, "says that its id is 'x'"),
    "a run that is a path": ({**GOOD, "run": "../../etc"}, "name of the run"),
    "the name of the current run": ({**GOOD, "run": "current"}, "`current` is taken"),
    "an empty dataset": ({**GOOD, "dataset": ""}, "neither an id nor a path"),
    "a dataset with a zero": ({**GOOD, "dataset": "a\0b"}, "neither an id nor a path"),
    "settings that are a list": ({**GOOD, "settings": []}, "settings: Input should be an object"),
    "a setting that is a number": ({**GOOD, "settings": {"SEED": 3}}, "SEED: Input should"),
    "a device": ({**GOOD, "settings": {"DEVICE": "cpu"}}, "'DEVICE' is not a setting of a job"),
    "a folder to write": ({**GOOD, "settings": {"OUTPUT_DIR": "/"}}, "'OUTPUT_DIR' is not"),
    "an option": ({**GOOD, "settings": {"--help": ""}}, "'--help' is not"),
    "a value of two lines": ({**GOOD, "settings": {"SAMPLE_TEXT": "a\nb"}}, "SAMPLE_TEXT"),
    "a long value": ({**GOOD, "settings": {"SAMPLE_TEXT": "a" * 3000}}, "SAMPLE_TEXT"),
    "no time": ({**GOOD, "asked": "yesterday"}, "which is not a time"),
}
RAW: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"rm -rf /", "Invalid JSON"),
    "no text": (b"\xff\xfe\x00", "Invalid JSON"),
    "nothing": (b"", "Invalid JSON"),
    "fifty megabytes": (b" " * 50_000_000, "50,000,000 bytes"),
    "brackets": (b"[" * 60_000, "Invalid JSON"),
}


@pytest.fixture
def settings(tmp_path: Path) -> TrainSettings:
    return SETTINGS(
        queue_dir=tmp_path / "queue",
        output_dir=tmp_path / "output",
        datasets_dir=tmp_path / "datasets",
        dataset_roots=(str(tmp_path / "data"),),
    )


def refused(settings: TrainSettings, write: Any) -> str:
    """Gives a trainer a job written by hand; returns the message of its state. Nothing runs."""
    folder = settings.queue_dir / IDENTITY
    folder.mkdir(parents=True)
    write(folder / "job.json")
    assert trainer.run(settings, once=True, module=FAKE) == 0
    (job,) = TrainingQueue(settings.queue_dir).jobs()
    state = job.state()
    assert state.state == "failed"
    assert not (settings.output_dir / "calls.txt").exists()
    return state.message


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_refused_by_name_and_nothing_runs(what, settings):
    content, expected = NONSENSE[what]
    message = refused(settings, lambda path: path.write_text(json.dumps(content)))
    assert re.search(expected, message), message


@pytest.mark.parametrize("what", RAW)
def test_what_is_no_small_json_object_is_refused(what, settings):
    content, expected = RAW[what]
    message = refused(settings, lambda path: path.write_bytes(content))
    assert re.search(expected, message), message


def test_a_link_is_not_followed(settings, tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(GOOD))
    assert "not a plain file" in refused(settings, lambda path: path.symlink_to(outside))


def test_a_pipe_does_not_hold_up_the_trainer(settings):
    assert "not a plain file" in refused(settings, os.mkfifo)


def test_a_linked_folder_is_no_job(settings, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "job.json").write_text(json.dumps(GOOD))
    settings.queue_dir.mkdir()
    (settings.queue_dir / IDENTITY).symlink_to(outside)
    assert trainer.run(settings, once=True, module=FAKE) == 0
    assert not (outside / "state.json").exists() and not settings.output_dir.exists()


def test_a_state_of_an_older_trainer_is_read(settings):
    """One from before a job said in a field what it waits for."""
    queue = TrainingQueue(settings.queue_dir)
    job = queue.get(queue.ask("ana", "ana", {}).id)
    assert job is not None
    before = asdict(job.write_state(state="interrupted", message="It was stopped."))
    del before["waits_for"]
    job.state_file.write_text(json.dumps(before))
    assert (job.state().state, job.state().sentence) == ("interrupted", "It was stopped.")


@pytest.mark.parametrize("content", ["{}", "[]", '{"state": "running"}', "\0", '{"state": "dancing"}'])
def test_a_state_that_no_trainer_wrote_runs_nothing(content, settings):
    queue = TrainingQueue(settings.queue_dir)
    job = queue.get(queue.ask("ana", "ana", {}).id)
    assert job is not None
    job.state_file.write_text(content)
    assert job.state().state == "failed" and job.state().message
    assert trainer.run(settings, once=True, module=FAKE) == 0
    assert not settings.output_dir.exists()


@pytest.mark.parametrize(
    "dataset",
    [
        "/etc",
        "../../etc",
        "data/../../etc",
        "~root",
        "~nobody-at-all",
        "/",
        ".",
        "x" * 999,
        "a/" + "b" * 5000,
    ],
)
def test_a_dataset_cannot_leave_its_roots(dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    with pytest.raises(JobRefused, match=r"not below a folder|no dataset"):
        dataset_folder(dataset, tmp_path / "datasets", ("data",))


def test_a_link_inside_a_root_leads_nowhere_else(tmp_path):
    for name in ("data", "outside/clips", "datasets"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "datasets" / "ana").symlink_to(tmp_path / "outside")
    for dataset in (str(tmp_path / "data" / "link"), "ana"):
        with pytest.raises(JobRefused):
            dataset_folder(dataset, tmp_path / "datasets", (str(tmp_path / "data"),))


def test_datasets_are_found_by_id_and_below_a_root(tmp_path):
    for name in ("data/ana", "datasets/ana/clips"):
        (tmp_path / name).mkdir(parents=True)
    roots = (str(tmp_path / "data"),)
    uploaded = dataset_folder("ana", tmp_path / "datasets", roots)
    assert uploaded == (tmp_path / "datasets/ana/clips").resolve()
    below = dataset_folder(str(tmp_path / "data/ana"), tmp_path / "datasets", roots)
    assert below == (tmp_path / "data/ana").resolve()


def test_in_a_folder_without_it_the_demo_dataset_is_the_packages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings, _ = load((), {}, None)
    found = dataset_folder("train/data/demo", settings.datasets_dir, settings.dataset_roots)
    assert (found / "metadata.csv").is_file()
    with pytest.raises(JobRefused):
        dataset_folder("train/data/../../machine", settings.datasets_dir, settings.dataset_roots)


def test_a_job_may_name_the_base_of_the_trainer_and_no_other():
    for base in ("demo", "xtts_v2", "/models/mine", ""):
        check_base({"BASE_MODEL": base}, "/models/mine")
    with pytest.raises(JobRefused, match=r"own \.env"):
        check_base({"BASE_MODEL": "/models/other"}, "/models/mine")


def test_every_allowed_setting_is_one(settings):
    names = {name.upper() for name in vars(settings)}
    assert names >= ALLOWED_SETTINGS
    assert not [name for name in ALLOWED_SETTINGS if name.endswith(("_DIR", "_ROOTS"))]


def test_ids_keep_the_order_and_a_full_queue_is_refused(settings, monkeypatch):
    queue = TrainingQueue(settings.queue_dir)
    asked = [queue.ask(f"run-{number}", "ana", {}).id for number in range(3)]
    assert [job.id for job in queue.jobs()] == sorted(asked)
    monkeypatch.setattr("extras.studio.training_jobs.MAX_JOBS", 3)
    with pytest.raises(QueueFull, match="the limit"):
        queue.ask("one-more", "ana", {})
    assert queue.get("../queue") is None and queue.get(asked[0]) is not None


def test_a_job_that_cannot_be_kept_leaves_nothing(tmp_path, monkeypatch):
    queue = TrainingQueue(tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("replace", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            patch.setattr(Path, name, full)
            with pytest.raises(Exception, match="No space left"):
                queue.ask("my-run", "some", {})
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".new-")]
    assert queue.ask("my-run", "some", {}).run == "my-run"
