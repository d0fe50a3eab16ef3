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


@pytest.mark.timeout(900)
def test_a_run_that_is_killed_while_a_decoder_learns_ends_with_the_same_to_the_bit(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed inside the decoder of epoch 2, and again right before its files are replaced."""
    settings = {"SAMPLE_DEVICE": "cpu", "LEARN_DECODER": "on", "BLEND": "off"}
    straight = workshop.run("straight", 2, **settings)
    killed = RunFolder(workshop.folder / "killed")
    process = workshop.start("killed", 2, **settings)
    until = time.monotonic() + 300
    while not killed.manifest_path(2).exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert killed.decoder_state_epochs() == [1]
    with monkeypatch.context() as patch:
        patch.setenv("SOTAQUE_CRASH_AT", "before decoder")
        assert workshop.start("killed", 2, **settings).wait(300) == -signal.SIGKILL
    assert killed.decoder_state_epochs() == [1]
    workshop.run("killed", 2, **settings)
    assert straight.decoder_state_epochs() == killed.decoder_state_epochs() == [1, 2]
    steps = []
    for epoch in (1, 2):
        one, other = (content(run.decoder_state_path(epoch)) for run in (straight, killed))
        assert_equal(one, other)
        steps.append(one["step"])
        # The distances and the hash of the tensors.
        records = [learned_decoder.read(run.decoder_path(epoch)) for run in (straight, killed)]
        assert records[0] == records[1] is not None and records[0].file is not None
    assert 0 < steps[0] < steps[1]
    of_base = [learned_decoder.read(run.decoder_path(0)) for run in (straight, killed)]
    assert of_base[0] == of_base[1] is not None and of_base[0].steps > steps[1]
    verdicts = [run.verdict() for run in (straight, killed)]
    assert verdicts[0] == verdicts[1] is not None
