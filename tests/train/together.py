"""Ranks of a run on loopback, forked because a new interpreter takes seconds to import torch.

`python -m tests.train.together OUT` does the same under torchrun.
"""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from tests.ports import free_port
from train import distributed
from train.distributed import World


def ranks(size: int, work: Callable[[World], object]) -> list[int]:
    """Runs `work` in `size` joined processes; returns their exit codes."""
    return started(size, lambda: joined_to(work))


def unjoined(size: int, work: Callable[[World], object], expect: int = 0) -> None:
    """Runs `work` in `size` processes that still have to join; checks their exit codes."""
    codes = started(size, lambda: work(distributed.world_of()))
    assert codes == [expect] * size


def started(size: int, work: Callable[[], object]) -> list[int]:
    """Runs `work` in `size` processes with torchrun's environment; returns their exit codes."""
    port = free_port()
    children = [_forked(rank, size, port, work) for rank in range(size)]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _forked(rank: int, size: int, port: int, work: Callable[[], object]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.environ.update(
            RANK=str(rank),
            WORLD_SIZE=str(size),
            LOCAL_RANK=str(rank),
            LOCAL_WORLD_SIZE=str(size),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
        )
        torch.set_num_threads(1)
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def joined_to(work: Callable[[World], object]) -> None:
    world = distributed.world_of()
    with distributed.connect(world, "cpu"):
        work(world)


def gradients(world: World, out: Path) -> None:
    """Computes each rank's part of one step without dropout; rank 0 saves the gradients."""
    from tests.train.test_distributed import a_part, a_small_learner
    from train.step import forward_backward

    learner = a_small_learner(world)
    batch = a_part(world)
    learner.rank_weights = distributed.Agreement(world, batch.rows).rank_weights
    learner.gpt.train()
    forward_backward(learner, batch)
    if world.is_main:
        found = {name: p.grad for name, p in learner.gpt.named_parameters()}
        torch.save(found, out)


if __name__ == "__main__":
    joined_to(lambda world: gradients(world, Path(sys.argv[1])))
