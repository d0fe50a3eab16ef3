"""The file of a learned speaker embedding."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xtts.voices import learned_speaker
from xtts.voices.learned_speaker import LearnedSpeaker

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


@pytest.mark.parametrize("schema", [1, learned_speaker.SCHEMA + 1])
def test_one_of_another_schema_is_left_out(tmp_path: Path, schema: int) -> None:
    path = tmp_path / "best_speaker.json"
    learned_speaker.write(path, replace(LEARNED, schema=schema))
    assert learned_speaker.read(path) is None


@pytest.mark.parametrize(
    ("changed", "speaks"), [({}, True), ({"harder": True}, False), ({"distance_after": 2.3}, False)]
)
def test_it_speaks_where_it_is_nearer_and_no_harder(
    tmp_path: Path, changed: dict[str, Any], speaks: bool
) -> None:
    path = tmp_path / "best_speaker.json"
    learned_speaker.write(path, replace(LEARNED, **changed))
    assert (learned_speaker.in_use(path) is not None) == speaks
