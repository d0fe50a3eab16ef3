"""Resuming: from the end of the last run, from a file, or from the beginning."""

import errno
import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from machine.errors import SotaqueError
from tests.train.checkpointing import saving
from tests.train.checkpointing.saving import FINGERPRINT, damage, interrupt, model, names, provenance, save
from train.checkpointing.checkpoints import Checkpoints
from train.metrics import curves
from xtts.voices.run_folder import RunError, RunFolder


@pytest.fixture
def fresh(tmp_path) -> Checkpoints:
    """The checkpoints of another folder, which holds no run."""
    return Checkpoints(RunFolder(tmp_path / "fresh"), keep=3)


def test_resume_reads_again_what_this_process_has_written(run, checkpoints):
    for epoch in (1, 2):
        save(checkpoints, epoch)
    path = run.checkpoint_path(2)
    before = path.stat()
    damage(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert checkpoints.resume("auto", FINGERPRINT).epoch == 1


def test_what_is_damaged_is_set_aside_with_its_reason(run, checkpoints, caplog):
    for epoch in (1, 2):
        save(checkpoints, epoch)
    damage(run.checkpoint_path(2))
    assert checkpoints.resume("auto", FINGERPRINT).epoch == 1 and run.epochs() == [1]
    for name in ("checkpoint_epoch_2.pt.corrupt", "checkpoint_epoch_2.json.corrupt"):
        assert (run.checkpoints / name).is_file() and name in caplog.text


def test_what_a_kill_left_without_a_manifest_stays_and_is_not_taken(run, checkpoints, caplog):
    for epoch in (1, 2):
        save(checkpoints, epoch)
    run.manifest_path(2).unlink()
    assert checkpoints.resume("auto", FINGERPRINT).epoch == 1
    assert "killed" in caplog.text
    assert run.checkpoint_path(2).is_file() and not list(run.checkpoints.glob("*.corrupt"))


def test_where_only_weights_are_left_the_optimizer_starts_anew_and_that_is_said(run, checkpoints, caplog):
    caplog.set_level(logging.INFO)
    for epoch in (1, 2, 3):
        save(checkpoints, epoch)
    for epoch in (2, 3):
        damage(run.checkpoint_path(epoch))
    found = checkpoints.resume("auto", FINGERPRINT)
    assert (found.epoch, found.trainer_state) == (1, None)
    assert "optimizer starts over" in caplog.text


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_stop_inside_an_epoch_is_further_than_the_epoch_before(checkpoints, epoch):
    if epoch == 2:
        save(checkpoints, 1)
    interrupt(checkpoints, epoch, batch=4)
    found = checkpoints.resume("auto", FINGERPRINT)
    assert (found.epoch, found.step, found.batch) == (epoch - 1, 10 * (epoch - 1) + 4, 4)
    assert found.model_state["gpt.a"][0] == epoch - 0.5
    assert found.trainer_state["optimizer"]["state"][0]["step"] == epoch - 0.5


def test_a_later_epoch_supersedes_it(run, checkpoints):
    interrupt(checkpoints, 1, batch=4)
    kept = run.interrupted.read_bytes(), run.interrupted_manifest.read_bytes()
    save(checkpoints, 1)
    assert "interrupted.pt" not in names(run)
    assert "interrupted.json" not in names(run)
    run.interrupted.write_bytes(kept[0])
    run.interrupted_manifest.write_bytes(kept[1])
    assert checkpoints.resume("auto", FINGERPRINT).source == run.checkpoint_path(1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base_sha256": "x" * 64}, "BASE_MODEL"),
        ({"data_sha256": "x" * 64}, "DATASET_DIR"),
        ({"vocabulary_sha256": "x" * 64}, "vocab.json"),
        ({"shape": {"layers": 3, "width": 64}}, "layers was 2, is 3"),
        ({"schema": 99}, "the format of the run was 1, is 99"),
        ({"base_sha256": "x", "data_sha256": "y"}, r"BASE_MODEL.*DATASET_DIR"),
    ],
)
def test_another_fingerprint_is_refused_with_two_ways_on(run, checkpoints, change, said):
    save(checkpoints, 1)
    before = names(run)
    with pytest.raises(SotaqueError, match=said) as raised:
        checkpoints.resume("auto", replace(FINGERPRINT, **change))
    assert raised.value.exit_code == 2
    assert "RESUME=never" in str(raised.value)
    assert "OUTPUT_DIR to another folder" in str(raised.value)
    assert names(run) == before


