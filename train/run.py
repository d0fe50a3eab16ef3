"""Puts a run together, in the order in which it can fail, and hands it to the loop.

Cheap looks first (machine, base model, dataset), then what is on disk, then the cache and the
model: a mistake is told in seconds, before anything is written.
"""

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from train import dataset, material, placement, recipe, sampling, tensorboard
from train.checkpoints import Checkpoints
from train.dataset import Dataset
from train.fingerprint import Fingerprint
from train.heartbeat import Heartbeat
from train.learner import Learner, Recipe
from train.logs import Logs
from train.loop import fine_tune
from train.lost_gpu import lost_gpu
from train.machine import MachineFigures
from train.parts import Parts, Start
from train.resume import Resumed
from train.samples import reference_of
from train.sampling import Sampler
from train.settings import TrainSettings
from train.stopping import Stop, stop_on_signals
from train.telling import Telling
from xtts import bundle, environment
from xtts.config import ModelConfig
from xtts.environment import Choice, Environment
from xtts.locks import lock
from xtts.model import load_gpt, read_tensors
from xtts.runs import RunFolder
from xtts.supply import Source
from xtts.text import Tokenizer

log = logging.getLogger("train")


@dataclass(frozen=True)
class Looked:
    """What is known before anything is written."""

    machine: Environment
    device: Choice
    precision: Choice
    base: Path
    config: ModelConfig
    tokenizer: Tokenizer
    data: Dataset


def run(settings: TrainSettings) -> int:
    """`python -m train`: fine-tunes, from the beginning or from where it stopped."""
    looked = look(settings)
    folder = RunFolder(settings.output_dir)
    with ExitStack() as closing:
        closing.enter_context(lock(folder))
        stop = closing.enter_context(stop_on_signals(settings.stop_seconds))
        closing.enter_context(lost_gpu(looked.device.value))
        parts = _assemble(settings, looked, folder, stop, closing)
        parts.sample_missing()
        if parts.start.epoch > parts.num_epochs:
            log.info(
                "All %d epochs are done already. Set NUM_EPOCHS higher to go on, or RESUME=never "
                "to begin anew.", parts.num_epochs,
            )  # fmt: skip
        return fine_tune(parts, stop)


def look(settings: TrainSettings) -> Looked:
    """Looks at machine, base model and dataset; raises their errors."""
    machine = environment.look()
    device = environment.choose_device(machine, settings.device)
    _use(settings, machine, device.value)
    precision = environment.choose_precision(machine, device.value, settings.precision)
    base = bundle.locate_base(
        settings.base_model, Source.of(settings), tos_agreed=settings.coqui_tos_agreed
    )
    bundle.check_base(base)
    config = ModelConfig.read(base)
    _tell_weights(settings, config)
    for what, choice in (("Device", device), ("Precision", precision)):
        log.info("%s: %s (%s)", what, choice.value, choice.reason)
    tokenizer = Tokenizer(config, base)
    data = dataset.read(settings, tokenizer, config.gpt)
    return Looked(machine, device, precision, base, config, tokenizer, data)


def prepare(settings: TrainSettings) -> int:
    """`python -m train prepare`: computes the feature cache and trains nothing."""
    looked = look(settings)
    log.info(looked.data.report())
    material.features(settings, looked)
    return 0


