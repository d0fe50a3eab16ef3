"""Which candidate of a run can be spoken with, and how it is opened."""

from dataclasses import replace
from pathlib import Path

import pytest

from api.errors import APIError
from api.runs import targets
from api.runs.listing import RunSummary, scan
from api.settings import ApiSettings
from tests.api.conftest import settings_in
from tests.api.run_folders import candidate, write_blend, write_epoch, write_evaluated
from xtts.voices.run_folder import RunFolder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    for epoch in (1, 2):
        write_epoch(folder, epoch)
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> ApiSettings:
    return settings_in(tmp_path)


def read(output: Path) -> RunSummary:
    return scan(output)["current"]


def refused(settings: ApiSettings, run: RunSummary, name: str) -> tuple[int, str, str]:
    with pytest.raises(APIError) as caught:
        targets.find_target(settings, run, name)
    assert not targets.can_speak(settings, run, name)
    return caught.value.status, caught.value.code, caught.value.detail


def test_an_epoch_is_opened_with_its_own_weights(settings: ApiSettings, output: Path) -> None:
    run = read(output)
    found = targets.find_target(settings, run, "epoch_2")
    assert (found.run, found.candidate, found.epoch) == ("current", "epoch_2", 2)
    assert found.sha256 == run.epochs[2].sha256 and found.sha256[:8] in found.voice.name
    assert found.voice.wanted["name"] == str(run.epochs[2].checkpoint)
    assert targets.can_speak(settings, run, "epoch_2")


@pytest.mark.parametrize(
    ("base_model", "base"), [("demo", None), ("xtts_v2", None), ("/models/mine", "/models/mine")]
)
def test_only_a_folder_is_where_the_base_of_a_run_is_looked_for(
    tmp_path: Path, output: Path, base_model: str, base: str | None
) -> None:
    settings = settings_in(tmp_path, base_model=base_model)
    found = targets.find_target(settings, read(output), "epoch_2")
    assert found.voice.wanted["base"] == base


def test_a_candidate_that_there_never_was(settings: ApiSettings, output: Path) -> None:
    assert refused(settings, read(output), "epoch_9")[:2] == (404, "no_candidate")


@pytest.mark.parametrize(
    ("broken", "code", "words"),
    [
        (lambda run: run.checkpoint_path(1).unlink(), "no_checkpoint", "was pruned"),
        (lambda run: run.manifest_path(1).unlink(), "unfinished_checkpoint", "being saved"),
        (lambda run: run.checkpoint_path(1).write_bytes(b"x"), "damaged_checkpoint", "cut short"),
    ],
)
def test_why_an_epoch_cannot_speak(
    settings: ApiSettings, output: Path, broken, code, words
) -> None:  # type: ignore[no-untyped-def]
    broken(RunFolder(output))
    status, found, told = refused(settings, read(output), "epoch_1")
    assert (status, found) == (409, code) and words in told and "epoch 1" in told


def test_the_base_speaks_with_the_persons_recording(settings: ApiSettings, output: Path) -> None:
    found = targets.find_target(settings, read(output), "base")
    assert found.voice.wanted["base_only"] is True and found.epoch == 0
    samples = RunFolder(output).samples
    assert found.voice.wanted["reference"] == str(samples / "epoch_2_reference.wav")
    for recording in samples.glob("*_reference.wav"):
        recording.unlink()
    assert refused(settings, read(output), "base")[1] == "no_checkpoint"


def test_of_the_blends_only_the_best_speaks(settings: ApiSettings, output: Path) -> None:
    write_blend(output, 1, 0.5)
    best, other = (candidate(output, "blend", 1, share) for share in (0.5, 0.75))
    write_evaluated(output, best, best, other)
    run = read(output)
    found = targets.best_target(settings, run)
    assert found is not None and found.voice.wanted["name"] == str(RunFolder(output).best_blend)
    assert targets.find_target(settings, run, found.candidate) == found
    name = found.candidate.replace("0.5", "0.75")
    assert name != found.candidate
    status, code, told = refused(settings, run, name)
    assert (status, code) == (409, "no_checkpoint") and "only the best one is kept" in told


def test_a_blend_of_another_verdict_is_not_taken_for_it(
    settings: ApiSettings, output: Path
) -> None:
    write_blend(output, 2, 0.5)
    best = candidate(output, "blend", 1, 0.5)
    write_evaluated(output, best, best)
    assert targets.best_target(settings, read(output)) is None


def test_the_best_is_what_the_verdict_names(settings: ApiSettings, output: Path) -> None:
    assert targets.best_target(settings, read(output)) is None
    best = candidate(output, "epoch", 1, 1.0)
    write_evaluated(output, best, best)
    found = targets.best_target(settings, read(output))
    assert found is not None and found.candidate == "epoch_1"


def test_lists_and_folders_of_the_settings_go_to_the_child(
    settings: ApiSettings,
) -> None:
    own = replace(settings, base_model="/my/base", pronunciations="p.tsv")
    wanted = targets.voice_at(own, "/a/voice").wanted
    assert (wanted["name"], wanted["base"]) == ("/a/voice", "/my/base")
    assert wanted["pronunciations"] == "p.tsv"
    plain = targets.voice_at(settings, "demo")
    assert plain.name and "pronunciations" not in plain.wanted
