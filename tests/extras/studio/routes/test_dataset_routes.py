"""/v1/datasets for a client: upload, cut, correct, delete and refusals."""

import contextlib
import json
import logging
import os
import re
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from api import arriving
from api.errors import APIError
from extras import studio
from extras.common.work_queue import NICENESS
from extras.studio.datasets import clips as clips_of
from extras.studio.datasets import uploads
from extras.studio.datasets.cutting import CutQueue
from extras.studio.datasets.dataset_store import Datasets
from extras.studio.part import Studio
from tests.api.conftest import running, settings_in
from tests.api.heard import refused
from tests.api.threads import at_once
from tests.extras.studio.datasets.calls import TAPE, Dataset, with_tape
from tests.installed import needs
from train.__main__ import main

# The texts that `train cut` reads.
READERS = (".json", ".lab", ".sbv", ".srt", ".textgrid", ".tsv", ".txt", ".vtt")


@needs("cut")
def test_a_cut_reads_these_texts(tmp_path, capsys):
    (tmp_path / "tape.doc").write_text("Some words.")
    given = ["tape.wav", "--to", str(tmp_path / "clips"), "--text", str(tmp_path / "tape.doc")]
    with contextlib.suppress(SystemExit):
        main(["cut", *given])
    (told,) = re.findall(r"supported text file. Use ([^\n]*)\.\n", "".join(capsys.readouterr()))
    assert sorted(told.split(", ")) == list(READERS)


def test_a_text_of_every_kind_that_a_cut_reads_is_taken(service):
    dataset = Dataset(service, "Texts", "en")
    for ending in READERS:
        kind = ending[1:]
        answer = dataset.ask("PUT", f"/text?kind={kind}", content=b"Some words.")
        assert answer.json() == {"kind": kind, "bytes": 11}
        assert (dataset.folder / f"text.{kind}").read_bytes() == b"Some words."


def test_the_page_offers_the_texts_that_a_cut_reads():
    page = Path(studio.__file__).parent.joinpath("page/part.html").read_text("utf-8")
    (accept,) = re.findall(r'id="recording-text" accept="([^"]*)"', page)
    assert {ending.lower() for ending in accept.split(",")} == set(READERS)
    advice = Path(studio.__file__).parent.joinpath("page/account.js").read_text("utf-8")
    (endings,) = re.findall(r"\\\.\((txt\|[^)]*)\)", advice)
    assert {f".{ending}" for ending in endings.split("|")} == set(READERS)


def test_a_dataset_lives_from_upload_to_deletion(service):
    dataset = Dataset(service, "Ana, fita 1", "pt-BR")
    assert dataset.id == "ana-fita-1"
    recording = dataset.uploaded("Tape One.WAV")
    assert recording == {"id": "tape-one", "name": "Tape One.WAV", "bytes": len(TAPE)}
    assert (dataset.folder / "recordings/tape-one.wav").read_bytes() == TAPE
    text = dataset.ask("PUT", "/text?kind=srt", content=b"Some words.")
    assert text.json() == {"kind": "srt", "bytes": 11}
    found = dataset.cut()
    assert found["cut"]["state"] == "done" and not found["cut"]["outdated"]
    given = dataset.given_to()
    assert given["language"] == "pt-br" and given["text"] == "text.srt"
    assert given["recordings"] == ["tape-one.wav"]
    assert found["clips"] == {
        "total": 2,
        "kept": 2,
        "dropped": 0,
        "without_text": 0,
        "corrected": 0,
        "kept_seconds": 3.0,
    }
    (row,) = found["account"]
    assert sum(row["seconds_by_reason"].values()) == row["seconds"] == 10
    assert found["unheard"] == ["Nobody says this."] and found["num_unheard"] == 1
    listed = service.client.get("/v1/datasets").json()
    assert [other["id"] for other in listed["datasets"]] == [dataset.id]
    assert listed["space"]["used"] > len(TAPE)
    clip = dataset.clips()[0]
    assert clip["levels"] == [-60, -20, -30, -60] and clip["start"] == 2.0
    heard = service.client.get(clip["sound"])
    assert heard.status_code == 200 and heard.content.startswith(b"RIFF")
    assert dataset.ask("GET", "/account.csv").text.startswith('"recording","start","end"')
    assert dataset.ask("DELETE").status_code == 204
    assert dataset.ask("GET").status_code == 404
    left = {path.name for path in service.state.part(Studio).datasets.folder.rglob("*")}
    assert left == {".cutting.lock", ".lock"}


