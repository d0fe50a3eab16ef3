"""Runs, samples, curves and promotion, with a run folder that grows while the service runs."""

import asyncio
import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.errors import APIError
from api.routes.ranged_file import wav_file
from api.runs import listing, promotion
from machine.storage.checksums import read_manifest
from tests.api.conftest import Running, running, settings_in
from tests.api.heard import refusal, refused, said, samples
from tests.api.judged_run import served
from tests.api.run_folders import write_epoch
from xtts.voices.run_folder import RunFolder
from xtts.voices.run_lock import lock


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    write_epoch(folder, 1, loss=2.5)
    write_epoch(folder, 2, loss=1.5)
    write_epoch(folder / "archive" / "20260101T000000Z", 7, content=b"an older run")
    return folder


@pytest.fixture
def service(output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr("api.runs.following.POLL_SECONDS", 0.1)
    with running(settings_in(tmp_path)) as opened:
        yield opened


def speaks(run: str, epoch: int) -> dict[str, Any]:
    """The served voice, for an epoch."""
    return {"run": run, "epoch": epoch, "candidate": f"epoch_{epoch}"}


def epochs(service: Running) -> list[dict[str, Any]]:
    """The epochs of the current run, as /v1/runs lists them."""
    return list(service.client.get("/v1/runs").json()["runs"][0]["epochs"])


def promoted(service: Running, epoch: int) -> httpx.Response:
    return service.client.post(f"/v1/runs/current/epochs/{epoch}/promote")


def test_the_newest_epoch_speaks_and_the_list_says_so(service):
    answer = service.client.get("/v1/runs").json()
    assert answer["served"] == speaks("current", 2) and not answer["promoted"]
    current, archived = answer["runs"]
    assert (current["id"], archived["id"]) == ("current", "20260101T000000Z")
    assert not current["training"] and current["minutes"] == 3.5
    first, second = current["epochs"]
    assert (first["epoch"], first["is_served"], second["is_served"]) == (1, False, True)
    assert second["is_best"] and second["sample"]["output"] == "/v1/runs/current/epochs/2/output.wav"
    assert second["validation_loss"] == 1.5
    assert service.status()["voice"].startswith("epoch 2 ")

    def verified():
        runs = service.client.get("/v1/runs").json()["runs"]
        return all(epoch["verified"] for run in runs for epoch in run["epochs"])

    service.wait_until(verified)


def test_it_says_at_once_whether_a_trainer_works(service, output):
    def training():
        return bool(service.client.get("/v1/runs").json()["runs"][0]["training"])

    with lock(RunFolder(output)):
        service.wait_until(training, 5)
        (output / "metrics.jsonl").touch()
    service.wait_until(lambda: not training(), 5)


def test_without_locks_it_trains_who_writes(output, monkeypatch):
    monkeypatch.setattr("xtts.voices.run_folder.RunFolder.is_locked", lambda _: None)
    run = RunFolder(output)
    assert listing.has_trainer(run)
    os.utime(run.metrics, (1, 1))
    assert not listing.has_trainer(run)


def test_a_new_epoch_is_followed_until_one_is_promoted(service, output):
    write_epoch(output, 3)
    service.wait_until(lambda: served(service) == speaks("current", 3))
    assert promoted(service, 1).json() == {"served": speaks("current", 1)}
    write_epoch(output, 4)
    service.wait_until(lambda: len(service.state.follower.runs["current"].epochs) == 4)
    service.state.follower.tell_pages()
    assert served(service) == speaks("current", 1)
    assert service.client.delete("/v1/promotion").json() == {"served": speaks("current", 4)}


def test_a_stored_name_of_the_served_voice_speaks_after_a_promotion(service):
    """Programs store the name that they were given; the next epoch is served under another."""
    before = [voice["name"] for voice in service.client.get("/v1/voices").json()["voices"]]
    assert promoted(service, 1).status_code == 200
    after = service.client.get("/v1/voices").json()["voices"][0]["name"]
    assert before[0] != after
    for name in (*before, after, "default"):
        assert service.say("hello", voice=name).status_code == 200, name


def test_the_served_voice_is_dated_by_its_promotion(service):
    """And not by the start of the service."""

    def created() -> str:
        return service.client.get("/v1/voices").json()["voices"][0]["created"]

    service.state.served_at = 0  # as if the service had started long ago
    assert created().startswith("1970-")
    began = int(time.time())
    assert promoted(service, 1).status_code == 200
    assert began <= datetime.fromisoformat(created()).timestamp() <= time.time()


def test_a_promotion_outlives_the_service_and_a_move_to_the_archive(service, output, tmp_path):
    promoted(service, 1)
    moved = output / "archive" / "20260202T000000Z"
    moved.mkdir()
    for name in ("checkpoints", "samples", "metrics.jsonl"):
        shutil.move(output / name, moved / name)
    write_epoch(output, 1, content=b"the first of another run")
    with running(settings_in(tmp_path)) as again:
        assert served(again) == speaks("20260202T000000Z", 1)


def fail_with(error: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    return fail


@pytest.mark.parametrize("linked", [True, False])
def test_a_promoted_epoch_that_is_pruned_speaks_on_also_after_a_restart(
    service, output, tmp_path, monkeypatch, linked
):
    if not linked:
        monkeypatch.setattr("api.runs.promotion.os.link", fail_with(errno.EXDEV))
    promoted(service, 1)
    (copy,) = (tmp_path / "voices" / "promoted").glob("*/checkpoints/checkpoint_epoch_1.pt")
    assert copy.read_bytes() == b"epoch 1" and (copy.stat().st_nlink > 1) is linked
    assert (copy.parent.parent / "samples" / "epoch_1_reference.wav").is_file()
    assert read_manifest(copy.with_suffix(".json")).epoch == 1
    engine = service.state.engine
    child = engine.child.pid
    # The trainer prunes the manifest first; the sample stays.
    RunFolder(output).manifest_path(1).unlink()
    RunFolder(output).checkpoint_path(1).unlink()
    service.wait_until(lambda: engine.target.spec["name"] == str(copy), 5)
    assert served(service) == speaks("current", 1)
    # The weights are the same, so nothing was reopened.
    assert engine.served_voice.voice.spec["name"] != str(copy) and engine.child.pid == child
    with running(settings_in(tmp_path)) as again:
        assert served(again) == speaks("current", 1)
        assert again.status()["state"] == "ready"
        assert again.client.delete("/v1/promotion").json()["served"]["epoch"] == 2
    assert list((tmp_path / "voices" / "promoted").iterdir()) == []


def test_only_one_promotion_is_kept(service, output, tmp_path):
    folders = tmp_path / "voices" / "promoted"
    (folders / "of a replica").mkdir(parents=True)
    stray = folders / ".DS_Store"
    stray.touch()
    for epoch in (1, 2, 1):
        assert promoted(service, epoch).status_code == 200
        (copy,) = folders.glob("*/checkpoints/*.pt")
        assert copy.name == f"checkpoint_epoch_{epoch}.pt"
        assert {*folders.iterdir()} == {copy.parents[1], stray}
    # An already promoted epoch is not copied again: the disk may be full.
    folder = copy.parents[1].stat().st_ino
    promoted(service, 1)
    assert copy.parents[1].stat().st_ino == folder


def test_without_room_for_it_a_promotion_is_served_and_said_to_be_in_danger(service, tmp_path, monkeypatch):
    monkeypatch.setattr("api.runs.promotion.os.link", fail_with(errno.ENOSPC))
    monkeypatch.setattr("api.runs.promotion.replace_file", fail_with(errno.ENOSPC))
    answer = promoted(service, 1)
    assert refused(answer) == (507, "not_kept") and "No space left" in answer.json()["detail"]
    assert served(service) == speaks("current", 1)
    with running(settings_in(tmp_path)) as again:
        assert served(again) == speaks("current", 1)


def test_a_promotion_that_cannot_be_written_holds_until_another_one_is_stored(service, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("api.runs.promotion.write_json", fail_with(errno.EROFS))
        assert refused(promoted(service, 1)) == (507, "not_kept")
        time.sleep(0.5)  # a few polls, which read the folder
        assert served(service) == speaks("current", 1)
    assert promoted(service, 2).status_code == 200
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", fail_with(errno.EROFS))
        assert refused(service.client.delete("/v1/promotion")) == (507, "not_kept")
        time.sleep(0.5)
        assert not service.client.get("/v1/runs").json()["promoted"]
    assert service.client.delete("/v1/promotion").status_code == 200


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"run": "x", "epoch": 1, "sha256": "../x"}'])
def test_a_damaged_promotion_is_none(tmp_path, content):
    (tmp_path / "promotion.json").write_text(content)
    assert promotion.read(tmp_path) is None


def test_requests_in_flight_finish_on_the_old_voice_and_none_fails(service):
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(service.say, "v" * 300, seed=seed) for seed in range(4)]
        speaking = service.state.engine.requests.speaking
        # On a very busy machine, the first may be answered before the last is sent.
        service.wait_until(lambda: len(speaking) + sum(request.done() for request in asked) == 4)
        for epoch in (1, 2, 1, 2, 1):
            answer = promoted(service, epoch)
            assert answer.json() == {"served": speaks("current", epoch)}
        sounds = [samples(request.result().content) for request in asked]
    assert sounds == [said("v" * 300, seed) for seed in range(4)]


def test_samples_come_whole_and_in_ranges(service, output):
    path = "/v1/runs/current/epochs/2/output.wav"
    data = (output / "samples" / "epoch_2_output.wav").read_bytes()
    answer = service.client.get(path)
    assert answer.content == data and answer.headers["content-type"] == "audio/wav"
    part, behind, nonsense = (
        service.client.get(path, headers={"range": f"bytes={span}"}) for span in ("10-19", "9999999-", "x")
    )
    assert part.status_code == 206 and part.content == data[10:20]
    assert refusal(behind)[:2] == (416, "range_not_satisfiable")
    assert behind.headers["content-range"] == f"bytes */{len(data)}"
    # RFC 9110, 14.2: an invalid range is ignored.
    assert nonsense.status_code == 200 and nonsense.content == data
    for other in ("abc", "bytes=9-2", "lines=1-2", "bytes=", "bytes=-"):
        answer = service.client.get(path, headers={"range": other})
        assert (answer.status_code, answer.content) == (200, data), other


def test_a_wav_that_goes_while_it_is_asked_for_is_not_there(tmp_path):
    with pytest.raises(APIError) as caught:
        asyncio.run(wav_file(tmp_path / "gone.wav"))
    assert caught.value.status == 404


def test_what_is_not_there_is_404_without_a_path(service):
    for path in (
        "/v1/runs/nothing/epochs/1/output.wav",
        "/v1/runs/current/epochs/99/output.wav",
        "/v1/runs/nothing/metrics",
        "/v1/nothing",
        "/page/..%2f..%2fsettings.py",
    ):
        answer = service.client.get(path)
        assert refusal(answer)[0] == 404, path
        assert str(Path(__file__).parents[3]) not in answer.text and "Traceback" not in answer.text


def test_curves_are_read_on_from_where_the_last_answer_ended(service, output):
    def read(since=0):
        answer = service.client.get(f"/v1/runs/current/metrics?since={since}").json()
        return [row["step"] for row in answer["records"]], answer["next"]

    steps, first = read()
    assert steps == [9, 10, 19, 20]
    with (output / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "epoch": 3, "step": 21, "loss": 1.0}\n{"half')
    steps, second = read(first)
    assert steps == [21] and read(second) == ([], second)
    (output / "metrics.jsonl").write_text('{"step": 1}\n')  # a run resumed from an earlier step
    assert read(first)[0]


def test_events_tell_of_a_new_epoch_and_of_a_change_of_state(service, output):
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
    service.wait_until(lambda: not service.state.events.listeners)


def test_a_browser_gets_the_page_and_anything_else_the_status(service):
    page = service.client.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';") and "unsafe" not in policy
    for accept in ("*/*", "application/json"):
        assert service.client.get("/", headers={"accept": accept}).json()["device"] == "cpu"


@pytest.mark.parametrize("coding", ["gzip", "identity"])
def test_the_page_travels_compressed_to_whom_can_read_it(service, coding):
    for path, word in (("/", "<title>Sotaque"), ("/page/speak.js", "export class SpeakBox")):
        answer = service.client.get(path, headers={"accept": "text/html", "accept-encoding": coding})
        assert answer.headers.get("content-encoding", "identity") == coding, path
        assert word in answer.text, path


def test_a_checkpoint_that_was_cut_short_is_damaged_and_not_pruned(service, output):
    """The states are distinct: truncated, without a manifest, set aside by the trainer, missing."""
    run = RunFolder(output)

    def becomes(state, code):
        follower = service.state.follower
        service.wait_until(lambda: follower.runs["current"].epochs[1].state == state, 10)
        assert refused(promoted(service, 1)) == (409, code)
        assert epochs(service)[0]["checkpoint_state"] == state

    path = run.checkpoint_path(1)
    path.write_bytes(path.read_bytes()[:-1])
    becomes("damaged", "damaged_checkpoint")
    run.manifest_path(1).rename(f"{run.manifest_path(1)}.corrupt")
    becomes("unfinished", "unfinished_checkpoint")
    aside = path.rename(f"{path}.corrupt")
    becomes("damaged", "damaged_checkpoint")
    Path(aside).unlink()
    becomes("pruned", "no_checkpoint")


def test_a_sample_shows_when_its_words_are_spoken(service, output):
    sample = epochs(service)[0]["sample"]
    assert sample["words"] == [{"word": "Hello", "start_time": 0.1, "end_time": 0.6}]
    assert sample["ending"] == "good"
    sidecar = output / "samples" / "epoch_2_output.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"words": [{"word": 1}]}))
    service.wait_until(lambda: epochs(service)[1]["sample"]["words"] is None, 10)
