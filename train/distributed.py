"""Distributed training: torchrun's environment, DDP, all-reduce of losses and token counts.

    RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT      <- torchrun, srun or a training operator

DDP averages gradients (nccl on GPUs, gloo on CPUs). Token counts and stop requests go over gloo, so
that no step waits for a GPU. Rank 0 writes, logs and speaks; the others wait.
"""

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from machine.devices.recovery import GpuLost
from machine.errors import SotaqueError
from xtts.model import training
from xtts.model.gpt import GPT
from xtts.model.training import Losses, PackedBatch

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

# Rank 0 may speak a sample or write to a slow disk while the others wait for it.
LONGEST_WAIT = timedelta(hours=2)


@dataclass(frozen=True)
class World:
    """This process's place among the processes of the run."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    restarts: int = 0

    @property
    def is_single_process(self) -> bool:
        return self.size == 1

    @property
    def is_main(self) -> bool:
        """Whether this process is rank 0, which writes, logs and speaks."""
        return self.rank == 0

    def all_reduce(self, *numbers: float) -> list[float]:
        """Each number summed over all ranks; every rank must call it."""
        return self.all_reduce_started(*numbers)()

    def all_reduce_started(self, *numbers: float) -> Callable[[], list[float]]:
        """Starts `all_reduce`; the returned function waits for the sums and returns them."""
        if self.is_single_process:
            return lambda: list(numbers)
        together = torch.tensor(numbers, dtype=torch.float64)
        under_way = torch.distributed.all_reduce(together, async_op=True)

        def arrived() -> list[float]:
            assert under_way is not None
            under_way.wait()
            return together.tolist()

        return arrived

    def sum_in_place(self, numbers: Tensor) -> None:
        """Sums a tensor over all ranks in place. The host does not wait for a GPU's tensor."""
        if not self.is_single_process:
            torch.distributed.all_reduce(numbers)

    def all_reduce_min(self, number: float) -> float:
        """The smallest value on any rank."""
        if self.is_single_process:
            return number
        smallest = torch.tensor(number, dtype=torch.float64)
        torch.distributed.all_reduce(smallest, torch.distributed.ReduceOp.MIN)
        return float(smallest)

    def barrier(self) -> None:
        """Waits until every rank has called it."""
        self.all_reduce(0.0)

    def forward(self, gpt: GPT) -> Callable[[PackedBatch], Losses]:
        """The losses with gradients averaged over all ranks."""
        if self.is_single_process:
            return functools.partial(training.losses, gpt)
        return nn.parallel.DistributedDataParallel(_Forward(gpt), gradient_as_bucket_view=True)


ALONE = World()


class Agreement:
    """The ranks' agreement on one step: its number of targets, and whether a rank must stop.

    The exchange starts at once; reading a value waits for the other ranks.
    """

    def __init__(self, world: World, rows: PackedBatch, stop: bool = False) -> None:
        self._size = world.size
        self._own = [float(number) for number in rows.num_targets]
        self._arrived = world.all_reduce_started(*self._own, float(stop))

    @functools.cached_property
    def _sums(self) -> list[float]:
        return self._arrived()

    @property
    def stop(self) -> bool:
        """Whether any rank had a stop signal when the exchange started."""
        return bool(self._sums[-1])

    @property
    def rank_weights(self) -> tuple[float, ...]:
        """For each loss term, this rank's share of the targets times the number of ranks, because
        DDP takes the mean. The loss of a step is the mean over the tokens of all ranks; a mean of
        the ranks' means would give a token of a small batch more weight."""
        return tuple(
            self._size * targets / max(1.0, every)
            for targets, every in zip(self._own, self._sums[:-1], strict=True)
        )


def world_of(environ: Mapping[str, str] = os.environ) -> World:
    """The world from torchrun's variables; a single process without them. Raises SotaqueError."""
    if "WORLD_SIZE" not in environ or "RANK" not in environ:
        return ALONE
    try:
        world = World(
            int(environ["RANK"]),
            int(environ["WORLD_SIZE"]),
            int(environ.get("LOCAL_RANK", "0")),
            int(environ.get("LOCAL_WORLD_SIZE", "1")),
            int(environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        )
    except ValueError as error:
        raise SotaqueError(f"RANK, WORLD_SIZE or LOCAL_RANK is not a number ({error}).") from error
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in environ]
    if missing and not world.is_single_process:
        raise SotaqueError(
            f"WORLD_SIZE={world.size}, but {' and '.join(missing)} is not set. Start with torchrun "
            "(docs/scale-out.md), or unset RANK and WORLD_SIZE to train in one process."
        )
    return ALONE if world.is_single_process and not world.restarts else world


def device_of(world: World, device: str, visible: str | None = None) -> str:
    """A GPU for each rank of a machine; DEVICE=cuda:N applies only to a run of one process.
    visible: CUDA_VISIBLE_DEVICES of this rank; None reads the environment."""
    if world.is_single_process or not device.startswith("cuda"):
        return device
    # Some launchers show each rank a single GPU, which is then cuda:0.
    if visible is None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    sees_one = len([gpu for gpu in visible.split(",") if gpu.strip()]) == 1
    return "cuda:0" if sees_one else f"cuda:{world.local_rank}"


@contextmanager
def connect(world: World, device: str) -> Iterator[None]:
    """Connects the processes of the run inside the block. Raises SotaqueError."""
    if world.is_single_process:
        yield
        return
    on_gpu = device.startswith("cuda")
    try:
        torch.distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            store=_store(world),
            rank=world.rank,
            world_size=world.size,
            timeout=LONGEST_WAIT,
            device_id=torch.device(device) if on_gpu else None,
        )
    except (RuntimeError, ValueError) as error:
        raise SotaqueError(
            f"The {world.size} processes of this run could not connect to each other ({error}). "
            "Check that all of them reach MASTER_ADDR and MASTER_PORT."
        ) from error
    try:
        yield
    except GpuLost:
        # nccl would wait forever for a dead context. The exit code ends the other ranks.
        raise
    except BaseException:
        torch.distributed.destroy_process_group()
        raise
    # Does not wait: after a fault the other ranks have ended, or torchrun ends them.
    torch.distributed.destroy_process_group()


def _store(world: World) -> "Store":
    """A namespace for each restart in the store of torchrun's agent.

    Without it, a restart reads the addresses of the earlier processes and fails ("Gloo
    connectFullMesh failed", seen with torch 2.11).
    """
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world.size,
        is_master=world.is_main and not shared,
        timeout=timedelta(minutes=10),
    )
    return PrefixStore(f"sotaque/{world.restarts}", store)


class _Forward(nn.Module):
    """Computes the losses, because DDP hooks only `forward`."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, rows: PackedBatch) -> tuple[Tensor, Tensor]:
        return training.losses(self.gpt, rows)
