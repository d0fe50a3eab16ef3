"""Runs, samples, curves and promotion, with a run folder that grows while the service is up."""

import asyncio
import errno
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from api.errors import APIError
from api.routes.ranged_file import wav_file
from api.runs import listing, promotion
from machine.storage.checksums import read_manifest
from tests.api.conftest import Running, running, settings_in
from tests.api.dialects.heard import said
from tests.api.run_folders import write_epoch
from xtts.voices.run_folder import RunFolder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    write_epoch(folder, 1, loss=2.5)
    write_epoch(folder, 2, loss=1.5)
    write_epoch(folder / "archive" / "20260101T000000Z", 7, content=b"an older run")
    return folder


@pytest.fixture
def service(output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr("api.runs.following.LOOK_SECONDS", 0.1)
    with running(settings_in(tmp_path)) as found:
        yield found


def speaks(run: str, epoch: int) -> dict[str, Any]:
    """What is served, where it is an epoch."""
    return {"run": run, "epoch": epoch, "candidate": f"epoch_{epoch}"}


def served(service: Running) -> Any:
    return service.client.get("/v1/runs").json()["served"]


def test_the_newest_epoch_speaks_and_the_list_says_so(service: Running) -> None:
    found = service.client.get("/v1/runs").json()
    assert found["served"] == speaks("current", 2) and not found["promoted"]
    current, archived = found["runs"]
    assert (current["id"], archived["id"]) == ("current", "20260101T000000Z")
    assert not current["training"]
    one, two = current["epochs"]
    assert (one["epoch"], one["is_served"], two["is_served"], two["is_best"]) == (1, False, True,
                                                                                  True)  # fmt: skip
    assert two["sample"]["output"] == "/v1/runs/current/epochs/2/output.wav"
    assert (two["validation_loss"], two["train_loss"]) == (1.5, 19.5)
    assert service.client.get("/status").json()["voice"].startswith("epoch 2 ")
    service.wait_until(
        lambda: all(
            epoch["verified"]
            for run in service.client.get("/v1/runs").json()["runs"]
            for epoch in run["epochs"]
        )
    )


def test_it_says_at_once_whether_a_trainer_works(service: Running, output: Path) -> None:
    def training() -> bool:
        return bool(service.client.get("/v1/runs").json()["runs"][0]["training"])

    with RunFolder(output).lock():
        service.wait_until(training, 5)
        (output / "metrics.jsonl").touch()
    service.wait_until(lambda: not training(), 5)


def test_without_locks_it_trains_who_writes(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xtts.voices.run_folder.RunFolder.is_locked", lambda _: None)
    run = RunFolder(output)
    assert listing.is_training(run)
    os.utime(run.metrics, (1, 1))
    assert not listing.is_training(run)


def test_a_new_epoch_is_followed_until_one_is_promoted(service: Running, output: Path) -> None:
    write_epoch(output, 3)
    service.wait_until(lambda: served(service) == speaks("current", 3))
    answer = service.client.post("/v1/runs/current/epochs/1/promote")
    assert answer.json() == {"served": speaks("current", 1)}
    write_epoch(output, 4)
    service.wait_until(lambda: len(service.parts.follower.runs["current"].epochs) == 4)
    service.parts.follower.tell()
    assert served(service) == speaks("current", 1)
    answer = service.client.delete("/v1/promotion")
    assert answer.json() == {"served": speaks("current", 4)}


def test_a_promotion_outlives_the_service_and_a_move_to_the_archive(
    service: Running, output: Path, tmp_path: Path
) -> None:
    service.client.post("/v1/runs/current/epochs/1/promote")
    moved = output / "archive" / "20260202T000000Z"
    moved.mkdir()
    for name in ("checkpoints", "samples", "metrics.jsonl"):
        shutil.move(output / name, moved / name)
    write_epoch(output, 1, content=b"the first of another run")
    with running(settings_in(tmp_path)) as again:
        assert served(again) == speaks("20260202T000000Z", 1)


def pruned(output: Path, epoch: int) -> None:
    """As the trainer prunes: the manifest first; the sample stays."""
    run = RunFolder(output)
    run.manifest_path(epoch).unlink()
    run.checkpoint_path(epoch).unlink()


@pytest.mark.parametrize("linked", [True, False])
def test_a_promoted_epoch_that_is_pruned_speaks_on_also_after_a_restart(
    service: Running,
    output: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    linked: bool,
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if not linked:
        monkeypatch.setattr("api.runs.promotion.os.link", no_links)
    before = speaks("current", 1)
    service.client.post("/v1/runs/current/epochs/1/promote")
    (kept,) = (tmp_path / "voices" / "promoted").glob("*/checkpoints/checkpoint_epoch_1.pt")
    assert kept.read_bytes() == b"epoch 1" and (kept.stat().st_nlink > 1) is linked
    assert (kept.parent.parent / "samples" / "epoch_1_reference.wav").is_file()
    assert read_manifest(kept.with_suffix(".json")).epoch == 1
    child = service.parts.engine.child.pid
    pruned(output, 1)
    engine = service.parts.engine
    service.wait_until(lambda: engine.wanted.wanted["name"] == str(kept), 5)
    assert served(service) == before
    # It speaks with the same weights: nothing was opened again.
    assert engine.standing.voice.wanted["name"] != str(kept)
    assert service.parts.engine.child.pid == child
    with running(settings_in(tmp_path)) as again:
        assert served(again) == before
        assert again.client.get("/status").json()["state"] == "ready"
        assert again.client.delete("/v1/promotion").json()["served"]["epoch"] == 2
    assert list((tmp_path / "voices" / "promoted").iterdir()) == []


def test_only_one_promotion_is_kept(service: Running, output: Path, tmp_path: Path) -> None:
    old = tmp_path / "voices" / "promoted" / "of a replica"
    old.mkdir(parents=True)
    for epoch in (1, 2, 1):
        service.client.post(f"/v1/runs/current/epochs/{epoch}/promote")
        (kept,) = (tmp_path / "voices" / "promoted").glob("*/checkpoints/*.pt")
        assert kept.name == f"checkpoint_epoch_{epoch}.pt" and old.exists()
    # What is promoted already is not copied again, also a day later: there may be no room for it.
    folder = kept.parents[1].stat().st_ino
    os.utime(kept.parents[1], (1, 1))
    service.client.post("/v1/runs/current/epochs/1/promote")
    assert kept.parents[1].stat().st_ino == folder
    os.utime(old, (1, 1))
    service.client.post("/v1/runs/current/epochs/2/promote")
    assert not old.exists()


def test_without_room_for_it_a_promotion_is_served_and_said_to_be_in_danger(
    service: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("api.runs.promotion.os.link", full)
    monkeypatch.setattr("api.runs.promotion.replace_file", full)
    answer = service.client.post("/v1/runs/current/epochs/1/promote")
    assert (answer.status_code, answer.json()["code"]) == (507, "not_kept")
    assert "No space left" in answer.json()["detail"]
    assert served(service) == speaks("current", 1)
    with running(settings_in(tmp_path)) as again:
        assert served(again) == speaks("current", 1)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"run": "x", "epoch": 1, "sha256": "../x"}'])
def test_a_damaged_promotion_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "promotion.json").write_text(content)
    assert promotion.read(tmp_path) is None


def test_requests_in_flight_finish_on_the_old_voice_and_none_fails(service: Running) -> None:
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(service.say, "v" * 300, seed=seed) for seed in range(4)]
        speaking = service.parts.engine.waiting.speaking
        # On a machine that hardly gets to run, the first may be answered before the last is asked.
        service.wait_until(lambda: len(speaking) + sum(one.done() for one in asked) == 4)
        for epoch in (1, 2, 1, 2, 1):
            answer = service.client.post(f"/v1/runs/current/epochs/{epoch}/promote")
            assert answer.json() == {"served": speaks("current", epoch)}
        found = [one.result().content[44:] for one in asked]
    assert found == [said("v" * 300, seed) for seed in range(4)]


def test_samples_come_whole_and_in_ranges(service: Running, output: Path) -> None:
    path = "/v1/runs/current/epochs/2/output.wav"
    data = (output / "samples" / "epoch_2_output.wav").read_bytes()
    answer = service.client.get(path)
    assert answer.content == data and answer.headers["content-type"] == "audio/wav"
    part = service.client.get(path, headers={"range": "bytes=10-19"})
    assert part.status_code == 206 and part.content == data[10:20]
    behind = service.client.get(path, headers={"range": "bytes=9999999-"})
    assert (behind.status_code, behind.json()["code"]) == (416, "range_not_satisfiable")
    assert behind.headers["content-range"] == f"bytes */{len(data)}"
    nonsense = service.client.get(path, headers={"range": "bytes=x"})
    assert (nonsense.status_code, nonsense.json()["code"]) == (400, "bad_range")
    for refusal in (behind, nonsense):
        assert refusal.headers["content-type"] == "application/problem+json"


def test_a_wav_that_goes_while_it_is_asked_for_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(APIError) as caught:
        asyncio.run(wav_file(tmp_path / "gone.wav"))
    assert caught.value.status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/v1/runs/nothing/epochs/1/output.wav",
        "/v1/runs/current/epochs/99/output.wav",
        "/v1/runs/nothing/metrics",
        "/v1/nothing",
        "/page/..%2f..%2fsettings.py",
    ],
)
def test_what_is_not_there_is_404_without_a_path(service: Running, path: str) -> None:
    answer = service.client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert str(Path(__file__).parents[3]) not in answer.text and "Traceback" not in answer.text


