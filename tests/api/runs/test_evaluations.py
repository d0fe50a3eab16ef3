"""A run's evaluation over HTTP: candidates with their figures, and their spoken sentences."""

from dataclasses import asdict, replace

import pytest

from tests.api.conftest import PATIENT, running, settings_in
from tests.api.heard import refused
from tests.api.judged_run import CANDIDATES, row, served
from tests.api.run_folders import candidate, write_epoch, write_evaluated
from xtts.voices.evaluation_file import FurtherFigure
from xtts.voices.run_folder import RunFolder


def test_rows_have_the_base_first_and_what_each_figure_is(still):
    run = still.client.get("/v1/runs").json()["runs"][0]
    evaluation = run["evaluation"]
    assert [candidate["id"] for candidate in evaluation["candidates"]] == ["base", "epoch_1", "epoch_2"]
    assert evaluation["judges"]["word_errors"]["absent"] == "no recogniser"
    assert evaluation["judges"]["rate_drift_percent"]["better"] == "zero"
    assert evaluation["smallest_difference"] == {"words": 0.04}
    assert (evaluation["sentences"], evaluation["language"]) == (3, "en")
    assert evaluation["verdict"]["candidate"] == "epoch_1"
    base, first, second = evaluation["candidates"]
    assert base["judges"]["words"]["against_base"] is None and base["indistinguishable_from_base"]
    assert first["is_best"] and first["can_speak"] and first["is_served"]
    assert first["judges"]["words"]["against_base"]["mean"] == pytest.approx(0.3)
    assert (second["ruled_out"], second["unfinished"]) == ("Two sentences never end.", 2)
    # The verdict decides, not the loss.
    assert [epoch["is_best"] for epoch in run["epochs"]] == [True, False]


def test_a_figure_that_is_no_number_is_null(service, output):
    path = RunFolder(output).evaluation_file
    other = path.with_suffix(".part")  # as the trainer does: no reader gets half of it
    other.write_text(path.read_text().replace('"mean": 0.2', '"mean": NaN'))
    other.replace(path)
    service.wait_until(lambda: row(service, "base")["judges"]["voice"]["mean"] is None, 10)


def test_figures_of_extras_are_in_the_rows(service, output):
    figure = FurtherFigure(0.4, 0.3, 0.5, 12, "A note.", {"vowels": []})
    best = candidate(output, "epoch", 1, 1.0, further={"accent": figure})
    write_evaluated(output, best, best)
    service.wait_until(lambda: row(service, "epoch_1")["further"] == {"accent": asdict(figure)}, 10)
    assert row(service, "base")["further"] == {}


def test_a_run_without_an_evaluation_says_so(tmp_path):
    write_epoch(tmp_path / "output", 1)
    with running(settings_in(tmp_path), limits=PATIENT) as service:
        answer = service.client.get("/v1/runs").json()
        assert answer["runs"][0]["evaluation"] is None and answer["follows"] == "latest"
        assert refused(service.client.get("/v1/runs/current/evaluation")) == (404, "no_evaluation")


def test_a_damaged_evaluation_is_none_and_is_told_once(service, output, caplog):
    RunFolder(output).evaluation_file.write_text("{")
    follower = service.state.follower
    service.wait_until(lambda: follower.runs["current"].evaluation is None, 10)
    looks = len(caplog.records)
    service.wait_until(lambda: (served(service) or {}).get("epoch") == 2, 30)
    told = [record for record in caplog.records if "evaluation.json" in record.getMessage()]
    assert len(told) == 1 and looks >= 1


def test_an_epoch_that_was_trained_again_is_not_what_was_judged(service, output):
    write_epoch(output, 1, content=b"another epoch 1")
    follower = service.state.follower
    service.wait_until(lambda: (served(service) or {}).get("epoch") == 2, 30)

    def names():
        run = service.client.get("/v1/runs").json()["runs"][0]
        return [candidate["id"] for candidate in run["evaluation"]["candidates"]]

    # The served voice may change before the run's list is read again.
    service.wait_until(lambda: names() == ["base", "epoch_2"], 30)
    assert "another one than was judged" in follower.served_reason


def test_sentences_are_told_with_where_they_are_heard(still):
    output = still.state.settings.output_dir
    details = still.client.get("/v1/runs/current/evaluation").json()
    assert [candidate["id"] for candidate in details["candidates"]] == ["base", "epoch_1", "epoch_2"]
    sentences = details["candidates"][1]["sentences"]
    assert sentences[0]["text"] == "The first sentence."
    assert sentences[2]["sound"] is None
    address = sentences[1]["sound"]
    assert address == f"{CANDIDATES}/epoch_1/sentences/1.wav"
    data = (output / "samples" / "evaluation" / "epoch_1_1_1.wav").read_bytes()
    answer = still.client.get(address)
    assert (answer.content, answer.headers["content-type"]) == (data, "audio/wav")
    assert answer.headers["cache-control"] == "no-cache"
    part = still.client.get(address, headers={"range": "bytes=10-19"})
    assert part.status_code == 206 and part.content == data[10:20]
    for path in ("epoch_9/sentences/0", "epoch_1/sentences/2", "epoch_1/sentences/99"):
        assert still.client.get(f"{CANDIDATES}/{path}.wav").status_code == 404
    assert still.client.get("/v1/runs/nothing/evaluation").status_code == 404


def test_nothing_outside_the_run_is_served_whatever_its_evaluation_says(service, output, tmp_path):
    secret = tmp_path / "secret.wav"
    secret.write_bytes(b"secret")
    link = output / "samples" / "link.wav"
    link.symlink_to(secret)
    epoch = candidate(output, "epoch", 1, 1.0)
    paths = [
        "../secret.wav",
        str(secret),
        "samples/link.wav",
        "evaluation.json",
        "a\0b.wav",
        "x" * 5000 + ".wav",
        "samples/../samples/epoch_1_output.wav",
    ]
    sentences = [replace(epoch.sentences[0], wav=path) for path in paths]
    write_evaluated(output, None, replace(epoch, sentences=sentences))
    service.wait_until(lambda: service.state.follower.runs["current"].evaluation.verdict is None, 10)
    details = service.client.get("/v1/runs/current/evaluation").json()["candidates"][1]
    sounds = [sentence["sound"] for sentence in details["sentences"]]
    assert sounds == [None] * 6 + [f"{CANDIDATES}/epoch_1/sentences/6.wav"]
    for number in range(6):
        answer = service.client.get(f"{CANDIDATES}/epoch_1/sentences/{number}.wav")
        assert answer.status_code == 404 and b"secret" not in answer.content
