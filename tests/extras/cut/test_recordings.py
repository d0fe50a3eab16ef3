"""A long recording is read in blocks without seams between them."""

import numpy as np
import pytest
import soundfile
import torch

from extras.cut.recordings import (
    BLOCK_SECONDS,
    LISTENING_RATE,
    SourceRecording,
    blocks,
    open_recording,
    read_spans,
    resampled_blocks,
)
from tests.pipe_audio import FILES, SECONDS, webm
from xtts.audio import resample

RATE = 22_050


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> SourceRecording:
    """Noise, which never repeats, for a little more than two blocks."""
    folder = tmp_path_factory.mktemp("tape")
    wave = np.random.default_rng(0).normal(0, 0.1, int((2 * BLOCK_SECONDS + 1.7) * RATE))
    soundfile.write(folder / "tape.wav", wave.astype(np.float32), RATE, "FLOAT")
    return open_recording(folder / "tape.wav", "tape", folder)


def read(recording: SourceRecording) -> np.ndarray:
    found: np.ndarray = soundfile.read(recording.path, dtype="float32")[0]
    return found


def test_blocks_are_the_whole_recording_at_another_rate(recording):
    blocks = list(resampled_blocks(recording, LISTENING_RATE))
    assert [len(block) for block in blocks[:2]] == [BLOCK_SECONDS * LISTENING_RATE] * 2
    whole = resample(torch.from_numpy(read(recording)), RATE, LISTENING_RATE).numpy()
    assert np.allclose(np.concatenate(blocks), whole, atol=1e-4)


def test_a_stretch_is_what_is_there_also_across_blocks(recording):
    block = BLOCK_SECONDS * RATE
    spans = [
        (0, 10),
        (5, block),
        (block - 7, block + 7),
        (block, 2 * block + 3),
        (2 * block, recording.frames),
    ]
    found = dict(read_spans(recording, spans))
    wave = read(recording)
    for place, (first, last) in enumerate(spans):
        assert np.array_equal(found[place], wave[first:last])


@pytest.mark.parametrize("name", [*FILES, "memo.webm", "MEMO.WEBM", "webm as.opus", "webm as.wav"])
def test_a_recording_is_as_long_as_what_it_holds(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(FILES[name][0]() if name in FILES else webm())
    found = open_recording(path, "memo", tmp_path / "work")
    assert SECONDS <= found.seconds <= SECONDS + 0.1
    assert sum(map(len, blocks(found))) == found.frames
