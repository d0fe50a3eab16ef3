"""Checks before the first step that the disk has room for the run.

A run that would fail at its first save is refused (exit code 74, as for a disk that fills up
later). A run whose checkpoints and decoders will not all fit gets a warning. Samples and curves are
small in comparison and not counted.
"""

import logging
import shutil
from pathlib import Path

import torch

from machine.storage.files import require_space
from machine.text import size_words
from train import defaults
from train.checkpointing.checkpoints import MAX_TRAINER_STATES
from train.checkpointing.resume import Resumed
from train.dataset import features
from train.optim.lora import num_adapter_weights
from train.optim.optimizer import STATE_BYTES
from train.run_context import RunContext
from train.settings import TrainSettings
from xtts.audio import CODE_RATE, MEL_BANDS, SAMPLES_PER_CODE
from xtts.model.discriminators import Discriminators
from xtts.model.gpt import from_coqui
from xtts.model.loading import read_tensors
from xtts.model.vocoder import WAVEFORM_DECODER
from xtts.voices.run_folder import RunFolder
from xtts.workers.decoder_schedule import DISCRIMINATOR_CHANNELS

log = logging.getLogger("train")

# A second of a clip in the cache: float16 mels every 256 samples, int16 codes every 1,024.
CACHE_BYTES_PER_SECOND = 2 * MEL_BANDS * CODE_RATE / 256 + 2 * CODE_RATE / SAMPLES_PER_CODE


def check(
    settings: TrainSettings, context: RunContext, run: RunFolder, resumed: Resumed | None, num_epochs: int
) -> None:
    """Logs the space that the run needs. Raises DiskFull if the first epoch cannot be saved."""
    epochs_left = range(resumed.epoch + 1 if resumed else 1, num_epochs + 1)
    saves = sum(epoch % settings.save_every == 0 or epoch == num_epochs for epoch in epochs_left)
    if not saves:
        return
    cache = features.FeatureCache(context.data.clips, context.base, context.config, settings.cache_dir)
    seconds = sum(clip.seconds for clip in cache.missing())
    cache_bytes = int(CACHE_BYTES_PER_SECOND * seconds)
    require_space(_existing_parent(settings.cache_dir), cache_bytes, "the feature cache")
    checkpoint, trainer_state = save_bytes(settings, context)
    require_space(_existing_parent(run.folder), checkpoint + trainer_state, "the first epoch")
    # Unfinished files of a killed save are replaced by the next save.
    saved = sum(not run.is_unfinished(epoch) for epoch in run.epochs())
    states = min(saved + saves, MAX_TRAINER_STATES + 1) - len(run.state_epochs())
    more_checkpoints = max_checkpoints(settings, saved, saves)
    needed = checkpoint * more_checkpoints + trainer_state * max(1, states)
    if defaults.with_advice(settings, context.config.training).learn_decoder != "off":
        decoder, decoder_state = decoder_bytes(context)
        # The base's too, and best_decoder.safetensors.
        needed += decoder * (more_checkpoints + 2) + decoder_state * (MAX_TRAINER_STATES + 2)
    free = shutil.disk_usage(_existing_parent(run.folder)).free
    if free >= needed:
        log.info("Disk: up to %s more in %s; %s free.", size_words(needed), run.folder, size_words(free))
    else:
        log.warning(
            "The whole run will not fit into %s: %s needed, %s free. It will end with exit code 74 "
            "when the disk is full. Lower KEEP_CHECKPOINTS, or free space. The same command "
            "resumes it.",
            run.folder,
            size_words(needed),
            size_words(free),
        )


def max_checkpoints(settings: TrainSettings, saved: int, saves: int) -> int:
    """The most checkpoints that a run holds at once in addition to the `saved` ones. saves: the
    number of saves to come. Besides the kept epochs, the best one may stay, one is being written,
    and best.pt may be a blend."""
    keep, total = settings.keep_checkpoints, saved + saves
    at_once = total if keep is None else min(total, keep + 2)
    blend = settings.blend != "off" and settings.sample_device != "off"
    return max(1, at_once - saved) + blend


def save_bytes(settings: TrainSettings, context: RunContext) -> tuple[int, int]:
    """The bytes of a checkpoint with LoRA's adapter, and of a trainer state without frozen
    weights."""
    tensors = from_coqui(read_tensors(context.base / "model.pth"))
    weights = sum(tensor.numel() for tensor in tensors.values())
    adapter = num_adapter_weights(settings.lora_rank, context.config.gpt)
    state = STATE_BYTES[settings.optimizer] + (4.0 if adapter else 0.0)
    if context.config.training.ema_decay:
        state += 8.0
    return 4 * (weights + adapter), int(state * (adapter or weights))


def decoder_bytes(context: RunContext) -> tuple[int, int]:
    """The bytes of a learned decoder, and of the state that the next one continues from: the
    vocoder, its average and two moments, and the discriminators with theirs."""
    tensors = read_tensors(context.base / "model.pth")
    weights = sum(tensor.numel() for name, tensor in tensors.items() if name.startswith(WAVEFORM_DECODER))
    with torch.device("meta"):
        discriminators = sum(tensor.numel() for tensor in Discriminators(DISCRIMINATOR_CHANNELS).parameters())
    return 4 * weights, 4 * (4 * weights + 3 * discriminators)


def _existing_parent(folder: Path) -> Path:
    """The folder or its nearest existing parent. Creates nothing."""
    folder = folder.absolute()
    return next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
