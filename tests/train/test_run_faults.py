"""Faults in real runs: the message, the exit code and the files left; the next start then ends like
an undisturbed run.

Each row of docs/develop/faults.md names its test. Kills are tested in test_kills.py, damaged files
in test_damage.py, the watchdog in test_watchdog.py.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.train import poisons
from tests.train.nursery import EPOCHS, STEPS_PER_EPOCH, Ground
from tests.train.test_kills import PART, assert_readable, descendants
from tests.train.test_run import assert_same_end, content, losses, records, wait_for
from tests.xtts.workers.test_file_worker import gone, open_files
from xtts.voices.run_folder import RunFolder


def assert_goes_on(ground: Ground, whole: RunFolder, name: str, clean: bool = True) -> None:
    """The same command without the fault ends like an undisturbed run.

    clean: whether the failed run could still remove its half-written files.
    """
    run = RunFolder(ground.folder / name)
    assert_readable(run.folder)
    assert not clean or not left_half(run)
    assert ground.run(name) == 0, ground.told()
    assert not left_half(run)
    assert_same_end(run, whole, EPOCHS)


def left_half(run: RunFolder) -> list[Path]:
    return [path for path in run.folder.rglob("*") if PART.match(path.name)]


# Hanging


@pytest.mark.parametrize(
    ("poison", "ended"),
    [
        pytest.param("hanging_loader 2", 75, marks=pytest.mark.slow),
        ("held_gil 4", -signal.SIGKILL),  # no thread of the trainer can run
    ],
)
def test_a_run_that_hangs_is_ended(ground, whole, poison, ended):
    name = poison.replace(" ", "-")
    assert ground.run(name, poison=f"stall_seconds 1.5; {poison}") == ended
    told = ground.told()
    assert "No heartbeat came from the training" in told and "while training" in told
    # The stacks of all threads are printed, including the one that hangs.
    assert poison.split()[0].replace("held_gil", "deadlock_with_the_gil") in told or (
        "poisons.py" in told and "Thread" in told
    )
    assert RunFolder(ground.folder / name).newest_verified().epoch == 1
    assert_goes_on(ground, whole, name)


@pytest.mark.slow
def test_a_stopped_run_is_killed(ground, whole):
    run = RunFolder(ground.folder / "stopped")
    pid = ground.start("stopped", poison="stall_seconds 2")
    wait_for(run, 2, pid)
    os.kill(pid, signal.SIGSTOP)
    assert ground.nursery.end() == -signal.SIGKILL
    assert_goes_on(ground, whole, "stopped", clean=False)


@pytest.mark.slow
def test_no_slow_disk_is_taken_for_a_hang(ground, whole):
    """A save with 16 fsyncs takes six times the limit of a step."""
    assert ground.run("slow-disk", poison="stall_seconds 0.5; slow_disk 0.2") == 0, ground.told()
    assert_same_end(RunFolder(ground.folder / "slow-disk"), whole, EPOCHS)


# Data


def test_a_cache_that_cannot_be_read_stops_the_run_and_names_the_clips(ground, whole):
    assert ground.run("dying", poison="dying_loader 2") == 2
    told = ground.told()
    assert told.count("Trying again") >= 2
    assert "could not be made in 3 tries (OSError: [Errno 5] Input/output error)" in told
    assert "clip-" in told and "Traceback" not in told
    assert_goes_on(ground, whole, "dying")


# Numbers


@pytest.mark.parametrize(
    "value", ["nan", *(pytest.param(one, marks=pytest.mark.slow) for one in ("inf", "-inf"))]
)
def test_a_clip_without_numbers_costs_its_step_and_is_named(ground, value):
    run = RunFolder(ground.folder / f"poisoned{value}")
    assert ground.run(run.folder.name, poison=f"no_numbers clip-3 1 {value}") == 0, ground.told()
    skipped = [record for record in records(run) if "skipped_clips" in record]
    assert len(skipped) == EPOCHS  # in one step of each epoch
    assert all("clip-3" in record["skipped_clips"] and record["loss"] is None for record in skipped)
    assert ground.told().count("its loss or gradient is not finite") == EPOCHS
    assert poisons.numbers(content(run.checkpoint_path(EPOCHS))["model"])
    state = content(run.state_path(EPOCHS))["trainer"]
    assert poisons.numbers(state) and state["num_non_finite"] == EPOCHS


def test_three_steps_without_numbers_end_the_run_with_65_and_save_nothing(ground, whole):
    assert ground.run("sick", poison="no_numbers all 2 nan") == 65
    run = RunFolder(ground.folder / "sick")
    assert "not finite in 3 steps in a row" in ground.told()
    assert run.epochs() == [1] and not run.interrupted.exists()
    assert run.read_best()["epoch"] == 1
    assert_goes_on(ground, whole, "sick")


@pytest.mark.slow
def test_a_run_that_is_sick_from_its_first_step_saves_nothing(ground):
    assert ground.run("born-sick", poison="no_numbers all 1 nan") == 65
    run = RunFolder(ground.folder / "born-sick")
    assert run.epochs() == [] and not run.read_best()


def test_a_validation_without_numbers_is_never_the_best(ground):
    assert ground.run("blind", poison="validation_without_numbers") == 0, ground.told()
    run = RunFolder(ground.folder / "blind")
    assert run.epochs() == [1, 2] and not run.read_best() and run.lowest_loss_epoch() is None
    validations = [loss for kind, _, _, loss, _ in losses(run) if kind == "validation"]
    assert validations == [None, None]


# Signals


EVERY_STEP = [
    pytest.param(number, step, marks=() if step == 2 + number % 4 else pytest.mark.slow)
    for number in (signal.SIGTERM, signal.SIGINT)
    for step in range(1, EPOCHS * STEPS_PER_EPOCH)
]


@pytest.mark.parametrize(("number", "step"), EVERY_STEP)
def test_a_signal_at_any_step(ground, whole, number, step):
    name = f"signal-{number}-{step}"
    run = RunFolder(ground.folder / name)
    pid = ground.start(name, poison="slow_steps 0.1")
    wait_for(run, step, pid)
    os.kill(pid, number)
    assert ground.nursery.end() == 128 + number, ground.told()
    assert run.interrupted.exists() or run.epochs()
    assert_goes_on(ground, whole, name)


def test_a_signal_inside_a_save_lets_it_end(ground, whole):
    assert ground.run("in-save", poison="signals_while_saving 15 1", NUM_EPOCHS=3) == 143
    run = RunFolder(ground.folder / "in-save")
    assert run.newest_verified().epoch == 2
    assert_same_end(run, whole, EPOCHS)


@pytest.mark.slow
def test_a_second_signal_inside_a_save_ends_it(ground, whole):
    assert ground.run("in-save-2", poison="signals_while_saving 15 2") == 143
    assert "Second signal: exiting at once" in ground.told()
    run = RunFolder(ground.folder / "in-save-2")
    assert run.newest_verified().epoch == 1
    assert_readable(run.folder)
    assert ground.run("in-save-2") == 0, ground.told()
    assert_same_end(run, whole, EPOCHS)


@pytest.mark.slow
def test_a_signal_while_a_sample_is_spoken_gives_the_sample_up(ground, whole):
    heard = {"SAMPLE_DEVICE": "cpu", "SAMPLE_TEXT": "One."}
    assert ground.run("in-sample", poison="signal_while_sampling 15", **heard) == 143
    signalled = float((ground.folder / "signalled").read_text())
    # STOP_SECONDS, plus 6 s for the process to exit on two busy cores.
    assert time.time() - signalled < 8 + 6
    run = RunFolder(ground.folder / "in-sample")
    assert "interrupted. The next start" in ground.told()
    assert run.newest_verified().epoch == 1
    assert list(run.samples.glob("*_output.json")) == []  # the sample was given up
    assert_goes_on(ground, whole, "in-sample")


def test_a_signal_before_the_first_step_ends_at_once(ground, whole):
    assert ground.run("early", poison="signal_before_the_first_step 15") == 143
    assert "There is nothing to save" in ground.told()
    assert_goes_on(ground, whole, "early")


# Disks


@pytest.mark.parametrize(
    "num_bytes", [*(pytest.param(one, marks=pytest.mark.slow) for one in (947_000, 2_000_000)), 3_500_000]
)
def test_a_disk_that_gets_full_ends_the_run_with_74(ground, whole, num_bytes):
    name = f"full-{num_bytes}"
    assert ground.run(name, poison=f"full_after {num_bytes}") == 74
    told = ground.told()
    assert "bytes needed" in told and "Everything saved before is intact" in told
    saved = num_bytes // 2_860_000  # an epoch: weights, trainer state, manifest, best.json
    run = RunFolder(ground.folder / name)
    assert [epoch for epoch in run.epochs() if run.verified(epoch)] == list(range(1, saved + 1))
    assert_goes_on(ground, whole, name)


@pytest.mark.slow
def test_a_limit_on_file_sizes_ends_the_run_with_74(ground, whole):
    """The weights fit under the limit, the optimizer's state does not."""
    assert ground.run("limited", poison="small_files 1500000") == 74
    assert "more than the file size limit (ulimit -f)" in ground.told()
    assert_goes_on(ground, whole, "limited")