def test_an_upload_whose_connection_breaks_leaves_nothing(service, caplog, monkeypatch):
    server = logging.getLogger("uvicorn.error")
    monkeypatch.setattr(server, "handlers", [*server.handlers, caplog.handler])
    dataset = Dataset(service)
    folder = dataset.folder / "recordings"
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as line:
        head = (
            f"POST /v1/datasets/{dataset.id}/recordings?name=tape.wav HTTP/1.1\r\n"
            f"Host: localhost\r\nContent-Length: {len(TAPE)}\r\n\r\n"
        )
        line.sendall(head.encode() + TAPE[:5000])
        service.wait_until(lambda: any(folder.iterdir()), 20)
    service.wait_until(lambda: not any(folder.iterdir()), 20)
    assert dataset.details()["recordings"] == []
    dataset.uploaded("tape.wav")
    assert (folder / "tape.wav").read_bytes() == TAPE
    assert "Exception in ASGI" not in caplog.text and "Traceback" not in caplog.text


def test_a_recording_has_a_name_of_its_own_and_a_body(service):
    dataset = Dataset(service)
    assert refused(dataset.upload("tape.wav", b"")) == (422, "not_a_recording")
    assert dataset.ask("POST", "/cut").json()["code"] == "no_recording"
    recording = dataset.uploaded("tape.wav")["id"]
    assert refused(dataset.upload("tape.wav", b"x")) == (409, "other_recording")
    assert len(list((dataset.folder / "recordings").iterdir())) == 2
    assert dataset.ask("DELETE", f"/recordings/{recording}").status_code == 204
    assert list((dataset.folder / "recordings").iterdir()) == []


def test_a_full_disk_is_told_and_leaves_nothing(service, monkeypatch):
    dataset = Dataset(service)
    free = SimpleNamespace(free=arriving.RESERVED_BYTES + 5)
    with monkeypatch.context() as short:
        short.setattr(arriving.shutil, "disk_usage", lambda _path: free)
        assert refused(dataset.upload("a.wav")) == (507, "no_space")
        # An upload of unknown length ends when the disk is full.
        free.free = arriving.RESERVED_BYTES - 1
        short.setattr(uploads, "require_free", lambda *_: None)
        long = iter([bytes(1 << 20)] * 3)
        assert refused(dataset.upload("b.wav", long)) == (507, "no_space")
        assert list((dataset.folder / "recordings").iterdir()) == []
    dataset.uploaded("a.wav")


def test_all_datasets_together_have_a_limit(tmp_path):
    with running(settings_in(tmp_path, datasets_max_gb=1)) as service:
        dataset, other = Dataset(service), Dataset(service)
        dataset.uploaded("a.wav")
        with (dataset.folder / "recordings/a.wav").open("r+b") as file:
            file.truncate(10**9 - 100)
        for body in (TAPE, iter([TAPE])):  # the second has no length
            answer = other.upload("b.wav", body)
            assert answer.status_code == 507 and "DATASETS_MAX_GB" in answer.json()["detail"]
        assert other.details()["recordings"] == []


def test_an_unfinished_upload_of_an_earlier_version_is_no_recording(tmp_path):
    datasets = Datasets(tmp_path / "datasets", 1 << 30)
    dataset = datasets.create("Anna", "en")
    folder = dataset.folder / "recordings"
    about = {"id": "tape", "name": "tape.wav", "bytes": 8, "created": "2026-01-02T03:04:05.000Z"}
    (folder / "tape.json").write_text(json.dumps(about))
    (folder / "tape.wav.part").write_bytes(bytes(4))
    assert uploads.recordings(dataset) == []
    CutQueue(datasets, lambda _: None)._repair()
    assert not (folder / "tape.wav.part").exists()
    (folder / "tape.wav").write_bytes(bytes(8))
    assert [recording.name for recording in uploads.recordings(dataset)] == ["tape.wav"]


@pytest.mark.parametrize("name", ["x", "x.exe", ".wav/", "tape", "tape.wav.txt", "report.html"])
def test_what_is_no_recording_by_its_name_is_refused(shared_service, name):
    dataset = Dataset(shared_service)
    assert refused(dataset.upload(name)) == (422, "not_a_recording")
    dataset.ask("DELETE")


