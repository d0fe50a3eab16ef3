"""`train evaluate` and `train learn-decoder` on an existing run, and a decoder in a killed run."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

from tests.datasets import make_dataset
from tests.train.test_run import Workshop, assert_equal, content
from train import defaults
from train.__main__ import main
from xtts.model.discriminators import Discriminators, write_discriminators
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import read_evaluation
from xtts.voices.run_folder import RunFolder
from xtts.workers.decoder_schedule import FEWEST_STEPS, steps_until

pytestmark = pytest.mark.slow


@pytest.fixture
def workshop(tmp_path: Path, base_folder: Path) -> Workshop:
    """A workshop with clips long enough for a decoder, and a base that brings discriminators."""
    base = Path(shutil.copytree(base_folder, tmp_path / "base"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        write_discriminators(base, Discriminators(2))
    found = Workshop(base, tmp_path)
    found.dataset = make_dataset(tmp_path / "long", clips=12, seconds=1.5)
    return found


def test_a_decoder_is_learned_for_what_was_best(
    workshop: Workshop, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "DECODER_CLIPS", 9)
    settings = {"NUM_EPOCHS": "1", "SAMPLE_DEVICE": "cpu", "BLEND": "off"}
    asked = workshop.arguments("run", **settings)
    run = RunFolder(workshop.folder / "run")
    assert main(["run", *asked]) == 0
    known = read_evaluation(run.evaluation_file)
    assert known is not None and known.verdict is not None
    assert learned_decoder.read(run.best_decoder) is None  # LEARN_DECODER=off
    assert main(["learn-decoder", "--minutes", "0.4", *asked]) == 0
    found = learned_decoder.read(run.best_decoder)
    assert found is not None and found.weights == known.verdict.weights
    assert found.clips == 7 and found.steps > 0  # the other two of nine are held out to judge it
    sidecar = json.loads((run.samples / "best_output.json").read_text())
    assert sidecar["learned_decoder"] == found.digest
    assert main(["learn-decoder", "--minutes", "0.4", *asked]) == 0
    longer = learned_decoder.read(run.best_decoder)
    assert longer is not None and longer.steps > found.steps  # from the saved state

    assert main(["learn-decoder", "--minutes", "0", *asked]) == 2
    assert "--minutes" in capfd.readouterr().err
    assert learned_decoder.read(run.best_decoder) == longer
    run.evaluation_file.unlink()
    assert main(["learn-decoder", *asked]) == 2
    assert "python -m train evaluate" in capfd.readouterr().err


def test_a_run_that_is_killed_while_decoders_learn_ends_with_the_same_to_the_bit(
    workshop: Workshop,
) -> None:
    """Killed inside the decoder of epoch 2, and again right before its files are replaced."""
    settings = {"SAMPLE_DEVICE": "cpu", "LEARN_DECODER": "on", "BLEND": "off"}
    straight = workshop.run("straight", 3, **settings)
    killed = RunFolder(workshop.folder / "killed")
    process = workshop.start("killed", 3, **settings)
    until = time.monotonic() + 300
    while not killed.manifest_path(2).exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert killed.decoder_state_epochs() == [1]
    os.environ["SOTAQUE_CRASH_AT"] = "before decoder"
    try:
        assert workshop.start("killed", 3, **settings).wait(300) == -signal.SIGKILL
    finally:
        del os.environ["SOTAQUE_CRASH_AT"]
    assert killed.decoder_state_epochs() == [1]
    workshop.run("killed", 3, **settings)
    assert straight.decoder_state_epochs() == killed.decoder_state_epochs() == [2, 3]
    for epoch in (2, 3):
        one, other = (content(run.decoder_state_path(epoch)) for run in (straight, killed))
        assert_equal(one, other)
        assert one["step"] == steps_until(epoch, 0.0) <= FEWEST_STEPS
    for name in ("best_decoder", "best_decoder_state"):
        one, other = getattr(straight, name), getattr(killed, name)
        assert one.is_file() == other.is_file()
        if name == "best_decoder" and one.is_file():
            assert one.read_bytes() == other.read_bytes()
    records = [learned_decoder.read(run.best_decoder) for run in (straight, killed)]
    assert records[0] == records[1] is not None