def _assemble(
    settings: TrainSettings, looked: Looked, folder: RunFolder, stop: Stop, closing: ExitStack
) -> Parts:
    config, data = looked.config, looked.data
    log.info(data.report())
    checkpoints = Checkpoints(folder, settings.keep_checkpoints, settings.save_every)
    epochs = recipe.num_epochs(settings.num_epochs, config.training)
    rate = recipe.learning_rate(settings.learning_rate, config.training)
    log.info("Epochs: %d (%s)", epochs.value, epochs.reason)
    log.info("Learning rate: %g (%s)", rate.value, rate.reason)
    fingerprint = Fingerprint.of(looked.base, data.sha256, config.gpt, settings.cache_dir)
    resumed = checkpoints.resume(
        settings.resume, fingerprint, learning_rate=rate.value, runs_dir=settings.runs_dir
    )
    start = _told_start(resumed)
    batches, validation = material.batches(settings, looked, resumed)
    learner = _learner(settings, looked, rate.value, resumed)
    logs = closing.enter_context(
        Logs(
            folder,
            settings.runs_dir,
            num_epochs=int(epochs.value),
            steps_per_epoch=len(batches.plan(start.epoch)),
            first_step=learner.step,
            log_every=settings.log_every,
            machine=closing.enter_context(MachineFigures()),
            tensorboard=tensorboard.of_run(settings, in_container=looked.machine.in_container),
        )
    )
    chosen = placement.plan(looked.machine, settings.sample_device, looked.device.value)
    sampler = closing.enter_context(
        Sampler(
            chosen,
            folder,
            reference_of(settings, data),
            sampling.workers(looked.base, looked.machine, settings.speak_precision),
            seed=settings.seed,
            in_process=sampling.in_process(looked.base),
            heard=logs.sample,
            interrupted=lambda: stop.requested,
        )
    )
    log.info("Samples: %s (%s)", chosen.mode, chosen.reason)
    return Parts(
        settings=settings,
        num_epochs=int(epochs.value),
        start=start,
        learner=learner,
        batches=batches,
        validation=validation,
        logs=logs,
        sampler=sampler,
        checkpoints=checkpoints,
        heartbeat=closing.enter_context(Heartbeat(settings.stall_seconds)),
        telling=Telling(learner, logs, settings.log_every),
        provenance=_provenance(settings, config, fingerprint, rate.value),
    )


def _learner(
    settings: TrainSettings, looked: Looked, learning_rate: float, resumed: Resumed | None
) -> Learner:
    gpt = load_gpt(read_tensors(looked.base / "model.pth"), looked.config, settings.dropout)
    learner = Learner(
        gpt,
        Recipe(
            learning_rate=learning_rate,
            warmup_steps=settings.warmup_steps,
            weight_decay=settings.weight_decay,
            gradient_clip=settings.gradient_clip,
            text_loss_weight=settings.text_loss_weight,
            audio_loss_weight=settings.audio_loss_weight,
            precision=looked.precision.value,
            seed=settings.seed,
            fused=settings.fused_optimizer,
            compiled=settings.compile,
        ),
        looked.device.value,
    )
    if resumed:
        learner.resume(resumed.model_state, resumed.trainer_state, resumed.step)
    return learner


def _told_start(resumed: Resumed | None) -> Start:
    if resumed is None:
        return Start()
    for note in resumed.notes:
        log.info(note)
    start = Start(resumed.epoch + 1, resumed.batch)
    inside = f", batch {start.batch + 1}" if start.batch else ""
    log.info("Going on from %s: epoch %d%s.", resumed.source.name, start.epoch, inside)
    return start


def _provenance(
    settings: TrainSettings, config: ModelConfig, fingerprint: Fingerprint, rate: float
) -> dict[str, Any]:
    return {
        "base": {"name": settings.base_model, "sha256": fingerprint.base_sha256},
        "fingerprint": fingerprint.as_dict(),
        "language": settings.language,
        "learning_rate": rate,
        "licence": config.licence,
    }


def _use(settings: TrainSettings, machine: Environment, device: str) -> None:
    torch.set_num_threads(settings.num_threads or machine.cpu_count)
    cudnn = environment.uses_cudnn(machine, device)
    torch.backends.cudnn.enabled = cudnn.value == "on"
    if cudnn.reason:
        log.warning("cuDNN: %s (%s)", cudnn.value, cudnn.reason)


def _tell_weights(settings: TrainSettings, config: ModelConfig) -> None:
    log.info("Base model: %s; licence of its weights: %s", settings.base_model, config.licence)
    if config.weights == "random":
        told = "BASE_MODEL=%s has random weights: it learns, but what it speaks is noise."
        log.warning(told, settings.base_model)
