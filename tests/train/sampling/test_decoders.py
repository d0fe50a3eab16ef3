"""The decoder of an epoch: its clips, its starting point and its use."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from machine.devices.recovery import GpuLost
from machine.storage.atomic import Written
from machine.storage.checksums import Manifest, write_manifest
from machine.storage.hashes import sha256_of
from train.checkpointing.checkpoints import prune
from train.sampling.decoders import CLIPS_AN_EPOCH, FEWEST_SECONDS, MOST_SECONDS, EpochDecoders
from xtts.voices import learned_decoder
from xtts.voices.learned_decoder import digest_beside, learned_for
from xtts.voices.run_folder import RunFolder, manifest_beside
from xtts.workers.failures import WorkerFailed
from xtts.workers.requests import DecoderLearned, LearnDecoderRequest, TranscribedClip, TunedVoice

CLIPS = [TranscribedClip(Path(f"{number}.wav"), "One.", "en") for number in range(20)]
LEARNED = DecoderLearned(2.0, 1.5, 8, 30, 1.0, step_seconds=0.3)


class Learning:
    """A run with a stand-in for the worker that learns its decoders."""

    def __init__(self, folder: Path) -> None:
        self.run = RunFolder(folder)
        self.run.checkpoints.mkdir(parents=True)
        self.requests: list[LearnDecoderRequest] = []
        self.found = LEARNED
        self.fault: Exception | None = None
        self.decoders = EpochDecoders(self.run, CLIPS, Path("person.wav"))

    def epoch(self, epoch: int, seconds: float = 60.0, content: bytes = b"") -> Path:
        checkpoint = self.run.checkpoint_path(epoch)
        checkpoint.write_bytes(content or b"epoch %d" % epoch)
        sha256 = sha256_of(checkpoint)
        files = {checkpoint.name: Written(sha256, checkpoint.stat().st_size)}
        write_manifest(self.run.manifest_path(epoch), Manifest(epoch, 1, files))
        self.decoders.learn(self._learn, epoch, checkpoint, sha256, seconds)
        return checkpoint

    def _learn(self, request: LearnDecoderRequest) -> DecoderLearned:
        self.requests.append(request)
        if self.fault:
            raise self.fault
        request.out.write_bytes(b"tensors of %d" % len(self.requests))
        return self.found


@pytest.fixture
def learning(tmp_path: Path) -> Learning:
    return Learning(tmp_path / "output")


def test_an_epoch_has_a_decoder_of_its_own_and_goes_on_from_the_one_before(learning):
    first, second = learning.epoch(1), learning.epoch(2)
    run, (one, two) = learning.run, learning.requests
    assert learned_for(run, first) == run.decoder_path(1)
    assert learned_for(run, second) == run.decoder_path(2)
    assert digest_beside(second) == sha256_of(run.decoder_path(2))
    assert (one.start, two.start) == (None, run.decoder_path(1))
    assert two.voice == TunedVoice(Path("person.wav"), second)
    assert len(one.clips) == len(two.clips) == CLIPS_AN_EPOCH
    assert not set(one.clips) & set(two.clips)


@pytest.mark.parametrize(
    ("seconds", "budget"), [(60.0, 6.0), (5.0, FEWEST_SECONDS), (1e6, MOST_SECONDS)]
)
def test_it_takes_a_tenth_of_the_epochs_time(learning, seconds, budget):
    learning.epoch(1, seconds)
    assert learning.requests[0].budget_seconds == pytest.approx(budget)


@pytest.mark.parametrize("change", [{"distance_after": 2.0}, {"steps": 0}])
def test_one_that_comes_no_nearer_speaks_nowhere(learning, change):
    learning.found = replace(LEARNED, **change)
    assert learned_for(learning.run, learning.epoch(1)) is None
    assert list(learning.run.checkpoints.glob("*decoder*.safetensors")) == []


def test_a_fault_leaves_the_bases_decoder_and_a_lost_gpu_ends_the_run(learning, caplog):
    learning.fault = WorkerFailed("out_of_memory", "Too little memory.")
    assert learned_for(learning.run, learning.epoch(1)) is None
    assert "Epoch 1 speaks with the base's decoder: Too little memory." in caplog.text
    learning.fault = GpuLost("cuda:0 is gone.")
    with pytest.raises(GpuLost):
        learning.epoch(2)


def test_an_old_decoder_that_cannot_be_removed_costs_no_sample(learning, monkeypatch, caplog):
    def refused(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(learned_decoder, "remove", refused)
    learning.epoch(1)
    assert learning.requests == [] and "Epoch 1 speaks with the base's decoder" in caplog.text


def test_it_belongs_to_its_weights_alone_and_goes_with_them(learning):
    run = learning.run
    first = learning.epoch(1)
    learning.fault = WorkerFailed("refused", "No time.")
    learning.epoch(1, content=b"learned again")
    assert learned_for(run, first) is None and not run.decoder_path(1).exists()
    learning.fault = None
    for epoch in (2, 3, 4):
        learning.epoch(epoch)
    prune(run, 1)
    assert run.epochs() == [4]
    pruned = [run.decoder_path(2), manifest_beside(run.decoder_path(3))]
    assert [path.exists() for path in pruned] == [False, False]
    assert learned_for(run, run.checkpoint_path(4)) == run.decoder_path(4)


def test_what_was_judged_for_the_best_weights_goes_before_it(learning):
    """This includes the verdict that the base's decoder is easier to understand."""
    checkpoint = learning.epoch(1)
    run = learning.run
    record: Any = learned_decoder.read(run.decoder_path(1))
    learned_decoder.write(run.best_decoder, replace(record, harder=True, file=None))
    assert learned_for(run, checkpoint) is None and digest_beside(checkpoint) == ""


def test_the_time_of_a_step_is_known_until_another_is_measured(learning):
    assert learning.decoders.step_seconds == 0
    learning.epoch(1)
    learning.found = replace(LEARNED, step_seconds=0.0)  # too few steps to measure one
    learning.epoch(2)
    assert learning.decoders.step_seconds == 0.3
