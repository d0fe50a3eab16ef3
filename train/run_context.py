"""The context of a run before it writes anything: machine, base, dataset, and checks of its clips.

Two modules of extras (see `machine.extras`) work on it. `CLIPS` checks clips before a training:
`look(settings, context, with_likelihood=...)` reports and returns the suspect clips, each with
`name` (its file), `severity` and `reasons`; `without_suspects(settings, context)` returns the dataset
without them; `report_kept(settings, context)` only reports them. `REHEARSAL` has
`rehearsal_of(settings, context, speaks=...)`, which adds clips in the old languages of a base while
it learns an added one.
"""

import ctypes
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from machine import extras
from machine.devices import selection
from machine.devices.selection import Choice, DeviceError, Environment, Place
from train import base_model, distributed
from train.dataset import dataset
from train.dataset.dataset import Clip, Dataset
from train.distributed import ALONE, World
from train.settings import TrainSettings
from xtts.model.config import ModelConfig, short_name
from xtts.text.languages import short_code
from xtts.text.tokenizer import Tokenizer
from xtts.voices.run_folder import RunError, RunFolder, normalizer_of, read_checkpoint

log = logging.getLogger("train")

# mallopt's parameters in malloc.h, and glibc's limit for the second.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_THRESHOLD = 32 << 20


@dataclass(frozen=True)
class RunContext:
    """The machine, base model and dataset of a run; made by `build_context`."""

    machine: Environment
    device: Place
    precision: Choice
    base: Path
    config: ModelConfig
    tokenizer: Tokenizer
    data: Dataset


def build_context(settings: TrainSettings, world: World = ALONE) -> RunContext:
    """Reads the machine, the base model and the dataset. Raises their errors."""
    # 1. Machine
    machine = selection.look_at_machine()
    device = selection.choose_device(machine, settings.device, for_training=True)
    if (of_rank := distributed.device_of(world, device.value)) != device.value:
        device = selection.choose_device(machine, of_rank, for_training=True)
    set_up_runtime(settings, machine, device, world)
    precision = choose_precision(machine, device.value, settings.precision)

    # 2. Base
    base = base_model.chosen_base(settings)
    config = run_config(settings, ModelConfig.read(base))
    log.info("Base model: %s; licence: %s", settings.base_model, licence_of(config, base))
    if config.weights == "random":
        warning = "BASE_MODEL=%s has random weights: training works, but its speech is noise."
        log.warning(warning, settings.base_model)
    for what, choice in (("Device", device), ("Precision", precision)):
        log.info("%s: %s (%s)", what, choice.value, choice.reason)

    # 3. Data
    tokenizer = Tokenizer(config, base)
    data = dataset.read(settings, tokenizer, config.gpt)
    context = RunContext(machine, device, precision, base, config, tokenizer, data)
    if settings.suspect_clips == "keep":
        return context
    checks = extras.modules("CLIPS")
    if not checks:
        log.warning("SUSPECT_CLIPS=leave_out has no effect: extras/inspect is not installed.")
    for check in checks:
        context = replace(context, data=check.without_suspects(settings, context))
    return context


# The machine


