"""Clips packed in one row give the same results as each clip alone in a row."""

import pytest
import torch

from demo_voice.new_gpt import new_gpt
from tests.peers.coqui import SMALL
from xtts.model import casting, training, varlen
from xtts.model.gpt import GPT
from xtts.model.training import PackedBatch, pack
from xtts.model.varlen import VarlenLayout


def a_model() -> GPT:
    gpt = new_gpt(SMALL, seed=0)
    generator = torch.Generator().manual_seed(1)
    for parameter in gpt.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.1, generator=generator)
    return gpt


def rows_of(sizes: list[tuple[int, int, int]], which: slice = slice(None)) -> PackedBatch:
    """Some of the clips with the given numbers of tokens, codes and frames."""
    made = torch.Generator().manual_seed(2)
    tokens = [torch.randint(2, 80, (text,), generator=made) for text, _, _ in sizes]
    codes = [torch.randint(0, 60, (audio,), generator=made) for _, audio, _ in sizes]
    mels = [torch.randn(80, frames, generator=made) for _, _, frames in sizes]
    return pack(tokens[which], codes[which], mels[which], SMALL, stop_input=False)


def learned(gpt: GPT, batches: list[PackedBatch]) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The mean losses over the targets of some batches, and their gradients."""
    gpt.zero_grad()
    counts = torch.tensor([[len(batch.text_targets), len(batch.audio_targets)] for batch in batches])
    losses = torch.stack([torch.stack(training.losses(gpt, batch)) for batch in batches])
    means = (losses * counts / counts.sum(0)).sum(0)
    means.sum().backward()
    gradients = {name: weight.grad.clone() for name, weight in gpt.named_parameters()}
    return means.tolist(), gradients


SIZES = [(5, 30, 120), (20, 12, 300), (1, 1, 1), (11, 60, 77)]


@pytest.mark.parametrize("where", ["one by one", "in a grid"])
@pytest.mark.parametrize("sizes", [SIZES, SIZES[:1], [SIZES[1]] * 3])
def test_clips_learn_the_same_together_as_alone(monkeypatch, sizes, where):
    monkeypatch.setattr(casting, "launches_matter", lambda _: where != "one by one")
    gpt = a_model()
    alone = [rows_of(sizes, slice(number, number + 1)) for number in range(len(sizes))]
    losses, gradients = learned(gpt, alone)
    packed_losses, packed_gradients = learned(gpt, [rows_of(sizes)])
    assert packed_losses == pytest.approx(losses, abs=1e-5)
    for name, gradient in gradients.items():
        difference = (packed_gradients[name] - gradient).norm() / gradient.norm()
        assert difference < 1e-4, f"{name}: {difference:.1e}"


def test_a_clip_does_not_see_the_one_before_it():
    clips = VarlenLayout.of((3, 5, 2))
    queries, keys, values = torch.randn(3, 1, 2, 10, 4)
    before = clips.attend(0, queries, keys, values)
    for changed in (keys, values):
        changed[:, :, :3] += 1.0
    after = clips.attend(0, queries, keys, values)
    assert torch.equal(before[:, :, 3:], after[:, :, 3:])
    assert not torch.allclose(before[:, :, :3], after[:, :, :3])


def test_products_written_out_say_what_the_kernel_says():
    queries, keys, values = torch.randn(3, 1, 4, 50, 16, dtype=torch.bfloat16)
    exact = torch.nn.functional.scaled_dot_product_attention(
        queries.float(), keys.float(), values.float(), is_causal=True
    )
    written = varlen.causal_attention(queries, keys, values).float()
    assert (written - exact).abs().max() < 0.05
    # The first position attends only to itself.
    assert torch.equal(written[:, :, 0], values[:, :, 0].float())


def test_a_grid_gives_back_the_gradients_of_clips_by_themselves(monkeypatch):
    """The padding has no gradients, so it adds nothing to their sums."""
    monkeypatch.setattr(casting, "launches_matter", lambda _: True)
    clips = VarlenLayout.of((3, 5, 2))
    packed = torch.randn(1, 10, 3 * 8, dtype=torch.float64, requires_grad=True)
    towards = torch.randn(1, 10, 8, dtype=torch.float64)
    (clips.attend_packed(packed, 2) * towards).sum().backward()
    gradient, packed.grad = packed.grad, None
    parts = [part.view(1, 10, 2, 4).transpose(1, 2) for part in packed.split(8, 2)]
    alone = clips.attend(0, *parts).transpose(1, 2).reshape(1, 10, 8)
    assert torch.allclose(clips.attend_packed(packed, 2), alone, atol=1e-12)
    (alone * towards).sum().backward()
    assert torch.allclose(gradient, packed.grad, atol=1e-12) and gradient.abs().sum(2).min() > 0
