"""Adapters: which weights learn, which are saved, and merging them."""

import copy
import sys

import pytest
import torch

from demo_voice.new_gpt import new_gpt
from machine.errors import SotaqueError
from tests.train.test_step import a_batch, a_learner, same, weights
from train.optim.trainable import TrainableParts
from train.step import train_step
from xtts.model import training
from xtts.model.gpt import from_coqui

SMALL = TrainableParts(lora_rank=4)


def with_adapters(**changes):
    return a_learner(trainable=SMALL, learning_rate=1e-2, **changes)


def learned(steps: int = 3, **changes):
    learner = with_adapters(**changes)
    for seed in range(steps):
        train_step(learner, a_batch(seed))
    return learner


def test_only_adapters_learn_and_every_linear_layer_has_one():
    learner = with_adapters()
    layers = [module for module in a_learner().gpt.gpt.modules() if isinstance(module, torch.nn.Linear)]
    assert len(learner.weights.lora.layers) == len(layers) == 2 * 4
    before = weights(learner)
    for seed in range(3):
        train_step(learner, a_batch(seed))
    moved = {name for name, now in learner.gpt.state_dict().items() if not now.equal(before[name])}
    assert moved and all(".lora_" in name for name in moved)
    assert len(moved) == 2 * 8


def test_merged_says_what_was_learned():
    """Merged weights in a plain GPT give the losses of the adapters, up to fp32 rounding."""
    learner = learned(dropout=0.0)
    merged = new_gpt(learner.gpt.shape, seed=9)
    merged.load_state_dict(from_coqui(learner.model_state()))
    learner.gpt.eval(), merged.eval()
    with torch.no_grad():
        one, other = (training.losses(gpt, a_batch(7).rows) for gpt in (learner.gpt, merged))
        base = training.losses(a_learner().gpt.eval(), a_batch(7).rows)
    assert float(other.audio) == pytest.approx(float(one.audio), abs=1e-6)
    assert float(other.text) == pytest.approx(float(one.text), abs=1e-6)
    assert abs(float(base.audio) - float(one.audio)) > 1e-3


def test_merged_is_w_plus_ba():
    learner = learned()
    layer = learner.gpt.gpt.h[1].mlp.c_fc
    a, b = layer.lora_A.default.weight, layer.lora_B.default.weight
    expected = layer.base_layer.weight + (8 / 4) * (b @ a)
    merged = from_coqui(learner.model_state())["gpt.h.1.mlp.c_fc.weight"]
    assert torch.equal(merged, expected)


def test_adapters_on_other_weights_than_the_base_keep_what_they_stand_on():
    """RESUME=PATH, or an epoch without its trainer state: resuming twice equals resuming once."""
    first = learned(2)
    second = with_adapters()
    second.resume(first.model_state(), None, first.step)
    assert same(second.model_state(), first.model_state())
    train_step(second, a_batch(2))
    third = with_adapters()
    # Copied, as by a file, because an optimizer writes into the loaded state.
    third.resume(second.model_state(), copy.deepcopy(second.trainer_state()), second.step)
    assert same(second.model_state(), third.model_state())
    train_step(second, a_batch(3)), train_step(third, a_batch(3))
    assert same(weights(second), weights(third))


def test_another_rank_is_refused_in_words():
    first = learned(1)
    other = a_learner(trainable=TrainableParts(lora_rank=2))
    with pytest.raises(SotaqueError, match="adapters of rank 4, and LORA_RANK is 2"):
        other.resume(first.model_state(), first.trainer_state(), 1)


def test_the_same_seed_makes_the_same_adapters_that_start_as_the_base_and_disturb_nothing():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one = with_adapters()
    assert torch.equal(before, torch.get_rng_state())
    assert same(weights(one), weights(with_adapters()))
    base, start = a_learner().model_state(), one.model_state()
    assert start.keys() == base.keys() and same(start, base)


def test_without_peft_a_sentence_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(SotaqueError, match=r"needs peft.*\[lora\].*LORA_RANK=0") as raised:
        with_adapters()
    assert raised.value.exit_code == 2


def test_merging_is_peft_s_and_computes_on_the_cpu_alone(monkeypatch):
    """Merging on a GPU would need memory for both sets of weights, 1.2 GB more."""
    learner = learned()
    lora = learner.weights.lora
    wanted = {
        f"{name}.weight": layer.base_layer.weight + layer.get_delta_weight("default")
        for name, layer in lora.layers.items()
    }
    places = []
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda one: (places.append(one.shape), cpu(one))[1])
    merged = lora.merged()
    assert all(merged[name].equal(tensor) for name, tensor in wanted.items())
    # Each weight and both LoRA matrices are copied to the CPU before the addition.
    assert len(places) == len(merged) + 2 * len(lora.layers)


def test_the_adapter_alone_with_its_base_is_what_is_merged():
    learner = learned()
    adapter, alpha = learner.weights.adapter()
    base, merged = a_learner().model_state(), learner.model_state()
    assert len(adapter) == 2 * 2 * 4 and alpha == 8
    for name, a in adapter.items():
        if ".lora_A." in name:
            b, matrix = adapter[name.replace("lora_A", "lora_B")], name.replace("lora_A.", "")
            # Matrices are transposed on disk.
            assert torch.equal(merged[matrix].t(), base[matrix].t() + alpha / 4 * (b @ a))
    before = {name: tensor.clone() for name, tensor in adapter.items()}
    train_step(learner, a_batch(9))  # as while a thread writes it
    assert same(adapter, before)


def test_adapters_on_other_weights_than_the_base_s_are_not_told_alone():
    assert a_learner().weights.adapter() is None
    second = with_adapters()
    second.resume(learned(1).model_state(), None, 1)
    assert second.weights.adapter() is None


def test_the_adapter_alone_is_the_average_where_averages_are_saved():
    parts = TrainableParts(lora_rank=SMALL.lora_rank, ema_decay=0.5)
    learner = a_learner(trainable=parts, learning_rate=1e-2)
    for seed in range(3):
        train_step(learner, a_batch(seed))
    adapter, _ = learner.weights.adapter()
    raw = learner.weights.lora.alone()
    assert adapter.keys() == raw.keys() and not same(adapter, raw)
    with learner.weights.as_saved():
        assert same(adapter, learner.weights.lora.alone())


@pytest.mark.parametrize(
    ("saved", "now", "words"),
    [
        (SMALL, TrainableParts(), "adapters of rank 4, and LORA_RANK is 0"),
        (TrainableParts(), SMALL, "all weights, and LORA_RANK is 4"),
    ],
)
def test_adapters_and_whole_weights_do_not_continue_each_other(saved, now, words):
    first, other = a_learner(trainable=saved), a_learner(trainable=now)
    with pytest.raises(SotaqueError, match=words):
        other.resume(first.model_state(), first.trainer_state(), 1)
