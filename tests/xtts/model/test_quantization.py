"""Quantization: its error, and when it is chosen."""

import pytest
import torch
from torch import nn

from xtts.inference import speech
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import DecodeStep, TorchBackend
from xtts.inference.voice import voice_from_reference
from xtts.model import quantization
from xtts.model.loading import load_model, read_tensors
from xtts.model.quantization import Int4Linear, Int8Linear, PackedLinear, packed_linear

# Without VNNI an activation has 7 bits and is rounded twice as coarsely.
COARSER = 1 if torch.cpu._is_vnni_supported() else 2
# Relative to the norm of float32's result, for normal weights and inputs.
WORST = {"fp32": 1e-6, "int8": 0.012 * COARSER, "int4": 0.12}


@pytest.mark.parametrize("kind", WORST)
@pytest.mark.parametrize("shape", [(1, 64), (2, 5, 64), (4, 20, 64)])
def test_a_layer_is_as_far_off_as_its_bits_allow(kind, shape):
    generator = torch.Generator().manual_seed(0)
    plain = nn.Linear(64, 96)
    plain.weight.data.normal_(0, 0.1, generator=generator)
    plain.bias.data.normal_(0, 0.1, generator=generator)
    x = torch.randn(shape, generator=generator)
    with torch.inference_mode():
        exact, rounded = plain(x), packed_linear(kind, plain.weight, plain.bias)(x)
    assert rounded.shape == exact.shape and rounded.dtype == torch.float32
    error = float((rounded - exact).norm() / exact.norm())
    assert error < WORST[kind]
    assert kind == "fp32" or error > WORST[kind] / 20  # it is really quantized


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_a_row_of_zeros_and_an_outlier_do_no_harm(kind):
    weight = torch.zeros(16, 64)
    weight[1, 3] = 50.0
    with torch.inference_mode():
        product = packed_linear(kind, weight, torch.ones(16))(torch.eye(64)[3][None])
    torch.testing.assert_close(product, torch.tensor([[1.0, 51.0, *[1.0] * 14]]), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("rows", [2, 5])
def test_a_row_is_the_same_bit_for_bit_whoever_else_is_there(kind, rows):
    generator = torch.Generator().manual_seed(0)
    layer = packed_linear(kind, torch.randn(96, 64, generator=generator), torch.ones(96))
    quiet = torch.randn(rows, 64, generator=generator)
    mixed = quiet.clone()
    mixed[1:] *= 100.0
    with torch.inference_mode():
        assert torch.equal(layer(quiet)[0], layer(mixed)[0])
        alone, together = layer(quiet[:1]), layer(mixed)[:1]
    # A loud neighbour does not increase its error.
    assert float((together - alone).norm() / alone.norm()) < 0.01 * COARSER


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 12, 16, 24])
def test_a_row_of_float32_is_the_same_bit_for_bit_at_every_place(count, threads):
    generator = torch.Generator().manual_seed(0)
    layer = PackedLinear(torch.randn(96, 64, generator=generator), torch.ones(96))
    rows = torch.randn(count, 64, generator=generator)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            turned = [layer(rows.roll(place, 0))[place] for place in range(count)]
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(row, turned[0]) for row in turned)


