"""Captures a computation as a CUDA graph and compares its first replay."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.cuda import _POOL_HANDLE

# As a share of the largest value. A library may choose another algorithm for one of the kernels.
MAX_REPLAY_ERROR = 1e-2

Compute = Callable[[], tuple[Tensor, ...]]
# Runs a function once while the device records it; returns its results and the replay function.
Capture = Callable[[Compute], tuple[tuple[Tensor, ...], Callable[[], object]]]


def describe_difference(replayed: Iterable[Tensor], expected: Iterable[Tensor]) -> str:
    """How a replay differs from the step without a graph, as a clause; "" if they agree."""
    for replayed_values, expected_values in zip(replayed, expected, strict=True):
        error = float(
            (replayed_values - expected_values).abs().max() / expected_values.abs().max().clamp(min=1e-6)
        )
        # `xtts.inference.torch_backend.sample` reports non-finite values in both.
        if error > MAX_REPLAY_ERROR:
            return f"the captured step is off by {error:.1e} of the plain one's largest value"
    return ""


def cuda_graph(
    compute: Compute,
    device: torch.device,
    pool: "_POOL_HANDLE | None" = None,
    side: "torch.cuda.Stream | None" = None,
    warm_ups: int = 2,
) -> tuple[tuple[Tensor, ...], Callable[[], object]]:
    """Captures `compute` on `device`, after a warm-up on a side stream as torch requires.

    Another thread may open a voice at the same time: its allocations do not belong to this capture
    (`thread_local`). A failed capture leaves torch 2.11 on the capture's stream, so this thread's
    own stream is restored, and so are the random generator and the allocator (`_release_pool`).

    Args:
        compute: Returns the tensors that a replay overwrites.
        device: The GPU.
        pool, side: Memory pool and stream that several graphs may share if they are never replayed
            at the same time; None creates new ones.
        warm_ups: How often to run `compute` before the capture; 0 if the caller has run its
            operations on `side`.

    Returns:
        The output tensors, and a function that replays the graph.
    """
    with torch.cuda.device(device):
        previous, side = torch.cuda.current_stream(), side or torch.cuda.Stream()
        side.wait_stream(previous)
        with torch.cuda.stream(side):
            for _ in range(warm_ups):
                compute()
        previous.wait_stream(side)
        graph, pool = torch.cuda.CUDAGraph(), pool or torch.cuda.graph_pool_handle()
        random = torch.cuda.default_generators[torch.cuda.current_device()]
        random_state = random.clone_state()
        try:
            # A stream of this GPU: torch's default capture stream belongs to the GPU used first.
            with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
                outputs = compute()
        except BaseException:
            random.graphsafe_set_state(random_state)
            _release_pool(pool)
            raise
        finally:
            torch.cuda.set_stream(previous)
    return outputs, graph.replay


def _release_pool(pool: "_POOL_HANDLE") -> None:
    """Cleans up after a failed capture. Otherwise torch 2.11 would still allocate from the graph's
    pool, and never free memory that another stream has used."""
    device = torch.cuda.current_device()
    with suppress(RuntimeError):  # a capture that has not begun has allocated nothing
        torch._C._cuda_endAllocateToPool(device, pool)
        torch._C._cuda_releasePool(device, pool)


def captures_on(device: torch.device) -> Capture:
    """`cuda_graph` with a shared pool, for several graphs that are never replayed at once."""
    with torch.cuda.device(device):
        pool, side = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
    return partial(cuda_graph, device=device, pool=pool, side=side)
