"""Checks the disk space of the whole run before the first step.

Sizes are estimated from the model and the settings. A run that would fail at its first save is
refused (exit code 74, as for a disk that fills up later). A run that will not fit to its end only
gets a warning. Existing files count.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine.storage.atomic import SPACE_MARGIN, DiskFull
from machine.text import size_words
from train import defaults
from train.checkpointing.pruning import KEPT_TRAINER_STATES
from train.checkpointing.resume import Resumed, kept_state
from train.dataset import features
from train.evaluation.plan import KEPT_SOUNDS
from train.memory.estimate import STATE_BYTES
from train.optim import freezing
from train.optim.lora import num_adapter_weights
from train.run_context import RunContext
from train.settings import TrainSettings
from xtts.audio import CODE_RATE, MEL_BANDS, SAMPLES_PER_CODE, VOCODER_RATE
from xtts.model.gpt import from_coqui
from xtts.model.loading import read_tensors
from xtts.model.vocoder import WAVEFORM_DECODER
from xtts.voices.run_folder import RunFolder

log = logging.getLogger("train")

# A second of a clip in the cache: float16 mels each 256 samples, int16 codes each 1,024.
CACHE_BYTES_A_SECOND = 2 * MEL_BANDS * CODE_RATE / 256 + 2 * CODE_RATE / SAMPLES_PER_CODE
# A line of metrics.jsonl and the curves of a step. Measured on a CPU run of 6 steps: 434 bytes (583
# with the machine's figures, which come every LOG_EVERY steps) and 773; a GPU has more curves, so
# the second is an estimate.
METRICS_BYTES_A_STEP, EVENT_BYTES_A_STEP = 450, 950
# The longest that a sample and its reference are in 16 bits; TensorBoard has them once more, with
# a picture of each. An upper estimate: noise, which compresses worst, measured 3.35 and 1.44 MB.
SAMPLE_BYTES = 2 * VOCODER_RATE * (28 + 12)
PICTURES_BYTES = 4_800_000
# The longest that a sentence of an evaluation is kept: 6 s, or 2.5 times that without an end.
SENTENCE_BYTES = 2 * VOCODER_RATE * 15
# An estimate of how much a torch file is larger than its tensors, with manifest and best.json. It
# grows with their number: measured 25 and 62 KB for the weights and the state of 78 tensors.
_FILE_BYTES = 100_000


@dataclass(frozen=True)
class Part:
    """Bytes that a part of the run will still need in a folder.

    Attributes:
        first: The bytes up to the first save, without which the run would end there.
        count: How many files or items; 0 if they are not counted.
    """

    name: str
    folder: Path
    bytes: int
    first: int = 0
    count: int = 0


@dataclass(frozen=True)
class Disk:
    """A file system: its free space, and the parts of the run that it must hold."""

    folder: Path
    free: int
    parts: tuple[Part, ...]

    @property
    def needed(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def first(self) -> int:
        return sum(part.first for part in self.parts)


def parts(
    output_dir: Path,
    runs_dir: Path,
    cache_dir: Path,
    *,
    checkpoint: int,
    trainer_state: int,
    cache: int,
    saves: int,
    samples: int,
    steps: int,
    keep: int | None,
    best_stays: bool,
    saved: int = 0,
    states: int = 0,
    judged: int = 0,
    blended: bool = False,
    decoder: int = 0,
) -> list[Part]:
    """The peak space that the run still needs: old epochs remain while a new one is saved.

    Args:
        checkpoint: Bytes of one; trainer_state: of the state beside it; cache: of the clips that
            are not in the cache yet.
        saves: Epochs that are still to be saved; likewise samples and steps.
        keep: KEEP_CHECKPOINTS; best_stays: whether there is a best epoch to keep besides.
        saved: Checkpoints that stand there already; states: trainer states.
        judged: Candidates whose sentences are kept; blended: whether best.pt may come; decoder:
            bytes of one: of the best weights, and of each checkpoint. 0 for none.
    """
    if not saves:
        return []
    most = saved + saves
    kept = most if keep is None else min(most, keep + best_stays + 1)
    checkpoints = max(1, kept - saved)
    new_states = max(1, min(most, KEPT_TRAINER_STATES + 1) - states)
    one, state = checkpoint + _FILE_BYTES, trainer_state + _FILE_BYTES
    # As `require_space` asks for it at the first save.
    first, first_state = (int(SPACE_MARGIN * size) for size in (checkpoint, trainer_state))
    shown = steps * EVENT_BYTES_A_STEP + samples * (SAMPLE_BYTES + PICTURES_BYTES)
    return [
        Part("checkpoint", output_dir, checkpoints * one, first, checkpoints),
        Part("optimizer state", output_dir, new_states * state, first_state, new_states),
        Part("sample", output_dir, samples * SAMPLE_BYTES, count=samples),
        Part("best blend", output_dir, blended * one),
        Part("learned decoders", output_dir, (1 + checkpoints) * decoder),
        Part("judged sentences", output_dir, judged * KEPT_SOUNDS * SENTENCE_BYTES),
        Part("metrics.jsonl", output_dir, steps * METRICS_BYTES_A_STEP),
        Part("feature cache", cache_dir, cache, cache),
        Part("curves", runs_dir, shown),
    ]


def warnings_of(disks: Sequence[Disk]) -> list[str]:
    """Warnings for disks that cannot hold the whole run. Raises DiskFull for the first save."""
    for disk in disks:
        if disk.free < disk.first:
            listed = ", ".join(f"{p.name} {size_words(p.first)}" for p in disk.parts if p.first)
            raise DiskFull(
                f"No space for the first epoch: {disk.first:,} bytes are needed, {disk.free:,} are "
                f"free in {disk.folder} ({listed}). Nothing was trained. Free space, or use "
                "another folder, and try again."
            )
    return [
        f"The whole run will not fit into {disk.folder}: {size_words(disk.needed)} needed, "
        f"{size_words(disk.free)} free. It will end with exit code 74 when the disk is full. "
        "Lower KEEP_CHECKPOINTS, or free space. The same command resumes it."
        for disk in disks
        if disk.free < disk.needed
    ]


def summary(disk: Disk) -> str:
    """The sum with its parts, and how many of them where they are counted."""
    listed = ", ".join(
        f"{f'{part.count} ' if part.count else ''}{part.name}{'s' if part.count > 1 else ''} "
        f"{size_words(part.bytes)}"
        for part in disk.parts
        if part.bytes
    )
    free = size_words(disk.free)
    return f"Disk: up to {size_words(disk.needed)} more in {disk.folder} ({listed}); {free} free."


def by_disk(every: Sequence[Part]) -> list[Disk]:
    """The parts by the file systems that they go to."""
    grouped: dict[int, list[Part]] = {}
    for part in every:
        grouped.setdefault(_there(part.folder).stat().st_dev, []).append(part)
    disks = []
    for ours in grouped.values():
        space = os.statvfs(_there(ours[0].folder))
        disks.append(Disk(ours[0].folder, space.f_bavail * space.f_frsize, tuple(ours)))
    return disks


def check(
    settings: TrainSettings,
    context: RunContext,
    run: RunFolder,
    resumed: Resumed | None,
    num_epochs: int,
) -> None:
    """Logs the space that the run needs, and warns if it is short.

    Raises DiskFull if not even the first epoch can be saved.
    """
    data = context.data
    ahead = range(resumed.epoch + 1 if resumed else 1, num_epochs + 1)
    saves = [e for e in ahead if e % settings.save_every == 0 or e == num_epochs]
    sampled = [e for e in saves if e % settings.sample_every == 0 or e == num_epochs]
    seconds = [data.clips[index].seconds for index in data.train]
    batch_seconds, _ = defaults.batch_seconds(
        settings.batch_seconds, context.config.training, kept_state(resumed).get("batch_seconds"),
        device=context.device.value, total_seconds=sum(seconds), longest_seconds=max(seconds),
    )  # fmt: skip
    speaks, blended = settings.sample_device != "off", settings.blend != "off"
    checkpoint, trainer_state = _save_bytes(settings, context)
    of_run = parts(
        settings.output_dir,
        settings.runs_dir,
        settings.cache_dir,
        checkpoint=checkpoint,
        trainer_state=trainer_state,
        cache=_cache_bytes(settings, context),
        saves=len(saves),
        samples=len(sampled) if speaks else 0,
        steps=len(ahead) * -(-int(sum(seconds)) // max(1, int(batch_seconds))),
        keep=settings.keep_checkpoints,
        best_stays=bool(data.validation),
        # Unfinished files of a killed save are replaced by the next save.
        saved=sum(not run.unfinished(epoch) for epoch in run.epochs()),
        states=len(run.state_epochs()),
        # The base, every epoch, and at most three blends.
        judged=(1 + len(saves) + 3 * blended) if speaks else 0,
        blended=speaks and blended and not run.best_blend.exists(),
        decoder=_decoder_bytes(context.base) if speaks and settings.learn_decoder != "off" else 0,
    )
    disks = by_disk(of_run)
    for disk in disks:
        log.info(summary(disk))
    for warning in warnings_of(disks):
        log.warning(warning)


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


def _decoder_bytes(base: Path) -> int:
    tensors = read_tensors(base / "model.pth")
    return 4 * sum(
        tensor.numel() for name, tensor in tensors.items() if name.startswith(WAVEFORM_DECODER)
    )


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
