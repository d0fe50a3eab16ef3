"""The memory count of a step: known tensors, and the savings of each training mode."""

import pytest
import torch

from benchmarks import memory
from benchmarks.memory import Allocations
from tests.installed import has


@pytest.fixture(scope="module")
def measured() -> list[memory.Measured]:
    if not has("eight_bit"):
        pytest.skip("One of the modes needs extras/eight_bit.")
    return [memory.measure(memory.SMALL, mode, "fp32") for mode in memory.MODES]


def test_tensors_are_counted_from_their_making_to_their_end():
    before = torch.ones(1000)
    with Allocations() as counted:
        counted.hold([before])
        one = before + 1
        view = one[:10]
        two = one * 2
        assert counted.live_bytes == 12_000
        del two
        assert counted.live_bytes == 8_000
        del one
        assert counted.live_bytes == 8_000  # the view keeps it
        del view
        assert counted.live_bytes == 4_000
    assert counted.peak_bytes == 12_000


@pytest.mark.slow
def test_a_step_has_at_least_weights_gradients_and_states(measured):
    for one in measured:
        assert one.peak_bytes > one.weights_bytes + 4 * one.learning + one.states_bytes
        assert one.card_bytes == one.peak_bytes + memory.CONTEXT_BYTES


@pytest.mark.slow
def test_each_way_takes_less_than_the_one_it_is_for(measured):
    whole, recomputed, _, lora, both = (one.peak_bytes for one in measured)
    assert whole > recomputed
    # 8-bit AdamW's buffers are larger than so small a model; at full size it uses 2.6 GB less.
    assert measured[2].states_bytes < measured[1].states_bytes / 2
    assert whole > lora > both
    assert measured[3].learning == 16 * 16 * memory.SMALL.width * memory.SMALL.layers


@pytest.mark.slow
def test_the_states_are_what_the_footprint_says(measured):
    from train.optim.optimizer import STATE_BYTES

    assert measured[0].states_bytes == pytest.approx(8 * measured[0].learning, rel=0.001)
    # A small model has many tensors of fewer than 4,096 values, which stay in float32.
    quantised = STATE_BYTES["adamw8bit"] * measured[2].learning
    assert quantised < measured[2].states_bytes < 1.2 * quantised


def test_a_gpus_peak_begins_when_the_mode_before_is_gone(monkeypatch):
    """Each mode has a separate peak, without the memory of the previous mode."""
    held, peak = [30], [30]  # a learner of the previous mode, not collected yet
    monkeypatch.setattr("gc.collect", lambda: held.clear())
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: peak.__setitem__(0, sum(held)))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: peak[0])

    def work() -> None:
        held.append(12)
        peak[0] = max(peak[0], sum(held))

    assert memory.gpu_peak(work) == 12