@pytest.mark.parametrize(
    "name",
    [
        "../../evil.wav",
        "/etc/passwd.wav",
        "..\\..\\x.wav",
        "a/b/../c.wav",
        "-rf.wav",
        ".wav.wav",
        "text.srt.wav",
        "\u202etxt.wav",
        "日本.wav",
    ],
)
def test_no_name_of_a_recording_becomes_a_path(shared_service, name):
    dataset = Dataset(shared_service, "../..")
    identity = dataset.uploaded(name)["id"]
    every = shared_service.state.part(Studio).datasets.folder
    assert dataset.id == "dataset"
    assert list(every.parent.rglob("*.wav")) == [every / f"dataset/recordings/{identity}.wav"]
    assert all(sign.isascii() and (sign.isalnum() or sign == "-") for sign in identity)
    dataset.ask("DELETE")


def test_what_is_changed_of_a_deleted_dataset_does_not_make_it_again(tmp_path):
    datasets = Datasets(tmp_path / "datasets", 1 << 30)
    gone = datasets.create("Anna", "en")
    datasets.remove(gone)
    for change in (
        lambda: uploads.add(datasets, gone, "tape.wav", tmp_path / "arrived"),
        lambda: uploads.put_text(gone, "txt", b"Words."),
        lambda: clips_of.correct(gone, "tape-0001", {"dropped": True}, None),
        lambda: datasets.remove(gone),
    ):
        with pytest.raises(APIError) as caught:
            change()
        assert (caught.value.status, caught.value.code) == (404, "no_dataset")
    assert [path.name for path in datasets.folder.iterdir()] == [".lock"]


def test_of_four_cuts_that_are_asked_for_at_once_one_is_queued(tmp_path):
    datasets = Datasets(tmp_path / "datasets", 1 << 30)
    dataset = datasets.create("Anna", "en")
    arrived = dataset.folder / "recordings/.arriving-1"
    arrived.write_bytes(bytes(8))
    uploads.add(datasets, dataset, "tape.wav", arrived)
    cuts = CutQueue(datasets, lambda _: None)

    def ask():
        try:
            return cuts.ask(dataset).state
        except APIError as refusal:
            return refusal.code

    assert sorted(at_once([ask] * 4)) == ["being_cut"] * 3 + ["queued"]


def test_a_folder_that_is_no_dataset_of_ours_is_none(service):
    folder = service.state.part(Studio).datasets.folder
    (folder / "mine").mkdir(parents=True)
    (folder / "mine/metadata.csv").write_text("mine")
    for method in ("GET", "DELETE"):
        assert service.client.request(method, "/v1/datasets/mine").status_code == 404
    assert service.client.get("/v1/datasets").json()["datasets"] == []
    assert Dataset(service, "mine").id == "mine-2" and (folder / "mine/metadata.csv").is_file()


@pytest.mark.parametrize("language", ["../x", "xx", "en-; rm", "", "english"])
def test_a_language_that_is_none_is_refused_with_those_there_are(shared_service, language):
    body = {"name": "Anna", "language": language}
    answer = shared_service.client.post("/v1/datasets", json=body)
    assert answer.status_code == 422 and answer.json()["param"] == "language"
    assert repr(language) in answer.json()["detail"] and "nl, pl, pt" in answer.json()["detail"]


def test_a_dataset_has_a_name_and_a_known_language(service):
    whole = {"name": "Anna", "language": "en"}
    for other in ({}, {"name": "\u200b"}, {"name": "x" * 101}, {"name": 3}, {"other": 1, **whole}):
        assert service.client.post("/v1/datasets", json=other).status_code == 422
    assert service.client.get("/v1/datasets").json()["datasets"] == []
    for language in ("pt-BR", "ZH-CN", "hi"):
        assert Dataset(service, "Anna", language).details()["language"] == language.lower()
    assert Dataset(service, "Anna", "deu").details()["language"] == "de"


def test_a_correction_reaches_what_training_reads(service):
    dataset = with_tape(service, text=b"Words.")
    dataset.cut()
    before = "tape-0001|Sentence 1, of tape.\ntape-0002|Sentence 2, of tape.\n"
    assert dataset.metadata == before
    answer = dataset.correct("tape-0001", text=" One | is\nbetter. ").json()
    assert answer["text"] == "One , is better." and answer["corrected"]
    assert dataset.metadata.startswith("tape-0001|One , is better.\n")
    dataset.correct("tape-0002", dropped=True)
    assert dataset.metadata == "tape-0001|One , is better.\n"
    counts = dataset.details()["clips"]
    assert (counts["kept"], counts["dropped"], counts["corrected"]) == (1, 1, 1)
    dataset.correct("tape-0002", dropped=False)
    answer = dataset.correct("tape-0001", text=None).json()
    assert answer["text"] == "Sentence 1, of tape." and not answer["corrected"]
    assert dataset.metadata == before
    for clip, body, status in (
        ("tape-0003", {"text": "x"}, 404),
        ("tape-0001", {}, 422),
        ("tape-0001", {"text": 3}, 422),
        ("tape-0001", {"text": "x" * 1001}, 422),
        ("tape-0001", {"text": "x", "sha256": "0"}, 409),
    ):
        assert dataset.correct(clip, **body).status_code == status


