"""Saving checkpoints: no fault or kill loses a saved one."""

import errno
import os
import shutil

import pytest
import torch

from machine.storage.checksums import fault_of, sha256_of
from machine.storage.files import DiskFull, WriteError
from tests.train.checkpointing.saving import (
    FINGERPRINT,
    interrupt,
    model,
    names,
    save,
    stop_in_child,
    train_in_child,
    trainer,
)
from train.checkpointing.checkpoints import Checkpoints, _drop_state, prune
from train.optim.optimizer import NonFiniteError
from xtts.voices.run_folder import RunFolder


def test_everything_saved_comes_back(run, checkpoints):
    saved = save(checkpoints, 1)
    found = Checkpoints(run, keep=3).resume("auto", FINGERPRINT)
    assert (found.epoch, found.step, found.batch) == (1, 10, 0)
    assert found.source == saved.checkpoint == run.checkpoint_path(1)
    assert all(torch.equal(found.model_state[name], model(1)[name]) for name in model(1))
    moment = found.trainer_state["optimizer"]["state"][0]["exp_avg"]
    assert torch.equal(moment, torch.full((9,), 1.0))
    assert found.trainer_state["batch_seconds"] == 12.5
    assert found.trainer_state["seen"] == [1, 2]
    assert saved.sha256 == sha256_of(saved.checkpoint)


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
    saved = checkpoints.save_epoch(1, 1, state, None, {})
    assert saved.checkpoint.stat().st_size < 10_000


def test_new_folders_outlive_a_power_cut_too(run, checkpoints, monkeypatch):
    synced = []
    monkeypatch.setattr("train.checkpointing.checkpoints.sync_folder", synced.append)
    save(checkpoints, 1)
    assert synced[:2] == [run.folder, run.folder.parent]


def test_a_folder_that_cannot_be_synced_is_refused_in_words(checkpoints, monkeypatch):
    def refuse(_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("train.checkpointing.checkpoints.sync_folder", refuse)
    with pytest.raises(WriteError, match=r"cannot be written \(Permission denied\)"):
        save(checkpoints, 1)


# Weights that must not be saved, and a full disk


def test_weights_that_are_no_numbers_are_not_saved(run, checkpoints):
    save(checkpoints, 1)
    bad = {**model(2), "gpt.b": torch.tensor([0.0, float("inf")])}
    with pytest.raises(NonFiniteError, match=r"gpt\.b") as raised:
        checkpoints.save_epoch(2, 20, bad, trainer(2), {})
    assert raised.value.exit_code == 65
    assert run.epochs() == [1]


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), None])
def test_a_loss_that_is_no_number_is_never_the_best(run, checkpoints, loss):
    losses = {"validation_audio_loss": loss}
    checkpoints.save_epoch(1, 1, model(1), trainer(1), losses)
    assert run.read_best() == {}
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
    *((f"{point}:{name}", 2) for name in FILES for point in ("part opened", "half written", "after fsync")),
    ("after replace:checkpoint_epoch_3.pt", 2),
    ("after replace:trainer_state_epoch_3.pt", 2),
    ("after replace:checkpoint_epoch_3.json", 3),
    ("after manifest", 3),
    ("after replace:best.json", 3),
    ("after best", 3),
    ("mid-prune:checkpoint_epoch_1.json", 3),
    ("mid-prune:checkpoint_epoch_1.pt", 3),
    ("mid-prune:trainer_state_epoch_1.pt", 3),
]


@pytest.fixture(scope="module")
def two_epochs(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two epochs with keep=1; the first is the best until a third is saved."""
    run = RunFolder(tmp_path_factory.mktemp("killed") / "output")
    for epoch, loss in ((1, 2.5), (2, 5.0)):
        save(Checkpoints(run, keep=1), epoch, loss)
    return run


@pytest.mark.parametrize(("point", "expected"), POINTS)
def test_killed_at(point, expected, two_epochs, tmp_path):
    """The third epoch becomes the best: best.json changes, the first two are pruned."""
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
    assert all(run.verified(epoch) for epoch in run.epochs())
    assert run.newest_verified().epoch == 3
    prune(run, 3)
    assert run.state_epochs() == [2, 3]


INSIDE_A_STOP = [
    *((f"{point}:interrupted.pt", 2) for point in ("part opened", "half written", "after fsync")),
    # The older stop's manifest, so that the new weights are not checked against it.
    ("mid-prune:interrupted.json", 2),
    ("after replace:interrupted.pt", 2),
    *((f"{point}:interrupted.json", 2) for point in ("part opened", "half written", "after fsync")),
    ("after replace:interrupted.json", 2.5),
]


@pytest.mark.parametrize(("point", "expected"), INSIDE_A_STOP)
def test_killed_inside_a_stop(point, expected, two_epochs, tmp_path):
    """The stop inside the third epoch is intact, or the second epoch is the newest state."""
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
        ends.append(
            {
                path.name: path.read_bytes()
                for path in run.checkpoints.iterdir()
                if not path.name.endswith(".corrupt")
            }
        )
    assert ends[0] == ends[1]
    assert sorted(ends[0]) == [
        "best.json",
        "checkpoint_epoch_3.json",
        "checkpoint_epoch_3.pt",
        "checkpoint_epoch_4.json",
        "checkpoint_epoch_4.pt",
        "trainer_state_epoch_3.pt",
        "trainer_state_epoch_4.pt",
    ]


def test_a_reader_does_not_mistake_a_trainer_state_that_is_removed_for_damage(run, checkpoints, monkeypatch):
    """The trainer rewrites the manifest and removes the file while a reader verifies the epoch."""
    save(checkpoints, 1)

    def read_while_it_is_removed(files, folder):
        if "trainer_state_epoch_1.pt" in files:
            _drop_state(run, 1)
        return fault_of(files, folder)

    monkeypatch.setattr("xtts.voices.run_folder.fault_of", read_while_it_is_removed)
    assert run.verify(1).state is None
