"""Each OUTPUT_DIR has a separate folder in RUNS_DIR, whatever their names; what TensorBoard
reads of its events."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from train.metrics import curves
from xtts.voices.run_folder import RunFolder


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def anna(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "anna" / "output")


@pytest.fixture
def bob(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "bob" / "output")


def test_two_output_dirs_of_one_name_have_two_folders(anna, bob, runs_dir):
    assert curves.find(anna, runs_dir) is None
    assert not runs_dir.exists() and not anna.folder.exists()  # looking creates nothing
    first = curves.claim(anna, runs_dir)
    assert first == runs_dir / "output"
    assert curves.claim(bob, runs_dir) == runs_dir / "output-2"
    assert curves.claim(anna, runs_dir) == curves.find(anna, runs_dir) == first


def test_a_folder_that_somebody_else_made_is_left_alone(anna, runs_dir):
    (runs_dir / "output").mkdir(parents=True)
    assert curves.claim(anna, runs_dir) == runs_dir / "output-2"
    assert not list((runs_dir / "output").iterdir())


def test_in_containers_where_every_output_dir_has_one_path_they_keep_apart(tmp_path, anna, bob, runs_dir):
    """Different mounts have the same path."""
    mounted = tmp_path / "data" / "output"
    names = []
    for run in (anna, bob, anna):
        run.folder.mkdir(parents=True, exist_ok=True)
        mounted.parent.mkdir(exist_ok=True)
        run.folder.rename(mounted)
        names.append(curves.claim(RunFolder(mounted), runs_dir).name)
        mounted.rename(run.folder)
    assert names == ["output", "output-2", "output"]


def test_a_run_that_was_moved_keeps_its_curves(anna, bob, runs_dir, tmp_path):
    first = curves.claim(anna, runs_dir)
    bob.folder.parent.mkdir()
    anna.folder.rename(bob.folder)
    assert curves.claim(bob, runs_dir) == first
    assert json.loads((first / "run.json").read_text())["output_dir"] == str(bob.folder)
    # Names in another RUNS_DIR are independent.
    assert curves.claim(bob, tmp_path / "others") == tmp_path / "others" / "output"
    assert curves.find(bob, runs_dir) == first


def test_a_copy_of_a_run_is_another_run(anna, bob, runs_dir):
    first = curves.claim(anna, runs_dir)
    shutil.copytree(anna.folder, bob.folder)
    assert curves.find(bob, runs_dir) is None
    second = curves.claim(bob, runs_dir)
    assert second == runs_dir / "output-2"
    assert curves.claim(anna, runs_dir) == first
    assert curves.claim(bob, runs_dir) == second


@pytest.mark.parametrize("damage", ["", "[]", "{", "{}"])
def test_a_damaged_mark_is_another_folder(anna, runs_dir, damage):
    first = curves.claim(anna, runs_dir)
    (first / "run.json").write_text(damage)
    assert curves.claim(anna, runs_dir) == runs_dir / "output-2"
    (anna.folder / "curves.json").write_text(damage)
    assert curves.claim(anna, runs_dir) == runs_dir / "output-3"


def test_steps_that_a_killed_run_had_written_vanish_when_it_goes_on_before_them(tmp_path):
    """As TensorBoard reads them: else the curve has two values at a step."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for first, steps in ((1, range(2, 11)), (5, range(6, 8))):
        writer = curves.TensorBoardWriter(tmp_path, first)
        for step in steps:
            writer.numbers("loss", {"audio": float(first)}, step)
        writer.close()
    read = EventAccumulator(str(tmp_path)).Reload().Scalars("loss/audio")
    assert [(one.step, one.value) for one in read] == [
        (2, 1.0),
        (3, 1.0),
        (4, 1.0),
        (5, 1.0),
        (6, 5.0),
        (7, 5.0),
    ]


def test_a_spectrogram_has_low_frequencies_at_the_bottom():
    times = torch.arange(24_000) / 24_000
    picture = curves.spectrogram(torch.sin(2 * torch.pi * 1000 * times))
    brightest = int(picture[0].mean(1).argmax())
    assert picture.shape[1] == 513 and brightest == 512 - round(1000 / 24_000 * 1024)