def test_curves_are_read_on_from_where_the_last_answer_ended(
    service: Running, output: Path
) -> None:
    first = service.client.get("/v1/runs/current/metrics").json()
    assert [row["step"] for row in first["records"]] == [9, 10, 19, 20]
    with (output / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "epoch": 3, "step": 21, "loss": 1.0}\n{"half')
    since = {"since": first["next"]}
    second = service.client.get("/v1/runs/current/metrics", params=since).json()
    assert [row["step"] for row in second["records"]] == [21]
    assert service.client.get(
        "/v1/runs/current/metrics", params={"since": second["next"]}
    ).json() == {"records": [], "next": second["next"]}
    (output / "metrics.jsonl").write_text('{"step": 1}\n')  # a run that went on from earlier
    assert service.client.get("/v1/runs/current/metrics", params=since).json()["records"]


def test_events_tell_of_a_new_epoch_and_of_a_change_of_state(
    service: Running, output: Path
) -> None:
    seen: list[str] = []
    with service.client.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        for line in lines:
            if line.startswith("event: "):
                seen.append(line[7:])
            if line.startswith("data: "):
                data = json.loads(line[6:])
                if seen == ["status", "epoch"]:
                    write_epoch(output, 3)
                if seen[-1] == "epoch" and len(data["runs"][0]["epochs"]) == 3:
                    break
    assert seen[:2] == ["status", "epoch"]
    service.wait_until(lambda: not service.parts.events.listeners)


def test_a_browser_gets_the_page_and_anything_else_the_status(service: Running) -> None:
    page = service.client.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for accept in ("*/*", "application/json"):
        assert service.client.get("/", headers={"accept": accept}).json()["device"] == "cpu"


def test_a_checkpoint_that_was_cut_short_is_damaged_and_not_pruned(
    service: Running, output: Path
) -> None:
    """Cut short, without a manifest, set aside by the trainer, and gone: told apart."""
    run = RunFolder(output)

    def told() -> tuple[str, int, str]:
        (row,) = [row for row in service.client.get("/v1/runs").json()["runs"][0]["epochs"]
                  if row["epoch"] == 1]  # fmt: skip
        answer = service.client.post("/v1/runs/current/epochs/1/promote")
        return row["checkpoint_state"], answer.status_code, answer.json().get("code", "")

    def becomes(*expected: object) -> None:
        service.wait_until(
            lambda: service.parts.follower.runs["current"].epochs[1].state == expected[0], 10
        )
        assert told() == expected

    path = run.checkpoint_path(1)
    path.write_bytes(path.read_bytes()[:-1])
    becomes("damaged", 409, "damaged_checkpoint")
    run.manifest_path(1).rename(f"{run.manifest_path(1)}.corrupt")
    becomes("unfinished", 409, "unfinished_checkpoint")
    aside = path.rename(f"{path}.corrupt")
    becomes("damaged", 409, "damaged_checkpoint")
    Path(aside).unlink()
    becomes("pruned", 409, "no_checkpoint")


def test_a_sample_shows_when_its_words_are_spoken(service: Running, output: Path) -> None:
    def sample(epoch: int) -> dict[str, Any]:
        rows = service.client.get("/v1/runs").json()["runs"][0]["epochs"]
        found: dict[str, Any] = next(row["sample"] for row in rows if row["epoch"] == epoch)
        return found

    assert sample(1)["words"] == [{"word": "Hello", "start_time": 0.1, "end_time": 0.6}]
    assert sample(1)["ending"] == "good"
    sidecar = output / "samples" / "epoch_2_output.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"words": [{"word": 1}]}))
    service.wait_until(lambda: sample(2)["words"] is None, 10)
