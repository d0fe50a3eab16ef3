"""Prefetches the next batch to the GPU on a side stream.

A copy of its own stream out of pinned memory runs beside the step; the step's stream waits for it
on the device, and the host never waits. On a CPU there is nothing to copy.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import torch

from train.concurrency import lookahead
from train.dataset.batches import Batch
from xtts.model.packed_batch import PackedBatch


class DeviceCopier(Protocol):
    """A way to a device. `started` begins a copy and returns a ticket; `arrived` has it whole."""

    def started(self, rows: PackedBatch) -> Any: ...
    def arrived(self, ticket: Any) -> PackedBatch: ...


class StreamCopier:
    """Copies on a CUDA stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def started(self, rows: PackedBatch) -> tuple[PackedBatch, PackedBatch, torch.cuda.Event]:
        """(the source, which must stay until its copy is whole, the copy, and its end)."""
        pinned = rows if rows.text.is_pinned() else rows.pinned()
        with torch.cuda.stream(self.stream):
            copy = pinned.to(self.device)
            return pinned, copy, self.stream.record_event()

    def arrived(self, ticket: tuple[PackedBatch, PackedBatch, torch.cuda.Event]) -> PackedBatch:
        _, copy, end = ticket
        current = torch.cuda.current_stream(self.device)
        current.wait_event(end)
        for tensor in copy.tensors():
            # Its memory is the copying stream's; it must not be given away while a step reads it.
            tensor.record_stream(current)
        return copy


def copier_for(device: torch.device) -> DeviceCopier | None:
    """None on a CPU: nothing is to be copied beside the step."""
    return StreamCopier(device) if device.type == "cuda" else None


def prefetch(batches: Iterator[Batch], copier: DeviceCopier | None) -> Iterator[Batch]:
    """The same batches, each on the device when it is handed out, the next one on its way."""
    if copier is None:
        yield from batches
        return
    begun = ((batch, copier.started(batch.rows)) for batch in batches)
    for batch, ticket in lookahead(begun, 1):
        yield replace(batch, rows=copier.arrived(ticket))
