"""Upper bounds for GPU launches and waits, so that no change adds one unnoticed.

Dispatched operations approximate kernels (`tests.operations`). A bound is slightly above the
measured count; a change that lowers a count lowers its bound.
"""

import torch

from tests import operations


def test_no_more_than_was_counted():
    # 3,003 before queries, keys and values were copied into their grid together, 2,702 before a
    # block's weights were cast together, 2,024 before the conditioning's norm had a custom gradient
    # and its masks were made once.
    most, found = 1940, operations.at_full_depth(operations.training_step)
    assert 0.9 * most <= found.operations <= most
    assert found.waits == 0


def test_waits_are_seen_however_they_are_spelt():
    one = torch.ones(3)
    with operations.WaitCounter() as waits:
        one.sum().item()
        bool(one.all())
        one.tolist()
        one.cpu()
        one.to("cpu")
        one.nonzero()
    assert sum(waits.names.values()) == 6


def test_views_are_no_operations():
    one = torch.ones(4, 6)
    with operations.OperationCounter() as counter:
        one.view(6, 4).t()[1:].unsqueeze(0).expand(2, -1, -1)
        torch.empty(3)
    assert not counter.names
    with operations.OperationCounter() as counter, torch.inference_mode():
        torch.nn.functional.linear(one, torch.ones(2, 6), torch.ones(2))
    assert dict(counter.names) == {"ones": 2, "addmm": 1}
