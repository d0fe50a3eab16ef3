"""A child forked between other tests ends, whatever they computed."""

import torch

from tests.forked import in_child


def test_what_was_computed_with_several_threads_does_not_hold_a_child():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        many = torch.rand(400_000)
        many.add(1).sum()  # starts the threads
        assert in_child(lambda: many.add(1).sum()) == 0
    finally:
        torch.set_num_threads(before)


def test_a_fault_in_a_child_is_its_exit_code():
    assert in_child(lambda: 1 / 0) == 1
