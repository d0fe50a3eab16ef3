"""The layout of clips as rows."""

import torch

from xtts.model.shapes import GPTShape
from xtts.model.training import PackedBatch, pack, row_length

SHAPE = GPTShape(text_ids=20, text_start=18, audio_ids=12, audio_start=10, audio_stop=11)


def rows_of(*clips: tuple[list[int], list[int]], **options) -> PackedBatch:
    mels = [torch.full((80, 5 + i), float(i + 1)) for i in range(len(clips))]
    tokens = [torch.tensor(text) for text, _ in clips]
    codes = [torch.tensor(code) for _, code in clips]
    return pack(tokens, codes, mels, SHAPE, **{"stop_input": False, **options})


def test_one_clip():
    rows = rows_of(([4, 5], [7, 8, 9]))
    assert rows.length == 32 + 3 + 7 == row_length(2, 3, stop_input=False)
    assert rows.text.tolist() == [18, 4, 5]
    assert rows.text_targets.tolist() == [4, 5, 0]
    assert rows.text_slots.tolist() == rows.text_target_slots.tolist() == [32, 33, 34]
    assert rows.audio.tolist() == [10, 7, 8, 9, 11, 11, 11]
    assert rows.audio_targets.tolist() == [7, 8, 9, 11, 11, 11, 11]
    assert rows.audio_slots.tolist() == list(range(35, 42))


def test_the_stop_input_has_no_target_of_its_own():
    rows = rows_of(([4, 5], [7]), stop_input=True)
    assert rows.text.tolist() == [18, 4, 5, 0]
    assert rows.text_targets.tolist() == [4, 5, 0]
    assert rows.audio_slots[0] == 36


def test_a_clip_begins_where_the_one_before_it_ends():
    rows = rows_of(([4], [7]), ([4, 5, 6], [7, 8]))
    first, second = row_length(1, 1, stop_input=False), row_length(3, 2, stop_input=False)
    assert rows.length == first + second and rows.segments.lengths == (first, second)
    assert rows.conditioning_slots[32] == first
    assert rows.text_slots.tolist()[2:] == [first + 32 + i for i in range(4)]
    assert rows.frames.lengths == (5, 6)
    assert rows.conditioning[0, 0].tolist() == [1, 1, 1, 1, 1, 0]


def test_slots_are_used_once():
    rows = rows_of(([4], [7]), ([4, 5, 6], [7, 8]))
    slots = torch.cat((rows.conditioning_slots, rows.text_slots, rows.audio_slots))
    assert len(slots.unique()) == len(slots) == rows.length


def test_what_the_conditioning_gave_away_is_no_target():
    rows = rows_of(([4], [1, 2, 3, 4, 5]), unheard=[(1, 3)])
    assert rows.audio_targets.tolist() == [1, 4, 5, 11, 11, 11, 11]
    assert rows.audio.tolist()[1:6] == [1, 2, 3, 4, 5]
