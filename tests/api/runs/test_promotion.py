"""The stored copy of what is served: it stays when its run is pruned or deleted."""

import shutil
from pathlib import Path

import pytest

from api.runs import promotion
from api.runs.promotion import Promotion, store, stored_checkpoint
from tests.api.run_folders import sha256_of_epoch, write_blend, write_epoch
from tests.xtts.voices.decoders import shifted_decoder
from xtts.voices.learned_decoder import decoder_beside
from xtts.voices.run_folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = tmp_path / "output"
    write_epoch(folder, 1, loss=1.0)
    write_epoch(folder, 2, loss=2.0)
    write_blend(folder, 2, 0.5)
    return RunFolder(folder)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_copy_stays_when_the_run_is_gone_and_the_same_is_promoted_again(tmp_path, run, share):
    """It is the last copy by then, and nothing could replace it."""
    voices = tmp_path / "voices"
    source = run.checkpoint_path(2) if share == 1 else run.best_blend
    record = Promotion("current", 2, sha256_of_epoch(run, 2), share)
    content = source.read_bytes()
    store(voices, record, source)
    shutil.rmtree(run.folder)
    store(voices, record, source)
    copy = stored_checkpoint(voices, record)
    assert copy and copy.read_bytes() == content and copy.name == source.name
    assert promotion.read(voices) == record


def test_another_promotion_takes_the_place_of_the_copy(tmp_path, run):
    voices = tmp_path / "voices"
    first, second = (Promotion("current", n, sha256_of_epoch(run, n)) for n in (1, 2))
    for record in (first, second):
        store(voices, record, run.checkpoint_path(record.epoch))
    assert stored_checkpoint(voices, second) and not stored_checkpoint(voices, first)
    store(voices, None)
    assert promotion.read(voices) is None and not stored_checkpoint(voices, second)


def test_the_copy_speaks_through_the_decoder_that_was_learned_for_it(tmp_path, run, base_folder):
    voices, checkpoint = tmp_path / "voices", run.checkpoint_path(2)
    sha256 = sha256_of_epoch(run, 2)
    shifted_decoder(run.best_decoder, base_folder, checkpoint, 1.5, sha256=sha256)
    learned = decoder_beside(checkpoint)
    promotion = Promotion("current", 2, sha256)
    store(voices, promotion, checkpoint)
    copy = stored_checkpoint(voices, promotion)
    assert learned and copy and (decoder := decoder_beside(copy))
    assert decoder.read_bytes() == learned.read_bytes()
