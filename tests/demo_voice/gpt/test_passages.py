"""Rows longer than a sentence: what they are made of, and that places suffice."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from demo_voice.gpt.passages import MOST_CODES, Passage, Passages, alone


def clips(counts: list[int], people: str) -> SimpleNamespace:
    """Targets of clips with so many codes, by people of one letter; two ids for three codes."""
    return SimpleNamespace(
        counts=np.array(counts),
        clips=[SimpleNamespace(manner=name) for name in people],
        tokens=[torch.tensor([9, *range(10, 10 + count * 2 // 3)]) for count in counts],
        codes=lambda index: torch.full((counts[index],), index),
        mels=lambda index: torch.full((counts[index], 320), float(index)),
        silence=(torch.tensor(435), torch.full((320,), -4.0)),
        space=2,
    )


def test_a_row_is_clips_and_silence():
    passages = Passages(clips([3, 4], "aa"), 202)  # type: ignore[arg-type]
    row = Passage((1, 0), (0, 2))
    assert passages.codes(row).tolist() == [1, 1, 1, 1, 435, 435, 0, 0, 0]
    assert passages.mels(row)[:, 7].tolist() == [1, 1, 1, 1, -4, -4, 0, 0, 0]
    assert passages.tokens(row).tolist() == [9, 10, 11, 2, 10, 11]
    assert passages.num_codes(row) == 9
    assert passages.num_tokens(row) == 6


def test_each_clip_comes_once_in_company_of_its_person_and_as_long_as_it_may():
    counts = [random.Random(1).randint(20, 120) for _ in range(400)]
    people = "ab" * 200
    passages = Passages(clips(counts, people), 202)  # type: ignore[arg-type]
    rows = passages.drawn(range(400), random.Random(2), 0.4)
    assert sorted(clip for row in rows for clip in row.clips) == list(range(400))
    assert all(len({people[clip] for clip in row.clips}) == 1 for row in rows)
    lengths = [passages.num_codes(row) for row in rows]
    assert 230 < max(lengths) <= MOST_CODES
    assert max(passages.num_tokens(row) for row in rows) <= 200
    lone = sum(len(row.clips) == 1 for row in rows)
    assert 0.4 < lone / len(rows) < 0.8


def test_a_clip_stands_behind_others_where_there_is_place():
    passages = Passages(clips([60, 50, 250], "aaa"), 202)  # type: ignore[arg-type]
    rows = [passages.ending_in(0, [1], random.Random(seed)) for seed in range(9)]
    assert all(row.clips[-1] == 0 and set(row.clips[:-1]) == {1} for row in rows)
    assert passages.ending_in(2, [1], random.Random(1)) == alone([2])[0]


@pytest.mark.parametrize("pause", [0, 4])
def test_silence_counts(pause):
    passages = Passages(clips([100, 158 - 4], "aa"), 202)  # type: ignore[arg-type]
    row = Passage((0, 1), (0, pause))
    assert passages.num_codes(row) == 254 + pause
    assert passages.fits(row)
    assert not passages.fits(Passage((0, 1), (0, 5)))
