"""`cut`, then training on what it wrote: no step between."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.cutting.recordings import demo_texts, join_demo

pytest.importorskip("pocketsphinx", reason="it has wheels for Python 3.11 and 3.13")
NUMBERS = range(1, 13)


@pytest.mark.slow
def test_a_cut_is_trained_on_as_it_stands(base_folder: Path, tmp_path: Path) -> None:
    tape, text = tmp_path / "tape.wav", tmp_path / "tape.txt"
    join_demo(tape, list(NUMBERS))
    text.write_text(" ".join(demo_texts()[number - 1] for number in NUMBERS), encoding="utf-8")
    cut = tmp_path / "voice"
    run("cut", str(tape), "--text", str(text), "--to", str(cut))
    (tmp_path / "cache").mkdir()
    settings = {
        "DATASET_DIR": str(cut),
        "BASE_MODEL": str(base_folder),
        "CACHE_DIR": str(tmp_path / "cache"),
        "OUTPUT_DIR": str(tmp_path / "run"),
        "RUNS_DIR": str(tmp_path / "events"),
        "NUM_EPOCHS": "1",
        "EVALUATE": "off",
        "SAMPLE_DEVICE": "off",
        "TENSORBOARD": "off",
        "DEVICE": "cpu",
        "NUM_THREADS": "1",
    }
    run(**settings)
    records = [
        json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    ]
    assert [one["kind"] for one in records].count("validation") == 1
    assert any(one["kind"] == "train" for one in records)


def run(*words: str, **settings: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "train", *words],
        env=os.environ | settings, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
