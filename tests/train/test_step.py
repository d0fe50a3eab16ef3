"""One training step: which weights move, and which faults stop a run."""

import copy
import dataclasses
from typing import Any

import pytest
import torch

from demo_voice.new_gpt import new_gpt
from tests.installed import has
from train.dataset.batches import Batch
from train.optim import optimizer as optimization
from train.optim.optimizer import ADAM_BETAS, ADAM_EPSILON, NonFiniteError, OptimizationConfig
from train.optim.trainable import TrainableParts
from train.step import Learner, mix_seed, train_step
from xtts.model import training
from xtts.model.shapes import GPTShape
from xtts.model.training import pack

SHAPE = GPTShape(
    text_ids=30,
    text_start=28,
    layers=2,
    width=32,
    heads=2,
    audio_ids=18,
    audio_start=16,
    audio_stop=17,
    max_text_tokens=20,
    max_audio_tokens=40,
)
RECIPE = OptimizationConfig(
    learning_rate=1e-3, warmup_steps=1, weight_decay=0.01, gradient_clip=1.0, precision="fp32", seed=7
)


def a_learner(dropout: float = 0.1, **changes) -> Learner:
    gpt = new_gpt(SHAPE, seed=1)
    for module in gpt.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    return Learner(gpt, dataclasses.replace(RECIPE, **changes))


