"""/v1/trainings: a request becomes a job, and its progress is reported."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extras.studio.__main__ import hold_unbegun
from extras.studio.jobs.trainer import next_job
from extras.studio.training_jobs import TrainingQueue
from machine.storage import locks
from tests.api.conftest import Running, running, settings_in
from tests.api.judged_run import PATIENT, write_judged_run
from tests.api.run_folders import write_epoch

PATH = "/v1/trainings"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("studio")
    (found / "data" / "ana").mkdir(parents=True)
    write_judged_run(found)
    return found


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("api.runs.following.POLL_SECONDS", 0.1)
        settings = settings_in(folder, dataset_roots=(str(folder / "data"),))
        with running(settings, limits=PATIENT) as found:
            yield found


@pytest.fixture(autouse=True)
def _empty(folder: Path) -> Iterator[None]:
    yield
    shutil.rmtree(folder / "queue", ignore_errors=True)


def ask(service: Running, folder: Path, run: str = "ana", **settings: str) -> Any:
    body = {"run": run, "dataset": str(folder / "data" / "ana"), "settings": settings}
    return service.client.post(PATH, json=body)


def test_what_is_asked_for_is_a_job_that_the_trainer_reads(service, folder):
    answer = ask(service, folder, NUM_EPOCHS="2")
    assert answer.status_code == 201, answer.text
    row = answer.json()
    assert (row["state"], row["run"], row["ahead"]) == ("queued", "ana", 0)
    (job,) = TrainingQueue(folder / "queue").jobs()
    assert job.read().settings == {"NUM_EPOCHS": "2"} and job.id == row["id"]
    assert ask(service, folder, "ben").json()["ahead"] == 1
    listed = service.client.get(PATH).json()
    assert [training["run"] for training in listed["trainings"]] == ["ben", "ana"]
    assert listed["allowed"] is True and listed["trainer"] is False
    assert "train queue" in listed["message"]
    # The answer says at once that no trainer runs.
    assert row["message"] == listed["message"]
    assert service.client.get(f"{PATH}/{row['id']}").json() == row | {"message": ""}


def test_the_answer_tells_whether_a_trainer_works(service, folder):
    with locks.exclusive(folder / "queue" / ".trainer.lock"):
        assert ask(service, folder).json()["message"] == ""
        listed = service.client.get(PATH).json()
    assert listed["trainer"] is True and listed["message"] == ""


def test_progress_is_that_of_the_newest_step(service, folder):
    row = ask(service, folder).json()
    job = TrainingQueue(folder / "queue").get(row["id"])
    assert job is not None
    job.write_state(state="running", started="2026-01-01T00:00:00+00:00")
    run = folder / "output" / "runs" / "ana"
    run.mkdir(parents=True)
    steps = [
        {
            "kind": "train",
            "epoch": 1,
            "step": step,
            "loss": 4.0 - step,
            "progress": {"epochs": 3, "epoch_step": step, "epoch_steps": 9, "seconds_left": 60.0},
        }
        for step in (1, 2)
    ]
    lines = [json.dumps(entry) for entry in (*steps, {"kind": "validation", "epoch": 1, "step": 2})]
    (run / "metrics.jsonl").write_text("\n".join([*lines, '{"kind": "tra']))
    told = service.client.get(f"{PATH}/{row['id']}").json()
    assert told["progress"] == {
        "epoch": 1,
        "epochs": 3,
        "step": 2,
        "steps": 9,
        "seconds_left": 60.0,
        "loss": 2.0,
        "phase": "",
    }
    phases = [
        json.dumps({"kind": "phase", "epoch": 1, "step": 2, "phase": phase})
        for phase in ("saving", "judging")
    ]
    (run / "metrics.jsonl").write_text("\n".join([*lines, *phases, ""]))
    told = service.client.get(f"{PATH}/{row['id']}").json()
    assert told["progress"]["phase"] == "judging" and told["progress"]["step"] == 2
    (run / "metrics.jsonl").write_text("\n".join([*lines[:1], *phases, lines[1], ""]))
    assert service.client.get(f"{PATH}/{row['id']}").json()["progress"]["phase"] == ""
    shutil.rmtree(run)


def test_the_training_of_a_dead_trainer_is_interrupted_and_can_be_cancelled(service, folder):
    """A killed trainer leaves the state of its job as it was."""
    row = ask(service, folder).json()
    job = TrainingQueue(folder / "queue").get(row["id"])
    assert job is not None
    job.write_state(state="running")
    with locks.exclusive(folder / "queue" / ".trainer.lock"):
        assert service.client.get(f"{PATH}/{row['id']}").json()["state"] == "running"
    told = service.client.get(f"{PATH}/{row['id']}").json()
    assert told["state"] == "interrupted" and "died" in told["message"]
    told = service.client.delete(f"{PATH}/{row['id']}").json()
    assert (told["state"], told["cancelling"]) == ("cancelled", False)


def test_a_training_of_before_is_held_until_somebody_starts_it(service, folder, capsys):
    queue = TrainingQueue(folder / "queue")
    before, begun = (ask(service, folder, run).json()["id"] for run in ("before", "begun"))
    begun_job = queue.get(begun)
    assert begun_job is not None
    begun_job.write_state(state="interrupted")
    with locks.exclusive(queue.lock_file):
        hold_unbegun([f"--queue-dir={queue.folder}"])
    assert capsys.readouterr().out == ""
    hold_unbegun([f"--queue-dir={queue.folder}"])
    assert "The training before was queued before." in capsys.readouterr().out
    rows = {training["id"]: training["held"] for training in service.client.get(PATH).json()["trainings"]}
    assert rows == {before: True, begun: False}
    assert (found := next_job(queue)) is not None and found.id == begun
    begun_job.write_state(state="done")
    assert next_job(queue) is None
    assert not service.client.post(f"{PATH}/{before}/start").json()["held"]
    assert (found := next_job(queue)) is not None and found.id == before


def test_cancelling_leaves_a_word_for_the_trainer(service, folder):
    row = ask(service, folder).json()
    told = service.client.delete(f"{PATH}/{row['id']}").json()
    assert told["state"] == "cancelled" and (folder / "queue" / row["id"] / "cancel").exists()
    running_job = ask(service, folder).json()
    job = TrainingQueue(folder / "queue").get(running_job["id"])
    assert job is not None
    job.write_state(state="running")
    with locks.exclusive(folder / "queue" / ".trainer.lock"):
        told = service.client.delete(f"{PATH}/{running_job['id']}").json()
    assert (told["state"], told["cancelling"]) == ("running", True)
    job.write_state(state="done")
    assert service.client.delete(f"{PATH}/{running_job['id']}").json()["state"] == "done"


def test_what_no_job_may_ask_for_is_refused_at_once(service, folder):
    asked = (
        ({"dataset": "/etc"}, "not below a folder"),
        ({"dataset": "no-such"}, "no dataset"),
        ({"settings": {"DEVICE": "cpu"}}, "'DEVICE' is not a setting of a job"),
        ({"settings": {"NUM_EPOCHS": "many"}}, "NUM_EPOCHS is 'many'"),
        ({"settings": {"BASE_MODEL": "/models/x"}}, "BASE_MODEL"),
        ({"run": "current"}, "is taken"),
        ({"run": "../x"}, "run"),
        ({"command": "rm"}, "not a field"),
        ({"settings": {"SEED": 3}}, "should be a valid string"),
    )
    for changed, expected in asked:
        body = {"run": "ana", "dataset": str(folder / "data" / "ana"), **changed}
        answer = service.client.post(PATH, json=body)
        assert answer.status_code == 422 and expected in answer.text, (changed, answer.text)
        assert TrainingQueue(folder / "queue").jobs() == []


@pytest.mark.parametrize("limit", ["MAX_JOBS", "MAX_OPEN_JOBS"])
def test_a_full_queue_is_told_by_a_code(service, folder, monkeypatch, limit):
    monkeypatch.setattr(f"extras.studio.training_jobs.{limit}", 0)
    body = {"run": "ana", "dataset": str(folder / "data" / "ana")}
    answer = service.client.post(PATH, json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_trainings")
    assert "the limit" in answer.json()["detail"]


def test_a_link_below_a_root_leads_nowhere_else(service, folder):
    outside = folder / "outside"
    for name in ("metadata.csv", "clips/metadata.csv"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text("a|This is nobody's business.\n")
    (folder / "data" / "link").symlink_to(outside)
    (folder / "datasets").mkdir(exist_ok=True)
    (folder / "datasets" / "link").symlink_to(outside)
    for name in (str(folder / "data" / "link"), str(folder / "data" / "ana/../../outside"), "link"):
        for path, body in ((PATH, {"run": "ana", "dataset": name}), (f"{PATH}/check", {"dataset": name})):
            answer = service.client.post(path, json=body)
            assert answer.status_code == 422, answer.text
            assert "business" not in answer.text
    assert TrainingQueue(folder / "queue").jobs() == []


def test_a_job_written_by_hand_with_nonsense_is_listed_with_its_fault(service, folder):
    job = folder / "queue" / "20260101-x"
    job.mkdir(parents=True)
    (job / "job.json").write_text('{"command": "rm"}')
    (row,) = service.client.get(PATH).json()["trainings"]
    assert row["state"] == "failed" and "command: Unexpected" in row["message"]


def test_an_unknown_training_is_a_404(service):
    for method in ("GET", "DELETE"):
        assert service.client.request(method, f"{PATH}/nothing").json()["code"] == "no_training"


def test_a_dataset_is_checked_and_its_doubtful_clips_are_told(service, folder, monkeypatch):
    body = {"dataset": str(folder / "data" / "ana"), "settings": {"LANGUAGE": "pt"}}
    found = service.client.post(f"{PATH}/check", json=body).json()
    assert (found["clips"], found["refused"][0]["clip"]) == (9, "a")
    told = found["suspects"][0]["reasons"]
    assert "--json" in told and "--language=pt" in told and "--dataset-format=auto" in told
    monkeypatch.setenv("FAKE_TRAIN", "refuse")
    answer = service.client.post(f"{PATH}/check", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_dataset")
    assert "/some/where" not in answer.text
    body["dataset"] = "/etc"
    assert service.client.post(f"{PATH}/check", json=body).status_code == 422


def test_with_a_key_trainings_are_off_until_the_setting_says_so(tmp_path):
    (tmp_path / "data" / "ana").mkdir(parents=True)
    key, roots = "a-key", (str(tmp_path / "data"),)
    for word, status in (("auto", 403), ("on", 201)):
        settings = settings_in(tmp_path, api_key=key, api_allow_training=word, dataset_roots=roots)
        with running(settings) as service:
            assert ask(service, tmp_path).status_code == 401
            service.client.headers["Authorization"] = f"Bearer {key}"
            answer = ask(service, tmp_path)
            assert answer.status_code == status
            listed = service.client.get(PATH).json()
            assert listed["allowed"] is (status == 201)
            if status == 403:
                assert answer.json()["code"] == "training_off" and "make train" in answer.text


def test_runs_of_the_queue_are_listed_promoted_and_heard(service, folder):
    run = folder / "output" / "runs" / "ana"
    write_epoch(run, 7, loss=2.0)
    follower = service.state.follower
    service.wait_until(lambda: "ana" in follower.runs and follower.runs["ana"].epochs[7].state == "whole")
    rows = {run["id"]: run for run in service.client.get("/v1/runs").json()["runs"]}
    assert (rows["ana"]["kind"], rows["current"]["kind"]) == ("named", "current")
    body = {"input": "Hello.", "response_format": "wav"}
    heard = service.client.post("/v1/runs/ana/candidates/epoch_7/speech", json=body)
    assert heard.status_code == 200, heard.text
    promoted = service.client.post("/v1/runs/ana/epochs/7/promote")
    assert promoted.json()["served"]["run"] == "ana", promoted.text
    with locks.exclusive(run / ".lock"):
        service.wait_until(lambda: service.state.follower.runs["ana"].is_training)
    service.client.delete("/v1/promotion").raise_for_status()


def test_a_run_that_waits_for_its_training_is_not_deleted(service, folder):
    run = folder / "output" / "runs" / "waiting"
    write_epoch(run, 7)
    service.wait_until(lambda: "waiting" in service.state.follower.runs)
    job = TrainingQueue(folder / "queue").get(ask(service, folder, "waiting").json()["id"])
    assert job is not None
    answer = service.client.delete("/v1/runs/waiting")
    assert answer.status_code == 409 and "A training of this run is queued" in answer.json()["detail"]
    job.cancel()
    answer = service.client.delete("/v1/runs/waiting")
    assert answer.status_code == 204, answer.text
