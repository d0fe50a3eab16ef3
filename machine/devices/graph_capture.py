"""Records what a GPU is asked for as a CUDA graph, and compares its first replay.

NOT RUN ON A GPU YET: what is tested is what is said to the device, and in which order
(docs/gpu.md).
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

# Of the largest value, by how much a replay may be off: the same kernels, one chosen otherwise.
REPLAY_OFF = 1e-2

Compute = Callable[[], tuple[Tensor, ...]]
# Runs a function once while the device records it; returns its results and what replays it.
Capture = Callable[[Compute], tuple[tuple[Tensor, ...], Callable[[], object]]]


def difference(found: Iterable[Tensor], plain: Iterable[Tensor]) -> str:
    """ "" where a replay says what the step without a graph said, else by how much it does not."""
    for ours, wanted in zip(found, plain, strict=True):
        off = float((ours - wanted).abs().max() / wanted.abs().max().clamp(min=1e-6))
        # What is not finite either way is for `xtts.inference.torch_backend.sample` to tell.
        if off > REPLAY_OFF:
            return f"the captured step is off by {off:.1e} of the plain one's largest value"
    return ""


def cuda_graph(
    compute: Compute,
    device: torch.device,
    pool: Any = None,
    side: "torch.cuda.Stream | None" = None,
) -> tuple[tuple[Tensor, ...], Callable[[], object]]:
    """Records `compute` on `device`; warmed up on a stream of its own before, as torch asks.

    Another thread may open a voice meanwhile: its allocations are none of this capture's
    (`thread_local`). A capture that fails leaves torch 2.11 on the capture's stream; this thread is
    put back on its own. pool, side: memory and a stream for several graphs that are never replayed
    at once, each of which would take its own.
    """
    with torch.cuda.device(device):
        own, side = torch.cuda.current_stream(), side or torch.cuda.Stream()
        side.wait_stream(own)
        with torch.cuda.stream(side):
            for _ in range(2):
                compute()
        own.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            # A stream of this GPU: torch's own for captures is of the one that captured first.
            with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
                found = compute()
        finally:
            torch.cuda.set_stream(own)
    return found, graph.replay


def captures_on(device: torch.device) -> Capture:
    """`cuda_graph` for several graphs that are never replayed at once."""
    with torch.cuda.device(device):
        pool, side = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
    return partial(cuda_graph, device=device, pool=pool, side=side)
