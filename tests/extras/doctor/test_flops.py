"""FLOPs match torch's count."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from demo_voice.new_gpt import new_gpt
from extras.doctor.flops import of_steps, peak_flops, peak_of_gpu, step_flops
from tests.peers.coqui import SMALL
from tests.train.test_step import a_batch, a_learner
from xtts.model import training
from xtts.model.shapes import GPTShape
from xtts.model.training import pack


def test_as_torch_counts(monkeypatch):
    attended = training._attend

    def countable(*given):
        """torch counts no flash attention."""
        with sdpa_kernel(SDPBackend.MATH):
            return attended(*given)

    monkeypatch.setattr(training, "_attend", countable)
    tokens, codes, mel = torch.arange(2, 40), torch.arange(50), torch.randn(80, 300)
    rows = pack([tokens] * 2, [codes] * 2, [mel] * 2, SMALL, stop_input=False)
    with FlopCounterMode(display=False) as counter:
        training.losses(new_gpt(SMALL, 0), rows)
    # In a small model, the uncounted work that does not grow with size weighs a little more.
    assert step_flops(rows, SMALL) / 3 == pytest.approx(counter.get_total_flops(), rel=0.15)


def test_xtts_v2_is_mostly_its_transformer_whose_frozen_weights_have_no_gradient_of_their_own():
    """LoRA trains 2 % of the weights, so a step has two of the three products per weight."""
    shape = GPTShape(text_ids=6681, text_start=261)
    rows = pack([torch.arange(2, 60)], [torch.arange(130)], [torch.randn(80, 390)], shape, stop_input=False)
    whole, frozen = step_flops(rows, shape), step_flops(rows, shape, 0.0)
    assert 1.0 < whole / (6 * 377.5e6 * rows.length) < 1.35
    assert 0.66 < frozen / whole < 0.70
    assert frozen < step_flops(rows, shape, 0.02) < 1.02 * frozen


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA L4", 121e12),
        ("Some CPU", None),
        ("NVIDIA GeForce RTX 3060", 25e12),
        ("NVIDIA A10G", 70e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA RTX A1000", None),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA GeForce RTX 3090 Ti", 80e12),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GeForce RTX 4080 SUPER", None),
    ],
)
def test_a_name_within_a_name_is_another_gpu(name, peak):
    assert peak_of_gpu(name) == peak


def test_the_peak_is_the_makers_and_a_cpu_has_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: {"cuda:1": "NVIDIA L4"}[device])
    assert peak_flops("cuda:1") == 121e12
    assert peak_flops("cpu") is None


def test_a_step_has_its_share_of_the_peak(monkeypatch):
    learner, batch = a_learner(), a_batch()
    (only,) = of_steps(learner)(batch.rows, 2.0).items()
    assert only == ("tflops", pytest.approx(step_flops(batch.rows, learner.gpt.shape) / 2e12))
    monkeypatch.setattr("extras.doctor.flops.peak_flops", lambda _: 1e9)
    assert of_steps(learner)(batch.rows, 2.0)["mfu"] == pytest.approx(1e3 * only[1])
