"""Whole runs of a tiny model: the files written, and the same end after any interruption."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import soundfile
import torch

from tests.datasets import make_dataset
from tests.models import tiny_base
from train.__main__ import main
from train.epoch_end import EpochEnd
from train.resilience.at_work import trainings
from train.trainer import Trainer
from xtts.voices.evaluation_file import read_evaluation
from xtts.voices.run_folder import RunFolder


class Workshop:
    """A base, a dataset and a cache; each run gets separate folders."""

    def __init__(self, base: Path, folder: Path) -> None:
        self.base = base
        self.folder = folder
        self.dataset = make_dataset(folder / "data", clips=12, seconds=0.6)

    def arguments(self, name: str, **settings: object) -> list[str]:
        """The command line of a run. Batches are small: an epoch of 12 clips has 11 steps. The
        recogniser and the learned decoder are off: they take seconds per run and are tested
        elsewhere."""
        own = {
            "BASE_MODEL": self.base,
            "DATASET_DIR": self.dataset,
            "CACHE_DIR": self.folder / "cache",
            "OUTPUT_DIR": self.folder / name,
            "RUNS_DIR": self.folder / name / "events",
            "BATCH_SECONDS": 1.2,
            "SEED": 5,
            "NUM_THREADS": 1,
            "DEVICE": "cpu",
            "SAMPLE_DEVICE": "off",
            "TENSORBOARD": "off",
            "EVALUATE_RECOGNISER": "off",
            "EVALUATE_NATURALNESS": "off",
            "LEARN_DECODER": "off",
        }
        given = (own | settings).items()
        return [f"--{key.lower().replace('_', '-')}={value}" for key, value in given]

    def run(self, name: str, epochs: int, expect: int = 0, **settings: str) -> RunFolder:
        """Trains in this process."""
        code = main(self.arguments(name, NUM_EPOCHS=str(epochs), **settings))
        assert code == expect
        return RunFolder(self.folder / name)

    def start(self, name: str, epochs: int, **settings: str) -> "subprocess.Popen[bytes]":
        """Trains in a separate process."""
        arguments = self.arguments(name, NUM_EPOCHS=str(epochs), **settings)
        return subprocess.Popen(
            (sys.executable, "-m", "train", *arguments),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def straight(workshop):
    """Four epochs without an interruption."""
    return workshop.run("straight", 4)


def content(path: Path) -> dict:
    return torch.load(path, map_location="cpu", weights_only=True)


def flat(value, prefix: str = "") -> dict[str, object]:
    """Nested dictionaries and lists as one level."""
    if isinstance(value, dict):
        pairs = [(f"{prefix}/{key}", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(f"{prefix}/{key}", item) for key, item in enumerate(value)]
    else:
        return {prefix: value}
    return {name: leaf for key, item in pairs for name, leaf in flat(item, key).items()}


def assert_equal(one: dict, other: dict) -> None:
    one, other = flat(one), flat(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        same = torch.equal(value, other[name]) if torch.is_tensor(value) else value == other[name]
        assert same, f"{name} differs"


def records(run: RunFolder) -> list[dict]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def losses(run: RunFolder) -> list[tuple]:
    names = ("kind", "epoch", "step", "audio_loss", "text_loss")
    found = [record for record in records(run) if record["kind"] != "phase"]
    return [tuple(record[name] for name in names) for record in found]


def assert_same_end(one: RunFolder, other: RunFolder, epoch: int = 4) -> None:
    """The weights, the optimizer and every loss are equal bit for bit."""
    for path, part in (("checkpoint_path", "model"), ("state_path", "trainer")):
        first, second = (content(getattr(run, path)(epoch))[part] for run in (one, other))
        assert_equal(first, second)
    assert losses(one) == losses(other)


def stamps(run: RunFolder) -> dict[Path, int]:
    """When each file was last written, except the lock, which each command takes."""
    files = (path for path in run.folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path: path.stat().st_mtime_ns for path in files}


def wait_for(run: RunFolder, count: int, pid: int) -> None:
    """Waits until a process's run has logged `count` steps."""
    while not run.metrics.exists() or run.metrics.read_text().count('"train"') < count:
        assert alive(pid), "the run ended before it was to be stopped"
        time.sleep(0.005)