def test_clips_without_a_text_are_left_out_until_they_have_one(service):
    dataset = with_tape(service)
    found = dataset.cut()
    assert found["clips"]["without_text"] == 2 and found["train"] is None
    assert dataset.metadata == ""
    dataset.correct("tape-0002", text="It is written now.")
    assert dataset.metadata == "tape-0002|It is written now.\n"
    assert dataset.details()["train"]["command"] == (
        f"DATASET_DIR={dataset.folder}/clips LANGUAGE=en make train"
    )


def test_a_recogniser_writes_where_there_is_no_text(tmp_path):
    ear = str(tmp_path / "ear")
    with running(settings_in(tmp_path, cut_recogniser=ear)) as service:
        for text, recogniser in ((b"", ear), (b"It is said.", None)):
            dataset = with_tape(service, text=text)
            assert dataset.cut()["cut"]["state"] == "done"
            assert dataset.given_to()["recogniser"] == recogniser


def test_pages_of_clips_have_the_odd_ones_first(service):
    dataset = with_tape(service)
    dataset.cut()
    assert [clip["name"] for clip in dataset.clips("")] == ["tape-0002", "tape-0001"]
    assert [clip["name"] for clip in dataset.clips("limit=1&offset=1")] == ["tape-0001"]
    assert dataset.clips("offset=5") == [] and dataset.clips("")[0]["why"] == "fast"
    assert dataset.ask("GET", "/clips?limit=101").status_code == 422


