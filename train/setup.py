"""Sets up a run: machine, base, dataset, resume, learner, logs; then starts the trainer.

Cheap looks first (machine, base model, dataset), then what is on disk, then the cache and the
model: a mistake is told in seconds, before anything is written.
"""

import logging
import time
from contextlib import ExitStack
from typing import Any

from machine.devices import selection
from train import defaults, distributed, runtime, setup_data, setup_learner
from train.checkpointing import disk_space
from train.checkpointing.async_writer import CheckpointWriter
from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint
from train.checkpointing.start_position import find_start, nothing_left, start_position
from train.dataset import dataset
from train.dataset.batches import Batches
from train.distributed import ALONE, World
from train.early_stopping import EarlyStopping
from train.learner import Learner
from train.metrics import curve_folder, tensorboard_server
from train.metrics.deferred import DeferredMetrics
from train.metrics.logs import Logs
from train.metrics.null_logger import NullLogger
from train.metrics.system_usage import MachineMetrics
from train.resilience.heartbeat import Heartbeat
from train.resilience.lost_gpu import lost_gpu
from train.resilience.stopping import StopRequest, stop_on_signals
from train.run_context import RunContext
from train.sampling import placement
from train.sampling import sampler as sampling
from train.sampling.sample_files import reference_of
from train.sampling.sampler import Sampler
from train.settings import TrainSettings
from train.trainer import fine_tune
from train.trainer_context import Parts, StartPosition
from xtts.hub import bundle
from xtts.hub.run_folder import RunFolder
from xtts.hub.run_lock import lock
from xtts.hub.xtts_v2 import ModelSource
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer

log = logging.getLogger("train")


def run(settings: TrainSettings) -> int:
    """`python -m train`: fine-tunes, from the beginning or from where it stopped; under torchrun
    together with the other processes."""
    began = time.perf_counter()
    world = distributed.world()
    if not world.is_main:
        log.setLevel(logging.WARNING)
    looked = look(settings, world)
    runtime.make_current(looked.device.value)
    folder = RunFolder(settings.output_dir)
    with ExitStack() as closing:
        if world.is_main:
            closing.enter_context(lock(folder))
        stop = closing.enter_context(stop_on_signals(settings.stop_seconds))
        closing.enter_context(distributed.joined(world, looked.device.value))
        closing.enter_context(lost_gpu(looked.device.value))
        parts = _assemble(settings, looked, folder, stop, closing, world)
        if world.is_main:
            parts.sample_missing()
        world.barrier()
        if parts.start.epoch > 1 and parts.ends_early():
            return 0
        if parts.start.epoch > parts.num_epochs:
            log.info(nothing_left(parts.start, parts.num_epochs))
        else:
            log.info("Ready to learn after %.1f s.", time.perf_counter() - began)
        return fine_tune(parts, stop)


def look(settings: TrainSettings, world: World = ALONE) -> RunContext:
    """Looks at machine, base model and dataset; raises their errors."""
    machine = selection.look_at_machine()
    device = selection.choose_device(machine, settings.device)
    if (own := distributed.device_of(world, device.value)) != device.value:
        device = selection.choose_device(machine, own)
    runtime.set_up_runtime(settings, machine, device.value, world)
    precision = selection.choose_precision(machine, device.value, settings.precision)
    base = bundle.locate_base(
        settings.base_model, ModelSource.of(settings), tos_agreed=settings.coqui_tos_agreed
    )
    bundle.check_base(base)
    config = ModelConfig.read(base)
    _tell_weights(settings, config)
    for what, choice in (("Device", device), ("Precision", precision)):
        log.info("%s: %s (%s)", what, choice.value, choice.reason)
    tokenizer = Tokenizer(config, base)
    data = dataset.read(settings, tokenizer, config.gpt)
    return RunContext(machine, device, precision, base, config, tokenizer, data)


def prepare(settings: TrainSettings) -> int:
    """`python -m train prepare`: computes the feature cache and trains nothing."""
    looked = look(settings)
    log.info(looked.data.report())
    setup_data.build_feature_cache(settings, looked)
    return 0