def test_a_run_writes_what_the_contract_names(straight):
    # Eleven clips are learned once each, in at most eleven steps; one validates.
    records = losses(straight)
    steps = [record for record in records if record[0] == "train"]
    assert [step for _, _, step, *_ in steps] == list(range(1, len(steps) + 1))
    assert {epoch for _, epoch, *_ in steps} == {1, 2, 3, 4}
    assert [record[0] for record in records].count("validation") == 4
    # KEEP_CHECKPOINTS=3, the two newest with a trainer state to resume from.
    assert set(straight.epochs()) >= {2, 3, 4}
    assert straight.state_path(4).is_file() and straight.state_path(3).is_file()
    assert not straight.state_path(2).exists()
    best = json.loads(straight.best_file.read_text())
    validations = {epoch: loss for kind, epoch, _, loss, _ in records if kind == "validation"}
    assert best == {
        "epoch": min(validations, key=validations.get),
        "validation_audio_loss": min(validations.values()),
    }
    assert validations[4] < validations[1]  # it learns
    data = straight.newest_manifest().data
    assert data["clips"] == 11 and 0.1 < data["minutes"] < 1


def test_two_and_two_epochs_are_four(workshop, straight):
    workshop.run("in-two", 2)
    assert_same_end(straight, workshop.run("in-two", 4))


def test_a_second_start_is_ready_within_seconds(workshop, monkeypatch, caplog):
    """CPU time is measured, because other processes may use the same cores."""
    ready: list[float] = []
    monkeypatch.setattr(Trainer, "train", lambda _: ready.append(time.process_time()) or 0)
    workshop.run("two starts", 1)
    began = time.process_time()
    workshop.run("two starts", 1)
    assert ready[1] - began < 5
    assert "Ready to train after" in caplog.text
    assert "Computing features" not in caplog.text


def test_another_seed_is_another_run(workshop, straight):
    assert losses(workshop.run("other-seed", 1, SEED="6"))[0] != losses(straight)[0]


@pytest.mark.parametrize("save_every", ["1", "4"])
@pytest.mark.slow
def test_a_signal_while_validating_is_a_stop_inside_the_epoch(workshop, straight, monkeypatch, save_every):
    """Epochs that SAVE_EVERY leaves unsaved are not lost, and no record is logged twice."""
    validate = EpochEnd.validate

    def interrupted(end: EpochEnd, epoch: int):
        if epoch == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            while not end.stop.requested:  # the watching thread handles it
                time.sleep(0.01)
        return validate(end, epoch)

    name = f"validating-{save_every}"
    with monkeypatch.context() as patched:
        patched.setattr(EpochEnd, "validate", interrupted)
        run = workshop.run(name, 4, expect=143, SAVE_EVERY=save_every)
    assert run.interrupted.is_file() and run.epochs() == ([1] if save_every == "1" else [])
    run = workshop.run(name, 4, SAVE_EVERY=save_every)
    wanted, found = (content(one.checkpoint_path(4))["model"] for one in (straight, run))
    assert_equal(wanted, found)
    assert losses(run) == losses(straight)


