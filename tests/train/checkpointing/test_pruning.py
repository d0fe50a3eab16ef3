"""Which epochs are pruned, and which never are."""

import pytest

from tests.train.checkpointing.saving import damage, save
from train.checkpointing.checkpoints import Checkpoints, epochs_to_prune, prune
from xtts.voices.run_folder import manifest_beside


@pytest.mark.parametrize(
    ("epochs", "newest", "best", "keep", "gone"),
    [
        ([1, 2, 3, 4], [4], 1, 2, [2]),
        ([1, 2, 3, 4], [4], 4, 1, [1, 2, 3]),
        ([1, 2, 3, 4], [2], 1, 1, [3]),  # 3 and 4 are damaged: a run resumes from 2
        ([1, 2, 3, 4], [], None, 2, [1, 2]),
        ([1, 2], [2], 1, 5, []),
        ([1, 2, 3, 4], [4], 1, None, []),
        ([8, 9, 10, 11], [11], None, 2, [8, 9]),
    ],
)
def test_what_is_pruned(epochs, newest, best, keep, gone):
    assert epochs_to_prune(epochs, newest, best, keep) == gone


def test_pruning_keeps_newest_best_two_trainer_states_and_every_sample(run):
    checkpoints = Checkpoints(run, keep=2)
    run.samples.mkdir(parents=True)
    for epoch in range(1, 7):
        save(checkpoints, epoch)
        (run.samples / f"epoch_{epoch}_output.wav").touch()
    assert run.epochs() == [2, 5, 6]
    assert run.state_epochs() == [5, 6]
    assert all(run.verified(epoch) for epoch in run.epochs())
    assert run.lowest_loss_epoch().epoch == 2
    assert run.read_best() == {"epoch": 2, "validation_audio_loss": 1.0}
    assert len(list(run.samples.iterdir())) == 6


def test_pruning_spares_the_newest_whole_epoch_behind_damaged_ones(run):
    checkpoints = Checkpoints(run, keep=None)
    for epoch in (1, 2, 3, 4):
        save(checkpoints, epoch)
    for epoch in (3, 4):
        damage(run.checkpoint_path(epoch))
    prune(run, 1)
    assert run.newest_verified().epoch == 2


def test_of_a_pruned_epoch_only_its_sample_is_left(run):
    """Every file that an epoch may have goes: also its adapter, its decoder and their manifests."""
    checkpoints = Checkpoints(run, keep=None)
    for epoch in (1, 2, 3):
        save(checkpoints, epoch)
        tensors, decoder = run.adapter_path(epoch), run.decoder_path(epoch)
        for path in (tensors, decoder, manifest_beside(decoder)):
            path.write_bytes(b"of this epoch")
    run.samples.mkdir(parents=True, exist_ok=True)
    sample = run.samples / "epoch_1_output.wav"
    sample.touch()
    before = {path.name.replace("3", "N") for path in run.folder.rglob("*epoch_3*")}
    prune(run, 1)
    assert run.epochs() == [2, 3] and run.lowest_loss_epoch().epoch == 2
    assert list(run.folder.rglob("*epoch_1*")) == [sample]
    kept = {path.name.replace("3", "N") for path in run.folder.rglob("*epoch_3*")}
    assert kept == before and len(before) >= 6
