"""Saving, pruning and going on: nothing that was saved is ever lost, whatever happens between."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from machine.storage import atomic
from machine.storage.atomic import DiskFull
from machine.storage.hash_cache import kept_sha256
from tests.train.checkpointing.saving import (
    FINGERPRINT,
    interrupt,
    model,
    provenance,
    save,
    stop_in_child,
    train_in_child,
    trainer,
)
from train.checkpointing.checkpoints import Checkpoints, NonFiniteWeights
from train.checkpointing.pruning import to_prune
from train.checkpointing.resume import ResumeError
from train.metrics import curve_folder
from xtts.hub.run_folder import RunError, RunFolder, read_checkpoint


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "output")


@pytest.fixture
def checkpoints(run: RunFolder) -> Checkpoints:
    return Checkpoints(run, keep=3)


def names(run: RunFolder) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(9_000)
        file.write(bytes(512))


# Going on


def test_a_new_run_starts_from_the_base(checkpoints):
    assert checkpoints.resume("auto", FINGERPRINT) is None


def test_everything_saved_comes_back(run, checkpoints):
    saved = save(checkpoints, 1)
    found = Checkpoints(run, keep=3).resume("auto", FINGERPRINT)
    assert (found.epoch, found.step, found.batch) == (1, 10, 0)
    assert found.source == saved.path == run.checkpoint_path(1)
    assert all(torch.equal(found.model_state[name], model(1)[name]) for name in model(1))
    moment = found.trainer_state["optimizer"]["state"][0]["exp_avg"]
    assert torch.equal(moment, torch.full((9,), 1.0))
    assert found.trainer_state["batch_seconds"] == 12.5
    assert found.trainer_state["seen"] == [1, 2]
    assert found.notes == ()
    assert saved.sha256 == atomic.sha256_of(saved.path)


def test_epoch_10_comes_after_9(run):
    checkpoints = Checkpoints(run, keep=None)
    for epoch in range(1, 12):
        save(checkpoints, epoch)
    assert checkpoints.resume("auto", FINGERPRINT).epoch == 11


def test_the_same_state_makes_the_same_file(run, tmp_path):
    other = RunFolder(tmp_path / "other")
    assert save(Checkpoints(run, 3), 1).sha256 == save(Checkpoints(other, 3), 1).sha256


def test_a_slice_is_saved_without_the_rest_of_its_storage(checkpoints):
    state = {"gpt.a": torch.zeros(1_000_000)[:10]}
    saved = checkpoints.save_epoch(1, 1, state, None, {}, provenance())
    assert saved.bytes < 10_000


@pytest.mark.parametrize("which", ["checkpoint_path", "state_path", "manifest_path"])
def test_a_damaged_newest_epoch_is_set_aside_for_the_one_before(run, checkpoints, caplog, which):
    for epoch in (1, 2):
        save(checkpoints, epoch)
    path = getattr(run, which)(2)
    damage(path) if which == "checkpoint_path" else os.truncate(path, 100)
    found = checkpoints.resume("auto", FINGERPRINT)
    assert found.epoch == 1
    assert found.trainer_state["optimizer"]["state"][0]["step"] == 1
    assert path.name in caplog.text
    assert path.with_name(path.name + ".corrupt").is_file()


def test_resume_reads_again_what_this_process_has_written(run, checkpoints):
    for epoch in (1, 2):
        save(checkpoints, epoch)
    path = run.checkpoint_path(2)
    before = path.stat()
    damage(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert checkpoints.resume("auto", FINGERPRINT).epoch == 1


def test_where_only_weights_are_left_the_optimizer_starts_anew_and_that_is_said(run, checkpoints):
    for epoch in (1, 2, 3):
        save(checkpoints, epoch)
    for epoch in (2, 3):
        damage(run.checkpoint_path(epoch))
    found = checkpoints.resume("auto", FINGERPRINT)
    assert (found.epoch, found.trainer_state) == (1, None)
    assert "optimizer starts over" in found.notes[0]


def test_a_moved_run_goes_on(run, checkpoints, tmp_path):
    save(checkpoints, 1)
    shutil.move(run.folder, tmp_path / "elsewhere")
    moved = Checkpoints(RunFolder(tmp_path / "elsewhere"), keep=3)
    assert moved.resume("auto", FINGERPRINT).epoch == 1


# A stop inside an epoch


def test_a_stop_inside_an_epoch_is_further_than_the_epoch_before(run, checkpoints):
    save(checkpoints, 1)
    interrupt(checkpoints, 2, batch=4)
    found = checkpoints.resume("auto", FINGERPRINT)
    assert (found.epoch, found.step, found.batch) == (1, 14, 4)
    assert found.model_state["gpt.a"][0] == 1.5
    assert found.trainer_state["optimizer"]["state"][0]["step"] == 1.5


def test_a_stop_in_the_first_epoch(checkpoints):
    interrupt(checkpoints, 1, batch=3)
    found = checkpoints.resume("auto", FINGERPRINT)
    assert (found.epoch, found.batch) == (0, 3)


def test_a_later_epoch_supersedes_it(run, checkpoints):
    interrupt(checkpoints, 1, batch=4)
    kept = run.interrupted.read_bytes(), run.interrupted_manifest.read_bytes()
    save(checkpoints, 1)
    assert "interrupted.pt" not in names(run)
    assert "interrupted.json" not in names(run)
    run.interrupted.write_bytes(kept[0])
    run.interrupted_manifest.write_bytes(kept[1])
    assert checkpoints.resume("auto", FINGERPRINT).source == run.checkpoint_path(1)


@pytest.mark.parametrize("how", ["damaged", "without manifest"])
def test_a_damaged_one_is_not_taken_but_the_epoch_before(run, checkpoints, how):
    save(checkpoints, 1)
    interrupt(checkpoints, 2, batch=4)
    damage(run.interrupted) if how == "damaged" else run.interrupted_manifest.unlink()
    assert checkpoints.resume("auto", FINGERPRINT).source == run.checkpoint_path(1)
    # Without its manifest it is what a kill leaves, and goes with the next epoch that is saved.
    assert ("interrupted.pt.corrupt" in names(run)) == (how == "damaged")
    save(checkpoints, 2)
    assert "interrupted.pt" not in names(run)


# Another base, other data, another rate


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base_sha256": "x" * 64}, "BASE_MODEL"),
        ({"data_sha256": "x" * 64}, "DATASET_DIR"),
        ({"vocabulary_sha256": "x" * 64}, "vocab.json"),
        ({"shape": {"layers": 3, "width": 64}}, "layers was 2, is 3"),
        ({"schema": 99}, "was 1, is 99"),
    ],
)
def test_another_fingerprint_is_refused_with_two_ways_on(run, checkpoints, change, said):
    save(checkpoints, 1)
    before = names(run)
    with pytest.raises(ResumeError, match=said) as raised:
        checkpoints.resume("auto", replace(FINGERPRINT, **change))
    assert raised.value.exit_code == 2
    assert "RESUME=never" in str(raised.value)
    assert "OUTPUT_DIR to another folder" in str(raised.value)
    assert names(run) == before


def test_every_difference_is_named(checkpoints):
    save(checkpoints, 1)
    with pytest.raises(ResumeError, match=r"BASE_MODEL.*DATASET_DIR"):
        checkpoints.resume("auto", replace(FINGERPRINT, base_sha256="x", data_sha256="y"))


def test_a_changed_learning_rate_is_told_and_used(checkpoints):
    save(checkpoints, 1)
    found = checkpoints.resume("auto", FINGERPRINT, learning_rate=5e-4)
    assert found.epoch == 1
    assert found.notes == ("LEARNING_RATE was 0.001 and is 0.0005 from here on.",)
    assert checkpoints.resume("auto", FINGERPRINT, learning_rate=1e-3).notes == ()


def test_never_moves_the_run_whole(run, checkpoints, tmp_path):
    save(checkpoints, 1)
    run.samples.mkdir()
    (run.samples / "epoch_1_output.wav").write_bytes(b"wav")
    run.metrics.write_text("{}\n")
    runs_dir = tmp_path / "runs"
    own = curve_folder.claim(run, runs_dir)
    (own / "a").mkdir()
    (own / "a" / "events.out.tfevents.1.host").write_bytes(b"events")
    others = curve_folder.claim(RunFolder(tmp_path / "other" / "output"), runs_dir)
    earlier = runs_dir / "events.out.tfevents.0.host"
    kept = [others / "events.out.tfevents.1.host", earlier, runs_dir / "notes.txt"]
    for path in kept:
        path.write_text("not ours")
    assert (
        checkpoints.resume("never", replace(FINGERPRINT, base_sha256="x"), runs_dir=runs_dir)
        is None
    )

    assert run.epochs() == []
    (archived,) = run.archive.iterdir()
    old = RunFolder(archived)
    assert old.newest_verified().epoch == 1
    assert (old.samples / "epoch_1_output.wav").read_bytes() == b"wav"
    assert old.metrics.read_text() == "{}\n"
    assert (archived / "runs/a/events.out.tfevents.1.host").read_bytes() == b"events"
    assert not list(own.rglob("events*"))
    assert all(path.read_text() == "not ours" for path in kept)
    assert not run.samples.exists()
    assert not run.metrics.exists()


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
        with pytest.raises(ResumeError, match="Invalid cross-device link"):
            checkpoints.resume("never", FINGERPRINT)
    assert checkpoints.resume("auto", FINGERPRINT).epoch == 1


# RESUME=PATH


def test_start_from_a_file_and_go_on_with_the_same_command(checkpoints, tmp_path):
    for epoch in (1, 2):
        save(checkpoints, epoch)
    path = str(checkpoints.run.checkpoint_path(1))
    fresh = Checkpoints(RunFolder(tmp_path / "fresh"), keep=3)
    found = fresh.resume(path, FINGERPRINT)
    assert (found.epoch, found.step) == (1, 10)
    assert found.trainer_state["optimizer"]["state"][0]["step"] == 1
    save(fresh, 2)
    again = Checkpoints(fresh.run, keep=3)
    assert again.resume(path, FINGERPRINT).source == fresh.run.checkpoint_path(2)
    save(again, 3)
    Path(path).unlink()
    assert Checkpoints(fresh.run, keep=3).resume(path, FINGERPRINT).epoch == 3


def test_a_file_does_not_push_a_run_aside(run, checkpoints, tmp_path):
    save(checkpoints, 1)
    other = Checkpoints(RunFolder(tmp_path / "other"), keep=3)
    path = save(other, 5).path
    with pytest.raises(ResumeError, match="already holds a run at epoch 1"):
        checkpoints.resume(str(path), FINGERPRINT)


def test_from_other_data_the_weights_are_taken_and_epochs_count_from_1(checkpoints, tmp_path):
    path = save(checkpoints, 4).path
    fresh = Checkpoints(RunFolder(tmp_path / "fresh"), keep=3)
    found = fresh.resume(str(path), replace(FINGERPRINT, data_sha256="x"))
    assert (found.epoch, found.step, found.trainer_state) == (0, 0, None)
    assert found.model_state["gpt.a"][0] == 4
    assert "other data" in found.notes[0]


def test_the_file_of_another_model_is_refused(checkpoints, tmp_path):
    path = save(checkpoints, 1).path
    fresh = Checkpoints(RunFolder(tmp_path / "fresh"), keep=3)
    with pytest.raises(ResumeError, match="belongs to another model"):
        fresh.resume(str(path), replace(FINGERPRINT, base_sha256="x"))


def test_a_file_that_is_missing_damaged_or_something_else_is_named(checkpoints, tmp_path):
    path = save(checkpoints, 1).path
    fresh = Checkpoints(RunFolder(tmp_path / "fresh"), keep=3)
    with pytest.raises(RunError, match=r"none\.pt does not exist"):
        fresh.resume(str(tmp_path / "none.pt"), FINGERPRINT)
    damage(path)
    with pytest.raises(RunError, match=r"checkpoint_epoch_1\.pt is damaged"):
        fresh.resume(str(path), FINGERPRINT)
    torch.save({"model": {}}, tmp_path / "model.pth")
    with pytest.raises(ResumeError, match="BASE_MODEL"):
        fresh.resume(str(tmp_path / "model.pth"), FINGERPRINT)


# Pruning


@pytest.mark.parametrize(
    ("epochs", "newest", "best", "keep", "gone"),
    [
        ([1, 2, 3, 4], [4], 1, 2, [2]),
        ([1, 2, 3, 4], [4], 4, 1, [1, 2, 3]),
        ([1, 2, 3, 4], [2], 1, 1, [3]),  # 3 and 4 are damaged: 2 is what a run goes on from
        ([1, 2, 3, 4], [], None, 2, [1, 2]),
        ([1, 2], [2], 1, 5, []),
        ([1, 2, 3, 4], [4], 1, None, []),
        ([8, 9, 10, 11], [11], None, 2, [8, 9]),
    ],
)
def test_what_is_pruned(epochs, newest, best, keep, gone):
    assert to_prune(epochs, newest, best, keep) == gone


def test_pruning_keeps_newest_best_two_trainer_states_and_every_sample(run):
    checkpoints = Checkpoints(run, keep=2)
    run.samples.mkdir(parents=True)
    for epoch in range(1, 7):
        save(checkpoints, epoch)
        (run.samples / f"epoch_{epoch}_output.wav").touch()
    assert run.epochs() == [2, 5, 6]
    assert run.state_epochs() == [5, 6]
    assert all(run.verify(epoch) is None for epoch in run.epochs())
    assert run.lowest_loss().epoch == 2
    assert run.read_best() == {"epoch": 2, "validation_audio_loss": 1.0}
    assert len(list(run.samples.iterdir())) == 6


def test_pruning_spares_the_newest_whole_epoch_behind_damaged_ones(run):
    checkpoints = Checkpoints(run, keep=None)
    for epoch in (1, 2, 3, 4):
        save(checkpoints, epoch)
    for epoch in (3, 4):
        damage(run.checkpoint_path(epoch))
    Checkpoints(run, keep=1).prune()
    assert run.newest_verified(fresh=True).epoch == 2


def test_a_failure_to_prune_is_logged_and_the_run_goes_on(run, monkeypatch, caplog):
    checkpoints = Checkpoints(run, keep=1)
    save(checkpoints, 2)

    def refuse(self, missing_ok=False):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        save(checkpoints, 3)
        save(checkpoints, 4)
    assert "could not be removed" in caplog.text
    assert run.newest_verified(fresh=True).epoch == 4
    save(checkpoints, 5)
    assert run.epochs() == [2, 5]


def test_new_folders_outlive_a_power_cut_too(run, checkpoints, monkeypatch):
    synced = []
    monkeypatch.setattr("train.checkpointing.checkpoints.sync_folder", synced.append)
    save(checkpoints, 1)
    assert synced == [run.folder, run.folder.parent]


# What must not be saved, and where there is no room


def test_weights_that_are_no_numbers_are_not_saved(run, checkpoints):
    save(checkpoints, 1)
    bad = {**model(2), "gpt.b": torch.tensor([0.0, float("inf")])}
    with pytest.raises(NonFiniteWeights, match=r"gpt\.b") as raised:
        checkpoints.save_epoch(2, 20, bad, trainer(2), {}, provenance())
    assert raised.value.exit_code == 65
    assert run.epochs() == [1]


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), None])
def test_a_loss_that_is_no_number_is_never_the_best(run, checkpoints, loss):
    losses = {"validation_audio_loss": loss}
    checkpoints.save_epoch(1, 1, model(1), trainer(1), losses, provenance())
    assert run.read_best() is None
    save(checkpoints, 2)
    assert run.read_best() == {"epoch": 2, "validation_audio_loss": 1.0}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.9, 0.99])
def test_a_disk_that_gets_full_leaves_the_epoch_before(run, checkpoints, monkeypatch, share):
    save(checkpoints, 1)
    files = (run.checkpoint_path(1), run.state_path(1), run.manifest_path(1))
    real, left = os.write, [int(share * sum(path.stat().st_size for path in files))]

    def write(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(descriptor, data[: left[0]])
        left[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(DiskFull, match="bytes needed"):
            save(checkpoints, 2)
    assert not [name for name in names(run) if "sotaque-part" in name]
    assert checkpoints.resume("auto", FINGERPRINT).epoch == 1


def test_space_is_asked_for_before_anything_is_written(run, checkpoints, monkeypatch):
    save(checkpoints, 1)
    usage = shutil.disk_usage(run.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=24_000))
    before = names(run)
    with pytest.raises(DiskFull, match=r"24,\d{3} bytes needed, 24,000 free"):
        save(checkpoints, 2)
    assert names(run) == before


# Kills

FILES = ("checkpoint_epoch_3.pt", "trainer_state_epoch_3.pt", "checkpoint_epoch_3.json")
POINTS = [
    *((f"{point}:{name}", 2)
      for name in FILES
      for point in ("part opened", "half written", "after fsync")),
    ("after replace:checkpoint_epoch_3.pt", 2),
    ("after replace:trainer_state_epoch_3.pt", 2),
    ("after replace:checkpoint_epoch_3.json", 3),
    ("after manifest", 3),
    ("after replace:best.json", 3),
    ("after best", 3),
    ("mid-prune:checkpoint_epoch_1.json", 3),
    ("mid-prune:checkpoint_epoch_1.pt", 3),
    ("mid-prune:trainer_state_epoch_1.pt", 3),
]  # fmt: skip


@pytest.fixture(scope="module")
def two_epochs(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two epochs with keep=1, of which the first is the best until the third comes."""
    run = RunFolder(tmp_path_factory.mktemp("killed") / "output")
    for epoch, loss in ((1, 2.5), (2, 5.0)):
        save(Checkpoints(run, keep=1), epoch, loss)
    return run