def set_up_runtime(settings: TrainSettings, machine: Environment, place: Place, world: World) -> None:
    """Configures threads, memory and cuDNN. Call it before any computation."""
    share = max(1, machine.cpu_count // world.local_size)
    torch.set_num_threads(settings.num_threads or share)
    keep_freed()
    torch.backends.cudnn.enabled = place.cudnn
    if not place.cudnn:
        log.warning("cuDNN: off (%s)", place.reason)


def keep_freed() -> None:
    """Keeps freed memory for the next step instead of returning it to the system.

    Each step allocates the memory of gradients and activations that the one before freed. By
    default, glibc returns it each time, and the system provides zeroed pages again: 220,000 in a
    step of XTTS-v2, a tenth of its time. `machine.memory` still returns memory. Other C libraries
    ignore this.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
        library.mallopt(_TRIM_THRESHOLD, -1)


def choose_precision(machine: Environment, device: str, wish: str) -> Choice:
    """Chooses the precision.

    `auto` is bf16 if the hardware multiplies it and passed its check. A GPU from compute capability
    8.0 on that failed it gets fp16 if that passed; an older one, such as a T4, gets fp32, because
    nobody has measured training in fp16 there. All else gets fp32.

    Raises DeviceError for fp16 on a CPU.
    """
    gpu = machine.gpu(device)
    failed = gpu.failed_operations if gpu else frozenset()
    if wish == "fp16" and gpu is None:
        raise DeviceError(
            "PRECISION=fp16 is for GPUs. This run is on the CPU, where fp16 is slower than fp32 "
            "and less exact. Set PRECISION=auto."
        )
    if wish != "auto":
        check = f"attention_{wish}"
        although = f", although {check} failed the check" if check in failed else ""
        return Choice(wish, f"PRECISION={wish}{although}")
    if gpu is None:
        if machine.cpu_has_bf16:
            return Choice("bf16", "this CPU multiplies bf16 in hardware")
        return Choice("fp32", "this CPU has no bf16 instructions (AMX or AVX512-BF16)")
    if gpu.capability < (8, 0):
        major, minor = gpu.capability
        return Choice(
            "fp32",
            f"{gpu.name} has compute capability {major}.{minor}, and bf16 needs 8.0; fp16 is not "
            "measured on such a GPU, and PRECISION=fp16 tries it",
        )
    if "attention_bf16" not in failed:
        return Choice("bf16", f"{gpu.name} multiplies bf16 in hardware")
    if "attention_fp16" not in failed:
        return Choice("fp16", f"{gpu.name} failed bf16 and passed fp16")
    return Choice("fp32", f"{gpu.name} failed bf16 and fp16")


# The base


def licence_of(config: ModelConfig, base: Path) -> str:
    """The licence of a base's weights in a few words, and the file that has its details, if any."""
    short = short_name(config.licence)
    if short == config.licence:
        return short
    card = base / "CARD.md"
    details = card if card.is_file() else base / "config.json"
    with suppress(ValueError):
        details = details.relative_to(Path.cwd())
    return f"{short} (more in {details})"


def run_config(settings: TrainSettings, config: ModelConfig) -> ModelConfig:
    """The base's configuration with the normaliser that the run began with.

    With another normaliser the texts would change in the middle of a run.
    """
    if settings.resume == "never":
        return config
    run = RunFolder(settings.output_dir)
    named = [] if settings.resume == "auto" else [Path(settings.resume)]
    saved = [run.interrupted, *map(run.checkpoint_path, reversed(run.epochs()))]
    for path in [path for path in (*saved, *named) if path.is_file()]:
        with suppress(RunError):
            return replace(config, normalizer=normalizer_of(read_checkpoint(path).provenance))
    return config


# Clips in a base's old languages


@dataclass(frozen=True)
class Rehearsal:
    """The clips of a run, with those that rehearse the base's old languages.

    Attributes:
        clips: The dataset's clips, followed by those that the base spoke.
        always: Indices of the clips in every epoch.
        drawn: Indices of the clips from which each epoch draws some.
        share: The intended share of drawn clips in an epoch's audio.
    """

    clips: tuple[Clip, ...]
    always: tuple[int, ...]
    drawn: tuple[int, ...] = ()
    share: float = 0.0


def rehearsal_of(settings: TrainSettings, context: RunContext, *, speaks: bool) -> Rehearsal:
    """The rehearsal of a run. speaks: whether this process speaks the missing clips; other
    processes only read them. Raises the errors of speaking and of the dataset."""
    if languages := extras.first("REHEARSAL"):
        rehearsal: Rehearsal = languages.rehearsal_of(settings, context, speaks=speaks)
        return rehearsal
    if settings.rehearsal != "off" and learned_languages(context):
        log.warning("REHEARSAL has no effect: extras/languages is not installed.")
    return Rehearsal(context.data.clips, context.data.train)


def learned_languages(context: RunContext) -> set[str]:
    """The short codes of the training clips' languages that were added to the base and are not
    learned yet."""
    unlearned = {extension.language for extension in context.config.unlearned}
    return unlearned & {short_code(context.data.clips[index].language) for index in context.data.train}
