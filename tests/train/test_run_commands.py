"""`train evaluate` and `train learn-decoder` on an existing run."""

import json
from pathlib import Path

import pytest

from tests.datasets import make_dataset
from tests.train.test_run import Workshop
from train import defaults
from train.__main__ import main
from train.sampling import decoders
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import read_evaluation
from xtts.voices.run_folder import RunFolder


@pytest.fixture
def workshop(tmp_path: Path, base_folder: Path) -> Workshop:
    """A workshop with clips long enough for a decoder."""
    found = Workshop(base_folder, tmp_path)
    found.dataset = make_dataset(tmp_path / "long", clips=12, seconds=1.5)
    return found


@pytest.mark.slow
def test_a_decoder_is_learned_for_what_was_best(
    workshop: Workshop, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoders, "STEPS", 3)
    monkeypatch.setattr(defaults, "DECODER_CLIPS", 9)
    settings = {"NUM_EPOCHS": "1", "SAMPLE_DEVICE": "cpu", "BLEND": "off"}
    asked = workshop.arguments("run", **settings)
    run = RunFolder(workshop.folder / "run")
    assert main(["run", *asked]) == 0
    known = read_evaluation(run.evaluation_file)
    assert known is not None and known.verdict is not None
    assert learned_decoder.read(run.best_decoder) is None  # LEARN_DECODER=off
    assert main(["learn-decoder", "--minutes", "20", *asked]) == 0
    found = learned_decoder.read(run.best_decoder)
    assert found is not None and found.weights == known.verdict.weights
    assert found.clips == 7 and found.steps == 3  # the other two of nine are held out to judge it
    sidecar = json.loads((run.samples / "best_output.json").read_text())
    assert sidecar["learned_decoder"] == found.digest

    assert main(["learn-decoder", "--minutes", "0", *asked]) == 2
    assert "--minutes" in capfd.readouterr().err and learned_decoder.read(run.best_decoder) == found
    run.evaluation_file.unlink()
    assert main(["learn-decoder", *asked]) == 2
    assert "python -m train evaluate" in capfd.readouterr().err
