"""The rate over the steps, which weights decay, clipping, and the seed of a step."""

import pytest
import torch
from torch import nn

from train.optim.optimizer import (
    COSINE_END,
    HOLD_STEPS,
    OptimizerError,
    Schedule,
    clip_gradients,
    fuses_clipping,
    gradient_norm,
    load_state,
    mix_seed,
    set_rate,
    state_bytes,
    step_unless,
    weight_groups,
)
from xtts.model.gpt import new_gpt
from xtts.model.shapes import GPTShape

SHAPE = GPTShape(
    text_ids=40, text_start=39, layers=1, width=32, heads=2, audio_ids=66, audio_start=64,
    audio_stop=65, max_text_tokens=20, max_audio_tokens=30,
)  # fmt: skip


@pytest.mark.parametrize("name", ["constant", "cosine", "inverse_sqrt"])
def test_every_schedule_warms_up_evenly(name: str) -> None:
    found = Schedule(name, warmup_steps=4, total_steps=5_000)
    assert [found.share(step) for step in range(4)] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_what_comes_behind_the_warm_up() -> None:
    assert Schedule("constant").share(10**6) == 1.0
    cosine = Schedule("cosine", warmup_steps=10, total_steps=110)
    assert cosine.share(60) == pytest.approx((1 + COSINE_END) / 2)
    assert cosine.share(110) == cosine.share(500) == pytest.approx(COSINE_END)
    root = Schedule()
    assert root.share(HOLD_STEPS - 1) == 1.0
    assert root.share(4 * HOLD_STEPS - 1) == pytest.approx(0.5)


def test_a_longer_run_continues_the_default_schedule() -> None:
    short, long = (Schedule(warmup_steps=10, total_steps=steps) for steps in (100, 9_000))
    assert [short.share(step) for step in range(3_000)] == [
        long.share(step) for step in range(3_000)
    ]


def test_matrices_decay_and_biases_norms_tables_and_latents_do_not() -> None:
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


@pytest.mark.parametrize(("largest", "scale"), [(1.0, 0.2), (5.0, 1.0), (100.0, 1.0)])
def test_gradients_are_scaled_to_a_norm_and_never_up(largest: float, scale: float) -> None:
    found = [*weights(3.0, 4.0), nn.Parameter(torch.ones(1))]
    optimizer = torch.optim.SGD(found, lr=1.0)
    norm = gradient_norm(found)
    assert norm == 5.0 and not fuses_clipping(optimizer)
    clip_gradients(optimizer, found, norm, largest)
    assert [float(w.grad) for w in found[:2] if w.grad is not None] == pytest.approx(
        [3 * scale, 4 * scale], rel=1e-5
    )


def test_the_fused_step_clips_as_a_pass_of_its_own_does() -> None:
    moved = []
    for fused in (True, False):
        found = weights(3.0, 4.0)
        # An epsilon of the gradients' size, without which AdamW's step does not see their scale.
        optimizer = torch.optim.AdamW(found, lr=0.1, eps=1.0, fused=fused)
        clip_gradients(optimizer, found, gradient_norm(found), 1.0)
        step_unless(optimizer, torch.tensor(0.0)) if fused else optimizer.step()
        moved.append([weight.item() for weight in found])
    assert moved[0] == pytest.approx(moved[1], rel=1e-6) and moved[0][0] < 1.0


def test_a_step_that_is_not_finite_moves_nothing() -> None:
    found = weights(3.0)
    optimizer = torch.optim.AdamW(found, lr=0.1, fused=True)
    step_unless(optimizer, torch.tensor(1.0))
    assert found[0].item() == 1.0 and not hasattr(optimizer, "found_inf")
    step_unless(optimizer, torch.tensor(0.0))
    assert found[0].item() < 1.0


def test_a_state_of_another_optimizer_is_refused() -> None:
    optimizer = torch.optim.AdamW(weights(1.0))
    with pytest.raises(OptimizerError, match="is of OPTIMIZER=adamw8bit, and this run has"):
        load_state(optimizer, {"adamw8bit": {}})
    optimizer.step()
    other = torch.optim.AdamW(weights(1.0))
    load_state(other, optimizer.state_dict())
    assert state_bytes(other.state_dict()["state"]) == 3 * 4  # step, mean, variance


def test_the_rate_is_that_of_every_group() -> None:
    optimizer = torch.optim.SGD([{"params": weights(1.0)}, {"params": weights(1.0)}], lr=1.0)
    set_rate(optimizer, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.5]


def test_neighbouring_seeds_steps_and_ranks_share_no_number() -> None:
    found = {mix_seed(s, t, r) for s in range(20) for t in range(20) for r in range(4)}
    assert len(found) == 1600 and all(0 <= one < 2**63 for one in found)
    assert mix_seed(1, 2) == mix_seed(1, 2, 0)
