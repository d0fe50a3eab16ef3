"""Builds the learner of a run: optimization config, schedule, batch size.

Called by `train.setup`, behind `train.setup_data`: what learns depends on the longest clip.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import torch

from machine.storage.file_cache import FileCache
from train import defaults
from train.checkpointing.resume import Resumed
from train.dataset.batches import Batches
from train.defaults import AutoChoice
from train.distributed import World
from train.learner import Learner, OptimizationConfig
from train.memory import autotune
from train.memory.estimate import MemoryEstimate, estimate_memory
from train.optim import activation_checkpointing, freezing
from train.optim.lora import LoraShape
from train.optim.trainable import TrainableParts
from train.run_context import RunContext
from train.settings import TrainSettings
from xtts.model.gpt import GPT
from xtts.model.loading import load_gpt, read_tensors

log = logging.getLogger("train")


def build_learner(
    settings: TrainSettings,
    looked: RunContext,
    learning_rate: float,
    batches: Batches,
    resumed: Resumed | None,
    world: World,
) -> Learner:
    """The model on its device with its optimizer, where the run goes on. Raises LoraError,
    FreezeError, OptimizerError."""
    gpt = load_gpt(read_tensors(looked.base / "model.pth"), looked.config, settings.dropout)
    found = Learner(
        gpt,
        OptimizationConfig(
            learning_rate=learning_rate,
            warmup_steps=settings.warmup_steps,
            weight_decay=settings.weight_decay,
            gradient_clip=settings.gradient_clip,
            text_loss_weight=settings.text_loss_weight,
            audio_loss_weight=settings.audio_loss_weight,
            precision=looked.precision.value,
            seed=settings.seed,
            optimizer=settings.optimizer,
            schedule=settings.schedule,
            learning=_learning(settings, looked, gpt, batches),
            fused=settings.fused_optimizer,
            compiled=settings.compile,
        ),
        looked.device.value,
        world,
    )
    if resumed:
        found.resume(resumed.model_state, resumed.trainer_state, resumed.step)
    return found


def autotune_batch_size(
    settings: TrainSettings, looked: RunContext, found: Learner, batches: Batches
) -> None:
    """BATCH_SECONDS=auto: no more than this machine has room for; told with its reason.

    Ranks agree on the smallest.
    """
    device, wanted = looked.device.value, batches.batch_seconds
    longest = longest_seconds(batches)
    if device.startswith("cuda"):
        chosen = _on_gpu(settings, looked, found, batches, longest)
    else:
        needed = _footprint(settings, looked, found.gpt, longest, _recomputed(found))
        ram = looked.machine.memory_bytes // found.world.local_size
        second = needed.activations / longest
        chosen = autotune.fitting_on_cpu(wanted, second, needed.held_bytes, ram)
    batches.batch_seconds = found.world.all_reduce_min(max(chosen.value, longest))
    log.info("Memory: batches of %g s (%s)", batches.batch_seconds, chosen.reason)


def longest_seconds(batches: Batches) -> float:
    """Of the clips that are learned from."""
    return max(batches.clips[clip].seconds for clip in batches.indices)


def schedule_to_the_end(found: Learner, batches: Batches, num_epochs: int) -> None:
    """A cosine ends with the last epoch. Steps are counted by the first epoch's plan, also in a
    resumed run: a plan that was halved meanwhile must not move the rates."""
    steps = -(-len(batches.plan(1, halvings=())) // batches.world_size)
    found.schedule = replace(found.schedule, total_steps=num_epochs * steps)


def _learning(
    settings: TrainSettings, looked: RunContext, gpt: GPT, batches: Batches
) -> TrainableParts:
    lora = None
    if settings.lora_rank:
        alpha = settings.lora_alpha or 2 * settings.lora_rank
        lora = LoraShape(settings.lora_rank, alpha)
        log.info("LoRA: rank %d, alpha %d; the rest is frozen.", lora.rank, lora.alpha)
    needed = _footprint(settings, looked, gpt, longest_seconds(batches), recomputed=False)
    recompute, reason = activation_checkpointing.chosen(
        settings.gradient_checkpointing, needed, _room_bytes(looked)
    )
    log.info("Gradient checkpointing: %s (%s)", "on" if recompute else "off", reason)
    frozen, reason = freezing.chosen(
        settings.freeze, looked.config.training, with_adapters=lora is not None
    )
    if frozen:
        log.info("Frozen: %s (%s)", ", ".join(frozen), reason)
    averaged = defaults.ema_decay(settings.ema_decay, looked.config.training)
    if averaged.value:
        log.info("Average of the weights: decay %g (%s)", averaged.value, averaged.reason)
    return TrainableParts(lora, frozen, averaged.value, recompute)


def _footprint(
    settings: TrainSettings, looked: RunContext, gpt: GPT, seconds: float, recomputed: bool
) -> MemoryEstimate:
    """Of the longest clip alone."""
    parameters = sum(parameter.numel() for parameter in gpt.parameters())
    shape = looked.config.gpt
    # Of each block's four matrices, A and B: 3 + 1, 1 + 1, 1 + 4 and 4 + 1 widths.
    adapters = settings.lora_rank * 16 * shape.width * shape.layers
    return estimate_memory(
        shape,
        parameters=parameters,
        learning=adapters or parameters,
        audio_seconds=seconds,
        clips=1,
        precision=looked.precision.value,
        optimizer=settings.optimizer,
        recomputed=recomputed,
    )


def _recomputed(found: Learner) -> bool:
    return found.recipe.learning.recompute


def _room_bytes(looked: RunContext) -> int:
    if looked.device.value.startswith("cuda"):
        return int(torch.cuda.mem_get_info(looked.device.value)[0])
    return int(looked.machine.memory_bytes * autotune.CPU_SHARE)


def _on_gpu(
    settings: TrainSettings, looked: RunContext, found: Learner, batches: Batches, longest: float
) -> AutoChoice:
    """Tried once for a machine and a model, then remembered."""
    wanted = batches.batch_seconds
    memory = FileCache(settings.cache_dir / "batch_seconds.json")
    name = torch.cuda.get_device_name(looked.device.value)
    total = torch.cuda.get_device_properties(looked.device.value).total_memory
    key = repr(
        (torch.__version__, name, total, looked.config.gpt, found.recipe.learning, wanted,
         settings.optimizer, looked.precision.value, round(longest, 1), settings.compile)
    )  # fmt: skip
    if known := memory.get(key):
        return AutoChoice(float(known), f"as it was tried on {name} before")
    meter = autotune.CudaMemoryMeter(found, batches)
    fitting = autotune.largest_fitting(meter, max(1, int(wanted // longest)))
    whole = fitting.clips == max(1, int(wanted // longest))
    seconds = wanted if whole else fitting.clips * longest
    if found.world.local_rank == 0:
        memory.put(key, seconds)
        memory.save()
    return AutoChoice(seconds, f"tried on {name}: {fitting.reason}")
