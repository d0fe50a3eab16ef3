"""The GPT alone: names on disk, positions, its transformer, chunks of the loss.

tests/peers/test_gpt.py compares its numbers with Coqui's.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from demo_voice.new_gpt import initialise, new_gpt
from xtts.model import training
from xtts.model.gpt import Dropout, Transformer, from_coqui, to_coqui
from xtts.model.shapes import NUM_LATENTS, GPTShape

SHAPE = GPTShape(
    text_ids=40,
    text_start=39,
    layers=2,
    width=32,
    heads=2,
    audio_ids=66,
    audio_start=64,
    audio_stop=65,
    max_text_tokens=20,
    max_audio_tokens=30,
)


def test_the_start_is_the_seeds_and_disturbs_no_random_state():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, same, other = (new_gpt(SHAPE, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["mel_embedding.weight"], other["mel_embedding.weight"])


def test_on_disk_are_coquis_names_and_turned_matrices():
    state = new_gpt(SHAPE, 0).state_dict()
    written = to_coqui(state)
    name = "gpt.h.0.attn.c_attn.weight"
    assert state[name].shape == (3 * SHAPE.width, SHAPE.width)
    assert written[f"gpt.{name}"].shape == (SHAPE.width, 3 * SHAPE.width)
    assert written[f"gpt.{name}"].is_contiguous()
    assert torch.equal(written["gpt.text_head.weight"], state["text_head.weight"])
    read = from_coqui(written)
    assert read.keys() == state.keys()
    assert all(torch.equal(read[name], state[name]) for name in state)


def test_other_parts_and_copies_for_inference_are_left_out():
    more = ("mel_stats", "gpt.gpt_inference.x", "gpt.gpt.wte.weight", "gpt.gpt.wpe.emb.weight")
    zero = torch.zeros(1)
    assert from_coqui(dict.fromkeys((*more, "gpt.text_head.bias"), zero)).keys() == {"text_head.bias"}


@pytest.mark.parametrize("count", [0, 1, 4, 5, 11])
def test_the_loss_in_chunks_is_the_loss_at_once(monkeypatch, count):
    monkeypatch.setattr(training, "LOGITS_CHUNK", 4)
    torch.manual_seed(0)
    head, hidden = nn.Linear(8, 10), torch.randn(20, 8, requires_grad=True)
    slots, targets = torch.randperm(20)[:count], torch.randint(0, 10, (count,))
    chunked = training.cross_entropy(head, hidden, slots, targets)
    if not count:
        assert chunked == 0
        return
    at_once = F.cross_entropy(head(hidden[slots]), targets)
    assert torch.allclose(chunked, at_once)
    parameters = (hidden, head.weight, head.bias)
    for ours, expected in zip(
        torch.autograd.grad(chunked, parameters), torch.autograd.grad(at_once, parameters), strict=True
    ):
        assert torch.allclose(ours, expected, atol=1e-6)


@torch.no_grad()
def test_a_text_stands_between_start_and_stop_behind_the_latents():
    gpt = new_gpt(SHAPE, 0)
    latents = torch.randn(1, NUM_LATENTS, SHAPE.width)
    prefix = gpt.prefix(latents, torch.tensor([4, 5]))
    assert prefix.shape == (1, NUM_LATENTS + 4, SHAPE.width)
    assert torch.equal(prefix[:, :NUM_LATENTS], latents)
    for position, token in enumerate((SHAPE.text_start, 4, 5, SHAPE.text_stop)):
        expected = gpt.text_embedding.weight[token] + gpt.text_pos_embedding.emb.weight[position]
        assert torch.equal(prefix[0, NUM_LATENTS + position], expected)


@torch.no_grad()
def test_each_row_may_be_at_a_position_of_its_own():
    gpt = new_gpt(SHAPE, 0)
    codes = torch.tensor([7, 7])
    together = gpt.audio_input(codes, torch.tensor([0, 3]))
    for row, position in enumerate((0, 3)):
        assert torch.equal(together[row : row + 1], gpt.audio_input(codes[:1], position))
    assert not torch.equal(together[0], together[1])


@pytest.fixture
def transformer() -> Transformer:
    torch.manual_seed(0)
    model = Transformer(layers=2, width=32, heads=4, dropout=0.0)
    initialise(model)
    return model.eval()


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="width 30"):
        Transformer(layers=1, width=30, heads=4, dropout=0.0)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.999999])
def test_dropout_drops_its_share_and_keeps_the_mean(kind, share):
    torch.manual_seed(0)
    x = torch.ones(3, 333, 777, dtype=kind, requires_grad=True)  # not a multiple of four
    dropped = Dropout(share)(x)
    dropped.sum().backward()
    passed = dropped.detach() != 0
    assert passed.float().mean().item() == pytest.approx(1 - share, abs=3e-3)
    if share < 0.9:
        assert dropped.float().mean().item() == pytest.approx(1, abs=5e-3)
        scale = torch.tensor(1 / (1 - share), dtype=kind)
        assert torch.allclose(dropped.detach()[passed], scale, rtol=5e-3)
    assert torch.equal(x.grad, dropped), "what is dropped learns nothing, what is kept is scaled"
    # Neighbouring values are dropped independently, although one random draw covers four of them.
    flat = passed.flatten().float()
    for distance in range(1, 9):
        together = (flat[distance:] * flat[:-distance]).mean().item()
        assert together == pytest.approx((1 - share) ** 2, abs=5e-3)


def test_dropout_is_the_same_for_the_same_seed_and_nothing_while_speaking():
    drop, x = Dropout(0.3), torch.randn(2, 50)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(drop(x))
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])
    assert torch.equal(drop.eval()(x), x) and torch.equal(Dropout(0.0)(x), x)
