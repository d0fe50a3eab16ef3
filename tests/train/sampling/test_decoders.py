"""The decoder of an epoch: its steps, the state that it continues from, and its use."""

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from machine.devices.recovery import GpuLost
from machine.storage.checksums import Manifest, sha256_of, write_manifest
from machine.storage.files import Written
from tests.forked import in_child
from train.checkpointing.checkpoints import prune
from train.dataset.dataset import Clip
from train.defaults import decoder_steps
from train.sampling.decoders import learn_for_base, learn_for_epoch
from xtts.model.config import DecoderSteps, TrainingAdvice
from xtts.voices import learned_decoder
from xtts.voices.learned_decoder import decoder_for, digest_beside
from xtts.voices.run_folder import RunFolder, manifest_beside
from xtts.workers.decoder_schedule import DEFAULT_STEPS, TRAINING_EPOCHS, steps_for, steps_until
from xtts.workers.failures import WorkerFailed
from xtts.workers.requests import DecoderLearned, LearnDecoderRequest, TunedVoice

CLIPS = [Clip(f"{n}", Path(f"{n}.wav"), "One.", "anna", "en", 9.0, f"{n:02}", (1,)) for n in range(20)]
MINUTES = 20 * 9.0 / 60
FEWER = DecoderSteps(per_minute=20.0, exponent=1.0, most=50)
LEARNED = DecoderLearned(2.0, 1.5, 8, 30, 1.0, new_steps=10, step_seconds=0.3)


class Learning:
    """A run with a stand-in for the worker that learns its decoders."""

    def __init__(self, folder: Path) -> None:
        self.run = RunFolder(folder)
        self.run.checkpoints.mkdir(parents=True, exist_ok=True)
        self.requests: list[LearnDecoderRequest] = []
        self.found = LEARNED
        self.fault: Exception | None = None
        self.steps = DEFAULT_STEPS
        self.step_seconds = 0.0

    def epoch(self, epoch: int, content: bytes = b"") -> Path:
        checkpoint = self.run.checkpoint_path(epoch)
        checkpoint.write_bytes(content or b"epoch %d" % epoch)
        sha256 = sha256_of(checkpoint)
        files = {checkpoint.name: Written(sha256, checkpoint.stat().st_size)}
        write_manifest(self.run.manifest_path(epoch), Manifest(epoch, 1, files))
        self.step_seconds = learn_for_epoch(
            self.run, self.ask, CLIPS, Path("person.wav"), epoch, checkpoint, sha256, self.steps
        )
        return checkpoint

    def ask(self, request: LearnDecoderRequest) -> DecoderLearned:
        self.requests.append(request)
        if self.fault:
            raise self.fault
        before = request.state.read_bytes() if request.state else b""
        with zipfile.ZipFile(request.state_out, "w") as file:  # as torch.save writes
            # With a fixed date, because files of different times are compared.
            file.writestr(zipfile.ZipInfo("steps"), f"{len(before)} {request.steps}")
        request.out.write_bytes(b"tensors of %d after %d" % (request.steps, len(before)))
        return self.found


@pytest.fixture
def learning(tmp_path: Path) -> Learning:
    return Learning(tmp_path / "output")


def test_an_epoch_has_a_decoder_of_its_own_and_goes_on_from_the_one_before(learning):
    first, second = learning.epoch(1), learning.epoch(2)
    run, (one, two) = learning.run, learning.requests
    assert decoder_for(run, first) == run.decoder_path(1)
    assert decoder_for(run, second) == run.decoder_path(2)
    assert digest_beside(second) == sha256_of(run.decoder_path(2))
    assert (one.state, two.state) == (None, run.decoder_state_path(1))
    assert two.voice == TunedVoice(Path("person.wav"), second)
    assert len(one.clips) == len(CLIPS) and one.clips == two.clips
    left = [path.name for path in run.checkpoints.iterdir() if path.name.startswith("unjudged")]
    assert left == []


def test_the_steps_follow_the_minutes_of_sound_and_the_epoch_alone(learning):
    """The number of epochs, the time and a missing sample change nothing."""
    for epoch in (1, 2, 4, 9):
        learning.epoch(epoch)
    steps = [request.steps for request in learning.requests]
    assert steps == [steps_until(epoch, MINUTES) for epoch in (1, 2, 4, 9)]
    assert steps[2] == steps[3] == steps_for(MINUTES) and TRAINING_EPOCHS == 4
    assert all(request.budget_seconds is None for request in learning.requests)


