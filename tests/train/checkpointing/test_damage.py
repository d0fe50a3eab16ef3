"""Each kind of damage to each file that a run resumes from is found and reported with file and
reason, and the run resumes from the newest intact state.

`torch.load` accepts a flipped bit or a zeroed block without an error, so both are tested.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.train.checkpointing.saving import FINGERPRINT, provenance
from train.checkpointing.checkpoints import Checkpoints
from train.metrics.metrics_file import cut_back
from xtts.voices.run_folder import RunFolder

REGION = 64 * 1024
# About 400 kB: seven regions per file.
NUMBERS = 100_000


def fill(run: RunFolder) -> None:
    """Saves epochs 1 and 2, and a stop inside the third."""
    checkpoints = Checkpoints(run, keep=None, provenance=provenance())
    for epoch in (1, 2):
        losses = {"validation_audio_loss": 3.0 - epoch}
        checkpoints.save_epoch(epoch, 10 * epoch, weights(epoch), state(epoch), losses)
    checkpoints.save_interrupted(3, 24, 4, weights(2.5), state(2.5))


def weights(value: float) -> dict[str, torch.Tensor]:
    noise = torch.randn(NUMBERS, generator=torch.Generator().manual_seed(int(value * 10)))
    return {"gpt.a": noise, "gpt.b": torch.full((3,), value)}


def state(value: float) -> dict:
    return {"optimizer": {"state": {0: {"exp_avg": weights(value)["gpt.a"]}}}, "scaler": {}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = RunFolder(tmp_path_factory.mktemp("damage") / "output")
    fill(run)
    return run


@pytest.fixture
def run(whole: RunFolder, tmp_path: Path) -> RunFolder:
    shutil.copytree(whole.folder, tmp_path / "output")
    return RunFolder(tmp_path / "output")


# Each of these damages a file, some in several places in turn, and yields what it did.


def cut_off(path: Path) -> Iterator[str]:
    content = path.read_bytes()
    # The last byte alone is not cut: in JSON it is an insignificant line feed.
    for length in (1, 20, len(content) // 2, len(content) - 2):
        path.write_bytes(content[:length])
        yield f"cut off at {length}"


def one_bit_per_region(path: Path) -> Iterator[str]:
    content, draw = path.read_bytes(), random.Random(7)
    for start in range(0, len(content), REGION):
        place = draw.randrange(start, min(start + REGION, len(content)))
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        yield f"a bit of byte {place}"


def a_zeroed_block(path: Path) -> Iterator[str]:
    content = path.read_bytes()
    for start in range(0, len(content), REGION):
        block = content[start : start + 4096]
        path.write_bytes(content[:start] + bytes(len(block)) + content[start + len(block) :])
        yield f"zeros from {start}"


def emptied(path: Path) -> Iterator[str]:
    os.truncate(path, 0)
    yield "empty"


def grown(path: Path) -> Iterator[str]:
    with path.open("ab") as file:
        file.write(b"\0")
    yield "one byte more"


def missing(path: Path) -> Iterator[str]:
    path.unlink()
    yield "missing"


def swapped(path: Path) -> Iterator[str]:
    """Swaps the file with the other epoch's; a stop's file with an epoch's."""
    other = path.with_name(path.name.replace("_2", "_1"))
    if other == path:
        other = path.with_name(f"checkpoint_epoch_1{path.suffix}")
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)
    yield f"swapped with {other.name}"
    other.write_bytes(two)


Damage = Callable[[Path], Iterator[str]]
DAMAGES: tuple[Damage, ...] = (cut_off, one_bit_per_region, a_zeroed_block, emptied, grown, missing, swapped)
EPOCH_FILES = ("checkpoint_epoch_2.pt", "trainer_state_epoch_2.pt", "checkpoint_epoch_2.json")


def _told(damage: Damage, name: str) -> str:
    """A file without a manifest may be left by a kill: it is not used, and not set aside."""
    unfinished = damage is missing and name.endswith(".json")
    return "lacks a manifest" if unfinished else "Set aside as"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", EPOCH_FILES)
