"""The benchmark really runs both sides, and says what it measured."""

from pathlib import Path

import pytest

from benchmarks import speaking
from machine.errors import SotaqueError


def test_a_row_is_medians_and_a_ratio_to_the_peer():
    row = speaking.row("ours", [(3.0, 0.5), (1.0, 0.1), (2.0, 0.3)], 4.0, peer=8.0)
    assert row["seconds"] == 2.0 and row["rtf"] == 0.5 and row["times"] == 4.0
    assert row["first_audio_seconds"] == 0.3 and (row["least"], row["most"]) == (1.0, 3.0)


def fake_python(path: Path, answers: str) -> Path:
    """In place of a Python with pocket-tts: what its process would print."""
    path.write_text(f"#!/bin/sh\n{answers}\n")
    path.chmod(0o755)
    return path


def test_another_process_is_asked_and_its_seconds_are_of_as_much_sound(tmp_path):
    loop = "echo ready; while read line; do echo '[3.0, 0.5, 6.0]'; done"
    with speaking._pocket_tts(fake_python(tmp_path / "a", loop), "int8", 7.0) as says:
        assert says() == (3.5, 0.5)
        assert says() == (3.5, 0.5)


def test_a_python_without_pocket_tts_is_named(tmp_path):
    python = fake_python(tmp_path / "a", "exit 1")
    with pytest.raises(SotaqueError, match=r"a .*pocket_tts_child.py 7.0 int8 did not start"):
        with speaking._pocket_tts(python, "int8", 7.0):
            pass