def a_batch(seed: int = 0, poison: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    tokens = [torch.randint(2, 27, (n,), generator=generator) for n in (5, 9)]
    codes = [torch.randint(0, 16, (n,), generator=generator) for n in (12, 7)]
    mels = [torch.randn(80, n, generator=generator) for n in (20, 33)]
    if poison:
        mels[0][0, 0] = torch.nan
    return Batch(pack(tokens, codes, mels, SHAPE, stop_input=False), (0, 1), 2.5)


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.gpt.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_steps_learn_the_batch_and_text_and_audio_weigh_as_told():
    learner = a_learner(dropout=0.0)
    steps = [train_step(learner, a_batch()) for _ in range(60)]
    losses = [step.losses["audio_loss"] for step in steps]
    assert losses[-1] < losses[0] / 4 and learner.step == 60
    for step in steps:
        assert step.loss == pytest.approx(
            0.01 * step.losses["text_loss"] + step.losses["audio_loss"], rel=1e-6
        )


def test_every_parameter_moves():
    """All parts learn from data; in the reference project the loss was the norm of the weights."""
    learner = a_learner(dropout=0.0, weight_decay=0.0)
    before = weights(learner)
    for seed in range(3):
        train_step(learner, a_batch(seed))
    still = [name for name, now in learner.gpt.state_dict().items() if torch.equal(now, before[name])]
    assert still == []


def test_a_step_that_is_no_number_moves_nothing():
    learner = a_learner()
    train_step(learner, a_batch())
    before = weights(learner)
    optimizer = [state["exp_avg"].clone() for state in learner.optimizer.state.values()]
    result = train_step(learner, a_batch(poison=True))
    assert not result.finite
    assert same(before, weights(learner))
    after = [state["exp_avg"] for state in learner.optimizer.state.values()]
    assert all(torch.equal(one, other) for one, other in zip(optimizer, after, strict=True))
    assert train_step(learner, a_batch()).finite
    assert learner.tally.num_non_finite == 1


# fp16 on the CPU, which the settings refuse: this tests its scaler without a GPU.


def overflowing(learner: Learner) -> None:
    """Makes gradients overflow at every scale, like a model beyond fp16's range."""
    for parameter in learner.gpt.parameters():
        parameter.register_hook(lambda gradient: gradient * torch.inf)


def test_fp16_looks_for_its_scale_without_blaming_the_data():
    learner = a_learner(precision="fp16")
    overflowing(learner)
    before = weights(learner)
    scales = [learner.scaler.get_scale()]
    for _ in range(5):
        assert not train_step(learner, a_batch()).finite
        scales.append(learner.scaler.get_scale())
    assert scales == [65536.0 / 2**number for number in range(6)]
    assert learner.tally.non_finite_in_a_row == learner.tally.num_non_finite == 0
    assert same(before, weights(learner))


def test_at_scale_1_overflow_is_a_fault_of_data_or_rate():
    learner = a_learner(precision="fp16")
    overflowing(learner)
    with pytest.raises(NonFiniteError, match="3 steps in a row"):
        for _ in range(30):
            train_step(learner, a_batch())
    assert learner.scaler.get_scale() == 0.125


def test_a_scale_that_stays_below_1_stops_with_65():
    """Each step is finite but leaves no headroom, as after occasional overflows."""
    learner = a_learner(precision="fp16")
    learner.scaler.load_state_dict({**learner.scaler.state_dict(), "scale": 0.5})
    for _ in range(9):
        assert train_step(learner, a_batch()).finite
    with pytest.raises(NonFiniteError, match=r"below 1 in 10 steps.*PRECISION=bf16") as raised:
        train_step(learner, a_batch())
    assert raised.value.exit_code == 65


def test_the_scaler_goes_on_where_it_was():
    first, second = a_learner(precision="fp16"), a_learner(precision="fp16")
    state = {**first.scaler.state_dict(), "scale": 0.5, "_growth_tracker": 7}
    first.scaler.load_state_dict(state)
    for _ in range(4):
        train_step(first, a_batch())
    second.resume(first.model_state(), first.trainer_state(), first.step)
    assert second.scaler.state_dict() == first.scaler.state_dict()
    assert second.scaler.state_dict()["_growth_tracker"] == 11
    assert second.tally.low_scale_in_a_row == 4


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_every_value_that_is_no_number_is_seen_in_loss_and_gradient(value):
    learner = a_learner()
    before = weights(learner)
    handle = learner.gpt.text_head.weight.register_hook(lambda gradient: torch.full_like(gradient, value))
    assert not train_step(learner, a_batch()).finite  # the loss is finite, its gradient is not
    handle.remove()
    assert same(before, weights(learner))
    assert train_step(learner, a_batch()).finite


WAYS: dict[str, dict[str, Any]] = {
    "adamw": {},
    **({"8-bit": {"optimizer": "adamw8bit"}} if has("eight_bit") else {}),
    "averages": {"trainable": TrainableParts(ema_decay=0.9)},
    "lora": {"trainable": TrainableParts(lora_rank=2)},
    "averages of lora": {"trainable": TrainableParts(ema_decay=0.9, lora_rank=2)},
}
IN_MAKE_TEST = ("adamw", "averages")


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way in IN_MAKE_TEST else pytest.mark.slow) for way in WAYS]
)
def test_a_resumed_learner_goes_on_bit_for_bit(tmp_path, way):
    straight, first, second = (a_learner(**WAYS[way]) for _ in range(3))
    for seed in range(4):
        train_step(straight, a_batch(seed))
    for seed in range(2):
        train_step(first, a_batch(seed))
    torch.save(first.trainer_state(), tmp_path / "state.pt")
    # Plain tensors can be loaded with weights_only.
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    second.resume(first.model_state(), state, first.step)
    torch.rand(17)  # whatever happens between two runs
    results = [train_step(second, a_batch(seed)) for seed in range(2, 4)]
    assert same(weights(straight), weights(second))
    assert same(straight.model_state(), second.model_state())
    assert results[-1].learning_rate == pytest.approx(1e-3)


def test_weights_without_an_optimizer_go_on_at_their_step():
    first, second = a_learner(warmup_steps=10), a_learner(warmup_steps=10)
    for seed in range(5):
        train_step(first, a_batch(seed))
    second.resume(first.model_state(), None, first.step)
    assert train_step(second, a_batch(5)).learning_rate == train_step(first, a_batch(5)).learning_rate