def test_a_damaged_epoch_is_found_told_and_not_taken(run, caplog, name, damage):
    run.interrupted.unlink()
    run.interrupted_manifest.unlink()
    done = 0
    for what in damage(run.checkpoints / name):
        done += 1
        reason = run.verify(2)
        assert reason, f"{name}, {what}: not found"
        assert name in reason and reason.endswith(".")
        found = run.newest_verified()
        assert (found.epoch if found else None) == (None if "swapped" in what else 1), what
    assert done >= (7 if damage in (one_bit_per_region, a_zeroed_block) and ".pt" in name else 1)
    if damage is not swapped:  # `swapped` undoes its damage
        resumed = Checkpoints(run, keep=None).resume("auto", FINGERPRINT)
        assert resumed is not None and resumed.epoch == 1
        assert torch.equal(resumed.model_state["gpt.a"], weights(1)["gpt.a"])
        assert resumed.trainer_state is not None
        assert name in caplog.text and _told(damage, name) in caplog.text


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["interrupted.pt", "interrupted.json"])
def test_a_damaged_stop_inside_an_epoch_is_found_told_and_not_taken(whole, tmp_path, caplog, name, damage):
    shutil.copytree(whole.folder, tmp_path / "0")
    for number, what in enumerate(damage(tmp_path / "0/checkpoints" / name), start=1):
        caplog.clear()
        copy = RunFolder(tmp_path / str(number))
        shutil.copytree(tmp_path / "0", copy.folder)
        resumed = Checkpoints(copy, keep=None).resume("auto", FINGERPRINT)
        assert resumed is not None and resumed.epoch == 2, f"{name}, {what}"
        assert torch.equal(resumed.model_state["gpt.a"], weights(2)["gpt.a"])
        assert name in caplog.text and _told(damage, name) in caplog.text
        shutil.rmtree(copy.folder)


def test_an_epoch_that_was_renamed_is_not_another_one(run):
    """Both epochs are intact, each under the other's names."""
    for name in ("checkpoint_epoch_{}.pt", "checkpoint_epoch_{}.json", "trainer_state_epoch_{}.pt"):
        one, two = (run.checkpoints / name.format(epoch) for epoch in (1, 2))
        one.rename(run.checkpoints / "aside")
        two.rename(one)
        (run.checkpoints / "aside").rename(two)
    for epoch in (1, 2):
        reason = run.verify(epoch)
        assert reason and "the manifest of another epoch" in reason


@pytest.mark.parametrize("damage", [*DAMAGES[:-1], "another epoch"])
def test_a_damaged_best_is_written_anew(run, damage):
    """The manifests determine the best epoch; best.json only publishes it."""
    path, right = run.best_file, run.best_file.read_bytes()
    if isinstance(damage, str):
        path.write_text(json.dumps({"epoch": 1, "validation_audio_loss": 0.5}))
    else:
        for _ in damage(path):
            pass
    assert Checkpoints(run, keep=None).resume("auto", FINGERPRINT)
    assert path.read_bytes() == right


LINES = [json.dumps({"kind": "train", "step": step, "loss": 1.5}) + "\n" for step in range(1, 9)]


@pytest.mark.parametrize("length", range(1, len(LINES[-1]) + 1))
def test_a_log_that_was_cut_off_loses_its_last_line(tmp_path, caplog, length):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(LINES)[:-length])
    cut_back(path, 8)
    assert path.read_text() == "".join(LINES[:-1])
    assert "metrics.jsonl: steps 8 to 8 are missing" in caplog.text
    if length < len(LINES[-1]):
        assert "metrics.jsonl: 1 incomplete or damaged lines" in caplog.text


@pytest.mark.parametrize("tail", [bytes(4096), b"\xff\xfe\n", b"}{\n", b"\n", b'{"step": "x"}\n'])
def test_a_log_with_a_damaged_tail_keeps_the_rest(tmp_path, caplog, tail):
    """After a power cut a file may end in zeros."""
    path = tmp_path / "metrics.jsonl"
    path.write_bytes("".join(LINES).encode() + tail)
    cut_back(path, 8)
    assert path.read_text() == "".join(LINES)
    assert "metrics.jsonl: 1 incomplete or damaged lines" in caplog.text


def test_damaged_files_are_kept_for_a_look_but_not_for_ever(run):
    for number in range(5):
        path = run.checkpoints / f"checkpoint_epoch_{number + 5}.pt.corrupt"
        path.write_bytes(b"gigabytes")
        os.utime(path, (number + 1, number + 1))
    Checkpoints(run, keep=None).resume("auto", FINGERPRINT)
    assert sorted(path.name for path in run.checkpoints.glob("*.corrupt")) == [
        f"checkpoint_epoch_{number}.pt.corrupt" for number in (8, 9)
    ]
    assert run.epochs() == [1, 2]
