"""Finds the largest batch that fits: measured on a GPU, estimated on a CPU.

On a GPU, the largest intended batch is tried first, with the longest clips, then ever smaller ones
until one fits with headroom. On a CPU nothing is tried: the kernel kills a process that allocates
too much, without an error.
"""

import logging
from collections.abc import Callable

import torch

from machine.devices import cuda_errors, recovery
from machine.text import size_words
from train.checkpointing.checkpoints import tensor_bytes
from train.dataset.batches import Batches
from train.optim.lora import num_adapter_weights
from train.optim.optimizer import STATE_BYTES
from train.run_context import RunContext
from train.settings import TrainSettings
from train.step import Learner
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.model import training
from xtts.model.gpt import GPT
from xtts.model.shapes import NUM_LATENTS

log = logging.getLogger("train")

# For fragmentation, longer texts of other clips, and samples spoken on the same card.
HEADROOM = 0.15
# The share of RAM for training on a CPU. The rest is for the worker that speaks, the file cache and
# other programs.
CPU_SHARE = 0.5
# Values that a block keeps for its backward pass, in widths: both norms' inputs and outputs,
# queries, keys, values, attention's output, and the feed-forward's two inner activations. In bf16
# all but the stream and the norms' inputs take two bytes.
_WIDTHS_KEPT = 16
_WIDTHS_IN_FP32 = 4
# Speech has about 14 characters a second, and fewer text ids.
_TEXT_IDS_A_SECOND = 14
# Conditioning frames of a clip (6 s), and the values that the encoder's six blocks keep of each, in
# widths.
_CONDITIONING_FRAMES = 517
_CONDITIONING_WIDTHS = 6 * 10


def fit_batches(settings: TrainSettings, context: RunContext, learner: Learner, batches: Batches) -> None:
    """BATCH_SECONDS=auto: limits batches to the memory of this machine; logs the reason.

    Ranks agree on the smallest value.
    """
    longest = longest_seconds(batches)
    if context.device.value.startswith("cuda"):
        seconds, reason = _try(context.device.value, learner, batches, longest)
    else:
        recomputed = learner.config.trainable.recompute
        fixed_bytes, activations = longest_clip_bytes(
            settings, context, learner.gpt, batches, recomputed=recomputed
        )
        ram = context.machine.memory_bytes // learner.world.local_size
        seconds, reason = fitting_on_cpu(batches.batch_seconds, activations / longest, fixed_bytes, ram)
    batches.batch_seconds = learner.world.all_reduce_min(max(seconds, longest))
    log.info("Memory: batches of %g s (%s)", batches.batch_seconds, reason)


def longest_seconds(batches: Batches) -> float:
    """The duration of the longest training clip."""
    return max(batches.clips[clip].seconds for clip in batches.indices)


def longest_clip_bytes(
    settings: TrainSettings, context: RunContext, gpt: GPT, batches: Batches, *, recomputed: bool
) -> tuple[int, int]:
    """The estimated memory of a step on the longest clip alone: that of weights, gradients and
    states, which does not depend on the batch, and that of activations. recomputed: blocks keep
    their inputs only."""
    shape = context.config.gpt
    parameters = sum(parameter.numel() for parameter in gpt.parameters())
    trainable = num_adapter_weights(settings.lora_rank, shape) or parameters
    fixed_bytes = 4 * parameters + 4 * trainable + int(STATE_BYTES[settings.optimizer] * trainable)
    small = 4 if context.precision.value == "fp32" else 2
    block = shape.width * (4 * _WIDTHS_IN_FP32 + small * (_WIDTHS_KEPT - _WIDTHS_IN_FP32))
    position = shape.layers * 4 * shape.width + block if recomputed else shape.layers * block
    heads = 4 * (shape.audio_ids + shape.text_ids) / 2
    second = (CODE_RATE / SAMPLES_PER_CODE + _TEXT_IDS_A_SECOND) * (position + heads)
    conditioning = 4 * _CONDITIONING_FRAMES * _CONDITIONING_WIDTHS * shape.width
    activations = longest_seconds(batches) * second + conditioning + NUM_LATENTS * position
    return fixed_bytes, int(activations)


