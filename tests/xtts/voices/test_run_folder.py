"""The newest or best epoch that is whole, whatever has happened to the files."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
import torch

from machine.storage import checksums
from machine.storage.checksums import Manifest, write_manifest
from machine.storage.files import replace_file
from xtts.voices.run_folder import RunError, RunFolder, read_checkpoint, reference_beside

VALUES = 70_000  # 280 kB: four regions of 64 kB


def save(run: RunFolder, epoch: int, loss: float | None = None) -> None:
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    files = {}
    for path, value in ((run.checkpoint_path(epoch), epoch), (run.state_path(epoch), -epoch)):
        content = {"model": {"gpt.a": torch.full((VALUES,), float(value))}, "provenance": {"epoch": epoch}}
        files[path.name] = replace_file(path, lambda file, content=content: torch.save(content, file))
    manifest = Manifest(epoch=epoch, step=10 * epoch, files=files, losses={"validation_audio_loss": loss})
    write_manifest(run.manifest_path(epoch), manifest)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Three whole epochs; the second is the best."""
    folder = RunFolder(tmp_path / "output")
    for epoch, loss in ((1, 3.0), (2, 1.0), (3, 2.0)):
        save(folder, epoch, loss)
    return folder


def newest(run: RunFolder) -> int:
    epoch = run.newest_verified()
    assert epoch is not None
    return epoch.epoch


def flip_bit(path: Path, offset: int = 100_000) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 4
    path.write_bytes(content)


def test_epochs_are_numbers(run):
    """The reference project sorted them as strings, and with 10 epochs resumed from 9."""
    for epoch in (9, 10):
        save(run, epoch)
    assert run.epochs() == [1, 2, 3, 9, 10]
    assert newest(run) == 10


def test_looking_at_a_run_that_is_not_there_makes_nothing(tmp_path):
    run = RunFolder(tmp_path / "none")
    assert run.epochs() == [] and run.newest_verified() is None and run.lowest_loss_epoch() is None
    assert not run.folder.exists()
    (tmp_path / "none").touch()
    assert run.epochs() == []


def test_a_whole_epoch_says_what_it_is(run):
    epoch = run.newest_verified()
    assert (epoch.epoch, epoch.step) == (3, 30)
    assert epoch.sha256 == checksums.sha256_of(run.checkpoint_path(3))
    assert epoch.state == run.state_path(3)


@pytest.mark.parametrize("left", [-1, 0, "a block of zeros", "nothing"])
@pytest.mark.parametrize("which", ["checkpoint_path", "state_path"])
def test_a_damaged_file_is_caught_and_named(run, left, which):
    path = getattr(run, which)(3)
    content = path.read_bytes()
    path.unlink()
    if left == "a block of zeros":
        path.write_bytes(content[:100_000] + bytes(4096) + content[104_096:])
    elif left != "nothing":
        path.write_bytes(content[:left])
    assert path.name in run.verify(3)
    assert newest(run) == 2


@pytest.mark.parametrize("region", range(5))
def test_one_flipped_bit_in_64_kb_is_caught(run, region):
    """torch.load accepts it without an error."""
    path = run.checkpoint_path(3)
    flip_bit(path, min(region * 65_536 + 40_000, path.stat().st_size - 30))
    assert "damaged" in run.verify(3)
    assert newest(run) == 2
    with pytest.raises(RunError, match=r"checkpoint_epoch_3\.pt is damaged"):
        read_checkpoint(path)


@pytest.mark.parametrize("which", ["checkpoint_path", "manifest_path"])
def test_two_files_swapped_are_caught(run, which):
    first, second = getattr(run, which)(2), getattr(run, which)(3)
    first.rename(run.folder / "aside")
    second.rename(first)
    (run.folder / "aside").rename(second)
    assert run.verified(3) is None and newest(run) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "missing"),
        (b'{"seal": "0", "epoch": 3}', "changed or damaged"),
        *[(garbled, "cannot be read") for garbled in (b"", b"{", b"[]", b"\xff\xfe\x00")],
    ],
)
def test_a_manifest_missing_or_garbled_is_caught(run, content, reason):
    path = run.manifest_path(3)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert path.name in run.verify(3) and reason in run.verify(3)
    assert newest(run) == 2


def test_a_flipped_bit_anywhere_in_a_manifest_is_caught(run):
    path = run.manifest_path(3)
    whole = path.read_bytes()
    for offset in range(0, len(whole), 7):
        flip_bit(path, offset)
        # Only white space outside of strings may change.
        same = False
        with contextlib.suppress(ValueError):
            same = json.loads(path.read_bytes()) == json.loads(whole)
        assert (run.verified(3) is not None) == same, offset
        path.write_bytes(whole)