def _assemble(
    settings: TrainSettings,
    looked: RunContext,
    folder: RunFolder,
    stop: StopRequest,
    closing: ExitStack,
    world: World,
) -> Parts:
    config, data = looked.config, looked.data
    log.info(data.report())
    checkpoints = Checkpoints(folder, settings.keep_checkpoints, settings.save_every)
    epochs = defaults.num_epochs(settings.num_epochs, config.training)
    rate = defaults.learning_rate(settings.learning_rate, config.training)
    log.info("Epochs: %d (%s)", epochs.value, epochs.reason)
    log.info("Learning rate: %g (%s)", rate.value, rate.reason)
    fingerprint = Fingerprint.of(looked.base, data.sha256, config.gpt, settings.cache_dir)
    resumed = find_start(settings, checkpoints, fingerprint, rate.value, world)
    start = start_position(resumed)
    if world.is_main:
        disk_space.ask(
            disk_space.of_run(settings, looked, folder, resumed, start, int(epochs.value))
        )
    batches, validation = setup_data.build_batches(settings, looked, resumed, world)
    learner = setup_learner.build_learner(settings, looked, rate.value, batches, resumed, world)
    state = (resumed.trainer_state if resumed else None) or {}
    if settings.batch_seconds is None and "batch_seconds" not in state:
        setup_learner.autotune_batch_size(settings, looked, learner, batches)
    setup_learner.schedule_to_the_end(learner, batches, int(epochs.value))
    patience = EarlyStopping(settings.early_stopping)
    patience.resume(state.get("patience"))
    logs = closing.enter_context(
        _logs(settings, looked, folder, int(epochs.value), start, learner, batches, closing)
    )
    sampler = closing.enter_context(_sampler(settings, looked, folder, world, logs, stop))
    on_gpu = looked.device.value.startswith("cuda")
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
        telling=DeferredMetrics(learner, logs, settings.log_every),
        provenance=_provenance(settings, config, fingerprint, rate.value),
        # Several ranks take each step together: one that is still writing would hold up the others.
        writer=closing.enter_context(
            CheckpointWriter(background=on_gpu and world.is_single_process)
        ),
        patience=patience,
        world=world,
    )


def _sampler(
    settings: TrainSettings,
    looked: RunContext,
    folder: RunFolder,
    world: World,
    logs: Logs,
    stop: StopRequest,
) -> Sampler:
    wish = settings.sample_device if world.is_main else "off"
    chosen = placement.plan(looked.machine, wish, looked.device.value)
    log.info("Samples: %s (%s)", chosen.mode, chosen.reason)
    return Sampler(
        chosen,
        folder,
        reference_of(settings, looked.data),
        sampling.workers(looked.base, looked.machine, settings.speak_precision),
        seed=settings.seed,
        in_process=sampling.in_process(looked.base),
        heard=logs.sample,
        interrupted=lambda: stop.requested,
    )


def _logs(
    settings: TrainSettings,
    looked: RunContext,
    folder: RunFolder,
    num_epochs: int,
    start: StartPosition,
    learner: Learner,
    batches: Batches,
    closing: ExitStack,
) -> Logs:
    if not learner.world.is_main:
        return NullLogger()
    return Logs(
        folder,
        curve_folder.claim(folder, settings.runs_dir),
        num_epochs=num_epochs,
        steps_per_epoch=-(-len(batches.plan(start.epoch)) // learner.world.size),
        first_step=learner.step,
        log_every=settings.log_every,
        peak_flops=runtime.peak_flops(looked.device.value, looked.precision.value),
        machine=closing.enter_context(MachineMetrics()),
        tensorboard=tensorboard_server.of_run(settings, in_container=looked.machine.in_container),
    )


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


def _tell_weights(settings: TrainSettings, config: ModelConfig) -> None:
    log.info("Base model: %s; licence of its weights: %s", settings.base_model, config.licence)
    if config.weights == "random":
        told = "BASE_MODEL=%s has random weights: it learns, but what it speaks is noise."
        log.warning(told, settings.base_model)
