"""Builds feature cache and batches of a run.

Called by `train.setup`, behind what is looked at before anything is written.
"""

from __future__ import annotations

import logging
from typing import Any

from train import defaults
from train.checkpointing.resume import Resumed
from train.dataset import features as cached
from train.dataset.batch_budget import from_state
from train.dataset.batches import Batches, ConditioningChoice
from train.distributed import ALONE, World
from train.run_context import RunContext
from train.settings import TrainSettings

log = logging.getLogger("train")


def build_batches(
    settings: TrainSettings, looked: RunContext, resumed: Resumed | None, world: World
) -> tuple[Batches, Batches | None]:
    """Those to learn from, and those to validate with where there are any."""
    data, config = looked.data, looked.config
    found = build_feature_cache(settings, looked, world)
    train, held_out = found.present(data.train), found.present(data.validation)
    seconds = [data.clips[i].seconds for i in train]
    state = (resumed.trainer_state if resumed else None) or {}
    kept = state.get("batch_seconds")
    budget = defaults.batch_seconds(
        settings.batch_seconds, config.training, kept, device=looked.device.value,
        total_seconds=sum(seconds) / world.size, longest_seconds=max(seconds),
    )  # fmt: skip
    log.info("Batches: %g s of audio (%s)", budget.value, budget.reason)
    common: dict[str, Any] = {
        "seed": settings.seed,
        "batch_seconds": budget.value,
        "stop_input": config.stop_input_trained,
        "conditions": ConditioningChoice(settings.conditioning, train),
        "rank": world.rank,
        "world_size": world.size,
        "pinned": settings.overlap and looked.device.value.startswith("cuda"),
    }
    training = Batches(
        data.clips, train, found, config.gpt, prefetch=settings.prefetch,
        bucketing=settings.bucketing, **common,
    )  # fmt: skip
    training.halvings = from_state(state.get("halvings", ()))
    if not held_out:
        return training, None
    return training, Batches(data.clips, held_out, found, config.gpt, fixed=True, **common)


def build_feature_cache(
    settings: TrainSettings, looked: RunContext, world: World = ALONE
) -> cached.FeatureCache | cached.UncachedFeatures:
    """From the cache, which is built where something is missing; CACHE=off computes them anew.

    The first rank of each machine builds, the others find it done.
    """
    if not settings.cache:
        log.info("CACHE=off: features are computed for each batch again.")
        return cached.UncachedFeatures(looked.data.clips, looked.base, looked.config)
    if world.local_rank:
        world.barrier()
    found = cached.build(looked.data, looked.base, looked.config, settings.cache_dir)
    if not world.local_rank:
        world.barrier()
    return found
