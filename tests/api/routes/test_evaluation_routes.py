"""A run's evaluation over HTTP: rows, sentences, the voice that is followed, and hearing a
candidate without serving it."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.routes.test_speech_routes import wanted
from tests.api.run_folders import candidate, write_blend, write_epoch, write_evaluated
from xtts.hub.run_folder import RunFolder

CANDIDATES = "/v1/runs/current/candidates"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Two epochs, of which the first is the best."""
    folder = tmp_path / "output"
    write_epoch(folder, 1, loss=2.5)
    write_epoch(folder, 2, loss=1.5)
    one = candidate(folder, "epoch", 1, 1.0, words=0.8)
    two = candidate(folder, "epoch", 2, 1.0, words=0.3, ruled_out="Two sentences never end.",
                    unfinished=2, remarks=["It speaks 20 % too fast."])  # fmt: skip
    write_evaluated(folder, one, one, two)
    return folder


@pytest.fixture
def service(output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr("api.runs.following.LOOK_SECONDS", 0.1)
    with running(settings_in(tmp_path)) as found:
        found.wait_ready()
        yield found


def row(service: Running, name: str) -> dict[str, Any]:
    run = service.client.get("/v1/runs").json()["runs"][0]
    return next(one for one in run["evaluation"]["candidates"] if one["id"] == name)


def served(service: Running) -> Any:
    return service.client.get("/v1/runs").json()["served"]


def preview(service: Running, name: str, text: str, **more: Any) -> httpx.Response:
    body = {"input": text, "response_format": "wav", **more}
    return service.client.post(f"{CANDIDATES}/{name}/speech", json=body)


def test_rows_have_the_base_first_and_what_each_figure_is(service: Running) -> None:
    run = service.client.get("/v1/runs").json()["runs"][0]
    found = run["evaluation"]
    assert [one["id"] for one in found["candidates"]] == ["base", "epoch_1", "epoch_2"]
    assert found["judges"]["word_errors"]["absent"] == "no recogniser"
    assert found["judges"]["rate_drift_percent"]["better"] == "zero"
    assert found["smallest_difference"] == {"words": 0.04}
    assert (found["sentences"], found["language"]) == (3, "en")
    assert found["verdict"]["candidate"] == "epoch_1"
    base, one, two = found["candidates"]
    assert base["judges"]["words"]["against_base"] is None and base["indistinguishable_from_base"]
    assert one["is_best"] and one["can_speak"] and one["is_served"]
    assert one["judges"]["words"]["against_base"]["mean"] == pytest.approx(0.3)
    assert (two["ruled_out"], two["unfinished"]) == ("Two sentences never end.", 2)
    # The verdict decides, not the loss.
    assert [epoch["is_best"] for epoch in run["epochs"]] == [True, False]


def test_a_figure_that_is_no_number_is_null(service: Running, output: Path) -> None:
    path = RunFolder(output).evaluation_file
    path.write_text(path.read_text().replace('"mean": 0.2', '"mean": NaN'))
    service.wait_until(lambda: row(service, "base")["judges"]["voice"]["mean"] is None, 10)


def test_a_run_without_an_evaluation_says_so(tmp_path: Path) -> None:
    write_epoch(tmp_path / "output", 1)
    with running(settings_in(tmp_path)) as service:
        service.wait_ready()
        found = service.client.get("/v1/runs").json()
        assert found["runs"][0]["evaluation"] is None and found["follows"] == "latest"
        answer = service.client.get("/v1/runs/current/evaluation")
        assert (answer.status_code, answer.json()["code"]) == (404, "no_evaluation")


def test_a_damaged_evaluation_is_none_and_is_told_once(
    service: Running, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    RunFolder(output).evaluation_file.write_text("{")
    follower = service.parts.follower
    service.wait_until(lambda: follower.runs["current"].evaluation is None, 10)
    looks = len(caplog.records)
    service.wait_until(lambda: served(service)["epoch"] == 2, 10)
    told = [one for one in caplog.records if "evaluation.json" in one.getMessage()]
    assert len(told) == 1 and looks >= 1


def test_an_epoch_that_was_trained_again_is_not_what_was_judged(
    service: Running, output: Path
) -> None:
    write_epoch(output, 1, content=b"another epoch 1")
    follower = service.parts.follower
    service.wait_until(lambda: served(service)["epoch"] == 2, 10)
    names = [one["id"] for one in service.client.get("/v1/runs").json()["runs"][0]["evaluation"]
             ["candidates"]]  # fmt: skip
    assert names == ["base", "epoch_2"]
    assert "not on disk" in follower.reason


def test_sentences_are_told_with_where_they_are_heard(service: Running, output: Path) -> None:
    found = service.client.get("/v1/runs/current/evaluation").json()
    assert [one["id"] for one in found["candidates"]] == ["base", "epoch_1", "epoch_2"]
    said = found["candidates"][1]["sentences"]
    assert said[0]["text"] == "The first sentence."
    assert said[2]["sound"] is None
    address = said[1]["sound"]
    assert address == f"{CANDIDATES}/epoch_1/sentences/1.wav"
    data = (output / "samples" / "evaluation" / "epoch_1_1_1.wav").read_bytes()
    answer = service.client.get(address)
    assert (answer.content, answer.headers["content-type"]) == (data, "audio/wav")
    assert answer.headers["cache-control"] == "no-cache"
    part = service.client.get(address, headers={"range": "bytes=10-19"})
    assert part.status_code == 206 and part.content == data[10:20]
    assert service.client.get(address, headers={"range": "bytes=9999999-"}).status_code == 416


@pytest.mark.parametrize(
    "path",
    [
        f"{CANDIDATES}/epoch_9/sentences/0.wav",
        f"{CANDIDATES}/epoch_1/sentences/2.wav",
        f"{CANDIDATES}/epoch_1/sentences/99.wav",
        f"{CANDIDATES}/..%2F..%2Fcheckpoints/sentences/0.wav",
        f"{CANDIDATES}/%2e%2e/sentences/0.wav",
        "/v1/runs/..%2F/candidates/base/sentences/0.wav",
        "/v1/runs/nothing/evaluation",
    ],
)
def test_what_was_not_judged_or_kept_is_404_without_a_path(service: Running, path: str) -> None:
    answer = service.client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert str(Path(__file__).parents[3]) not in answer.text and "Traceback" not in answer.text


def test_nothing_outside_the_run_is_served_whatever_its_evaluation_says(
    service: Running, output: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(b"secret")
    link = output / "samples" / "link.wav"
    link.symlink_to(secret)
    one = candidate(output, "epoch", 1, 1.0)
    paths = ["../secret.wav", str(secret), "samples/link.wav", "evaluation.json", "a\0b.wav",
             "x" * 5000 + ".wav", "samples/../samples/epoch_1_output.wav"]  # fmt: skip
    said = [replace(one.sentences[0], wav=path) for path in paths]
    write_evaluated(output, None, replace(one, sentences=said))
    service.wait_until(
        lambda: service.parts.follower.runs["current"].evaluation.verdict is None, 10
    )
    details = service.client.get("/v1/runs/current/evaluation").json()["candidates"][1]
    sounds = [one["sound"] for one in details["sentences"]]
    assert sounds == [None] * 6 + [f"{CANDIDATES}/epoch_1/sentences/6.wav"]
    for number in range(6):
        answer = service.client.get(f"{CANDIDATES}/epoch_1/sentences/{number}.wav")
        assert answer.status_code == 404 and b"secret" not in answer.content


# ---- which voice is followed ----


def test_without_voice_the_best_is_served_and_the_status_says_why(service: Running) -> None:
    assert served(service) == {"run": "current", "epoch": 1, "candidate": "epoch_1"}
    status = service.client.get("/status").json()
    assert status["voice"].startswith("epoch 1 ")
    assert status["voice_reason"] == "The best by the evaluation is epoch 1: It speaks best."
    assert service.client.get("/v1/runs").json()["follows"] == "best"


def test_a_new_verdict_is_followed_to_a_blend_and_to_the_base(
    service: Running, output: Path
) -> None:
    write_blend(output, 2, 0.5)
    blend = candidate(output, "blend", 2, 0.5)
    write_evaluated(output, blend, candidate(output, "epoch", 2, 1.0), blend)
    name = "epoch_2_share_0.5"
    expected = {"run": "current", "epoch": 2, "candidate": name}
    service.wait_until(lambda: served(service) == expected, 10)
    assert row(service, name)["is_served"] and row(service, name)["is_best"]
    assert service.client.get("/status").json()["voice"].startswith("epoch 2 at 50% (")
    base = candidate(output, "base")
    write_evaluated(output, base, candidate(output, "epoch", 2, 1.0))
    expected = {"run": "current", "epoch": 0, "candidate": "base"}
    service.wait_until(lambda: served(service) == expected, 10)
    opened = service.parts.engine.standing.voice.wanted
    assert opened["base_only"] and opened["reference"].endswith("epoch_2_reference.wav")
    key = service.parts.engine.standing.key
    write_epoch(output, 3)  # another checkpoint of the same base: nothing is opened again
    service.wait_until(lambda: 3 in service.parts.follower.runs["current"].epochs, 10)
    assert served(service) == expected and service.parts.engine.standing.key == key


def test_a_blend_that_is_another_one_than_the_verdicts_is_not_spoken_with(
    service: Running, output: Path
) -> None:
    write_blend(output, 1, 0.5)  # as left behind by a kill between best.pt and evaluation.json
    blend = candidate(output, "blend", 2, 0.5)
    write_evaluated(output, blend, blend)
    service.wait_until(lambda: "is not on disk" in service.parts.follower.reason, 10)
    assert served(service)["candidate"] == "epoch_2"
    assert not row(service, "epoch_2_share_0.5")["can_speak"]
    answer = preview(service, "epoch_2_share_0.5", "hello")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_checkpoint")


@pytest.mark.parametrize(
    ("voice", "epoch", "reason"),
    [
        ("latest", 2, "VOICE=latest: Epoch 2 is the newest."),
        ("best", 1, "VOICE=best: The best by the evaluation is epoch 1: It speaks best."),
    ],
)
def test_what_voice_says_goes_before(
    output: Path, tmp_path: Path, voice: str, epoch: int, reason: str
) -> None:
    with running(settings_in(tmp_path, voice=voice)) as service:
        service.wait_ready()
        assert served(service)["epoch"] == epoch
        assert service.client.get("/status").json()["voice_reason"] == reason


def test_a_promoted_epoch_goes_before_the_best(service: Running) -> None:
    service.client.post("/v1/runs/current/epochs/2/promote")
    assert service.client.get("/status").json()["voice_reason"] == "Epoch 2 was promoted."
    answer = service.client.delete("/v1/promotion").json()
    assert answer["served"]["candidate"] == "epoch_1"


# ---- hearing a candidate ----


def test_a_candidate_speaks_for_its_caller_alone(service: Running) -> None:
    before = service.client.get("/status").json()["voice"]
    for name, who in (("epoch_2", "checkpoint_epoch_2.pt"), ("base", "checkpoint_epoch_2.pt base")):
        answer = preview(service, name, "!who")
        assert answer.content[44:] == wanted(f"!who {who}", 0)
        assert service.say("!who").content[44:] == wanted("!who checkpoint_epoch_1.pt", 0)
    assert service.client.get("/status").json()["voice"] == before
    assert served(service)["candidate"] == "epoch_1" and not row(service, "epoch_2")["is_served"]
    metrics = service.client.get("/metrics").text
    assert 'tts_requests_total{code="200"} 4.0' in metrics


def test_the_served_candidate_is_not_opened_twice(service: Running) -> None:
    assert preview(service, "epoch_1", "hello").content == service.say("hello").content
    assert service.parts.engine.previews.current is None


def test_one_candidate_is_open_at_a_time_and_it_is_closed_again(service: Running) -> None:
    slot = service.parts.engine.previews
    preview(service, "epoch_2", "hello")
    first = slot.current.key
    preview(service, "epoch_2", "hello again")
    assert slot.current.key == first  # still open
    preview(service, "base", "hello")
    assert slot.current.voice.name.startswith("base of current")
    service.parts.engine.limits = slot._limits = replace(QUICK, preview=0.05)
    service.wait_until(lambda: slot.current is None, 10)
    assert preview(service, "epoch_2", "hello").status_code == 200


def in_threads(*acts: Callable[[], httpx.Response]) -> list[httpx.Response]:
    found: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda act=act: found.append(act())) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_those_who_want_another_candidate_wait_for_those_who_speak(
    service: Running,
) -> None:
    """Both are answered whole, and never are both voices open."""
    answers = in_threads(
        *[lambda seed=seed: preview(service, "epoch_2", "p" * 200, seed=seed) for seed in (1, 2)],
        *[lambda seed=seed: preview(service, "base", "p" * 200, seed=seed) for seed in (3, 4)],
    )
    assert sorted(answer.content[44:] for answer in answers) == sorted(
        wanted("p" * 200, seed) for seed in (1, 2, 3, 4)
    )


def test_who_waits_too_long_for_another_candidate_is_told_to_come_back(service: Running) -> None:
    engine = service.parts.engine
    engine.previews._limits = replace(QUICK, deadline=0.3)
    body = {"input": "v" * 4000, "response_format": "pcm"}
    with service.client.stream("POST", f"{CANDIDATES}/epoch_2/speech", json=body) as answer:
        sound = answer.iter_raw()
        next(sound)
        refused = preview(service, "base", "hello")
    assert (refused.status_code, refused.json()["code"]) == (503, "preview_busy")
    assert int(refused.headers["retry-after"]) > 0
    # Whoever goes away frees it.
    engine.previews._limits = QUICK
    assert preview(service, "base", "hello").status_code == 200


def test_no_more_wait_for_a_candidate_than_for_their_turn(service: Running) -> None:
    service.parts.engine.previews._limits = replace(QUICK, queue=0)
    answer = preview(service, "epoch_2", "hello")
    assert (answer.status_code, answer.json()["code"]) == (503, "queue_full")


def test_a_candidate_that_dies_is_told_and_the_served_voice_comes_back(service: Running) -> None:
    answer = preview(service, "epoch_2", "!signal SIGSEGV")
    assert answer.status_code == 503
    assert service.parts.engine.previews.current is None
    service.wait_ready()
    assert served(service)["candidate"] == "epoch_1"
    # The same words are no suspect where another voice says them.
    digests = service.parts.engine.waiting.deaths
    assert len(digests) == 1
    assert preview(service, "epoch_2", "hello").status_code == 200


def test_a_candidate_whose_output_is_no_number_does_not_make_the_service_unready(
    service: Running,
) -> None:
    answer = preview(service, "epoch_2", "!nan")
    assert (answer.status_code, answer.json()["code"]) == (503, "not_finite")
    assert service.parts.engine.ready


def test_a_pruned_epoch_is_refused_and_can_still_be_heard(service: Running, output: Path) -> None:
    run = RunFolder(output)
    run.manifest_path(2).unlink()
    run.checkpoint_path(2).unlink()
    service.wait_until(lambda: service.parts.follower.runs["current"].epochs[2].state == "pruned")
    answer = preview(service, "epoch_2", "hello")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_checkpoint")
    assert "pruned" in answer.json()["detail"] and not row(service, "epoch_2")["can_speak"]
    assert service.client.get(f"{CANDIDATES}/epoch_2/sentences/0.wav").status_code == 200


@pytest.mark.parametrize(
    ("name", "status"),
    [("epoch_9", 404), ("nobody", 404), ("..%2Fx", 404), ("epoch_1_share_0.3", 404)],
)
def test_a_candidate_that_is_not_there_is_404(service: Running, name: str, status: int) -> None:
    answer = preview(service, name, "hello")
    assert answer.status_code == status and str(Path.cwd()) not in answer.text


def test_a_candidate_that_cannot_be_opened_is_refused_without_its_path(
    service: Running, output: Path
) -> None:
    os.rename(output, output.with_name("bad"))
    (output.with_name("output")).symlink_to(output.with_name("bad"))
    service.parts.follower.settings = settings_in(output.parent, output_dir=output.parent / "bad")
    service.wait_until(
        lambda: "bad" in str(service.parts.follower.runs["current"].epochs[2].checkpoint), 10
    )
    answer = preview(service, "epoch_2", "hello")
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")
    assert "/secret" not in answer.text
    assert service.say("hello").status_code == 200


@pytest.mark.parametrize("more", [{"low_memory": True}, {"backend": "onnx"}])
def test_where_a_second_voice_has_no_room_it_is_refused(
    output: Path, tmp_path: Path, more: dict[str, Any]
) -> None:
    with running(settings_in(tmp_path)) as service:
        service.wait_ready()
        service.parts.engine.how = replace(service.parts.engine.how, **more)
        answer = preview(service, "epoch_2", "hello")
        assert (answer.status_code, answer.json()["code"]) == (409, "no_preview")


def test_others_pages_hear_no_candidate_and_nobody_without_the_key(
    output: Path, tmp_path: Path
) -> None:
    with running(settings_in(tmp_path, api_key="a key")) as service:
        service.wait_until(lambda: service.parts.engine.ready)
        sound = f"{CANDIDATES}/epoch_1/sentences/0.wav"
        speech = f"{CANDIDATES}/epoch_2/speech"
        key = {"authorization": "Bearer a key"}
        body = {"input": "hello", "response_format": "wav"}
        for path in (sound, "/v1/runs/current/evaluation"):
            assert service.client.get(path).status_code == 401
            assert service.client.get(path, headers=key).status_code == 200
        assert service.client.post(speech, json=body).status_code == 401
        foreign = {**key, "origin": "https://elsewhere.example"}
        answer = service.client.post(speech, json=body, headers=foreign)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
        assert service.client.post(speech, json=body, headers=key).status_code == 200


def test_previews_count_against_the_rate_limit(output: Path, tmp_path: Path) -> None:
    with running(settings_in(tmp_path, api_requests_per_minute=1)) as service:
        service.wait_ready()
        assert preview(service, "epoch_2", "hello").status_code == 200
        assert preview(service, "epoch_2", "hello").status_code == 429
