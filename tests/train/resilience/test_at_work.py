"""A training counts as at work while its process lives, however it ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from train.resilience.at_work import at_work, trainings


def test_those_at_work_are_told_with_their_devices(tmp_path):
    assert trainings(tmp_path) == []
    first, second = tmp_path / "out put", tmp_path / "other"
    with at_work(tmp_path, "cuda:1", first):
        with at_work(tmp_path, "cpu", second):
            assert sorted(trainings(tmp_path)) == sorted(map(str, (first, second)))
            assert trainings(tmp_path, "cpu") == [str(second)]
        assert trainings(tmp_path) == [str(first)]
    assert trainings(tmp_path) == []
    assert list((tmp_path / "at_work").iterdir()) == []


def test_a_killed_one_is_not_at_work_and_its_file_goes(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from train.resilience.at_work import at_work\n"
        "with at_work(Path(sys.argv[1]), 'cpu', Path('x')): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    (left,) = (tmp_path / "at_work").iterdir()
    assert trainings(tmp_path) == [] and left.exists()  # it may be one that is just starting
    os.utime(left, (1e9, 1e9))
    assert trainings(tmp_path) == [] and not left.exists()


@pytest.mark.parametrize(
    ("device", "shared", "apart"),
    [
        ("cuda:0", ("auto", "cuda", "cuda:0"), ("cpu", "cuda:1")),
        ("cuda:1", ("auto", "cuda:1"), ("cpu", "cuda", "cuda:0")),
        ("cpu", ("auto", "cpu"), ("cuda", "cuda:0")),
    ],
)
def test_two_trainings_on_two_devices_do_not_wait(tmp_path, device, shared, apart):
    with at_work(tmp_path, device, tmp_path):
        assert all(trainings(tmp_path, wish) for wish in shared)
        assert not any(trainings(tmp_path, wish) for wish in apart)


def test_a_folder_that_cannot_be_written_is_no_reason_not_to_train(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with at_work(tmp_path / "cache", "cpu", Path("out")):
        assert trainings(tmp_path / "cache") == []
