"""Which weights decay, clipping, and what is kept."""

import pytest
import torch
from torch import nn

from train.optim.optimizer import (
    clip_gradients,
    fuses_clipping,
    step_unless,
    weight_groups,
)
from xtts.model.gpt import new_gpt
from xtts.model.shapes import GPTShape

SHAPE = GPTShape(
    text_ids=40, text_start=39, layers=1, width=32, heads=2, audio_ids=66, audio_start=64,
    audio_stop=65, max_text_tokens=20, max_audio_tokens=30,
)  # fmt: skip


def test_matrices_decay_and_biases_norms_tables_and_latents_do_not():
    gpt = new_gpt(SHAPE, 0)
    gpt.text_head.requires_grad_(False)
    names = {id(weight): name for name, weight in gpt.named_parameters()}
    decayed, kept = weight_groups(gpt, 0.01)
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.01, 0.0)
    matrices = {names[id(weight)] for weight in decayed["params"]}
    others = {names[id(weight)] for weight in kept["params"]}
    assert matrices | others == set(names.values()) - {"text_head.weight", "text_head.bias"}
    assert {"gpt.h.0.attn.c_attn.weight", "mel_head.weight"} <= matrices
    assert {
        "mel_head.bias", "final_norm.weight", "mel_embedding.weight",
        "text_pos_embedding.emb.weight", "conditioning_perceiver.latents",
    } <= others  # fmt: skip
    assert weight_groups(gpt.requires_grad_(False), 0.01) == []


def weights(*gradients: float) -> list[nn.Parameter]:
    made = [nn.Parameter(torch.ones(1)) for _ in gradients]
    for weight, gradient in zip(made, gradients, strict=True):
        weight.grad = torch.tensor([gradient])
    return made


def norm_of(weights: list[nn.Parameter]) -> torch.Tensor:
    return nn.utils.get_total_norm([one.grad for one in weights if one.grad is not None])


@pytest.mark.parametrize(("largest", "scale"), [(1.0, 0.2), (5.0, 1.0), (100.0, 1.0)])
def test_gradients_are_scaled_to_a_norm_and_never_up(largest, scale):
    found = [*weights(3.0, 4.0), nn.Parameter(torch.ones(1))]
    optimizer = torch.optim.SGD(found, lr=1.0)
    norm = norm_of(found)
    assert norm == 5.0 and not fuses_clipping(optimizer)
    clip_gradients(optimizer, found, norm, largest)
    assert [float(w.grad) for w in found[:2] if w.grad is not None] == pytest.approx(
        [3 * scale, 4 * scale], rel=1e-5
    )


def test_the_fused_step_clips_as_a_pass_of_its_own_does():
    moved = []
    for fused in (True, False):
        found = weights(3.0, 4.0)
        # An epsilon of the gradients' size, without which AdamW's step does not see their scale.
        optimizer = torch.optim.AdamW(found, lr=0.1, eps=1.0, fused=fused)
        clip_gradients(optimizer, found, norm_of(found), 1.0)
        step_unless(optimizer, torch.tensor(0.0)) if fused else optimizer.step()
        moved.append([weight.item() for weight in found])
    assert moved[0] == pytest.approx(moved[1], rel=1e-6) and moved[0][0] < 1.0


def test_a_step_that_is_not_finite_moves_nothing():
    found = weights(3.0)
    optimizer = torch.optim.AdamW(found, lr=0.1, fused=True)
    step_unless(optimizer, torch.tensor(1.0))
    assert found[0].item() == 1.0 and not hasattr(optimizer, "found_inf")
    step_unless(optimizer, torch.tensor(0.0))
    assert found[0].item() < 1.0
