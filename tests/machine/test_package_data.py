"""The demo dataset is found in the working folder, or else in the package."""

from pathlib import Path

import pytest

from machine import package_data
from train import settings as train

PACKAGED = Path(__file__).parents[2] / "train/data"


def test_in_an_empty_folder_the_data_is_the_packages_and_the_log_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings, report = train.load((), {}, None)
    assert settings.dataset_dir == PACKAGED / "demo"
    (note,) = report.notes
    assert note.startswith("Not in this folder") and f"DATASET_DIR={PACKAGED / 'demo'}" in note
    assert settings.output_dir == Path("train/output")


def test_the_working_folder_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train/data/demo").mkdir(parents=True)
    settings, report = train.load((), {}, None)
    assert settings.dataset_dir == Path("train/data/demo") and report.notes == ()


@pytest.mark.parametrize("path", ["clips", "train/data/mine", "/train/data", f"train/data/{'x' * 5000}"])
def test_another_folder_is_never_the_packages(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    assert package_data.locate(Path(path)) == Path(path)
