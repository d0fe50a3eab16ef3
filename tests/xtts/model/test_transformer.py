"""The transformer's two forward paths with the same weights."""

import pytest
import torch

from demo_voice.new_gpt import initialise
from xtts.model.gpt import Dropout, Transformer


@pytest.fixture
def transformer() -> Transformer:
    torch.manual_seed(0)
    found = Transformer(layers=2, width=32, heads=4, dropout=0.0)
    initialise(found)
    return found.eval()


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="width 30"):
        Transformer(layers=1, width=30, heads=4, dropout=0.0)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.999999])
def test_dropout_drops_its_share_and_keeps_the_mean(kind, share):
    torch.manual_seed(0)
    x = torch.ones(3, 333, 777, dtype=kind, requires_grad=True)  # not a multiple of four
    found = Dropout(share)(x)
    found.sum().backward()
    kept = found.detach() != 0
    assert kept.float().mean().item() == pytest.approx(1 - share, abs=3e-3)
    if share < 0.9:
        assert found.float().mean().item() == pytest.approx(1, abs=5e-3)
        scale = torch.tensor(1 / (1 - share), dtype=kind)
        assert torch.allclose(found.detach()[kept], scale, rtol=5e-3)
    assert torch.equal(x.grad, found), "what is dropped learns nothing, what is kept is scaled"
    # Neighbouring values are dropped independently, although one random draw covers four of them.
    flat = kept.flatten().float()
    for distance in range(1, 9):
        together = (flat[distance:] * flat[:-distance]).mean().item()
        assert together == pytest.approx((1 - share) ** 2, abs=5e-3)


def test_dropout_is_the_same_for_the_same_seed_and_nothing_while_speaking():
    drop, x = Dropout(0.3), torch.randn(2, 50)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(drop(x))
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    assert torch.equal(drop.eval()(x), x) and torch.equal(Dropout(0.0)(x), x)