SMALL = {"clips": 5, "minutes": 0.4}
LARGE = {"clips": 24, "minutes": 1.9}
GERMAN = {"LANGUAGE": "de", "MAX_TRAIN_SAMPLES": None, "SUSPECT_CLIPS": "keep"}


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (
            {**LARGE, "settings": GERMAN},
            {**SMALL, "settings": GERMAN},
            "trains on 24 clips, 1.9 minutes, this start on 5 clips, 0.4 minutes (DATASET_DIR).",
        ),
        (
            {**LARGE, "settings": GERMAN},
            {**LARGE, "settings": {**GERMAN, "LANGUAGE": "en", "SUSPECT_CLIPS": "leave_out"}},
            "start: LANGUAGE was de, is en; SUSPECT_CLIPS was keep, is leave_out.",
        ),
        (
            {**LARGE, "settings": GERMAN},
            {**SMALL, "settings": {**GERMAN, "MAX_TRAIN_SAMPLES": 5}},
            "start: MAX_TRAIN_SAMPLES was all, is 5; the run trains on 24 clips",
        ),
        (
            {**LARGE, "settings": GERMAN},
            {**LARGE, "settings": GERMAN},
            "the same number of clips (24 clips, 1.9 minutes), but a recording, a transcript, a "
            "speaker or a validation clip differs (DATASET_DIR).",
        ),
        ({}, {**SMALL, "settings": GERMAN}, "the clips or transcripts differ (DATASET_DIR, LANGUAGE,"),
    ],
)
def test_a_changed_dataset_is_named_by_what_a_user_knows_of_it(run, checkpoints, monkeypatch, was, now, said):
    known = saving.provenance
    monkeypatch.setattr(saving, "provenance", lambda: {**known(), "data": was})
    save(checkpoints, 1)
    with pytest.raises(SotaqueError) as raised:
        checkpoints.resume("auto", replace(FINGERPRINT, data_sha256="9" * 64, data=now))
    assert said in str(raised.value) and "9999" not in str(raised.value)


def test_another_base_is_named(run, checkpoints):
    save(checkpoints, 1)
    other = replace(FINGERPRINT, base_sha256="9" * 64)
    for name, said in (("xtts_v2", "BASE_MODEL was demo, is xtts_v2"), ("demo", "the weights of")):
        with pytest.raises(SotaqueError, match=said):
            checkpoints.resume("auto", replace(other, base={"name": name}))


def test_a_changed_learning_rate_is_told_and_used(checkpoints, caplog):
    caplog.set_level(logging.INFO)
    save(checkpoints, 1)
    found = checkpoints.resume("auto", FINGERPRINT, learning_rate=5e-4)
    assert found.epoch == 1
    assert "LEARNING_RATE changes from 0.001 to 0.0005." in caplog.messages
    caplog.clear()
    checkpoints.resume("auto", FINGERPRINT, learning_rate=1e-3)
    assert "LEARNING_RATE" not in caplog.text


def test_never_moves_the_run_whole(run, checkpoints, tmp_path):
    save(checkpoints, 1)
    run.samples.mkdir()
    (run.samples / "epoch_1_output.wav").write_bytes(b"wav")
    run.metrics.write_text("{}\n")
    run.evaluation_file.write_text("{}\n")
    run.speakers.mkdir()
    (run.speakers / "1.wav").write_bytes(b"ben")
    runs_dir = tmp_path / "runs"
    own = curves.claim(run, runs_dir)
    (own / "a").mkdir()
    (own / "a" / "events.out.tfevents.1.host").write_bytes(b"events")
    others = curves.claim(RunFolder(tmp_path / "other" / "output"), runs_dir)
    earlier = runs_dir / "events.out.tfevents.0.host"
    kept = [others / "events.out.tfevents.1.host", earlier, runs_dir / "notes.txt"]
    for path in kept:
        path.write_text("not ours")
    another = replace(FINGERPRINT, base_sha256="x")
    assert checkpoints.resume("never", another, runs_dir=runs_dir) is None

    (archived,) = run.archive.iterdir()
    old = RunFolder(archived)
    assert old.newest_verified().epoch == 1
    assert (old.samples / "epoch_1_output.wav").read_bytes() == b"wav"
    assert old.metrics.read_text() == "{}\n"
    assert (archived / "runs/a/events.out.tfevents.1.host").read_bytes() == b"events"
    assert run.epochs() == [] and not list(own.rglob("events*"))
    assert old.evaluation_file.read_text() == "{}\n"
    assert (old.speakers / "1.wav").read_bytes() == b"ben"
    # The new run keeps only its archive, its lock and the name of its curves.
    assert not {one.name for one in run.folder.iterdir()} & {one.name for one in archived.iterdir()}
    assert not run.samples.exists() and not run.metrics.exists() and not run.speakers.exists()
    assert all(path.read_text() == "not ours" for path in kept)


