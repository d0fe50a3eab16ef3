"""`sotaque accent` on the demo's recordings."""

import json
import shutil

import numpy as np
import pytest

from tests.installed import ROOT
from xtts import __main__ as xtts
from xtts import audio, encoding

DEMO = ROOT / "train" / "data" / "demo"
NUM_CLIPS = 9


@pytest.fixture
def folders(tmp_path):
    """The demo's person, a base that speaks a fifth higher, and the person with noise."""
    pytest.importorskip("pocketsphinx", reason="it has wheels for Python 3.11 and 3.13")
    rows = (DEMO / "metadata.csv").read_text("utf-8").splitlines()[:NUM_CLIPS]
    draw = np.random.default_rng(0)
    for role in ("person", "base", "candidate"):
        (tmp_path / role / "wavs").mkdir(parents=True)
    (tmp_path / "person" / "metadata.csv").write_text("\n".join(rows) + "\n", "utf-8")
    for name in (row.partition("|")[0] for row in rows):
        clip = DEMO / "wavs" / f"{name}.flac"
        shutil.copy(clip, tmp_path / "person" / "wavs")
        samples = audio.read(clip, 16_000).numpy()
        noisy = samples + 0.1 * samples.std() * draw.standard_normal(len(samples))
        for role, sound, rate in (("base", samples, 20_000), ("candidate", noisy, 16_000)):
            encoding.write_wav(tmp_path / role / "wavs" / f"{name}.wav", sound.astype(np.float32), rate)
    return ["accent", *(f"--{role}={tmp_path / role}" for role in ("person", "base", "candidate"))]


def test_it_prints_the_figure_and_the_vowels(folders, capsys):
    assert xtts.main([*folders, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["sentences"] + len(report["left_out"]) == NUM_CLIPS
    assert report["accent"]["place"] > 0.5
    assert xtts.main(folders) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"Accent: {report['accent']['place']:.2f} (")
    assert "Of the way" in printed


def test_missing_recordings_are_an_error(folders, tmp_path, capsys):
    shutil.rmtree(tmp_path / "candidate" / "wavs")
    assert xtts.main(folders) == 2
    assert "0 sentences can be compared" in capsys.readouterr().err