def test_a_later_cut_keeps_the_corrections_that_fit_and_tells_the_others(service, monkeypatch):
    dataset = with_tape(service, text=b"Words.")
    dataset.cut()
    dataset.correct("tape-0001", text="By hand.")
    assert dataset.details()["cut"]["outdated"] is False
    dataset.uploaded("tape 2.wav", TAPE[::-1])
    assert dataset.details()["cut"]["outdated"]
    found = dataset.cut()
    assert found["clips"]["total"] == 4 and found["clips"]["corrected"] == 1
    assert found["unplaced"] == [] and dataset.metadata.startswith("tape-0001|By hand.\n")
    monkeypatch.setenv("FAKE_CUT", "odd")
    found = dataset.cut()
    assert found["clips"]["corrected"] == 0
    (lost,) = found["unplaced"]
    assert lost == {"name": "tape-0001", "was": "Sentence 1, of tape.", "text": "By hand.", "dropped": False}
    monkeypatch.delenv("FAKE_CUT")
    assert dataset.cut()["clips"]["corrected"] == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("refuse", "tape.wav"),
        ("crash", "a fault of ours"),
        pytest.param("full", "No space left", marks=pytest.mark.slow),
    ],
)
def test_why_a_cut_failed_is_told_and_another_may_follow(service, monkeypatch, how, words):
    dataset = with_tape(service)
    dataset.cut()
    monkeypatch.setenv("FAKE_CUT", how)
    found = dataset.cut()
    assert found["cut"]["state"] == "failed" and words in found["cut"]["message"]
    assert "/" not in found["cut"]["message"]
    # The previous cut still exists and can be trained on.
    assert found["clips"]["total"] == 2
    monkeypatch.delenv("FAKE_CUT")
    assert dataset.cut()["cut"]["state"] == "done"


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first cut never ends."""
    monkeypatch.setenv("FAKE_CUT", "hang")


@pytest.mark.usefixtures("hangs")
def test_a_killed_cut_is_told_and_goes_on(service):
    dataset = with_tape(service)
    dataset.ask("POST", "/cut")
    os.kill(dataset.running_child(), 9)
    found = dataset.ended()
    assert found["cut"]["state"] == "failed" and "was killed" in found["cut"]["message"]
    assert dataset.cut()["cut"]["state"] == "done" and dataset.given_to()["resumed"]


@pytest.mark.usefixtures("hangs")
def test_a_cut_is_stopped_and_its_dataset_deleted_while_it_is_cut(service):
    first, waiting = with_tape(service), with_tape(service, "Ben")
    for dataset in (first, waiting):
        assert dataset.ask("POST", "/cut").status_code == 202
    child = first.running_child()
    assert refused(first.ask("POST", "/cut")) == (409, "being_cut")
    for method, path in (("DELETE", "/recordings/tape"), ("PUT", "/text"), ("DELETE", "/text")):
        assert first.ask(method, path, content=b"x").status_code == 409
    assert waiting.details()["cut"]["ahead"] == 1
    assert waiting.ask("DELETE", "/cut").json()["state"] == "stopped"
    assert first.ask("DELETE").status_code == 204
    assert not first.folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert service.client.get("/v1/datasets").json()["datasets"][0]["state"] == "stopped"


@pytest.mark.usefixtures("hangs")
def test_a_service_that_ends_leaves_its_cut_to_the_next(tmp_path):
    with running(settings_in(tmp_path)) as service:
        dataset = with_tape(service)
        dataset.ask("POST", "/cut")
        child = dataset.running_child()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    with running(settings_in(tmp_path)) as dataset.service:
        assert dataset.ended()["cut"]["state"] == "done" and dataset.given_to()["resumed"]


def test_one_of_two_replicas_cuts_and_both_tell_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("extras.common.work_queue._POLL_SECONDS", 0.2)
    with running(settings_in(tmp_path)) as first, running(settings_in(tmp_path)) as other:
        for service in (first, other):
            assert with_tape(service).cut()["cut"]["state"] == "done"
        locks = [service.state.part(Studio).cuts._lock for service in (first, other)]
        assert sum(lock is not None for lock in locks) == 1


def test_whoever_speaks_is_in_front_of_a_cut(service):
    """Lower priority, one thread, and killed first if memory is short."""
    service.state.part(Studio).cuts.niceness = NICENESS
    dataset = with_tape(service)
    dataset.cut()
    given = dataset.given_to()
    assert given["nice"] >= 15 and given["threads"] == "1" and int(given["oom"]) >= 900


@pytest.mark.usefixtures("hangs")
def test_it_speaks_while_recordings_arrive_and_a_cut_is_made(service):
    dataset = with_tape(service)
    dataset.ask("POST", "/cut")
    dataset.running_child()
    stop, other = threading.Event(), Dataset(service, "Ben")

    def body():
        for _ in range(12):
            if not stop.is_set():
                yield bytes(4 << 20)

    sending = threading.Thread(target=lambda: other.upload("b.wav", body()))
    sending.start()
    seconds = []
    for _ in range(5):
        started = time.monotonic()
        assert service.say("hello").status_code == 200
        seconds.append(time.monotonic() - started)
    stop.set()
    sending.join(60)
    assert sorted(seconds)[2] < 5


def test_a_text_is_of_a_kind_that_is_read(service):
    dataset = Dataset(service)
    for kind in ("exe", "", "../x"):
        assert dataset.ask("PUT", "/text", params={"kind": kind}, content=b"x").status_code == 422
    for wrong in (b"RIFF\xff\xfe\x00junk", bytes(range(128, 256)), b"One.\0Two.", b"\xff\xfe\x00"):
        assert refused(dataset.ask("PUT", "/text", content=wrong)) == (422, "not_a_text")
    assert dataset.ask("PUT", "/text", content=b"  \n").json()["code"] == "no_text"
    assert dataset.ask("PUT", "/text", content=b"x" * (5 << 20)).status_code == 413
    assert dataset.details()["text"] is None
    for good in ("Olá.".encode(), "\ufeffOlá.".encode(), "Olá.".encode("utf-16")):
        assert dataset.ask("PUT", "/text", content=good).status_code == 200
    assert dataset.ask("PUT", "/text?kind=vtt", content=b"Two.").status_code == 200
    assert [path.name for path in dataset.folder.glob("text.*")] == ["text.vtt"]
    assert dataset.ask("DELETE", "/text").status_code == 204
    assert dataset.details()["text"] is None


def test_a_sound_tells_its_own_methods_and_not_those_of_its_clip(service):
    dataset = with_tape(service)
    dataset.cut()
    for path, methods in (("tape-0001.wav", "GET, HEAD"), ("tape-0001", "PATCH")):
        answer = dataset.ask("PUT", f"/clips/{path}")
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)
