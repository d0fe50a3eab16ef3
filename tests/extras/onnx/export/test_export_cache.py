"""The exports cached by a service: made once, made again if damaged, the oldest deleted."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from extras.onnx import folder
from extras.onnx.export import export_cache, exporter_child
from extras.onnx.export.export_cache import MAX_EXPORTS
from extras.onnx.folder import OnnxError
from machine.process import ProcessResult
from machine.storage.checksums import sha256_of
from train.settings import TrainSettings


def at_home(command: Sequence[str], _limit_seconds: float) -> ProcessResult:
    """Does the child's work in this process, which has loaded torch."""
    return ProcessResult(exporter_child.main(command[5:]), "", "", 1.0)


@pytest.fixture
def needed(base_folder: Path) -> tuple[Path, str, str]:
    return base_folder, sha256_of(base_folder / "model.pth"), "int8"


def test_two_at_once_make_it_once(needed, tmp_path):
    def kept(_: int) -> Path:
        return export_cache.cached_export(tmp_path / "onnx", *needed, run=at_home)

    with ThreadPoolExecutor(2) as both:
        found = list(both.map(kept, range(2)))
    assert found[0] == found[1] and folder.verify(found[0], "int8").kinds == ("int8",)
    made = (found[0] / folder.MANIFEST_FILE).stat().st_mtime_ns
    assert kept(3) == found[0]
    assert (found[0] / folder.MANIFEST_FILE).stat().st_mtime_ns == made


@pytest.mark.slow
def test_a_damaged_one_is_made_again(needed, tmp_path):
    to = export_cache.cached_export(tmp_path, *needed, run=at_home)
    for harm in ("vocoder.onnx.data", "onnx.json"):
        (to / harm).write_bytes(b"damage")
        assert export_cache.cached_export(tmp_path, *needed, run=at_home) == to
        folder.verify(to)


def test_the_ones_used_last_stay_and_what_was_killed_goes(needed, tmp_path):
    to = export_cache.cached_export(tmp_path, *needed, run=at_home)
    for age in range(1, MAX_EXPORTS + 2):
        old = tmp_path / f"old{age}"
        old.mkdir()
        (old / folder.MANIFEST_FILE).write_text("{}")
        os.utime(old, (1e9 - age, 1e9 - age))
    (tmp_path / ".half.1234.sotaque-part").mkdir()
    export_cache.cached_export(tmp_path, *needed, run=at_home)
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {to.name, *(f"old{age}" for age in range(1, MAX_EXPORTS))}


def test_every_epoch_that_a_run_keeps_and_the_base_have_their_place():
    assert MAX_EXPORTS == (TrainSettings().keep_checkpoints or 0) + 1


@pytest.mark.slow
def test_one_that_fails_says_why(base_folder, tmp_path):
    (tmp_path / "bad.pt").write_bytes(b"no checkpoint")
    with pytest.raises(OnnxError, match=r"could not be exported as ONNX: .*bad\.pt"):
        export_cache.cached_export(tmp_path / "onnx", base_folder, "0" * 64, "int8", tmp_path / "bad.pt")
    assert [path.name for path in (tmp_path / "onnx").iterdir()] == [".lock"]


def test_one_that_hangs_is_ended_and_told(needed, tmp_path):
    def hangs(_command: Sequence[str], limit_seconds: float) -> ProcessResult:
        return ProcessResult(None, "", "", limit_seconds, "no answer", hung=True)

    with pytest.raises(OnnxError, match="within 30 minutes"):
        export_cache.cached_export(tmp_path, *needed, run=hangs)
