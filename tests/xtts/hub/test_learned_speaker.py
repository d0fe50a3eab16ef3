"""The file of a learned speaker embedding."""

from dataclasses import replace
from pathlib import Path

import pytest

from xtts.hub import learned_speaker
from xtts.hub.learned_speaker import LearnedSpeaker

LEARNED = LearnedSpeaker(
    epoch=3,
    share=0.5,
    checkpoint_sha256="c" * 64,
    speaker_embedding=[i / 512 for i in range(512)],
    distance_before=2.3,
    distance_after=2.1,
    clips=40,
)


def test_what_is_written_is_read_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "best_speaker.json"
    learned_speaker.write(path, LEARNED)
    assert learned_speaker.read(path) == LEARNED
    assert LEARNED.tensor().shape == (1, 512, 1)
    assert LEARNED.tensor().flatten().tolist() == LEARNED.speaker_embedding


@pytest.mark.parametrize("content", ["", "[]", '{"epoch": 1}', '{"epoch": "x'])
def test_a_damaged_one_is_left_out_with_a_line(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "best_speaker.json"
    path.write_text(content)
    assert learned_speaker.read(path) is None
    assert "best_speaker.json cannot be read and is left out" in caplog.text


def test_one_of_a_later_schema_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "best_speaker.json"
    learned_speaker.write(path, replace(LEARNED, schema=2))
    assert learned_speaker.read(path) is None
