"""An adapter on a base: its contribution; the base does not change."""

import pytest
import torch

from demo_voice.new_gpt import new_gpt
from tests.models import random_adapter
from tests.xtts.inference.small_gpt import SHAPE, speaking
from tests.xtts.voices.adapters import RANK
from xtts.inference.torch_backend import DecodeStep
from xtts.model.adapter import MATRICES, Adapter, add_adapters
from xtts.model.config import ConfigError
from xtts.model.gpt import GPT, from_coqui, to_coqui

EMBEDDED = torch.randn(1, 9, SHAPE.width, generator=torch.Generator().manual_seed(1))


def latents(gpt: GPT, adapter: Adapter | None = None) -> torch.Tensor:
    with torch.inference_mode():
        return DecodeStep(gpt).prefill(EMBEDDED, gpt.gpt.new_cache(1, 20), adapter)[0]


def test_it_is_the_merged_model_and_the_base_stays_the_base():
    gpt, tensors = new_gpt(SHAPE, seed=3).eval(), random_adapter(SHAPE, 1, RANK)
    before = latents(gpt)
    adapter = Adapter(gpt, tensors, 2.0, "anna")
    state = to_coqui(gpt.state_dict())
    for name, a in tensors.items():
        if ".lora_A." in name:
            b, matrix = tensors[name.replace("lora_A", "lora_B")], name.replace("lora_A.", "")
            state[matrix] = state[matrix] + 2.0 * (b @ a).t()
    merged = new_gpt(SHAPE, seed=4).eval()
    merged.load_state_dict(from_coqui(state))
    assert torch.allclose(latents(gpt, adapter), latents(merged), atol=1e-4)
    assert torch.equal(latents(gpt), before) and not torch.allclose(latents(merged), before)


@pytest.mark.parametrize("kind", ["int8", "int4", "bf16"])
def test_it_adds_the_same_to_weights_of_fewer_bits(kind):
    tensors = random_adapter(SHAPE, 1, RANK)
    added = []
    for gpt in (speaking(), speaking(kind)):
        added.append(latents(gpt, Adapter(gpt, tensors, 1.0, "anna")) - latents(gpt))
    assert torch.nn.functional.cosine_similarity(*added).item() > 0.9


def test_an_adapter_of_some_matrices_changes_those():
    gpt = new_gpt(SHAPE, seed=3).eval()
    tensors = {n: t for n, t in random_adapter(SHAPE, 1, RANK).items() if ".h.1.attn.c_attn." in n}
    adapter = Adapter(gpt, tensors, 1.0, "anna")
    assert [list(layer) for layer in adapter.matrices] == [[], ["attn.c_attn"], []]
    assert not torch.equal(latents(gpt, adapter), latents(gpt))


def test_what_is_of_another_model_is_a_sentence():
    gpt, tensors = new_gpt(SHAPE, seed=3), random_adapter(SHAPE, 1, RANK)
    name = "gpt.gpt.h.0.mlp.c_fc.lora_B.weight"
    half = {other: tensor for other, tensor in tensors.items() if other != name}
    for wrong, words in (
        ({}, "no tensors"),
        (half, r"A and B of gpt\.gpt\.h\.0\.mlp\.c_fc are .* and missing"),
        ({**tensors, name: tensors[name][:-1]}, r"are \[4, 64\] and \[255, 4\], but the matrix is"),
        ({**tensors, "gpt.gpt.h.9.mlp.c_fc.lora_A.weight": tensors[name]}, r"it has gpt\.gpt\.h\.9"),
    ):
        with pytest.raises(ConfigError, match=f"anna does not fit this model: .*{words}"):
            Adapter(gpt, wrong, 1.0, "anna")


def test_each_row_has_its_own_and_the_others_are_not_touched():
    gpt = new_gpt(SHAPE, seed=3)
    pairs = [Adapter(gpt, random_adapter(SHAPE, seed, RANK), 1.0, "").matrices[0] for seed in (1, 2)]
    x = torch.randn(4, SHAPE.width, generator=torch.Generator().manual_seed(2))
    linear = gpt.gpt.h[0].attn.c_attn.forward
    with torch.inference_mode():
        plain = linear(x)
        adapted = add_adapters(linear, [(row, pairs[row - 1]["attn.c_attn"]) for row in (1, 2)])(x)
        for row, pair in ((1, pairs[0]), (2, pairs[1])):
            a, b = pair["attn.c_attn"]
            assert torch.allclose(adapted[row], plain[row] + b @ (a @ x[row]), atol=1e-5)
        assert torch.equal(adapted[[0, 3]], plain[[0, 3]])
        assert add_adapters(linear, []) == linear
    assert set(pairs[0]) == set(MATRICES)
