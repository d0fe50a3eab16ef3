"""How many slots a card gets: by its free memory, and with room for a promotion."""

import pytest
import torch

from xtts.inference import slot_count
from xtts.model.gpt import new_gpt
from xtts.model.shapes import GPTShape

XTTS_V2 = GPTShape(text_ids=6681, text_start=261)
GB = 1_000_000_000
WEIGHTS = 1_770_000_000


def test_a_slot_of_xtts_v2_takes_a_quarter_of_a_gigabyte() -> None:
    found = slot_count.slot_bytes(XTTS_V2, 4)
    assert 250e6 < found < 265e6
    assert slot_count.slot_bytes(XTTS_V2, 2) * 2 == found


@pytest.mark.parametrize(
    ("free", "slots"),
    # What 8, 12, 16, 24 and 141 GB have left when context and model are there.
    [(5 * GB, 4), (9 * GB, 12), (13 * GB, 16), (21 * GB, 16), (138 * GB, 16), (1 * GB, 1)],
)
def test_two_voices_fit_beside_each_other(free: int, slots: int) -> None:
    one = slot_count.slot_bytes(XTTS_V2, 4)
    found = slot_count.fitting(16, free, one, promoted_bytes=WEIGHTS)
    assert found == slots
    if found > 1:
        left = free - found * one - WEIGHTS
        assert slot_count.fitting(found, left, one) == found


def test_a_cpu_makes_what_is_asked_for() -> None:
    gpt = new_gpt(GPTShape(text_ids=40, text_start=39, layers=1, width=64, heads=4), seed=0)
    assert slot_count.slots_on(gpt, 16, beside_another=False) == 16


def test_memory_that_torch_keeps_for_later_counts_as_free(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu:
        """A GPT as far as it is asked: 10 MB of weights, slots of 1 MB."""

        def __init__(self) -> None:
            self.mel_head = type("Head", (), {"weight": type("W", (), {"device": self.device})()})()
            self.shape = GPTShape(text_ids=9, text_start=8)
            self.gpt = type("T", (), {"cache_type": torch.float32})()

        device = torch.device("cuda:1")

        def parameters(self) -> list[torch.Tensor]:
            return [torch.zeros(2_500_000)]

    monkeypatch.setattr(slot_count, "slot_bytes", lambda *_: 1 << 20)
    free = slot_count.OTHERS_BYTES + (4 << 20)
    seen: list[torch.device] = []
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda device: (seen.append(device), (free, 0))[1]
    )
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 20 << 20)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 12 << 20)
    assert slot_count.slots_on(OnGpu(), 99, beside_another=True) == 12  # type: ignore[arg-type]
    assert slot_count.slots_on(OnGpu(), 99, beside_another=False) == 1  # type: ignore[arg-type]
    assert set(seen) == {torch.device("cuda:1")}
