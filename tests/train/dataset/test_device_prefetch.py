"""The next batch is on its way while one is learned; on a CPU nothing is copied."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.train.dataset.test_batches import all_same, made, some_clips
from train.dataset.batches import Batch
from train.dataset.device_prefetch import copier_for, prefetch
from xtts.model.packed_batch import PackedBatch


class Recorded:
    """A device that tells in which order it was asked; its copies are marked."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.number = 0

    def started(self, rows: PackedBatch) -> Any:
        self.number += 1
        self.told.append(f"copy {self.number}")
        return self.number, rows

    def arrived(self, ticket: Any) -> PackedBatch:
        self.told.append(f"whole {ticket[0]}")
        return replace(ticket[1], text=ticket[1].text.clone())


def some(count: int) -> list[Batch]:
    return list(made(some_clips(3 * count), batch_seconds=30.0).epoch(1))[:count]


def test_the_next_copy_begins_before_a_batch_is_handed_out():
    device, batches = Recorded(), some(3)
    found = []
    for number, batch in enumerate(prefetch(iter(batches), device), start=1):
        device.told.append(f"step {number}")
        found.append(batch)
    assert device.told == [
        "copy 1", "copy 2", "whole 1", "step 1", "copy 3", "whole 2", "step 2", "whole 3", "step 3",
    ]  # fmt: skip
    assert all_same(found, batches)
    assert all(one.rows.text is not two.rows.text for one, two in zip(found, batches, strict=True))


def test_few_batches_are_the_same_and_on_a_cpu_nothing_is_copied():
    batches = some(2)
    for few in (batches[:0], batches[:1]):
        assert all_same(list(prefetch(iter(few), Recorded())), few)
    none = copier_for(torch.device("cpu"))
    assert none is None
    assert all(a is b for a, b in zip(prefetch(iter(batches), none), batches, strict=True))


def test_faults_of_the_data_come_through():
    def failing() -> Iterator[Batch]:
        yield some(1)[0]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk"):
        list(prefetch(failing(), Recorded()))
