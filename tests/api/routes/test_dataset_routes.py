"""/v1/datasets as a client meets it: upload, cut, correct, delete; and what is refused."""

import json
import logging
import os
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from api.datasets import clips as clips_of
from api.datasets import uploads
from api.datasets.cutting import NICENESS, CutQueue
from api.datasets.store import Datasets
from api.errors import APIError
from tests.api.conftest import Running, running, settings_in
from tests.api.threads import at_once

TAPE = bytes(range(256)) * 40  # No recording: the double of the cut asks for none.
WAITING = ("queued", "running")


def made(service: Running, name: str = "Anna", language: str = "en") -> str:
    answer = service.client.post("/v1/datasets", json={"name": name, "language": language})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def announced(service: Running, dataset: str, name: str, size: int) -> dict[str, Any]:
    answer = service.client.post(
        f"/v1/datasets/{dataset}/recordings", json={"name": name, "bytes": size}
    )
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


def sent(service: Running, dataset: str, recording: str, offset: int, data: bytes) -> Any:
    return service.client.patch(
        f"/v1/datasets/{dataset}/recordings/{recording}", content=data,
        headers={"Upload-Offset": str(offset)},
    )  # fmt: skip


def with_tape(service: Running, name: str = "Anna", file: str = "tape.wav") -> str:
    dataset = made(service, name)
    recording = announced(service, dataset, file, len(TAPE))
    assert sent(service, dataset, recording["id"], 0, TAPE).json()["whole"]
    return dataset


def cut(service: Running, dataset: str) -> dict[str, Any]:
    """Asks for a cut, and waits for its end."""
    answer = service.client.post(f"/v1/datasets/{dataset}/cut")
    assert answer.status_code == 202, answer.text
    return ended(service, dataset)


def ended(service: Running, dataset: str) -> dict[str, Any]:
    service.wait_until(lambda: details(service, dataset)["cut"]["state"] not in WAITING, 200)
    return details(service, dataset)