@pytest.fixture
def small_disk(ground: Ground) -> Iterator[Path]:
    """A separate disk of 32 MB; skips the test if mounting is not allowed."""
    place = ground.folder / "disk"
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("the tests may not mount a disk here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("asked", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_true_disk_that_is_full(ground, whole, small_disk, asked):
    """Found by the check for free space, or by a failed write; curves and metrics are on the disk
    too."""
    filler = small_disk / "filler"
    filler.write_bytes(bytes(27 << 20))  # room for one epoch of 2.9 MB
    poison = "" if asked else "space_unasked"
    assert ground.run("disk/run", poison=poison) == 74, ground.told()
    assert "bytes needed" in ground.told()
    run = RunFolder(small_disk / "run")
    assert run.newest_verified().epoch == 1
    filler.unlink()
    assert ground.run("disk/run") == 0, ground.told()
    assert_same_end(run, whole, EPOCHS)


@pytest.mark.slow
def test_a_disk_too_small_for_one_epoch_is_told_before_the_first_step(ground, whole, small_disk):
    filler = small_disk / "filler"
    filler.write_bytes(bytes(30 << 20))  # an epoch takes 2.9 MB
    assert ground.run("disk/run") == 74, ground.told()
    told = ground.told()
    assert "No space left for the first epoch" in told
    assert not RunFolder(small_disk / "run").metrics.exists()
    filler.write_bytes(bytes(27 << 20))  # one epoch fits, two do not
    assert ground.run("disk/run", NUM_EPOCHS=1) == 0, ground.told()
    assert "will not fit" not in ground.told()
    assert ground.run("disk/run") == 74
    filler.unlink()
    assert ground.run("disk/run") == 0, ground.told()
    assert re.search(r"Disk: up to .* MB more in .*; .* free\.", ground.told())
    assert_same_end(RunFolder(small_disk / "run"), whole, EPOCHS)


@pytest.mark.slow
def test_a_full_disk_under_the_curves_ends_nothing(ground, whole, small_disk):
    (small_disk / "filler").write_bytes(bytes((32 << 20) - (24 << 10)))
    assert ground.run("curveless", RUNS_DIR=small_disk / "runs", SEED=5) == 0, ground.told()
    assert_same_end(RunFolder(ground.folder / "curveless"), whole, EPOCHS)


def test_a_folder_that_cannot_be_written_is_told_at_the_start(ground, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for settings in ({"OUTPUT_DIR": small_disk / "run"}, {"RUNS_DIR": small_disk / "runs"}):
        assert ground.run("read-only", **settings) == 2
        told = ground.told()
        assert str(small_disk) in told and "Read-only file system" in told
        assert "Make it writable" in told and "Traceback" not in told


# Changed settings for a resumed run


@pytest.mark.slow
def test_another_learning_rate_is_told_and_used_and_fewer_epochs_are_told(ground):
    assert ground.run("rate", NUM_EPOCHS=1, LEARNING_RATE=1e-3) == 0, ground.told()
    assert ground.run("rate", NUM_EPOCHS=2, LEARNING_RATE=5e-4) == 0, ground.told()
    assert "LEARNING_RATE changes from 0.001 to 0.0005." in ground.told()
    told = records(RunFolder(ground.folder / "rate"))
    shares = [one["learning_rate"] / one["step"] for one in told if one["kind"] == "train"]
    assert shares[-1] == pytest.approx(shares[0] / 2)  # both in the linear warm-up
    assert ground.run("rate", NUM_EPOCHS=1) == 0
    assert "The run already has 2 epochs, and NUM_EPOCHS=1" in ground.told()
    assert "Ready to train" not in ground.told()


@pytest.mark.parametrize(
    "name", [pytest.param("checkpoint_epoch_2.pt", marks=pytest.mark.slow), "trainer_state_epoch_2.pt"]
)
def test_a_kill_in_the_middle_of_a_save_leaves_nothing_behind(ground, whole, name):
    assert ground.run(name, crash_at=f"after replace:{name}") == -9
    assert_goes_on(ground, whole, name)
    assert "lacks a manifest, because the run was killed" in ground.told()
    assert not list((ground.folder / name).rglob("*.corrupt"))


# Folders and children


@pytest.mark.slow
def test_two_runs_with_one_runs_dir_keep_their_curves(ground):
    """Also if the second starts over: it archives only its own curves."""
    runs_dir = ground.folder / "shared"
    for name, resume in (("a/output", "auto"), ("b/output", "auto"), ("b/output", "never")):
        assert ground.run(name, RUNS_DIR=runs_dir, RESUME=resume) == 0, ground.told()
    for name in ("output", "output-2"):
        shown = EventAccumulator(str(runs_dir / name))
        shown.Reload()
        steps = [point.step for point in shown.Scalars("train/audio_loss")]
        assert steps == list(range(1, EPOCHS * STEPS_PER_EPOCH + 1))
    assert list((ground.folder / "b/output/archive").glob("*/runs/events.out.tfevents.*"))
    assert not (ground.folder / "a/output/archive").exists()


@pytest.mark.slow
def test_pruning_that_fails_does_not_end_the_run(ground, whole):
    assert ground.run("stuck", poison="undeletable", KEEP_CHECKPOINTS=1) == 0, ground.told()
    assert "could not be removed (Permission denied). It stays" in ground.told()
    run = RunFolder(ground.folder / "stuck")
    assert run.epochs() == [1, 2]
    assert_same_end(run, whole, EPOCHS)


@pytest.mark.slow
def test_a_folder_that_was_moved_goes_on(ground, whole):
    pid = ground.start("here", poison="slow_steps 0.1")
    wait_for(RunFolder(ground.folder / "here"), 4, pid)
    os.kill(pid, signal.SIGTERM)
    assert ground.nursery.end() == 143
    (ground.folder / "elsewhere").mkdir()
    shutil.move(ground.folder / "here", ground.folder / "elsewhere/there")
    assert_goes_on(ground, whole, "elsewhere/there")
    names = (ground.folder / "elsewhere/there").rglob("*.json")
    assert not any(str(ground.folder / "here") in path.read_text() for path in names)


@pytest.mark.slow
def test_children_inherit_no_lock_and_no_port(ground):
    """A child that outlives its trainer would keep the folder locked or the port in use."""
    run = RunFolder(ground.folder / "children")
    pid = ground.start(
        "children",
        poison="slow_steps 0.2",
        NUM_EPOCHS=200,
        SAMPLE_DEVICE="cpu",
        SAMPLE_EVERY=200,
        TENSORBOARD="on",
        TENSORBOARD_PORT=26_200,
    )
    wait_for(run, 2, pid)
    children = descendants(pid)
    assert len(children) >= 3  # watchdog, worker, TensorBoard
    for child in children:
        held = open_files(child)
        assert not [name for name in held if str(run.folder) in name and "events" not in name]
    os.kill(pid, signal.SIGKILL)
    assert ground.nursery.end() == -9
    assert all(gone(child) for child in children)
    # The folder is free: the next trainer locks it at once.
    assert ground.run("children", NUM_EPOCHS=1) == 0, ground.told()