@pytest.mark.parametrize(
    ("precision", "width", "capability", "kind"),
    [
        ("auto", 1024, (8, 6), "bf16"),
        ("auto", 1024, (12, 0), "bf16"),
        ("auto", 1024, (7, 5), "fp32"),
        ("auto", 256, (9, 0), "fp32"),
        ("bf16", 256, (9, 0), "bf16"),
        ("bf16", 1024, (7, 5), "fp32"),
        ("fp32", 1024, (9, 0), "fp32"),
        ("int8", 1024, (9, 0), "fp32"),
    ],
)
def test_a_gpu_speaks_in_bf16_where_it_has_that(precision, width, capability, kind, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    resolved = quantization.resolve_precision(precision, torch.device("cuda:1"), width)
    assert resolved == (kind, None)


def test_bf16_is_the_transformer_and_what_it_remembers(base_folder):
    exact, short = (load_model(base_folder, precision=kind) for kind in ("fp32", "bf16"))
    assert short.kind == "bf16" and short.gpt.gpt.cache_type == torch.bfloat16
    weights = short.gpt.state_dict()
    inside = {name for name, weight in weights.items() if weight.dtype == torch.bfloat16}
    assert inside == {name for name in weights if name.startswith("gpt.")}
    for name, tensor in exact.gpt.state_dict().items():
        assert torch.equal(weights[name], tensor.to(weights[name].dtype)), name
    embedded = torch.randn(1, 12, short.config.gpt.width)
    with torch.inference_mode():
        (expected, _), (rounded, _) = (
            DecodeStep(model.gpt).prefill(embedded, model.gpt.gpt.new_cache(1, 20))
            for model in (exact, short)
        )
    assert rounded.dtype == torch.float32
    assert 0 < float((rounded - expected).norm() / expected.norm()) < 0.02
    # The weights of an epoch are loaded in the same precision.
    short.load_gpt(read_tensors(base_folder / "model.pth"))
    assert short.gpt.gpt.ln_f.weight.dtype == torch.bfloat16


def test_int4_refuses_a_width_that_its_groups_do_not_divide():
    with pytest.raises(ValueError, match="40 columns are not a multiple of 32"):
        Int4Linear(torch.zeros(8, 40), torch.zeros(8))


@pytest.mark.parametrize(
    ("engines", "width", "kind"),
    [(["qnnpack", "x86"], 1024, "int8"), (["qnnpack", "x86"], 256, "fp32"), (["qnnpack"], 1024, "fp32")],
)
def test_auto_is_int8_where_torch_has_its_kernels(monkeypatch, engines, width, kind):
    monkeypatch.setattr(type(torch.backends.quantized), "supported_engines", engines)
    assert quantization.resolve_precision("auto", torch.device("cpu"), width)[0] == kind


def test_a_model_speaks_with_int8_and_takes_other_weights(base_folder):
    plain, small = load_model(base_folder), load_model(base_folder, precision="int8")
    kinds = [type(module) for module in small.gpt.gpt.modules()]
    assert kinds.count(Int8Linear) == 4 * len(small.gpt.gpt.h) and nn.Linear not in kinds
    voice = voice_from_reference(plain, torch.sin(torch.arange(44_100) / 20))
    ids = torch.randint(3, 40, (9,))
    with torch.inference_mode():
        (expected, _), (rounded, _) = (
            DecodeStep(model.gpt).prefill(
                model.gpt.prefix(voice.latents, ids), model.gpt.gpt.new_cache(1, 60)
            )
            for model in (plain, small)
        )
    assert float((rounded - expected).norm() / expected.norm()) < 0.05
    request = SynthesisRequest("a thin hat", "en", seed=1)
    before = speech.synthesize(TorchBackend(small), voice, request)
    small.unload_gpt()
    with pytest.raises((RuntimeError, NotImplementedError)):
        speech.synthesize(TorchBackend(small), voice, request)
    small.load_gpt(read_tensors(base_folder / "model.pth"))
    assert torch.equal(speech.synthesize(TorchBackend(small), voice, request), before)


@pytest.mark.parametrize(
    ("avx512", "amx", "vocoder", "memory"),
    [
        (False, False, torch.float32, torch.float32),
        (True, False, torch.bfloat16, torch.float32),
        (True, True, torch.bfloat16, torch.bfloat16),
    ],
)
def test_bfloat16_is_taken_where_it_is_quicker(monkeypatch, base_folder, avx512, amx, vocoder, memory):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    loaded = load_model(base_folder, precision="int8")
    assert loaded.gpt.gpt.new_cache(1, 4).entries.dtype == memory
    assert next(loaded.vocoder.parameters()).dtype == vocoder