def test_never_twice_in_a_second_keeps_both_and_nothing_is_nothing(run, checkpoints):
    for _ in range(2):
        save(checkpoints, 1)
        checkpoints.resume("never", FINGERPRINT)
    checkpoints.resume("never", FINGERPRINT)
    assert len(list(run.archive.iterdir())) == 2


def test_a_run_that_cannot_be_moved_is_a_sentence(run, checkpoints, monkeypatch):
    save(checkpoints, 1)

    def refuse(self, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        with pytest.raises(SotaqueError, match="Invalid cross-device link"):
            checkpoints.resume("never", FINGERPRINT)
    assert checkpoints.resume("auto", FINGERPRINT).epoch == 1


def test_start_from_a_file_and_go_on_with_the_same_command(checkpoints, fresh):
    for epoch in (1, 2):
        save(checkpoints, epoch)
    path = str(checkpoints.run.checkpoint_path(1))
    found = fresh.resume(path, FINGERPRINT)
    assert (found.epoch, found.step) == (1, 10)
    assert found.trainer_state["optimizer"]["state"][0]["step"] == 1
    save(fresh, 2)
    again = Checkpoints(fresh.run, keep=3)
    assert again.resume(path, FINGERPRINT).source == fresh.run.checkpoint_path(2)
    save(again, 3)
    Path(path).unlink()
    assert Checkpoints(fresh.run, keep=3).resume(path, FINGERPRINT).epoch == 3


def test_another_file_of_the_same_name_is_not_the_one_that_the_run_began_with(checkpoints, fresh, tmp_path):
    save(checkpoints, 1)
    fresh.resume(str(checkpoints.run.checkpoint_path(1)), FINGERPRINT)
    save(fresh, 2)
    other = Checkpoints(RunFolder(tmp_path / "other"), keep=3, provenance=provenance())
    path = other.save_epoch(1, 10, model(7.0), None, {}).checkpoint
    assert path.name == checkpoints.run.checkpoint_path(1).name
    with pytest.raises(SotaqueError, match="already holds a run at epoch 2"):
        Checkpoints(fresh.run, keep=3).resume(str(path), FINGERPRINT)


def test_a_file_does_not_push_a_run_aside(checkpoints, fresh):
    save(checkpoints, 1)
    path = save(fresh, 5).checkpoint
    with pytest.raises(SotaqueError, match="already holds a run at epoch 1"):
        checkpoints.resume(str(path), FINGERPRINT)


def test_from_other_data_the_weights_are_taken_and_epochs_count_from_1(checkpoints, fresh, caplog):
    caplog.set_level(logging.INFO)
    path = save(checkpoints, 4).checkpoint
    found = fresh.resume(str(path), replace(FINGERPRINT, data_sha256="x"))
    assert (found.epoch, found.step, found.trainer_state) == (0, 0, None)
    assert found.model_state["gpt.a"][0] == 4
    assert "other data" in caplog.text


def test_a_file_that_is_missing_damaged_or_of_another_model_is_named(checkpoints, fresh, tmp_path):
    path = save(checkpoints, 1).checkpoint
    with pytest.raises(SotaqueError, match="belongs to another model"):
        fresh.resume(str(path), replace(FINGERPRINT, base_sha256="x"))
    with pytest.raises(RunError, match=r"none\.pt does not exist"):
        fresh.resume(str(tmp_path / "none.pt"), FINGERPRINT)
    damage(path)
    with pytest.raises(RunError, match=r"checkpoint_epoch_1\.pt is damaged"):
        fresh.resume(str(path), FINGERPRINT)
    torch.save({"model": {}}, tmp_path / "model.pth")
    with pytest.raises(SotaqueError, match="BASE_MODEL"):
        fresh.resume(str(tmp_path / "model.pth"), FINGERPRINT)


@pytest.mark.parametrize("unreadable", ["weights", "manifest", "schema"])
def test_what_may_be_intact_is_neither_set_aside_nor_passed_over(run, checkpoints, monkeypatch, unreadable):
    """A disk that answers with an error once, or a run of a newer version."""
    for epoch in (1, 2, 3):
        save(checkpoints, epoch)
    before = names(run)

    def fail(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    if unreadable == "weights":
        monkeypatch.setattr("machine.storage.checksums.sha256_of", fail)
    if unreadable == "manifest":
        monkeypatch.setattr(Path, "read_text", fail)
    if unreadable == "schema":
        monkeypatch.setattr("machine.storage.checksums.SCHEMA", 99)
    with pytest.raises(RunError, match="No file was changed"):
        checkpoints.resume("auto", FINGERPRINT)
    assert names(run) == before


def test_a_run_whose_checkpoints_were_deleted_starts_again(run, checkpoints):
    save(checkpoints, 1)
    run.evaluation_file.write_text("{}")
    shutil.rmtree(run.checkpoints)
    assert checkpoints.resume("auto", FINGERPRINT) is None
