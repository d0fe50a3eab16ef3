"""8-bit AdamW: it learns, resumes exactly and is small."""

import pytest
import torch

from extras.eight_bit import adamw
from machine.errors import SotaqueError
from tests.operations import OperationCounter
from tests.train.test_step import a_batch, a_learner, weights
from train.checkpointing.checkpoints import tensor_bytes
from train.optim.optimizer import ADAM_BETAS, ADAM_EPSILON, new_optimizer
from train.step import train_step


def eight(**changes):
    return a_learner(optimizer="adamw8bit", **changes)


@pytest.mark.slow
def test_it_learns_as_adamw_does():
    exact, rough = a_learner(dropout=0.0), eight(dropout=0.0)
    for number in range(40):
        result, other = train_step(exact, a_batch(number % 2)), train_step(rough, a_batch(number % 2))
    assert other.losses["audio_loss"] == pytest.approx(result.losses["audio_loss"], rel=0.05)
    assert other.losses["audio_loss"] < 2.0


def test_rates_reach_it():
    learner = eight(warmup_steps=10)
    before = weights(learner)
    rates = [train_step(learner, a_batch(seed)).learning_rate for seed in range(2)]
    assert rates == [pytest.approx(1e-4), pytest.approx(2e-4)]
    learner.config = None
    # Adam moves a weight by about the rate in each step.
    moved = max(float((now - before[n]).abs().max()) for n, now in weights(learner).items())
    assert 1e-4 < moved < 4e-4


def test_large_tensors_take_two_bytes_a_weight():
    weight = torch.nn.Parameter(torch.zeros(64, 1024))
    optimizer = new_optimizer("adamw8bit", [{"params": [weight], "weight_decay": 0.01}], 1e-3)
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert weight.numel() * 2 <= tensor_bytes(optimizer.state_dict()) < weight.numel() * 2.1


@pytest.mark.parametrize(("old", "new"), [("adamw", "adamw8bit"), ("adamw8bit", "adamw")])
def test_the_other_ones_state_is_refused_in_words(old, new):
    first, second = a_learner(optimizer=old), a_learner(optimizer=new)
    train_step(first, a_batch())
    with pytest.raises(SotaqueError, match=f"is of OPTIMIZER={old}, and .*OPTIMIZER={new}"):
        second.resume(first.model_state(), first.trainer_state(), 1)


def torchaos(weights: list[torch.nn.Parameter], decay: float):
    """The reference: torchao's step, uncompiled."""
    from torchao.optim import AdamW8bit

    found = AdamW8bit(weights, lr=1e-2, betas=ADAM_BETAS, eps=ADAM_EPSILON, weight_decay=decay)

    def step():
        with torch.compiler.set_stance("force_eager"):
            found.step()

    return found, step


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_its_numbers_are_torchaos(decay):
    """Weights with 8-bit averages match bit for bit. Two weights lack a gradient in some steps, one
    has an odd size, and one has a gradient in transposed order."""
    draw = torch.Generator().manual_seed(0)
    shapes = [(64, 64), (3, 7), (16, 1024), (128, 160), (4096,), (65, 64), (300,)]
    ours = [torch.nn.Parameter(torch.randn(*shape, generator=draw)) for shape in shapes]
    torchs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    optimizer = new_optimizer("adamw8bit", [{"params": ours, "weight_decay": decay}], 1e-2)
    reference, step = torchaos(torchs, decay)
    for turn in range(6):
        for number, (weight, other) in enumerate(zip(ours, torchs, strict=True)):
            # Gradients of different magnitudes, as in a norm and an embedding.
            made = torch.randn(weight.shape, generator=draw) * 10.0 ** (-number)
            made[torch.rand(weight.shape, generator=draw) < 0.2] = 0.0
            weight.grad = made.t().contiguous().t() if number == 3 else made
            other.grad = made.clone()
            if (number, turn) in ((2, 0), (2, 3), (6, 2)):
                weight.grad = other.grad = None
        optimizer.step()
        step()
        for number, (weight, other) in enumerate(zip(ours, torchs, strict=True)):
            quantised = number not in (1, 5, 6)
            assert torch.equal(weight, other) or not quantised
            torch.testing.assert_close(weight, other, atol=1e-7, rtol=1e-6)
    kept = optimizer.state_dict()["adamw8bit"]
    for state, other in zip(kept, torchs, strict=True):
        expected = reference.state[other]
        assert state["step"] == expected["step"]
        for name in ("exp_avg", "exp_avg_sq"):
            if isinstance(state[name], dict):
                assert torch.equal(state[name]["codes"], expected[name].codes)
                assert torch.equal(state[name]["scale"], expected[name].scale)
                assert state[name]["signed"] == expected[name].signed
    assert sum(isinstance(state["exp_avg"], dict) for state in kept) == 4


@pytest.mark.parametrize("signed", [True, False])
def test_every_number_has_torchaos_level(signed):
    """At each threshold, one float32 above and below it, and over the whole range."""
    from torchao.optim.quant_utils import create_dynamic_map, quantize_8bit_with_qmap

    cpu = torch.device("cpu")
    levels, thresholds = adamw._levels(signed, cpu), adamw._thresholds(signed, cpu)
    assert torch.equal(levels, torch.tensor(create_dynamic_map(signed=signed)))
    up, down = (torch.nextafter(thresholds, torch.tensor(way)) for way in (2.0, -2.0))
    anywhere = torch.linspace(-1.0, 1.0, 100_001)
    for numbers in (thresholds, up, down, levels, anywhere, anywhere**7):
        found = torch.bucketize(numbers, thresholds, right=True).to(torch.uint8)
        assert torch.equal(found, quantize_8bit_with_qmap(numbers, levels))


def test_small_weights_take_each_operation_together():
    shapes = [(64, 64), *[(64,)] * 200]
    weights = [torch.nn.Parameter(torch.randn(*shape)) for shape in shapes]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    optimizer = new_optimizer("adamw8bit", [{"params": weights, "weight_decay": 0.01}], 1e-3)
    optimizer.step()
    with OperationCounter() as counter:
        optimizer.step()
    assert 40 < sum(counter.names.values()) <= 75, counter.names