def test_neighbouring_seeds_steps_and_ranks_share_no_number():
    found = {mix_seed(s, t, r) for s in range(20) for t in range(20) for r in range(4)}
    assert len(found) == 1600 and all(0 <= one < 2**63 for one in found)
    assert mix_seed(1, 2) == mix_seed(1, 2, 0)


@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this CPU has no bf16 products")
def test_bf16_follows_fp32():
    exact, rough = a_learner(dropout=0.0), a_learner(dropout=0.0, precision="bf16")
    for seed in range(5):
        one, other = train_step(exact, a_batch(seed)), train_step(rough, a_batch(seed))
        assert other.losses["audio_loss"] == pytest.approx(one.losses["audio_loss"], rel=0.02)
    assert all(parameter.dtype == torch.float32 for parameter in rough.gpt.parameters())


def test_deferred_steps_are_the_same_steps():
    """As on a GPU, where a step's numbers are first read at the log interval."""
    looked, ahead = a_learner(), a_learner()
    batches = [a_batch(0), a_batch(1, poison=True), a_batch(2), a_batch(3)]
    results = [train_step(looked, batch) for batch in batches]
    found = ahead.read_deferred([train_step(ahead, one, deferred=True) for one in batches])
    assert [result.finite for result in found] == [True, False, True, True]
    for one, other in zip(results, found, strict=True):
        if one.finite:
            assert one == other
    assert same(weights(looked), weights(ahead))
    states = zip(looked.optimizer.state.values(), ahead.optimizer.state.values(), strict=True)
    assert all(torch.equal(a["exp_avg"], b["exp_avg"]) for a, b in states)
    assert looked.tally == ahead.tally


def test_the_third_deferred_step_in_a_row_is_reported_late_and_has_moved_nothing():
    learner = a_learner()
    train_step(learner, a_batch())
    before = weights(learner)
    steps = [train_step(learner, a_batch(poison=True), deferred=True) for _ in range(5)]
    assert same(before, weights(learner))
    with pytest.raises(NonFiniteError, match="3 steps in a row"):
        learner.read_deferred(steps)


def test_gradients_are_clipped_as_torch_clips_them():
    for clip in (1e-3, 1e3):
        kernel = a_learner(dropout=0.0, gradient_clip=clip)
        plain = a_learner(dropout=0.0, gradient_clip=clip)
        plain.optimizer = torch.optim.AdamW(
            optimization.weight_groups(plain.gpt, RECIPE.weight_decay),
            lr=RECIPE.learning_rate,
            betas=ADAM_BETAS,
            eps=ADAM_EPSILON,
            fused=False,
        )
        reference = a_learner(dropout=0.0, gradient_clip=clip)
        for seed in range(3):
            one, other = train_step(kernel, a_batch(seed)), train_step(plain, a_batch(seed))
            assert one.loss == pytest.approx(other.loss, abs=1e-5)
            assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-4)
            reference.gpt.train()
            rate = reference.config.learning_rate
            losses = training.losses(reference.gpt, a_batch(seed).rows)
            (0.01 * losses.text + losses.audio).backward()
            torch.nn.utils.clip_grad_norm_(reference.gpt.parameters(), clip)
            for group in reference.optimizer.param_groups:
                group["lr"] = rate
            reference.optimizer.step()
            reference.optimizer.zero_grad()
        for name, weight in weights(reference).items():
            # A key's bias has only noise as gradient, which Adam scales up.
            if name.endswith("c_attn.bias"):
                continue
            assert torch.allclose(weights(kernel)[name], weight, atol=1e-5), name
            assert torch.allclose(weights(plain)[name], weight, atol=1e-5), name


@pytest.mark.parametrize(("before", "after"), [("fp32", "fp16"), ("fp16", "fp32")])
def test_a_run_continues_in_another_precision(before, after):
    first, second = a_learner(precision=before), a_learner(precision=after)
    train_step(first, a_batch(1))
    second.resume(first.model_state(), copy.deepcopy(first.trainer_state()), first.step)
    assert second.step == 1
