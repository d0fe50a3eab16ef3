"""One code at a time, without modules: the same numbers as with them."""

import pytest
import torch
from torch import nn

from xtts.inference.decode_step import DecodeStep
from xtts.model import quantization
from xtts.model.gpt import GPT, new_gpt
from xtts.model.kv_cache import KeyValueCache
from xtts.model.shapes import GPTShape

SHAPE = GPTShape(
    text_ids=40, text_start=39, layers=3, width=64, heads=4, audio_ids=66, audio_start=64,
    audio_stop=65, max_text_tokens=40, max_audio_tokens=60,
)  # fmt: skip


def filled(gpt: GPT, rows: int) -> KeyValueCache:
    """A cache behind nine positions."""
    cache = gpt.gpt.new_cache(rows, 30)
    gpt.prefill(
        torch.randn(rows, 9, SHAPE.width, generator=torch.Generator().manual_seed(1)), cache
    )
    return cache


@pytest.mark.parametrize("kind", quantization.KINDS)
@pytest.mark.parametrize("rows", [1, 3])
@torch.inference_mode()
def test_a_step_says_what_the_modules_say(kind: str, rows: int) -> None:
    gpt = new_gpt(SHAPE, seed=3).eval()
    for name, linear in list(gpt.gpt.named_modules()):
        if isinstance(linear, nn.Linear):
            parent, _, own = name.rpartition(".")
            packed = quantization.quantized_linear(kind, linear.weight, linear.bias)
            setattr(gpt.gpt.get_submodule(parent), own, packed)
    if kind == "bf16":
        gpt.gpt.to(torch.bfloat16)
        gpt.gpt.cache_type = torch.bfloat16
    ours, theirs = filled(gpt, rows), filled(gpt, rows)
    step = DecodeStep(gpt)
    for number in range(1, 6):
        codes = torch.arange(rows) + number
        positions = torch.full_like(codes, number)
        found = step(codes, positions, ours)
        wanted = gpt.prefill(gpt.audio_input(codes, positions), theirs)
        for one, other in zip(found, wanted, strict=True):
            assert torch.equal(one, other) and one.dtype == torch.float32
    assert ours.length == theirs.length == 14


@torch.inference_mode()
def test_a_memory_in_bfloat16_is_as_far_off_as_its_bits_allow() -> None:
    gpt = new_gpt(SHAPE, seed=3).eval()
    gpt.mel_head.weight.mul_(8.0)
    exact, step = filled(gpt, 2), DecodeStep(gpt)
    gpt.gpt.cache_type = torch.bfloat16
    short = filled(gpt, 2)
    assert short.entries.dtype == torch.bfloat16
    for number in range(1, 6):
        codes = torch.tensor([number, 3 * number])
        wanted, _ = step(codes, torch.full_like(codes, number), exact)
        found, _ = step(codes, torch.full_like(codes, number), short)
        assert 0 < float((found - wanted).norm() / wanted.norm()) < 0.01
        assert found.dtype == torch.float32
