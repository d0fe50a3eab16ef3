"""What only a card can show of decode steps and windows as CUDA graphs (docs/develop/gpu.md)."""

from dataclasses import replace

import pytest
import torch

from benchmarks import gpu_parts
from demo_voice.new_gpt import new_gpt
from extras.graphs.speech import rows_of
from tests.gpu.conftest import first_gpu
from tests.gpu.test_on_a_gpu import MEDIUM
from xtts.model.shapes import VocoderShape
from xtts.model.vocoder import Vocoder

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def device() -> str:
    """See `first_gpu`."""
    return first_gpu()


@pytest.mark.parametrize("rows", [1, 4, 16])
def test_a_graph_says_what_the_plain_step_says(device, rows):
    at = replace(gpu_parts.choose_setup(device, "", rehearse=True), shape=MEDIUM, slots=(rows,), codes=300)
    for name, found in gpu_parts.compare_graph(at).items():
        # In 16 bits two codes may be equally likely.
        assert (found["same"] or "fp32" not in name) and found["reason"] == "", name


def test_recorded_windows_of_the_vocoder_say_what_plain_ones_say(device):
    vocoder = Vocoder(MEDIUM.width, 512, VocoderShape()).to(device).eval()
    speaker = torch.randn(1, 512, 1, device=device)
    asked = [torch.randn(1, MEDIUM.width, steps, device=device) for steps in vocoder.widths]
    with torch.inference_mode():
        expected = [vocoder.sound(steps, speaker) for steps in asked]
        vocoder.warm_up()
        assert len(vocoder.recorded_windows) == 4
        for _ in range(2):
            found = [vocoder.sound(steps, speaker) for steps in asked]
    for sound, other in zip(found, expected, strict=True):
        assert float((sound - other).norm() / other.norm()) < 1e-3


def test_a_capture_on_the_second_gpu_replays_there():
    if torch.cuda.device_count() < 2:
        pytest.skip("This needs two GPUs.")
    gpt = new_gpt(MEDIUM, seed=0).to("cuda:1").eval().requires_grad_(False)
    step = rows_of(gpt, 1, (), gpt)
    codes = torch.zeros(1, dtype=torch.long, device="cuda:1")
    first, _ = step(codes, codes)
    first = first.clone()
    second, _ = step(codes + 5, codes)
    assert not step.reason and not torch.equal(first, second)


def test_a_capture_while_another_thread_allocates(device):
    """As when a voice is opened while another one speaks for the first time."""
    from concurrent.futures import ThreadPoolExecutor

    gpt = new_gpt(MEDIUM, seed=0).to(device).eval().requires_grad_(False)

    def opens() -> None:
        for _ in range(200):
            torch.empty(64 << 20, dtype=torch.uint8, device=device)
            torch.cuda.empty_cache()

    current = torch.cuda.current_stream()
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(opens)
        step = rows_of(gpt, 4, (), gpt)
        step.prepare()
        opening.result()
    assert step.reason == "" and torch.cuda.current_stream() == current