@pytest.mark.slow
def test_a_signal_that_saving_cannot_follow_in_time_exits_at_once(workshop):
    run = RunFolder(workshop.folder / "hasty")
    process = workshop.start("hasty", 4, STOP_SECONDS="0")
    wait_for(run, 14, process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 143
    assert not run.interrupted.exists()
    assert run.newest_verified().epoch == 1


@pytest.mark.slow
def test_a_second_trainer_in_the_folder_is_refused(workshop, capfd):
    run = RunFolder(workshop.folder / "shared")
    process = workshop.start("shared", 4)
    try:
        wait_for(run, 1, process.pid)
        workshop.run("shared", 4, expect=2)
        assert f"process {process.pid}" in capfd.readouterr().err
    finally:
        process.kill()
        process.wait()


def test_other_data_is_refused_and_nothing_is_written_over(workshop, straight, tmp_path, capfd):
    run = workshop.run("refused", 1)
    before = stamps(run)
    other = make_dataset(tmp_path / "other", clips=9, seconds=0.7)
    workshop.run("refused", 2, expect=2, DATASET_DIR=str(other))
    told = capfd.readouterr().err
    assert "RESUME=never" in told and "OUTPUT_DIR" in told and stamps(run) == before
    workshop.run("refused", 1, RESUME="never", DATASET_DIR=str(other))
    assert list(run.archive.glob("*/checkpoints/checkpoint_epoch_1.pt"))


@pytest.fixture(scope="module")
def heard(workshop):
    """Two epochs with samples from the real worker, judged on two sentences."""
    texts = workshop.folder / "texts.txt"
    texts.write_text("One two.\nThree four.\n")
    heard = {"SAMPLE_TEXT": "One two.", "EVALUATE_TEXTS": str(texts), "BLEND": "0.5"}
    return workshop.run("heard", 2, SAMPLE_DEVICE="cpu", **heard)


def test_every_epoch_is_heard_by_its_own_weights(heard):
    waves = []
    for epoch in (1, 2):
        told = json.loads((heard.samples / f"epoch_{epoch}_output.json").read_text())
        manifest = json.loads(heard.manifest_path(epoch).read_text())
        checkpoint = heard.checkpoint_path(epoch).name
        assert told["checkpoint_sha256"] == manifest["files"][checkpoint]["sha256"]
        assert (told["epoch"], told["mode"], told["device"]) == (epoch, "cpu_subprocess", "cpu")
        assert told["reason"] and told["text"] == "One two."
        for what in ("output", "reference"):
            path = heard.samples / f"epoch_{epoch}_{what}.wav"
            # The reference project wrote XTTS's 24,000 Hz with a header of 22,050 Hz.
            assert soundfile.info(path).samplerate == told["sample_rate"] == 24_000
            assert soundfile.info(path).subtype == "PCM_16"
        wave, _ = soundfile.read(heard.samples / f"epoch_{epoch}_output.wav")
        assert told["audio_seconds"] == pytest.approx(len(wave) / 24_000, abs=1e-3)
        waves.append(wave)
    one, other = waves
    assert len(one) != len(other) or abs(one - other).max() > 1e-3


def test_sampling_changes_no_bit_of_training(workshop, heard):
    assert_same_end(workshop.run("unheard", 2), heard, epoch=2)


def test_every_epoch_is_judged_beside_the_base(heard):
    """The model says nothing, so the base is kept and the verdict says why."""
    found = read_evaluation(heard.evaluation_file)
    assert [(candidate.kind, candidate.epoch) for candidate in found.candidates[:3]] == [
        ("base", 0),
        ("epoch", 1),
        ("epoch", 2),
    ]
    assert {len(candidate.sentences) for candidate in found.candidates} == {
        len(found.candidates[0].sentences)
    }
    best = json.loads(heard.best_file.read_text())
    assert best["schema"] == 2 and best["reason"] == found.verdict.reason
    assert (heard.samples / "best_output.wav").is_file()
    kept = [sentence.wav for sentence in found.candidates[1].sentences if sentence.wav]
    assert kept and all((heard.folder / wav).is_file() for wav in kept)


def test_nothing_is_left_to_do(workshop, straight, caplog):
    before = losses(straight)
    workshop.run("straight", 4)
    assert losses(straight) == before
    assert "The run already has 4 epochs, and NUM_EPOCHS=4." in caplog.text


@pytest.mark.parametrize("verb", ["run", "evaluate", "learn-decoder", "sample"])
@pytest.mark.parametrize("other", ["MAX_TRAIN_SAMPLES", "BASE_MODEL"])
def test_every_verb_that_writes_into_a_run_refuses_one_of_other_data(
    workshop, straight, tmp_path, capsys, verb, other
):
    before = stamps(straight)
    value = "5" if other == "MAX_TRAIN_SAMPLES" else str(tiny_base(tmp_path / "other", seed=5))
    changed = {"SAMPLE_DEVICE": "cpu", "NUM_EPOCHS": "5", other: value}
    assert main([verb, *workshop.arguments("straight", **changed)]) == 2
    told = capsys.readouterr().err
    assert f"{straight.folder} does not match this start" in told and other in told
    if other == "MAX_TRAIN_SAMPLES":
        assert "MAX_TRAIN_SAMPLES was all, is 5; the run trains on" in told
        assert "this start on 5 clips" in told
    assert not re.search(r"[0-9a-f]{12}", told.replace(str(straight.folder), ""))
    assert stamps(straight) == before


@pytest.mark.parametrize("verb", ["evaluate", "sample"])
def test_a_verb_that_speaks_with_a_run_is_at_work(workshop, straight, monkeypatch, verb):
    seen: list[str] = []
    cache = workshop.folder / "cache"
    for what in ("evaluation.conclusion.conclude", "sampling.samples.Samples.speak_on_demand"):
        monkeypatch.setattr(f"train.{what}", lambda *_: seen.extend(trainings(cache)))
    assert main([verb, *workshop.arguments("straight", SAMPLE_DEVICE="cpu")]) == 2
    assert seen == [str(straight.folder)] and trainings(cache) == []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
