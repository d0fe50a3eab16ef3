"""The transformer's two ways through the same weights."""

import pytest
import torch

from xtts.transformer import Transformer, initialise


@pytest.fixture
def transformer() -> Transformer:
    torch.manual_seed(0)
    found = Transformer(layers=2, width=32, heads=4, dropout=0.0)
    initialise(found)
    return found.eval()


def test_one_position_at_a_time_equals_all_at_once(transformer):
    x = torch.randn(2, 9, 32)
    cache = transformer.new_cache(batch=2, capacity=9)
    pieces = [transformer(x[:, :4], cache)]
    pieces += [transformer(x[:, t : t + 1], cache) for t in range(4, 9)]
    assert torch.allclose(torch.cat(pieces, 1), transformer(x), atol=1e-6)
    assert cache.length == 9


def test_nothing_sees_what_is_behind_it(transformer):
    x = torch.randn(1, 6, 32)
    changed = x.clone()
    changed[:, 4:] += 1.0
    assert torch.equal(transformer(x)[:, :4], transformer(changed)[:, :4])
    assert not torch.allclose(transformer(x)[:, 4:], transformer(changed)[:, 4:])


def test_several_positions_behind_a_used_cache_are_refused(transformer):
    cache = transformer.new_cache(batch=1, capacity=9)
    transformer(torch.randn(1, 3, 32), cache)
    with pytest.raises(ValueError, match="2 positions at once behind 3"):
        transformer(torch.randn(1, 2, 32), cache)


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="width 30"):
        Transformer(layers=1, width=30, heads=4, dropout=0.0)
