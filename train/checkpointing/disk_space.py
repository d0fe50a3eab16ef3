"""Checks before the first step that the disk has room for the run.

A run that would fail at its first save is refused (exit code 74, as for a disk that fills up
later). A run whose checkpoints will not all fit gets a warning. Samples, curves and decoders are
small beside them and not counted.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from machine.storage.atomic import SPACE_MARGIN, DiskFull
from machine.text import size_words
from train import defaults
from train.checkpointing.pruning import KEPT_TRAINER_STATES
from train.checkpointing.resume import Resumed
from train.dataset import features
from train.memory.estimate import STATE_BYTES
from train.optim import freezing
from train.optim.lora import num_adapter_weights
from train.run_context import RunContext
from train.settings import TrainSettings
from xtts.audio import CODE_RATE, MEL_BANDS, SAMPLES_PER_CODE
from xtts.model.gpt import from_coqui
from xtts.model.loading import read_tensors
from xtts.voices.run_folder import RunFolder

log = logging.getLogger("train")

# A second of a clip in the cache: float16 mels each 256 samples, int16 codes each 1,024.
CACHE_BYTES_A_SECOND = 2 * MEL_BANDS * CODE_RATE / 256 + 2 * CODE_RATE / SAMPLES_PER_CODE


@dataclass(frozen=True)
class Need:
    """The bytes that a run still writes into a folder. first: up to the end of the first save."""

    folder: Path
    first: int
    whole: int


def needs(
    settings: TrainSettings,
    *,
    checkpoint: int,
    trainer_state: int,
    cache: int,
    saves: int,
    saved: int = 0,
    states: int = 0,
) -> list[Need]:
    """What the run needs at its fullest: an old epoch remains while a new one is saved.

    Args:
        checkpoint, trainer_state: Bytes of one of them; cache: of clips that it does not have yet.
        saves: How many epochs are still to be saved.
        saved, states: How many checkpoints and trainer states there are already.
    """
    if not saves:
        return []
    keep, most = settings.keep_checkpoints, saved + saves
    # The best epoch may stay besides, and one more is being written.
    kept = most if keep is None else min(most, keep + 2)
    blend = settings.blend != "off" and settings.sample_device != "off"
    num_states = max(1, min(most, KEPT_TRAINER_STATES + 1) - states)
    whole = (max(1, kept - saved) + blend) * checkpoint + num_states * trainer_state
    # As `require_space` asks for it at the first save.
    first = int(SPACE_MARGIN * (checkpoint + trainer_state))
    return [Need(settings.output_dir, first, whole), Need(settings.cache_dir, cache, cache)]


def judge(needed: list[Need]) -> list[tuple[int, str]]:
    """A line for each disk, and its logging level: how much the run needs, and how much is free.

    Raises DiskFull if a disk has no room for the first save.
    """
    by_disk: dict[int, list[Need]] = {}
    for one in needed:
        by_disk.setdefault(_there(one.folder).stat().st_dev, []).append(one)
    lines = []
    for ours in by_disk.values():
        folder = ours[0].folder
        space = os.statvfs(_there(folder))
        free = space.f_bavail * space.f_frsize
        first, whole = sum(one.first for one in ours), sum(one.whole for one in ours)
        if free < first:
            raise DiskFull(
                f"No space for the first epoch: {first:,} bytes are needed, {free:,} are free in "
                f"{folder}. Nothing was trained. Free space, or use another folder, and try again."
            )
        if free >= whole:
            line = f"Disk: up to {size_words(whole)} more in {folder}; {size_words(free)} free."
            lines.append((logging.INFO, line))
        else:
            line = (
                f"The whole run will not fit into {folder}: {size_words(whole)} needed, "
                f"{size_words(free)} free. It will end with exit code 74 when the disk is full. "
                "Lower KEEP_CHECKPOINTS, or free space. The same command resumes it."
            )
            lines.append((logging.WARNING, line))
    return lines


def check(
    settings: TrainSettings,
    context: RunContext,
    run: RunFolder,
    resumed: Resumed | None,
    num_epochs: int,
) -> None:
    """Logs the space that the run needs. Raises DiskFull if the first epoch cannot be saved."""
    ahead = range(resumed.epoch + 1 if resumed else 1, num_epochs + 1)
    checkpoint, trainer_state = _save_bytes(settings, context)
    needed = needs(
        settings,
        checkpoint=checkpoint,
        trainer_state=trainer_state,
        cache=_cache_bytes(settings, context),
        saves=sum(epoch % settings.save_every == 0 or epoch == num_epochs for epoch in ahead),
        # Unfinished files of a killed save are replaced by the next save.
        saved=sum(not run.unfinished(epoch) for epoch in run.epochs()),
        states=len(run.state_epochs()),
    )
    for level, line in judge(needed):
        log.log(level, line)


def _save_bytes(settings: TrainSettings, context: RunContext) -> tuple[int, int]:
    """Of a checkpoint with LoRA's adapter, and of the trainer's state beside them."""
    tensors = from_coqui(read_tensors(context.base / "model.pth"))
    advice = context.config.training
    frozen, _ = freezing.chosen(settings.freeze, advice, with_adapters=bool(settings.lora_rank))
    learning = sum(t.numel() for name, t in tensors.items() if not freezing.fits(name, frozen))
    kept_twice = 0.0
    if settings.lora_rank:
        learning = num_adapter_weights(settings.lora_rank, context.config.gpt)
        kept_twice = 4.0
    if defaults.ema_decay(settings.ema_decay, advice)[0]:
        kept_twice += 8.0
    state = int((STATE_BYTES[settings.optimizer] + kept_twice) * learning)
    adapter = num_adapter_weights(settings.lora_rank, context.config.gpt)
    return 4 * (sum(tensor.numel() for tensor in tensors.values()) + adapter), state


def _cache_bytes(settings: TrainSettings, context: RunContext) -> int:
    if not settings.cache:
        return 0
    known = features.FeatureCache(
        context.data.clips, features.folder_of(context.base, settings.cache_dir)
    ).records
    missing = {c.audio_sha256: c.seconds for c in context.data.clips if c.audio_sha256 not in known}
    return int(CACHE_BYTES_A_SECOND * sum(missing.values()))


def _there(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    folder = folder.absolute()
    return next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
