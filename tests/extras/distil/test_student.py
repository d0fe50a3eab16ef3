"""Which layers a student keeps; it starts with its teacher's weights."""

import pytest
import torch

from demo_voice.new_gpt import new_gpt
from extras.distil.student import kept_layers, new_student
from machine.errors import SotaqueError
from xtts.model.shapes import GPTShape

SHAPE = GPTShape(
    text_ids=40,
    text_start=38,
    text_stop=39,
    layers=4,
    width=32,
    heads=2,
    audio_ids=18,
    audio_start=16,
    audio_stop=17,
    max_text_tokens=30,
    max_audio_tokens=30,
)


@pytest.mark.parametrize(
    ("layers", "count", "kept"),
    [
        (4, None, (0, 2)),
        (30, None, tuple(range(0, 30, 2))),
        (30, 10, tuple(range(0, 30, 3))),
        (5, None, (0, 2)),
        (4, 3, (0, 1, 2)),
        (4, 1, (0,)),
    ],
)
def test_layers_are_kept_evenly_and_the_first_is_among_them(layers, count, kept):
    assert kept_layers(layers, count) == kept


@pytest.mark.parametrize(("layers", "count"), [(4, 4), (4, 0), (4, -1), (1, None)])
def test_a_count_that_is_no_smaller_is_refused(layers, count):
    with pytest.raises(SotaqueError, match=r"--layers|one layer"):
        kept_layers(layers, count)


def test_a_student_has_the_kept_layers_and_all_other_weights():
    teacher = new_gpt(SHAPE, seed=1)
    student = new_student(teacher, (0, 2))
    expected, found = teacher.state_dict(), student.state_dict()
    assert student.shape.layers == 2
    for name, tensor in found.items():
        source = name.replace("gpt.h.1.", "gpt.h.2.")
        assert torch.equal(tensor, expected[source]), name
        assert tensor.data_ptr() != expected[source].data_ptr(), name
    left = {name for name in expected if name.startswith(("gpt.h.1.", "gpt.h.3."))}
    assert len(found) == len(expected) - len(left)
