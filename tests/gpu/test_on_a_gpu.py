"""The findings of docs/develop/gpu.md that only a card can show."""

import copy
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import gpu_parts, memory, synthetic
from demo_voice.new_gpt import new_gpt
from machine.devices.probe import probe
from machine.devices.recovery import GpuLost, remaining_fault
from tests.gpu import faults
from tests.installed import needs
from tests.models import random_adapter, tiny_base
from tests.train.test_step import a_batch, a_learner
from train import distributed
from train.distributed import World
from train.step import Learner, train_step
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.defaults import SamplingParams
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import DecodeStep, DecodingSlots, TorchUtterance, decode
from xtts.model.adapter import Adapter
from xtts.model.quantization import BF16_CAPABILITY
from xtts.model.shapes import NUM_LATENTS, GPTShape

pytestmark = pytest.mark.gpu

GREEDY = SamplingParams(greedy=True)
MEDIUM = GPTShape(text_ids=300, text_start=261, layers=6, width=256, heads=4)
# Tolerance of the mean loss after a step: fp32 differs in the order of sums, 16 bits in rounding.
OFF = {"fp32": 1e-4, "bf16": 2e-2, "fp16": 2e-2}


@contextmanager
def card_of(gigabytes: float) -> Iterator[None]:
    """Limits the allocator to a smaller card, of which the context takes half a gigabyte."""
    total = torch.cuda.get_device_properties(0).total_memory
    gc.collect()  # what earlier tests left in reference cycles
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(1.0, (gigabytes - 0.5) * 1e9 / total))
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("precision", OFF)
def test_training_is_the_cpus_within_rounding(device, precision):
    if precision == "bf16" and not torch.cuda.is_bf16_supported():
        pytest.skip("This GPU has no bf16.")
    here = a_learner(dropout=0.0)
    there = Learner(copy.deepcopy(here.gpt), replace(here.config, precision=precision), device=device)
    # At this scale no gradient overflows; otherwise the first steps would only lower it and change
    # no weight.
    there.scaler = torch.amp.grad_scaler.GradScaler("cuda", init_scale=1024.0, enabled=precision == "fp16")
    for seed in range(5):
        wanted, found = (train_step(one, a_batch(seed)) for one in (here, there))
        assert found.loss == pytest.approx(wanted.loss, rel=OFF[precision])