@pytest.mark.parametrize(("point", "expected"), POINTS)
def test_killed_at(point, expected, two_epochs, tmp_path):
    """The third epoch is the new best: best.json changes, the first two go or lose their state."""
    run = RunFolder(tmp_path / "output")
    shutil.copytree(two_epochs.folder, run.folder)
    assert train_in_child(run.folder, 3, crash_at=point) == -9, "the point was never reached"
    found = Checkpoints(run, keep=1).resume("auto", FINGERPRINT)
    assert found.epoch == expected
    assert found.model_state["gpt.a"][0] == expected
    assert found.trainer_state is not None


@pytest.mark.parametrize(
    "point", ["after replace:checkpoint_epoch_1.json", "mid-prune:trainer_state_epoch_1.pt"]
)
def test_killed_while_an_old_trainer_state_goes(point, two_epochs, tmp_path):
    run = RunFolder(tmp_path / "output")
    shutil.copytree(two_epochs.folder, run.folder)
    assert train_in_child(run.folder, 3, keep=3, crash_at=point) == -9
    assert [epoch for epoch in run.epochs() if run.verify(epoch)] == []
    assert run.newest_verified().epoch == 3
    Checkpoints(run, keep=3).prune()
    assert run.state_epochs() == [2, 3]


INSIDE_A_STOP = [
    *((f"{point}:interrupted.pt", 2) for point in ("part opened", "half written", "after fsync")),
    ("mid-prune:interrupted.json", 2),  # the older stop's, so that it is not held against the new
    ("after replace:interrupted.pt", 2),
    *((f"{point}:interrupted.json", 2) for point in ("part opened", "half written", "after fsync")),
    ("after replace:interrupted.json", 2.5),
]