def test_a_damaged_epoch_is_left_as_it_is_and_told(run, caplog):
    flip_bit(run.checkpoint_path(3))
    before = sorted(run.checkpoints.iterdir())
    assert newest(run) == 2 and sorted(run.checkpoints.iterdir()) == before
    assert "Epoch 3 is not used: " in caplog.text and "damaged" in caplog.text


def test_an_epoch_that_is_not_there_is_told_with_its_reason(run):
    run.samples.mkdir()
    (run.samples / "epoch_1_output.json").write_text("{}")
    for epoch in (1, 2):
        for path in (run.manifest_path, run.checkpoint_path, run.state_path):
            path(epoch).unlink()
    assert "Epoch 1 was pruned" in run.verify(1)
    assert "pruned (KEEP_CHECKPOINTS), or SAVE_EVERY" in run.verify(2)
    assert "lacks epoch 4; the newest is 3" in run.verify(4)
    with pytest.raises(RunError, match=r"Epoch 1 was pruned.*Available epochs: 3"):
        read_checkpoint(run.checkpoint_path(1))


def test_large_files_are_hashed_once_in_a_process_unless_asked(run, monkeypatch):
    checksums.forget_hashes()
    hashed = []
    real = checksums._compute_sha256
    monkeypatch.setattr(checksums, "_compute_sha256", lambda path: [hashed.append(path), real(path)][1])
    run.newest_verified()
    run.newest_verified()
    assert len(hashed) == 2
    checksums.forget_hashes()
    run.newest_verified()
    assert len(hashed) == 4
    flip_bit(run.checkpoint_path(3))  # a later change is detected
    assert run.newest_verified().epoch == 2


def test_best_is_the_lowest_finite_validation_loss_of_what_is_whole(run):
    assert run.lowest_loss_epoch().epoch == 2
    flip_bit(run.checkpoint_path(2))
    assert run.lowest_loss_epoch().epoch == 3
    save(run, 4, None)
    save(run, 5, 0.5)
    assert run.lowest_loss_epoch().epoch == 5


def test_without_validation_the_newest_whole_epoch_is_best(tmp_path):
    """Fewer than eight clips are not split, so there is no validation loss."""
    run = RunFolder(tmp_path / "output")
    assert run.best_weights() is None
    for epoch in (1, 2, 3):
        save(run, epoch)
    flip_bit(run.checkpoint_path(3))
    best = run.best_weights()
    assert (best.kind, best.epoch, best.weights) == ("epoch", 2, run.checkpoint_path(2))
    assert not best.fallback  # no other epoch was announced as the best


def test_what_a_run_was_made_from_is_known_without_a_whole_file(run):
    flip_bit(run.checkpoint_path(3))
    assert run.newest_manifest().epoch == 3
    run.manifest_path(3).write_bytes(b"{")
    assert run.newest_manifest().epoch == 2


def test_a_moved_run_is_the_same_run(run, tmp_path):
    before = run.newest_verified()
    shutil.move(run.folder, tmp_path / "elsewhere")
    moved = RunFolder(tmp_path / "elsewhere")
    assert moved.newest_verified().sha256 == before.sha256
    held = (path.read_bytes() for path in moved.checkpoints.iterdir())
    assert not any(str(tmp_path).encode() in content for content in held)


def test_a_checkpoint_away_from_its_run_is_checked_by_its_own_sums(run, tmp_path):
    path = shutil.copy(run.checkpoint_path(2), tmp_path / "voice.pt")
    checkpoint = read_checkpoint(path)
    assert torch.equal(checkpoint.model["gpt.a"], torch.full((VALUES,), 2.0))
    assert checkpoint.provenance == {"epoch": 2}
    flip_bit(path)
    with pytest.raises(RunError, match=r"voice\.pt is damaged"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [({"weights": 1}, "is not a checkpoint"), ([1, 2], "is not a checkpoint"), (None, "does not exist")],
)
def test_other_files_are_no_checkpoints(tmp_path, content, told):
    if content:
        torch.save(content, tmp_path / "x.pt")
    with pytest.raises(RunError, match=rf"x\.pt {told}"):
        read_checkpoint(tmp_path / "x.pt")


def test_a_checkpoint_runs_no_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"model": Evil(), "provenance": {}}, tmp_path / "x.pt")
    with pytest.raises(RunError, match="cannot be read"):
        read_checkpoint(tmp_path / "x.pt")
    assert not (tmp_path / "ran").exists()


def test_the_reference_beside_a_checkpoint(run):
    assert reference_beside(run.checkpoint_path(2)) is None
    run.samples.mkdir()
    (run.samples / "epoch_2_reference.wav").touch()
    assert reference_beside(run.checkpoint_path(2)).name == "epoch_2_reference.wav"
    assert reference_beside(run.interrupted) is None
    # This epoch has no sample: the newest sample of its run is used.
    assert reference_beside(run.checkpoint_path(3)).name == "epoch_2_reference.wav"