def details(service: Running, dataset: str) -> dict[str, Any]:
    answer = service.client.get(f"/v1/datasets/{dataset}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def clips(service: Running, dataset: str, query: str = "order=time") -> list[dict[str, Any]]:
    return list(service.client.get(f"/v1/datasets/{dataset}/clips?{query}").json()["clips"])


def folder_of(service: Running, dataset: str) -> Path:
    return service.parts.datasets.folder / dataset


def given_to(service: Running, dataset: str) -> dict[str, Any]:
    """What the cut was given, and how it ran."""
    return dict(json.loads((folder_of(service, dataset) / "clips/given.json").read_text()))


def test_a_dataset_lives_from_upload_to_deletion(service: Running) -> None:
    dataset = made(service, "Ana, fita 1", "pt-BR")
    assert dataset == "ana-fita-1"
    recording = announced(service, dataset, "Tape One.WAV", len(TAPE))
    assert recording == {"id": "tape-one", "name": "Tape One.WAV", "bytes": len(TAPE),
                         "received": 0, "whole": False}  # fmt: skip
    half = len(TAPE) // 2
    assert sent(service, dataset, "tape-one", 0, TAPE[:half]).json()["received"] == half
    whole = sent(service, dataset, "tape-one", half, TAPE[half:]).json()
    assert whole["whole"] and whole["received"] == len(TAPE)
    text = service.client.put(f"/v1/datasets/{dataset}/text?kind=srt", content=b"Some words.")
    assert text.json() == {"kind": "srt", "bytes": 11}
    found = cut(service, dataset)
    assert found["cut"]["state"] == "done" and not found["cut"]["outdated"]
    given = given_to(service, dataset)
    assert given["language"] == "pt-br" and given["text"] == "text.srt"
    assert given["recordings"] == ["tape-one.wav"]
    assert found["clips"] == {"total": 2, "kept": 2, "dropped": 0, "without_text": 0,
                              "corrected": 0, "kept_seconds": 3.0}  # fmt: skip
    (row,) = found["account"]
    assert sum(row["seconds_by_reason"].values()) == row["seconds"] == 10
    assert found["unheard"] == ["Nobody says this."] and found["num_unheard"] == 1
    listed = service.client.get("/v1/datasets").json()
    assert [one["id"] for one in listed["datasets"]] == [dataset]
    assert listed["space"]["used"] > len(TAPE)
    one = clips(service, dataset)[0]
    assert one["levels"] == [-60, -20, -30, -60] and one["start"] == 2.0
    heard = service.client.get(one["sound"])
    assert heard.status_code == 200 and heard.content.startswith(b"RIFF")
    account = service.client.get(f"/v1/datasets/{dataset}/account.csv")
    assert account.text.startswith("recording,start,end")
    assert service.client.delete(f"/v1/datasets/{dataset}").status_code == 204
    assert service.client.get(f"/v1/datasets/{dataset}").status_code == 404
    left = {path.name for path in service.parts.datasets.folder.rglob("*")}
    assert left == {".cutting.lock", ".lock"}


def test_an_upload_goes_on_where_it_stopped(service: Running) -> None:
    dataset = made(service)
    recording = announced(service, dataset, "tape.wav", len(TAPE))["id"]
    assert sent(service, dataset, recording, 0, TAPE[:1000]).status_code == 200
    for wrong in (0, 999, 1001, len(TAPE)):
        answer = sent(service, dataset, recording, wrong, b"x")
        assert answer.status_code == 409 and answer.json()["code"] == "wrong_offset"
        assert "1,000 bytes" in answer.json()["detail"]
    again = announced(service, dataset, "tape.wav", len(TAPE))
    assert again["received"] == 1000 and again["id"] == recording
    assert sent(service, dataset, recording, 1000, TAPE[1000:]).json()["whole"]
    answer = sent(service, dataset, recording, len(TAPE), b"x")
    assert answer.status_code == 409 and "whole" in answer.json()["detail"]
    assert (folder_of(service, dataset) / "recordings/tape.wav").read_bytes() == TAPE


def test_what_came_before_the_connection_broke_stays(
    service: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = logging.getLogger("uvicorn.error")
    monkeypatch.setattr(server, "handlers", [*server.handlers, caplog.handler])
    dataset = made(service)
    recording = announced(service, dataset, "tape.wav", len(TAPE))["id"]
    port = int(service.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
        head = (
            f"PATCH /v1/datasets/{dataset}/recordings/{recording} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {len(TAPE)}\r\nUpload-Offset: 0\r\n\r\n"
        )
        one.sendall(head.encode() + TAPE[:5000])
        time.sleep(0.2)
    service.wait_until(
        lambda: details(service, dataset)["recordings"][0]["received"] == 5000, 20
    )  # fmt: skip
    answers = list[httpx.Response]()

    def goes_on() -> bool:
        """The broken piece may still be on its way to the disk: `upload_busy` says to try again."""
        answers.append(sent(service, dataset, recording, 5000, TAPE[5000:]))
        return answers[-1].status_code != 409

    service.wait_until(goes_on, 20)
    assert {one.json()["code"] for one in answers[:-1]} <= {"upload_busy"}
    assert answers[-1].json()["whole"]
    assert (folder_of(service, dataset) / "recordings/tape.wav").read_bytes() == TAPE
    assert "Exception in ASGI" not in caplog.text


def test_only_what_was_announced_is_taken(service: Running) -> None:
    dataset = made(service)
    recording = announced(service, dataset, "tape.wav", 10)["id"]
    answer = sent(service, dataset, recording, 0, b"x" * 11)
    assert answer.status_code == 409 and answer.json()["code"] == "longer_than_announced"
    assert details(service, dataset)["recordings"][0]["received"] == 0
    assert sent(service, dataset, recording, 0, b"x" * (9 << 20)).status_code == 413
    other = {"name": "tape.wav", "bytes": 11}
    refused = service.client.post(f"/v1/datasets/{dataset}/recordings", json=other)
    assert refused.status_code == 409 and refused.json()["code"] == "other_recording"
    assert service.client.post(f"/v1/datasets/{dataset}/cut").json()["code"] == "no_recording"
    announced(service, dataset, "b.wav", 4)
    assert sent(service, dataset, "b", 0, b"1234").json()["whole"]
    unfinished = service.client.post(f"/v1/datasets/{dataset}/cut")
    assert unfinished.json()["code"] == "unfinished_recording"
    gone = service.client.delete(f"/v1/datasets/{dataset}/recordings/{recording}")
    assert gone.status_code == 204 and len(details(service, dataset)["recordings"]) == 1


def test_a_full_disk_is_told_and_what_arrived_stays(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = made(service)
    recording = announced(service, dataset, "tape.wav", len(TAPE))["id"]
    assert sent(service, dataset, recording, 0, TAPE[:100]).status_code == 200
    free = SimpleNamespace(free=uploads.KEPT_FREE_BYTES + 5)
    with monkeypatch.context() as short:
        short.setattr(uploads.shutil, "disk_usage", lambda _path: free)
        answer = sent(service, dataset, recording, 100, TAPE[100:])
        assert answer.status_code == 507 and answer.json()["code"] == "no_space"
        assert "100 bytes of the recording have arrived" in answer.json()["detail"]
        new = {"name": "b.wav", "bytes": 10}
        refused = service.client.post(f"/v1/datasets/{dataset}/recordings", json=new)
        assert refused.status_code == 507 and "free" in refused.json()["detail"]
    # What is announced counts before it arrives: two at once cannot both have the last of it.
    free.free = uploads.KEPT_FREE_BYTES + len(TAPE) - 100 + 600
    with monkeypatch.context() as short:
        short.setattr(uploads.shutil, "disk_usage", lambda _path: free)
        announced(service, dataset, "a.wav", 600)
        refused = service.client.post(f"/v1/datasets/{dataset}/recordings", json=new)
    assert (refused.status_code, refused.json()["code"]) == (507, "no_space")
    assert sent(service, dataset, recording, 100, TAPE[100:]).json()["whole"]


def test_all_datasets_together_have_a_limit(tmp_path: Path) -> None:
    with running(settings_in(tmp_path, datasets_max_gb=1)) as service:
        dataset, new = made(service), {"name": "a.wav", "bytes": 600_000_000}
        assert announced(service, dataset, "a.wav", 600_000_000)["received"] == 0
        other = made(service)
        for arrived in (0, 400_000_000, 600_000_000):
            # What has arrived takes the room that it was announced for, no less and no more.
            with (folder_of(service, dataset) / "recordings/a.wav.part").open("wb") as part:
                part.truncate(arrived)
            refused = service.client.post(
                f"/v1/datasets/{other}/recordings", json=new | {"name": "b.wav"}
            )
            assert refused.status_code == 507 and "DATASETS_MAX_GB" in refused.json()["detail"]
            announced(service, other, f"{arrived}.wav", 100_000_000)


@pytest.mark.parametrize("name", ["x", "x.exe", ".wav/", "tape", "tape.wav.txt", "report.html"])
def test_what_is_no_recording_by_its_name_is_refused(service: Running, name: str) -> None:
    answer = service.client.post(
        f"/v1/datasets/{made(service)}/recordings", json={"name": name, "bytes": 5}
    )
    assert answer.status_code == 422 and answer.json()["code"] == "not_a_recording"


@pytest.mark.parametrize(
    "name", ["../../evil.wav", "/etc/passwd.wav", "..\\..\\x.wav", "a/b/../c.wav", "-rf.wav",
             ".wav.wav", "text.srt.wav", "\u202etxt.wav", "日本.wav"],
)  # fmt: skip
def test_no_name_of_a_recording_becomes_a_path(service: Running, name: str) -> None:
    dataset = made(service, "../..")
    recording = announced(service, dataset, name, 3)
    assert sent(service, dataset, recording["id"], 0, b"abc").json()["whole"]
    top = folder_of(service, dataset)
    assert dataset == "dataset" and top.parent == service.parts.datasets.folder
    files = list(service.parts.datasets.folder.parent.rglob("*.wav"))
    assert [path.parent for path in files] == [top / "recordings"]
    assert files[0].name == f"{recording['id']}.wav"
    assert all(
        letter.isascii() and (letter.isalnum() or letter == "-") for letter in recording["id"]
    )


def test_what_is_changed_of_a_deleted_dataset_does_not_make_it_again(tmp_path: Path) -> None:
    datasets = Datasets(tmp_path / "datasets")
    gone = datasets.create("Anna", "en")
    datasets.remove(gone)
    for change in (
        lambda: uploads.announce(datasets, gone, "tape.wav", 8, 1 << 30),
        lambda: uploads.put_text(gone, "txt", b"Words."),
        lambda: clips_of.correct(gone, "tape-0001", {"dropped": True}, None),
        lambda: datasets.remove(gone),
    ):
        with pytest.raises(APIError) as refused:
            change()
        assert (refused.value.status, refused.value.code) == (404, "no_dataset")
    assert [path.name for path in datasets.folder.iterdir()] == [".lock"]


def test_of_four_cuts_that_are_asked_for_at_once_one_is_queued(tmp_path: Path) -> None:
    datasets = Datasets(tmp_path / "datasets")
    dataset = datasets.create("Anna", "en")
    one = uploads.announce(datasets, dataset, "tape.wav", 8, 1 << 30)
    one.path.write_bytes(bytes(8))
    cuts = CutQueue(datasets, lambda _: None)

    def ask() -> str:
        try:
            return cuts.ask(dataset).state
        except APIError as refusal:
            return refusal.code

    assert sorted(at_once([ask] * 4)) == ["being_cut"] * 3 + ["queued"]


def test_a_folder_that_is_no_dataset_of_ours_is_none(service: Running) -> None:
    folder = service.parts.datasets.folder
    (folder / "mine").mkdir(parents=True)
    (folder / "mine/metadata.csv").write_text("mine")
    assert service.client.get("/v1/datasets/mine").status_code == 404
    assert service.client.delete("/v1/datasets/mine").status_code == 404
    assert service.client.get("/v1/datasets").json()["datasets"] == []
    assert made(service, "mine") == "mine-2" and (folder / "mine/metadata.csv").is_file()


@pytest.mark.parametrize("language", ["../x", "xx", "en-; rm", "", "english"])
def test_a_language_that_is_none_is_refused_with_those_there_are(
    service: Running, language: str
) -> None:
    body = {"name": "Anna", "language": language}
    answer = service.client.post("/v1/datasets", json=body)
    assert answer.status_code == 422 and answer.json()["param"] == "language"
    assert repr(language) in answer.json()["detail"] and "nl, pl, pt" in answer.json()["detail"]
    for other in ({}, {"name": "\u200b"}, {"name": "x" * 101}, {"name": 3}, {"other": 1, **body}):
        assert service.client.post("/v1/datasets", json=other).status_code == 422
    assert service.client.get("/v1/datasets").json()["datasets"] == []
    for known in ("pt-BR", "ZH-CN", "hi"):
        answer = service.client.post("/v1/datasets", json={"name": "Anna", "language": known})
        assert answer.json()["language"] == known.lower()


def test_a_correction_reaches_what_training_reads(service: Running) -> None:
    dataset = with_tape(service)
    service.client.put(f"/v1/datasets/{dataset}/text", content=b"Words.")
    cut(service, dataset)
    metadata = folder_of(service, dataset) / "clips/metadata.csv"
    before = "tape-0001|Sentence 1, of tape.\ntape-0002|Sentence 2, of tape.\n"
    assert metadata.read_text() == before
    where = f"/v1/datasets/{dataset}/clips"
    answer = service.client.patch(f"{where}/tape-0001", json={"text": " One | is\nbetter. "})
    assert answer.json()["text"] == "One , is better." and answer.json()["corrected"]
    assert metadata.read_text().startswith("tape-0001|One , is better.\n")
    service.client.patch(f"{where}/tape-0002", json={"dropped": True})
    assert metadata.read_text() == "tape-0001|One , is better.\n"
    counts = details(service, dataset)["clips"]
    assert (counts["kept"], counts["dropped"], counts["corrected"]) == (1, 1, 1)
    service.client.patch(f"{where}/tape-0002", json={"dropped": False})
    answer = service.client.patch(f"{where}/tape-0001", json={"text": None})
    assert answer.json()["text"] == "Sentence 1, of tape." and not answer.json()["corrected"]
    assert metadata.read_text() == before
    for path, body, status in (
        ("tape-0003", {"text": "x"}, 404), ("tape-0001", {}, 422), ("tape-0001", {"text": 3}, 422),
        ("tape-0001", {"text": "x" * 1001}, 422), ("tape-0001", {"text": "x", "sha256": "0"}, 409),
    ):  # fmt: skip
        assert service.client.patch(f"{where}/{path}", json=body).status_code == status


def test_clips_without_a_text_are_left_out_until_they_have_one(service: Running) -> None:
    dataset = with_tape(service)
    found = cut(service, dataset)
    assert found["clips"]["without_text"] == 2 and found["train"] is None
    metadata = folder_of(service, dataset) / "clips/metadata.csv"
    assert metadata.read_text() == ""
    where = f"/v1/datasets/{dataset}/clips/tape-0002"
    service.client.patch(where, json={"text": "It is written now."})
    assert metadata.read_text() == "tape-0002|It is written now.\n"
    found = details(service, dataset)
    assert found["train"]["command"] == (
        f"DATASET_DIR={service.parts.datasets.folder}/{dataset}/clips LANGUAGE=en make train"
    )


def test_a_recogniser_writes_where_there_is_no_text(tmp_path: Path) -> None:
    with running(settings_in(tmp_path, cut_recogniser=str(tmp_path / "ear"))) as service:
        spoken, written = with_tape(service, "Spoken"), with_tape(service, "Written")
        kept = service.client.put(f"/v1/datasets/{written}/text?kind=txt", content=b"It is said.")
        assert kept.is_success
        for dataset, recogniser in ((spoken, str(tmp_path / "ear")), (written, None)):
            assert cut(service, dataset)["cut"]["state"] == "done"
            assert given_to(service, dataset)["recogniser"] == recogniser


def test_pages_of_clips_have_the_odd_ones_first(service: Running) -> None:
    dataset = with_tape(service)
    cut(service, dataset)
    assert [one["name"] for one in clips(service, dataset, "")] == ["tape-0002", "tape-0001"]
    assert [one["name"] for one in clips(service, dataset, "limit=1&offset=1")] == ["tape-0001"]
    assert clips(service, dataset, "offset=5") == []
    assert clips(service, dataset, "")[0]["why"] == "fast"
    assert service.client.get(f"/v1/datasets/{dataset}/clips?limit=101").status_code == 422


def test_a_later_cut_keeps_the_corrections_that_fit_and_tells_the_others(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = with_tape(service)
    service.client.put(f"/v1/datasets/{dataset}/text", content=b"Words.")
    cut(service, dataset)
    where = f"/v1/datasets/{dataset}/clips/tape-0001"
    service.client.patch(where, json={"text": "By hand."})
    announced(service, dataset, "tape 2.wav", len(TAPE))
    assert details(service, dataset)["cut"]["outdated"] is False  # until it has arrived
    sent(service, dataset, "tape-2", 0, TAPE[::-1])
    assert details(service, dataset)["cut"]["outdated"]
    found = cut(service, dataset)
    assert found["clips"]["total"] == 4 and found["clips"]["corrected"] == 1
    assert found["unplaced"] == []
    metadata = folder_of(service, dataset) / "clips/metadata.csv"
    assert metadata.read_text().startswith("tape-0001|By hand.\n")
    monkeypatch.setenv("FAKE_CUT", "odd")
    found = cut(service, dataset)
    assert found["clips"]["corrected"] == 0
    (lost,) = found["unplaced"]
    assert lost == {"name": "tape-0001", "was": "Sentence 1, of tape.", "text": "By hand.",
                    "dropped": False}  # fmt: skip
    monkeypatch.delenv("FAKE_CUT")
    assert cut(service, dataset)["clips"]["corrected"] == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [("refuse", "The text does not fit tape.wav"), ("full", "No space left for the clips"),
     ("crash", "a fault of ours")],
)  # fmt: skip
def test_why_a_cut_failed_is_told_and_another_may_follow(
    service: Running, monkeypatch: pytest.MonkeyPatch, how: str, words: str
) -> None:
    dataset = with_tape(service)
    cut(service, dataset)
    monkeypatch.setenv("FAKE_CUT", how)
    found = cut(service, dataset)
    assert found["cut"]["state"] == "failed" and words in found["cut"]["message"]
    assert "/" not in found["cut"]["message"]
    # The cut before is still there, and can be trained on.
    assert found["clips"]["total"] == 2
    monkeypatch.delenv("FAKE_CUT")
    assert cut(service, dataset)["cut"]["state"] == "done"


def running_child(service: Running, dataset: str) -> int:
    """The process that cuts, once it says how far it is."""
    service.wait_until(lambda: "320 of 640" in details(service, dataset)["cut"]["told"], 30)
    found = service.parts.cuts._running
    assert found is not None and found[1] is not None
    return found[1].pid


def test_a_killed_cut_is_told_and_goes_on(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUT", "hang")
    dataset = with_tape(service)
    service.client.post(f"/v1/datasets/{dataset}/cut")
    os.kill(running_child(service, dataset), 9)
    found = ended(service, dataset)
    assert found["cut"]["state"] == "failed" and "was killed" in found["cut"]["message"]
    assert cut(service, dataset)["cut"]["state"] == "done"
    assert given_to(service, dataset)["resumed"]


def test_a_cut_is_stopped_and_its_dataset_deleted_while_it_is_cut(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUT", "hang")
    dataset, waiting = with_tape(service), with_tape(service, "Ben")
    for one in (dataset, waiting):
        assert service.client.post(f"/v1/datasets/{one}/cut").status_code == 202
    child = running_child(service, dataset)
    refused = service.client.post(f"/v1/datasets/{dataset}/cut")
    assert refused.status_code == 409 and refused.json()["code"] == "being_cut"
    for call in (
        service.client.delete(f"/v1/datasets/{dataset}/recordings/tape"),
        service.client.put(f"/v1/datasets/{dataset}/text", content=b"x"),
        service.client.delete(f"/v1/datasets/{dataset}/text"),
    ):
        assert call.status_code == 409
    assert details(service, waiting)["cut"]["ahead"] == 1
    stopped = service.client.delete(f"/v1/datasets/{waiting}/cut")
    assert stopped.json()["state"] == "stopped"
    assert service.client.delete(f"/v1/datasets/{dataset}").status_code == 204
    assert not folder_of(service, dataset).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert service.client.get("/v1/datasets").json()["datasets"][0]["state"] == "stopped"


def test_a_service_that_ends_leaves_its_cut_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUT", "hang")
    with running(settings_in(tmp_path)) as service:
        dataset = with_tape(service)
        service.client.post(f"/v1/datasets/{dataset}/cut")
        child = running_child(service, dataset)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    with running(settings_in(tmp_path)) as service:
        found = ended(service, dataset)
        assert found["cut"]["state"] == "done"
        assert given_to(service, dataset)["resumed"]


def test_one_of_two_replicas_cuts_and_both_tell_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.datasets.cutting._LOOK_SECONDS", 0.2)
    with running(settings_in(tmp_path)) as one, running(settings_in(tmp_path)) as other:
        first = with_tape(one)
        assert cut(one, first)["cut"]["state"] == "done"
        second = with_tape(other, "Ben")
        assert cut(other, second)["cut"]["state"] == "done"
        locks = [service.parts.cuts._lock for service in (one, other)]
        assert sum(lock is not None for lock in locks) == 1


def test_whoever_speaks_is_in_front_of_a_cut(service: Running) -> None:
    """Lower priority, one thread, and the first to go where memory is short."""
    service.parts.cuts.niceness = NICENESS
    dataset = with_tape(service)
    cut(service, dataset)
    given = given_to(service, dataset)
    assert given["nice"] >= 15 and given["threads"] == "1" and int(given["oom"]) >= 900


def test_it_speaks_while_recordings_arrive_and_a_cut_is_made(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUT", "hang")
    dataset = with_tape(service)
    service.client.post(f"/v1/datasets/{dataset}/cut")
    running_child(service, dataset)
    size, stop = 48 << 20, threading.Event()
    other = announced(service, made(service, "Ben"), "b.wav", size)["id"]

    def upload() -> None:
        for offset in range(0, size, 4 << 20):
            if stop.is_set() or sent(service, "ben", other, offset, bytes(4 << 20)).is_error:
                return

    sending = threading.Thread(target=upload)
    sending.start()
    seconds = []
    for _ in range(5):
        started = time.monotonic()
        assert service.say("hello").status_code == 200
        seconds.append(time.monotonic() - started)
    stop.set()
    sending.join(60)
    assert sorted(seconds)[2] < 5


def test_a_text_is_of_a_kind_that_is_read(service: Running) -> None:
    where = f"/v1/datasets/{made(service)}/text"
    for kind in ("exe", "", "../x"):
        assert service.client.put(where, params={"kind": kind}, content=b"x").status_code == 422
    for wrong in (b"RIFF\xff\xfe\x00junk", bytes(range(128, 256)), b"One.\0Two.", b"\xff\xfe\x00"):
        answer = service.client.put(where, content=wrong)
        assert (answer.status_code, answer.json()["code"]) == (422, "not_a_text")
    assert service.client.put(where, content=b"  \n").json()["code"] == "no_text"
    assert service.client.put(where, content=b"x" * (5 << 20)).status_code == 413
    assert details(service, "anna")["text"] is None
    for good in ("Olá.".encode(), "\ufeffOlá.".encode(), "Olá.".encode("utf-16")):
        assert service.client.put(where, content=good).status_code == 200
    assert service.client.put(where, params={"kind": "vtt"}, content=b"Two.").status_code == 200
    assert [path.name for path in folder_of(service, "anna").glob("text.*")] == ["text.vtt"]
    assert service.client.delete(where).status_code == 204
    assert details(service, "anna")["text"] is None


def test_a_sound_tells_its_own_methods_and_not_those_of_its_clip(service: Running) -> None:
    dataset = with_tape(service)
    cut(service, dataset)
    name = clips(service, dataset)[0]["name"]
    for path, methods in ((f"clips/{name}.wav", "GET, HEAD"), (f"clips/{name}", "PATCH")):
        refused = service.client.put(f"/v1/datasets/{dataset}/{path}")
        assert (refused.status_code, refused.headers["allow"]) == (405, methods)
