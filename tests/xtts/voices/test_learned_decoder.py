"""best_decoder.json: the values that are read, and those that are ignored."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from xtts.voices import learned_decoder
from xtts.voices.learned_decoder import LearnedDecoder, decoder_for
from xtts.voices.run_folder import RunFolder, manifest_beside

LEARNED = LearnedDecoder(0, 0.0, "", 2.0, 1.5, 40, 250, more_word_errors=-0.01)
TENSORS = {"hifigan_decoder.waveform_decoder.conv_pre.bias": torch.arange(4.0)}


def run_with(folder: Path, learned: LearnedDecoder = LEARNED) -> RunFolder:
    run = RunFolder(folder)
    run.checkpoints.mkdir(parents=True)
    written = learned_decoder.write_tensors(run.best_decoder, TENSORS)
    learned_decoder.write(run.best_decoder, replace(learned, file=written))
    return run


def test_what_is_written_is_read(tmp_path):
    run = run_with(tmp_path)
    record = learned_decoder.read(run.best_decoder)
    assert record is not None and replace(record, file=None) == LEARNED
    assert decoder_for(run, None) == run.best_decoder and record.digest
    read = learned_decoder.read_tensors(run.best_decoder)
    assert read.keys() == TENSORS.keys() and all(map(torch.equal, read.values(), TENSORS.values()))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"epoch": 1}'])
def test_a_damaged_record_leaves_the_bases_decoder(tmp_path, content, caplog):
    run = run_with(tmp_path)
    manifest_beside(run.best_decoder).write_text(content)
    assert learned_decoder.read(run.best_decoder) is None
    assert "best_decoder.json cannot be used" in caplog.text


def test_other_tensors_than_were_recorded_leave_the_bases_decoder(tmp_path, caplog):
    run = run_with(tmp_path)
    run.best_decoder.write_bytes(run.best_decoder.read_bytes()[:-1] + b"x")
    assert decoder_for(run, None) is None and "best_decoder.safetensors" in caplog.text


@pytest.mark.parametrize(
    ("changed", "better"),
    [
        ({}, True),
        ({"distance_after": 2.0}, False),
        ({"harder": True}, False),
        ({"less_alike": True}, False),
        ({"closer_voice": -0.01}, True),
    ],
)
def test_what_is_no_better_is_told_apart(changed, better):
    assert replace(LEARNED, **changed).is_better == better