@pytest.mark.parametrize(("point", "expected"), INSIDE_A_STOP)
def test_killed_inside_a_stop(point, expected, two_epochs, tmp_path):
    """The stop inside the third epoch is whole, or the second epoch is the furthest."""
    run = RunFolder(tmp_path / "output")
    shutil.copytree(two_epochs.folder, run.folder)
    if "mid-prune" in point:
        interrupt(Checkpoints(run, keep=1), 3, batch=2)
    assert stop_in_child(run.folder, 3, crash_at=point) == -9, "the point was never reached"
    found = Checkpoints(run, keep=1).resume("auto", FINGERPRINT)
    assert found.model_state["gpt.a"][0] == expected
    assert (found.epoch, found.batch) == ((2, 4) if expected == 2.5 else (2, 0))


@pytest.mark.parametrize("point", ["half written:checkpoint_epoch_3.pt", "mid-prune", "after best"])
def test_a_killed_run_ends_like_one_that_was_not(point, two_epochs, tmp_path):
    ends = []
    for name, crash_at in (("killed", point), ("whole", "")):
        run = RunFolder(tmp_path / name)
        shutil.copytree(two_epochs.folder, run.folder)
        if crash_at:
            assert train_in_child(run.folder, 3, crash_at=crash_at) == -9
        assert train_in_child(run.folder, 4) == 0
        ends.append({
            path.name: path.read_bytes()
            for path in run.checkpoints.iterdir() if not path.name.endswith(".corrupt")
        })  # fmt: skip
    assert ends[0] == ends[1]
    assert sorted(ends[0]) == [
        "best.json", "checkpoint_epoch_3.json", "checkpoint_epoch_3.pt", "checkpoint_epoch_4.json",
        "checkpoint_epoch_4.pt", "trainer_state_epoch_3.pt", "trainer_state_epoch_4.pt",
    ]  # fmt: skip


# The base model's hash


def test_the_hash_of_a_base_is_remembered_until_the_file_changes(tmp_path, monkeypatch):
    path, cache = tmp_path / "model.pth", tmp_path / "cache"
    path.write_bytes(b"one")
    first = kept_sha256(path, cache)
    monkeypatch.setattr("machine.storage.hash_cache.sha256_of", lambda _: "read again")
    assert kept_sha256(path, cache) == first
    before = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kept_sha256(path, cache) == "read again"


def test_read_checkpoint_carries_its_provenance(checkpoints):
    saved = save(checkpoints, 1)
    assert read_checkpoint(saved.path).provenance == {**provenance(), "epoch": 1, "step": 10}