def room_bytes(context: RunContext) -> int:
    """The memory that a step may take in total. Call it before the model is on the device."""
    if context.device.value.startswith("cuda"):
        return int(torch.cuda.mem_get_info(context.device.value)[0])
    return int(context.machine.memory_bytes * CPU_SHARE)


def _try(device: str, learner: Learner, batches: Batches, longest: float) -> tuple[float, str]:
    """The seconds of a batch that fits on a GPU, and the reason."""
    # The free memory, and the memory that this process already holds.
    room = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    max_clips = max(1, int(batches.batch_seconds // longest))
    clips, reason = largest_fitting(lambda count: _peak_bytes(learner, batches, count), room, max_clips)
    seconds = batches.batch_seconds if clips == max_clips else clips * longest
    return seconds, f"tried on {torch.cuda.get_device_name(device)}: {reason}"


def _peak_bytes(learner: Learner, batches: Batches, clips: int) -> int | None:
    """The peak memory of a step on the longest `clips` clips, by torch's counters, with the
    optimizer states that the first step will create; None if it did not fit.

    The step changes no weights: its gradients are computed and freed.
    """
    device = learner.device
    torch.cuda.reset_peak_memory_stats(device)
    longest = sorted(batches.indices, key=lambda clip: batches.clips[clip].seconds, reverse=True)
    repeated = longest * -(-clips // len(longest))
    learner.gpt.train()
    try:
        batch = batches.batch(1, repeated[:clips])
        with learner.autocast():
            # Not through DDP: other ranks may try other sizes.
            losses = training.losses(learner.gpt, batch.rows.to(device))
        learner.weighted_loss(losses).backward()
        learner.optimizer.zero_grad(set_to_none=True)
    except Exception as error:
        fault = cuda_errors.classify(error)
        if fault is None or not fault.transient:
            raise
    else:
        missing_state_bytes = 0
        if not tensor_bytes(learner.optimizer.state):
            num_weights = sum(weight.numel() for weight in learner.weights.trainable)
            missing_state_bytes = int(STATE_BYTES[learner.config.optimizer] * num_weights)
        return int(torch.cuda.max_memory_allocated(device)) + missing_state_bytes
    # After the `except` block: the error referenced the tensors that must be freed.
    learner.optimizer.zero_grad(set_to_none=True)
    recovery.free_after_fault(str(device))
    return None


def largest_fitting(peak_bytes: Callable[[int], int | None], room: int, max_clips: int) -> tuple[int, str]:
    """The number of longest clips that fit with headroom, from 1 to `max_clips`, and the reason.

    Args:
        peak_bytes: The peak memory of a step on this number of clips; None if it did not fit.
        room: Bytes that a step may take in total, weights and optimizer included.
    """
    allowed, clips = int(room * (1 - HEADROOM)), max_clips
    while clips:
        peak = peak_bytes(clips)
        if peak is not None and peak <= allowed:
            refused = f"; {max_clips} clips did not fit" if clips < max_clips else ""
            return clips, f"{size_words(peak)} of {size_words(allowed)} taken{refused}"
        clips = clips * 7 // 8
    return 1, f"even the longest clip does not fit into {size_words(allowed)} with headroom"


def fitting_on_cpu(
    max_seconds: float, bytes_per_second: float, fixed_bytes: int, ram_bytes: int
) -> tuple[float, str]:
    """The seconds of a batch, from 1 to `max_seconds`, that fit in half of the RAM; and the reason.

    Args:
        bytes_per_second: A step's memory for a second of audio.
        fixed_bytes: That of weights, gradients and optimizer states.
    """
    room = ram_bytes * CPU_SHARE - fixed_bytes
    ram = f"{size_words(ram_bytes)} of RAM"
    if room < bytes_per_second:
        return 1.0, f"even one second does not fit into half of {ram}"
    if room >= bytes_per_second * max_seconds:
        return max_seconds, f"fits into half of {ram}"
    return round(room / bytes_per_second, 1), f"the most that fits into half of {ram}"