def test_a_base_recommends_the_steps_for_a_minute(learning):
    learning.steps = FEWER
    learning.epoch(1)
    learning.epoch(4)
    first, last = (request.steps for request in learning.requests)
    assert (first, last) == (steps_until(1, MINUTES, FEWER), steps_for(MINUTES, FEWER))
    assert last < steps_for(MINUTES)


def test_the_decoder_of_the_base_takes_the_steps_that_the_base_recommends(learning):
    learn_for_base(learning.run, learning.ask, CLIPS, TunedVoice(Path("person.wav")), FEWER)
    (request,) = learning.requests
    assert request.steps == steps_for(MINUTES, FEWER)
    assert request.min_steps == steps_until(1, MINUTES, FEWER)


def test_without_a_recommendation_the_steps_are_those_of_xtts_v2():
    assert decoder_steps(TrainingAdvice()) == DEFAULT_STEPS
    assert decoder_steps(TrainingAdvice(decoder_steps=FEWER)) == FEWER


def test_a_start_over_learns_only_what_is_missing(learning):
    learning.epoch(1)
    learning.epoch(1)
    assert len(learning.requests) == 1
    learning.run.decoder_path(1).unlink()  # its sample was not spoken yet
    learning.epoch(1)
    assert len(learning.requests) == 2 and learning.requests[1].state is None


@pytest.mark.parametrize("place", ["before decoder", "after decoder state"])
def test_killed_while_it_is_written_it_is_learned_again_from_the_same_state(learning, tmp_path, place):
    learning.epoch(1)
    assert in_child(lambda: learning.epoch(2), crash_at=place) == -9
    run = learning.run
    assert decoder_for(run, run.checkpoint_path(2)) is None
    again = Learning(run.folder)
    again.epoch(2)
    assert again.requests[0].state == run.decoder_state_path(1)
    straight = Learning(tmp_path / "straight")
    straight.epoch(1), straight.epoch(2)
    for path in (run.decoder_path(2), run.decoder_state_path(2)):
        assert path.read_bytes() == (straight.run.checkpoints / path.name).read_bytes()


def test_a_damaged_state_is_left_out(learning, caplog):
    for epoch in (1, 2):
        learning.epoch(epoch)
    learning.run.decoder_state_path(2).write_bytes(b"half of it")
    learning.epoch(3)
    assert learning.requests[-1].state == learning.run.decoder_state_path(1)
    assert "decoder_state_epoch_2.pt is damaged" in caplog.text


def test_one_that_comes_no_nearer_speaks_nowhere_and_is_continued(learning):
    learning.found = replace(LEARNED, distance_after=2.0)
    assert decoder_for(learning.run, learning.epoch(1)) is None
    assert list(learning.run.checkpoints.glob("*decoder*.safetensors")) == []
    learning.epoch(2)
    assert learning.requests[1].state == learning.run.decoder_state_path(1)


def test_a_fault_leaves_the_bases_decoder_and_a_lost_gpu_ends_the_run(learning, caplog):
    learning.fault = WorkerFailed("out_of_memory", "Too little memory.")
    assert decoder_for(learning.run, learning.epoch(1)) is None
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
    assert decoder_for(run, first) is None and not run.decoder_path(1).exists()
    learning.fault = None
    for epoch in (2, 3, 4):
        learning.epoch(epoch)
    prune(run, 1)
    assert run.epochs() == [4]
    pruned = [run.decoder_path(2), manifest_beside(run.decoder_path(3))]
    assert [path.exists() for path in pruned] == [False, False]
    assert decoder_for(run, run.checkpoint_path(4)) == run.decoder_path(4)


def test_two_states_are_kept_whatever_epochs_are(learning):
    """With SAMPLE_EVERY=3, the next decoder continues from an epoch that was pruned."""
    for epoch in (1, 4, 7):
        learning.epoch(epoch)
        prune(learning.run, 1)
    assert learning.run.epochs() == [7] and learning.run.decoder_state_epochs() == [4, 7]


def test_what_was_judged_for_the_best_weights_goes_before_it(learning):
    """This includes the verdict that the base's decoder is easier to understand."""
    checkpoint = learning.epoch(1)
    run = learning.run
    record: Any = learned_decoder.read(run.decoder_path(1))
    learned_decoder.write(run.best_decoder, replace(record, harder=True, file=None))
    assert decoder_for(run, checkpoint) is None and digest_beside(checkpoint) == ""


def test_the_time_of_a_step_is_told(learning):
    learning.epoch(1)
    assert learning.step_seconds == 0.3
    learning.found = replace(LEARNED, step_seconds=0.0)  # too few steps to measure one
    learning.epoch(2)
    assert learning.step_seconds == 0