def test_a_deferred_step_moves_what_a_waiting_one_moves(device):
    first = a_learner(dropout=0.0)
    pair = [Learner(copy.deepcopy(first.gpt), first.config, device=device) for _ in range(2)]
    for seed in range(3):
        train_step(pair[0], a_batch(seed))
        train_step(pair[1], a_batch(seed), deferred=True)
    for one, other in zip(pair[0].gpt.parameters(), pair[1].gpt.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_an_utterance_is_the_same_whoever_else_speaks(device, kind):
    """Bit for bit, despite other numbers of slots and other attention spans."""
    gpt = new_gpt(MEDIUM, seed=0).to(device).eval().requires_grad_(False)
    gpt.gpt.to(kind)
    gpt.gpt.cache_type = kind
    gpt.mel_head.bias[MEDIUM.audio_stop] = -1e4
    latents = torch.randn(1, NUM_LATENTS, MEDIUM.width, device=device)

    def said(others: int) -> torch.Tensor:
        decoding = DecodingSlots(gpt, 16)
        for number in range(1 + others):
            text = torch.arange(2, 20 + 20 * (number > 0), device=device)
            draw = torch.Generator(device).manual_seed(number)
            limit = 60 if number == 0 else 300
            state = TorchUtterance(gpt, SamplingParams(), draw, limit)
            decoding.enter(latents, text, state)
            if number == 0:
                first = state
        while not first.done:
            decoding.step()
        return torch.stack(first.latents)

    alone = said(0)
    for others in (1, 7, 15):
        assert torch.equal(said(others), alone)


def test_a_gpus_features_are_the_cpus(device, tmp_path, caplog):
    """Recordings of different lengths; none of them is left to the CPU."""
    from machine.devices.selection import Choice
    from tests.train.dataset.test_features import Place

    place = Place(tmp_path, tiny_base(tmp_path / "base"), clips=8)
    on_cpu = place.build()
    place.cache = tmp_path / "another cache"
    on_gpu = place.build(Choice(device, "a test"))
    assert "on the CPU from here on" not in caplog.text
    for clip in range(8):
        # One code in fifty may be between two entries of the codebook.
        other = int((on_gpu.codes(clip) != on_cpu.codes(clip)).sum())
        assert other <= max(1, len(on_cpu.codes(clip)) // 50)
        mel, exact = (one.mel(clip).astype("float64") for one in (on_gpu, on_cpu))
        assert np.linalg.norm(mel - exact) <= 1e-3 * np.linalg.norm(exact)


def test_codes_are_the_cpus(device):
    gpt = new_gpt(MEDIUM, seed=0).eval().requires_grad_(False)
    latents, text = torch.randn(1, NUM_LATENTS, MEDIUM.width), torch.arange(2, 40)
    said = []
    for where in ("cpu", device):
        own = copy.deepcopy(gpt).to(where)
        draw = torch.Generator(where).manual_seed(0)
        one = TorchUtterance(own, GREEDY, draw, 120)
        said += decode(own, latents.to(where), [(text.to(where), one)])
    assert said[0].codes == said[1].codes


def test_bf16_speaks_near_the_cpus_bf16(device):
    """The evaluated arithmetic ran on a CPU: the same inputs agree within its rounding."""
    if torch.cuda.get_device_capability() < BF16_CAPABILITY:
        pytest.skip("This GPU has no bf16.")
    gpt = new_gpt(MEDIUM, seed=0).eval().requires_grad_(False)
    gpt.gpt.to(torch.bfloat16)
    gpt.gpt.cache_type = torch.bfloat16
    embedded, found = torch.randn(1, 60, MEDIUM.width), []
    for where in ("cpu", device):
        own = copy.deepcopy(gpt).to(where)
        with torch.inference_mode():
            cache = own.gpt.new_cache(1, 80)
            latent, _ = DecodeStep(own).prefill(embedded.to(where), cache)
        found.append(latent.cpu())
    assert float((found[0] - found[1]).norm() / found[0].norm()) < 0.03


def test_rows_with_adapters_change_no_bit_of_each_other_or_of_those_without(device):
    """Rows without adapters are replayed as a graph when alone, but not next to the others."""
    gpt = new_gpt(MEDIUM, seed=0).to(device).eval().requires_grad_(False)
    adapters = [None] + [Adapter(gpt, random_adapter(MEDIUM, seed, rank=8), 1.0, "") for seed in (1, 2, 3)]
    latents = torch.randn(1, NUM_LATENTS, MEDIUM.width, device=device)
    text = torch.arange(2, 40, device=device)

    def wanted(adapter: Adapter | None) -> tuple[torch.Tensor, TorchUtterance]:
        draw = torch.Generator(device).manual_seed(0)
        return text, TorchUtterance(gpt, SamplingParams(), draw, 60, adapter=adapter)

    together = decode(gpt, latents, [wanted(one) for one in adapters], 4)
    for adapter, said in zip(adapters, together, strict=True):
        (alone,) = decode(gpt, latents, [wanted(adapter)], 4)
        assert said.codes == alone.codes
        assert torch.equal(torch.stack(said.latents), torch.stack(alone.latents))
    assert len({tuple(said.codes) for said in together}) == 4


def test_a_sample_beside_training_changes_nothing_and_gives_its_memory_back(device, tmp_path):
    import soundfile

    from train.sampling.sampler import InProcessSpeaker
    from xtts.workers.requests import SpeakRequest, TunedVoice

    base = tiny_base(tmp_path / "base")
    noise = 0.1 * torch.randn(44_100, generator=torch.Generator().manual_seed(0))
    soundfile.write(tmp_path / "who.wav", noise.numpy(), 22_050)
    here = InProcessSpeaker(base, ComputeConfig(device, device))
    text = SynthesisRequest("one two", "en")
    request = SpeakRequest(text, TunedVoice(tmp_path / "who.wav"), tmp_path / "out.wav")
    first = a_learner(dropout=0.1)
    pair = [Learner(copy.deepcopy(first.gpt), first.config, device=device) for _ in range(2)]
    held = []
    for seed in range(4):
        for number, learner in enumerate(pair):
            train_step(learner, a_batch(seed))
            if number == 0:
                here.ask(request, 60.0, lambda: False)
                held.append(torch.cuda.memory_allocated())
    for one, other in zip(pair[0].gpt.parameters(), pair[1].gpt.parameters(), strict=True):
        # Two runs without a sample differ by 3.5e-6 on an H200, from the order of attention's sums.
        # Another dropout mask would differ a thousand times as much.
        assert torch.allclose(one, other, rtol=0.0, atol=2e-5)
    assert max(held[1:]) <= held[0] + (4 << 20)


def test_one_rank_over_nccl_learns_what_one_process_does(device, monkeypatch):
    alone = Learner(a_learner(dropout=0.0).gpt, a_learner().config, device=device)
    wanted = [train_step(alone, a_batch(seed)).loss for seed in range(3)]
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29571")):
        monkeypatch.setenv(name, value)
    # A run of one process: `is_single_process` would skip DDP.
    monkeypatch.setattr(World, "is_single_process", property(lambda _: False))
    world = World(0, 1, 0, 1)
    with distributed.connect(world, device):
        learner = Learner(a_learner(dropout=0.0).gpt, a_learner().config, device, world)
        found = [train_step(learner, a_batch(seed)).loss for seed in range(3)]
    assert found == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("what", ["assertion", "low memory"])
def test_a_lost_gpu_ends_its_process_with_70_and_no_other(device, what):
    found = faults.provoked(what, device)
    assert found["we_still_compute"] and not remaining_fault(device)
    sticky = what == "assertion"
    assert found["exit_code"] == (GpuLost.exit_code if sticky else 0)
    assert found["outcome"] == "sticky" if sticky else found["outcome"] in ("transient", "none")


def test_a_cufft_that_refuses_is_found_and_costs_only_the_mels_place(device, tmp_path):
    found = faults.refused_fft(device, tmp_path)
    assert found["check"]["failed"] == ["fft"] and found["check"]["works"]
    assert found["run"]["exit_code"] == 0 and found["run"]["mode"] == "in_process"


def test_the_check_passes_on_a_good_gpu(tmp_path):
    gpu = probe(folder=tmp_path)[0]
    assert gpu.reason == "" and gpu.works


def test_every_distance_is_four_times_under_its_limit(device):
    for row in gpu_parts.measure_distances(device, 10):
        worst = max(row["largest"], row["between_runs"])
        assert worst * gpu_parts.MIN_HEADROOM <= row["tolerance"] or worst == 0.0, row


@pytest.mark.parametrize(
    ("gigabytes", "mode", "limit"),
    [
        pytest.param(8, "OPTIMIZER=adamw8bit", 8.0, marks=needs("eight_bit")),
        (12, "GRADIENT_CHECKPOINTING=on", 12.0),
        (4, "LORA_RANK=16 with checkpointing", 4.0),
    ],
)
def test_a_small_card_is_enough(gigabytes, mode, limit):
    with card_of(gigabytes):
        found = memory.measure(synthetic.FULL_SHAPE, mode, "bf16")
    assert found.card_bytes <= limit * 1e9


def test_a_step_that_is_too_large_leaves_the_gpu_well(device):
    learner = Learner(a_learner().gpt, a_learner().config, device=device)
    # Memory that other tests left reserved may hold a small tensor, but never eight gigabytes.
    torch.cuda.empty_cache()
    held = torch.cuda.memory_reserved()
    with card_of(0.5 + (held + (8 << 20)) / 1e9), pytest.raises(torch.OutOfMemoryError):
        torch.empty(8 << 30, dtype=torch.uint8, device=device)
    assert train_step(learner, a_batch(0)).finite and not remaining_fault(device)


def test_a_promotion_on_a_full_card_is_refused_and_the_service_goes_on(device):
    """In the real speaking process's server, without its pipes."""
    import time

    from tests.xtts.workers.test_server import Written, answer, messages
    from xtts.inference.compute_config import ComputeConfig
    from xtts.workers.server import SpeechServer

    server = SpeechServer(ComputeConfig(device, guard=False), 4, text_worker=Written())
    assert answer(server)["say"] == "opened"
    used = torch.cuda.memory_reserved() / 1e9
    with card_of(0.5 + used):
        message = {"do": "open", "id": "a2", "key": "v2", "voice": {"name": "demo"}}
        list(server.take(message))
        told = []
        while server.waiting:
            told += messages(server.step())
            time.sleep(0.01)
    assert [one["say"] for one in told] == ["failed"]
    assert told[0]["reason_code"] == "out_of_memory" and list(server._open_voices) == ["v1"]


def test_saving_stalls_no_longer_than_half_a_second(device):
    at = gpu_parts.choose_setup(device, "", rehearse=False)
    assert gpu_parts.measure_saving(at)["stall_seconds"] <= 0.5
