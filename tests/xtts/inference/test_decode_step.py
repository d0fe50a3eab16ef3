"""Decoding one code without modules, and how many slots fit on a card."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice.new_gpt import new_gpt
from tests.xtts.inference.small_gpt import SHAPE, asked, speaking, utterance
from xtts.inference import torch_voice
from xtts.inference.torch_backend import DecodeStep, DecodingSlots
from xtts.model import quantization
from xtts.model.gpt import GPT, AttentionLayout, KeyValueCache
from xtts.model.shapes import GPTShape


def filled(gpt: GPT, rows: int) -> KeyValueCache:
    """A cache that holds nine positions."""
    cache = gpt.gpt.new_cache(rows, 30)
    DecodeStep(gpt).prefill(noise(rows), cache)
    return cache


def noise(rows: int) -> Tensor:
    return torch.randn(rows, 9, SHAPE.width, generator=torch.Generator().manual_seed(1))


class GrowingCache(AttentionLayout):
    """A cache for the modules of a GPT, in the type of its own cache."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype, self.entries = dtype, dict[int, tuple[Tensor, Tensor]]()

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        if layer not in self.entries:
            self.entries[layer] = keys.to(self.dtype), values.to(self.dtype)
            return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        both = zip(self.entries[layer], (keys, values), strict=True)
        self.entries[layer] = tuple(torch.cat((old, new.to(self.dtype)), 2) for old, new in both)
        mixed = F.scaled_dot_product_attention(queries.to(self.dtype), *self.entries[layer])
        return mixed.to(queries.dtype)


def modules_say(gpt: GPT, embedded: Tensor, cache: AttentionLayout) -> tuple[Tensor, Tensor]:
    latent = gpt.final_norm(gpt.gpt(embedded, cache)[:, -1])
    return latent, gpt.mel_head(latent)


@pytest.mark.parametrize("kind", quantization.KINDS)
@pytest.mark.parametrize("rows", [1, 3])
@torch.inference_mode()
def test_a_step_says_what_the_modules_say(kind, rows):
    gpt = new_gpt(SHAPE, seed=3).eval()
    for name, linear in list(gpt.gpt.named_modules()):
        if isinstance(linear, nn.Linear) and kind != "bf16":
            parent, _, attribute = name.rpartition(".")
            packed = quantization.packed_linear(kind, linear.weight, linear.bias)
            setattr(gpt.gpt.get_submodule(parent), attribute, packed)
    if kind == "bf16":
        gpt.gpt.to(torch.bfloat16)
        gpt.gpt.cache_type = torch.bfloat16
    ours, modules_cache = gpt.gpt.new_cache(rows, 30), GrowingCache(gpt.gpt.cache_type)
    step = DecodeStep(gpt)
    outputs, expected = step.prefill(noise(rows), ours), modules_say(gpt, noise(rows), modules_cache)
    assert all(torch.equal(output, other) for output, other in zip(outputs, expected, strict=True))
    for number in range(1, 6):
        codes = torch.arange(rows) + number
        positions = torch.full_like(codes, number)
        outputs = step(codes, positions, ours)
        expected = modules_say(gpt, gpt.audio_input(codes, positions), modules_cache)
        for output, other in zip(outputs, expected, strict=True):
            assert torch.equal(output, other) and output.dtype == torch.float32
    assert ours.length == 14


@torch.inference_mode()
def test_a_memory_in_bfloat16_is_as_far_off_as_its_bits_allow():
    gpt = new_gpt(SHAPE, seed=3).eval()
    gpt.mel_head.weight.mul_(8.0)
    exact, step = filled(gpt, 2), DecodeStep(gpt)
    gpt.gpt.cache_type = torch.bfloat16
    short = filled(gpt, 2)
    assert short.entries.dtype == torch.bfloat16
    for number in range(1, 6):
        codes = torch.tensor([number, 3 * number])
        exactly, _ = step(codes, torch.full_like(codes, number), exact)
        rounded, _ = step(codes, torch.full_like(codes, number), short)
        assert 0 < float((rounded - exactly).norm() / exactly.norm()) < 0.01
        assert rounded.dtype == torch.float32


@pytest.fixture(scope="module")
def gpt() -> GPT:
    return speaking()


def test_slots_wait_once_a_step(gpt, monkeypatch):
    """Reading the chosen codes waits for the GPU, so all rows are read at once."""
    slots = DecodingSlots(gpt, 3)
    for n in range(1, 4):
        slots.enter(*asked(n), utterance(gpt, n))
    waits, steps = list[int](), 0
    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: (waits.append(1), tolist(tensor))[1])
    while slots.step():
        steps += 1
    assert len(waits) == steps > 5


XTTS_V2 = GPTShape(text_ids=6681, text_start=261)
GB = 1_000_000_000
WEIGHTS = 1_770_000_000
SLOT = 257_556_480


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The memory of GPU 1: free bytes, and those that torch keeps for later."""
    card = SimpleNamespace(free=0, entries=0)

    def free(device: torch.device) -> tuple[int, int]:
        assert device == torch.device("cuda:1")
        return card.free, 0

    monkeypatch.setattr(torch.cuda, "mem_get_info", free)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: card.entries + 7)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 7)
    return card


# The parts of XTTS-v2's GPT that are read.
ON_GPU = SimpleNamespace(
    mel_head=SimpleNamespace(weight=SimpleNamespace(device=torch.device("cuda:1"))),
    shape=XTTS_V2,
    gpt=SimpleNamespace(cache_type=torch.float32),
    parameters=lambda: [SimpleNamespace(nbytes=WEIGHTS)],
)


@pytest.mark.parametrize(
    ("free", "slots"),
    # Free memory of cards with 8, 12, 16, 24 and 141 GB, after loading context and model.
    [(5 * GB, 4), (9 * GB, 12), (13 * GB, 16), (21 * GB, 16), (138 * GB, 16), (1 * GB, 1)],
)
def test_two_voices_fit_beside_each_other(card, free, slots):
    card.free = free
    fitting = torch_voice.fitting_slots(ON_GPU, 16, beside_another=False)
    assert fitting == slots
    if fitting > 1:
        card.free -= fitting * SLOT + WEIGHTS
        assert torch_voice.fitting_slots(ON_GPU, fitting, beside_another=True) == fitting


def test_a_slot_in_16_bits_takes_half(card):
    card.free = 3 * GB
    short = SimpleNamespace(**{**vars(ON_GPU), "gpt": SimpleNamespace(cache_type=torch.bfloat16)})
    fitting = [torch_voice.fitting_slots(gpt, 99, beside_another=True) for gpt in (ON_GPU, short)]
    assert fitting[1] // 2 == fitting[0] == (3 * GB - torch_voice.RESERVED_BYTES) // SLOT


def test_a_cpu_makes_what_is_asked_for():
    gpt = new_gpt(GPTShape(text_ids=40, text_start=39, layers=1, width=64, heads=4), seed=0)
    assert torch_voice.fitting_slots(gpt, 16, beside_another=False) == 16


def test_memory_that_torch_keeps_for_later_counts_as_free(card):
    card.free = torch_voice.RESERVED_BYTES + 4 * SLOT
    assert torch_voice.fitting_slots(ON_GPU, 99, beside_another=True) == 4
    card.entries = 8 * SLOT
    assert torch_voice.fitting_slots(ON_GPU, 99, beside_another=True) == 12
