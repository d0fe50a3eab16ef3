"""Upper bounds for GPU launches and waits, so that no change adds one unnoticed.

Dispatched operations approximate kernels (`tests.operations`). A bound is slightly above the
measured count; a change that lowers a count lowers its bound.
"""

import pytest
import torch

from tests import operations
from tests.operations import Counts


@pytest.fixture(scope="module")
def counted() -> dict[str, Counts]:
    return operations.measured()


@pytest.mark.parametrize(
    ("what", "most", "waits"),
    [
        # 3,003 before queries, keys and values were copied into their grid together, 2,702 before
        # a block's weights were cast together, 2,024 before the conditioning's norm had a custom
        # gradient and its masks were made once.
        ("training step, full", 1940, 0),
        # 458 before the mask was made once for all layers.
        ("a code, one row, in the graph", 345, 0),
        ("a code, 16 rows, in the graph", 345, 0),
        # 35 and 470 before rows were sampled together, with 2 and 32 waits.
        ("a code, one row, beside it", 42, 1),
        ("a code, 16 rows, beside it", 75, 1),
    ],
)
def test_no_more_than_was_counted(counted, what, most, waits):
    assert 0.9 * most <= counted[what].operations <= most
    assert counted[what].waits == waits


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
