"""Runs a training from start to end: machine, base, data, resume, learner, logs, loop.

`open_trainer` lists the phases in order; the functions below it do the work. Cheap checks come
first, then the files on disk, then the feature cache and the model. A mistake is thus reported in
seconds, before anything is written into OUTPUT_DIR.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace

from machine import extras
from machine.devices import current_gpu
from machine.settings.loading import values_of
from train import defaults, distributed
from train.checkpointing import disk_space
from train.checkpointing.async_writer import CheckpointWriter
from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint, Provenance, data_of
from train.checkpointing.resume import Resumed, require_same_fingerprint, resume, trainer_state_of
from train.dataset import features as feature_cache
from train.dataset.batches import Batches, OomBackoff
from train.distributed import World
from train.epoch_end import EarlyStopping, EpochEnd
from train.evaluation.evaluator import Evaluator
from train.evaluation.plan import plan_of
from train.memory import autotune
from train.metrics import curves, tensorboard_server
from train.metrics.logs import DeferredMetrics, Logs
from train.optim.lora import ALPHA_OF_RANK
from train.optim.optimizer import OptimizationConfig
from train.optim.trainable import TrainableParts, frozen_weights, recomputes
from train.resilience.at_work import at_work, trainings
from train.resilience.heartbeat import Heartbeat
from train.resilience.lost_gpu import lost_gpu
from train.resilience.stopping import StopRequest, stop_on_signals
from train.run_context import RunContext, build_context, learned_languages, rehearsal_of
from train.sampling.reference import reference_of_run
from train.sampling.run_speakers import keep_speakers
from train.sampling.sampler import sampler_of
from train.sampling.samples import Samples
from train.settings import TrainSettings
from train.step import Learner
from train.trainer import Trainer
from xtts.model.gpt import GPT
from xtts.model.loading import load_gpt, read_tensors
from xtts.voices.run_folder import RunFolder
from xtts.voices.run_lock import lock

log = logging.getLogger("train")


@contextmanager
def open_trainer(settings: TrainSettings) -> Iterator[Trainer]:
    """The trainer of a run. Its lock, signal handlers and workers end with the block.

    Under torchrun every process opens a trainer and takes each step together with the others.
    """
    started_at = time.perf_counter()
    world = distributed.world_of()
    if not world.is_main:
        log.setLevel(logging.WARNING)
    # 1 to 3. Machine, base and data: nothing is written into OUTPUT_DIR yet.
    context = build_context(settings, world)
    run = RunFolder(settings.output_dir)
    with ExitStack() as closing:
        stop = closing.enter_context(claim(settings, context, run, world))
        report_data(settings, context, world)

        # 4. Resume: where the run starts, and whether its disks have room for it.
        num_epochs, rate = epochs_and_rate(settings, context)
        fingerprint = fingerprint_of(settings, context)
        provenance = provenance_of(settings, context, fingerprint, rate)
        checkpoints = Checkpoints(run, settings.keep_checkpoints, settings.save_every, provenance)
        resumed = find_start(settings, checkpoints, fingerprint, rate, world)
        first_epoch = resumed.epoch + 1 if resumed else 1
        if world.is_main:
            disk_space.check(settings, context, run, resumed, num_epochs)

        # 5. The batches, then the learner, whose memory depends on the longest clip.
        batches, validation = build_batches(settings, context, resumed, world)
        learner = build_learner(settings, context, rate, batches, resumed, world)

        # 6. Logs, samples and evaluation, on rank 0 only.
        logs = None
        if world.is_main:
            steps = -(-len(batches.plan(first_epoch)) // world.size)
            logs = open_logs(settings, context, run, num_epochs, steps, learner, closing)
        samples = open_samples(settings, context, run, logs, stop, closing)
        evaluator = None
        if logs:
            keep_speakers(run, context, samples.reference)
            evaluator = build_evaluator(settings, context, samples, checkpoints, logs)

        # 7. The loop, and the ends of its epochs.
        end = EpochEnd(
            settings=settings,
            num_epochs=num_epochs,
            learner=learner,
            batches=batches,
            validation=validation,
            early_stopping=early_stopping_of(settings, resumed),
            checkpoints=checkpoints,
            logs=logs,
            metrics=DeferredMetrics(learner, logs, defaults.LOG_EVERY),
            samples=samples,
            evaluator=evaluator,
            stop=stop,
            base=context.base,
            # Closed in reverse order: first the writer, then the watchdog.
            heartbeat=closing.enter_context(Heartbeat(defaults.STALL_SECONDS)),
            writer=closing.enter_context(writer_of(context, world)),
        )
        graphs = extras.first("GRAPHS")
        yield Trainer(
            learner=learner,
            batches=batches,
            end=end,
            stop=stop,
            num_epochs=num_epochs,
            first_epoch=first_epoch,
            first_batch=resumed.batch if resumed else 0,
            started_at=started_at,
            graphs=graphs.graphs_of(learner) if graphs else None,
        )


@contextmanager
def claim(
    settings: TrainSettings, context: RunContext, run: RunFolder, world: World
) -> Iterator[StopRequest]:
    """Inside, this process holds the run's lock, its device, its signals and its place among the
    other processes. Raises RunError for a run that another process trains."""
    device = context.device.value
    with lost_gpu(device):  # the last check of the GPU may be a day old
        current_gpu.make_current(device)
    with lock(run) if world.is_main else nullcontext():
        for other in trainings(settings.cache_dir, device) if world.is_single_process else ():
            log.warning("%s also works on %s: both are slower, and memory may not last.", other, device)
        with (
            at_work(settings.cache_dir, device, run.folder),
            stop_on_signals(settings.stop_seconds) as stop,
            distributed.connect(world, device),
            lost_gpu(device),
        ):
            yield stop


def report_data(settings: TrainSettings, context: RunContext, world: World) -> None:
    """Logs the dataset, with the suspect clips that stay in it."""
    log.info(context.data.report())
    if world.is_main and settings.suspect_clips == "keep":
        for check in extras.modules("CLIPS"):
            check.report_kept(settings, context)


# 4. Resume


def context_of_run(settings: TrainSettings, run: RunFolder) -> RunContext:
    """The context of a verb that works on an existing run.

    Raises SotaqueError if the run has another base or dataset, and the errors of `build_context`.
    """
    context = build_context(replace(settings, resume="auto"))
    require_same_fingerprint(run, fingerprint_of(settings, context))
    return context


def epochs_and_rate(settings: TrainSettings, context: RunContext) -> tuple[int, float]:
    """NUM_EPOCHS and LEARNING_RATE, logged with their reasons."""
    epochs, reason = defaults.num_epochs(settings.num_epochs, context.config.training)
    log.info("Epochs: %d (%s)", epochs, reason)
    rate, reason = defaults.learning_rate(settings.learning_rate, context.config.training)
    log.info("Learning rate: %g (%s)", rate, reason)
    return int(epochs), rate


def fingerprint_of(settings: TrainSettings, context: RunContext) -> Fingerprint:
    """The fingerprint of a run, which must not change on resume."""
    data, shape = context.data, context.config.gpt
    return Fingerprint.of(
        context.base,
        data.sha256,
        shape,
        settings.cache_dir,
        base={"name": settings.base_model},
        data=data_of(settings, data),
    )


def provenance_of(
    settings: TrainSettings, context: RunContext, fingerprint: Fingerprint, rate: float
) -> Provenance:
    """The provenance that each checkpoint of the run records."""
    config = context.config
    return {
        "base": {"name": settings.base_model, "sha256": fingerprint.base_sha256},
        "fingerprint": fingerprint.as_dict(),
        "data": fingerprint.data,
        "language": settings.language,
        "learning_rate": rate,
        "licence": config.licence,
        "normalizer": config.normalizer,
    }


def find_start(
    settings: TrainSettings, checkpoints: Checkpoints, fingerprint: Fingerprint, rate: float, world: World
) -> Resumed | None:
    """The checkpoint that the run resumes from, logged; None starts from the base.

    Rank 0 archives an old run; the other ranks read the result. A restart by torchrun always
    resumes, even with RESUME=never.
    """
    never = settings.resume == "never" and (world.restarts or not world.is_main)
    setting = "auto" if never else settings.resume
    if world.is_main:
        resumed = checkpoints.resume(setting, fingerprint, learning_rate=rate, runs_dir=settings.runs_dir)
    world.barrier()
    if not world.is_main:
        resumed = resume(checkpoints.run, setting, fingerprint, learning_rate=rate)
    if resumed is None:
        return None
    inside = f", batch {resumed.batch + 1}" if resumed.batch else ""
    log.info("Resuming from %s: epoch %d%s.", resumed.source.name, resumed.epoch + 1, inside)
    return resumed


# 5. Batches and learner


def build_batches(
    settings: TrainSettings, context: RunContext, resumed: Resumed | None, world: World
) -> tuple[Batches, Batches | None]:
    """The batches of training, and of validation if there are validation clips."""
    config = context.config
    if not world.is_main:
        world.barrier()
    rehearsal = rehearsal_of(settings, context, speaks=world.is_main)
    if world.is_main:
        world.barrier()
    data = replace(context.data, clips=rehearsal.clips)
    features = feature_cache.build(
        data, context.base, config, settings.cache_dir, context.device.features, world
    )
    train, held_out = features.present(rehearsal.always), features.present(data.validation)
    drawn = features.present(rehearsal.drawn)
    seconds = [data.clips[i].seconds for i in (*train, *drawn)]
    state = trainer_state_of(resumed)
    batch_seconds, reason = defaults.batch_seconds(
        settings.batch_seconds,
        config.training,
        state.get("batch_seconds"),
        device=context.device.value,
        total_seconds=sum(seconds) / world.size,
        longest_seconds=max(seconds),
    )
    log.info("Batches: %g s of audio (%s)", batch_seconds, reason)
    training = Batches(
        data.clips,
        train,
        features,
        config.gpt,
        seed=settings.seed,
        batch_seconds=batch_seconds,
        stop_input=config.stop_input_trained,
        sources=(*train, *drawn),
        drawn=drawn,
        share=rehearsal.share,
        pinned=context.device.value.startswith("cuda"),
        rank=world.rank,
        world_size=world.size,
        halvings=[
            OomBackoff(int(epoch), int(batch), seconds) for epoch, batch, seconds in state.get("halvings", ())
        ],
    )
    if not held_out:
        return training, None
    return training, replace(training, indices=held_out, drawn=(), share=0.0, halvings=[], fixed=True)


def build_learner(
    settings: TrainSettings,
    context: RunContext,
    learning_rate: float,
    batches: Batches,
    resumed: Resumed | None,
    world: World,
) -> Learner:
    """The model on its device with its optimizer, in the state that the run resumes from.

    Also resolves BATCH_SECONDS=auto, which needs the model. Raises SotaqueError for a LORA_RANK
    or OPTIMIZER that does not fit.
    """
    gpt = load_gpt(read_tensors(context.base / "model.pth"), context.config, defaults.DROPOUT)
    learner = Learner(
        gpt,
        OptimizationConfig(
            learning_rate=learning_rate,
            precision=context.precision.value,
            seed=settings.seed,
            optimizer=settings.optimizer,
            trainable=_trainable_parts(settings, context, gpt, batches),
        ),
        context.device.value,
        world,
    )
    if resumed:
        learner.resume(resumed.model_state, resumed.trainer_state, resumed.step)
    if settings.batch_seconds is None and "batch_seconds" not in trainer_state_of(resumed):
        autotune.fit_batches(settings, context, learner, batches)
    return learner


def _trainable_parts(
    settings: TrainSettings, context: RunContext, gpt: GPT, batches: Batches
) -> TrainableParts:
    advice = context.config.training
    if rank := settings.lora_rank:
        alpha = ALPHA_OF_RANK * rank
        log.info("LoRA: rank %d, alpha %d. All other weights are frozen.", rank, alpha)
    recompute, reason = recomputes(
        settings.gradient_checkpointing,
        sum(autotune.longest_clip_bytes(settings, context, gpt, batches, recomputed=False)),
        autotune.room_bytes(context),
    )
    log.info("Gradient checkpointing: %s (%s)", "on" if recompute else "off", reason)
    frozen = frozen_weights(advice, with_adapters=rank > 0)
    if frozen:
        log.info("Frozen: %s (recommended by the base model)", ", ".join(frozen))
    ema_decay = advice.ema_decay or 0.0
    if ema_decay:
        log.info("Moving average of the weights: decay %g (recommended by the base model)", ema_decay)
    return TrainableParts(rank, frozen, ema_decay, recompute, _new_rows(settings, context))


def _new_rows(settings: TrainSettings, context: RunContext) -> Sequence[int]:
    """The rows that were added for languages of the training clips."""
    languages = learned_languages(context)
    learned = [extension for extension in context.config.unlearned if extension.language in languages]
    ids = [
        id_
        for extension in learned
        for id_ in range(extension.first_id, extension.first_id + extension.num_ids)
    ]
    names = ", ".join(extension.language for extension in learned)
    if ids:
        message = "New rows: %d, of %s; they learn at %g times the rate."
        log.info(message, len(ids), names, defaults.NEW_ROWS_RATE)
    return ids


# 6. Logs and evaluation


def open_logs(
    settings: TrainSettings,
    context: RunContext,
    run: RunFolder,
    num_epochs: int,
    steps_per_epoch: int,
    learner: Learner,
    closing: ExitStack,
) -> Logs:
    """Logs to the console, metrics.jsonl and, with TENSORBOARD=on, TensorBoard, with the figures of
    extras; `closing` closes them."""
    meter = extras.first("USAGE")
    usage = closing.enter_context(meter.MachineMetrics()).take if meter else None
    logs = Logs(
        run,
        curves.claim(run, settings.runs_dir),
        num_epochs=num_epochs,
        steps_per_epoch=steps_per_epoch,
        first_step=learner.step,
        log_every=defaults.LOG_EVERY,
        tensorboard=tensorboard_server.of_run(settings, in_container=context.machine.in_container),
        usage=usage,
        step_figures=meter.of_steps(learner) if meter else None,
    )
    logs.log_settings(values_of(settings))
    return closing.enter_context(logs)


def open_samples(
    settings: TrainSettings,
    context: RunContext,
    run: RunFolder,
    logs: Logs | None,
    stop: StopRequest,
    closing: ExitStack,
) -> Samples:
    """The samples of the run and the sampler that speaks them, on rank 0; `closing` closes it."""
    sampler = sampler_of(settings if logs else replace(settings, sample_device="off"), context, stop)
    reference = reference_of_run(settings, context, run)
    learns = defaults.with_advice(settings, context.config.training).learn_decoder != "off"
    samples = Samples(
        closing.enter_context(sampler),
        run,
        reference,
        seed=settings.seed,
        on_sample=logs.log_sample if logs else None,
        clips=context.data.training_clips(reference.speaker),
        decoder_steps=defaults.decoder_steps(context.config.training) if learns else None,
    )
    log.info("Samples: %s (%s)", sampler.plan.device_words, sampler.plan.reason)
    return samples


def build_evaluator(
    settings: TrainSettings, context: RunContext, samples: Samples, checkpoints: Checkpoints, logs: Logs
) -> Evaluator:
    """The evaluator, which works if samples are spoken. Raises SotaqueError as `plan_of`."""
    base = dict(checkpoints.provenance["base"])
    plan = plan_of(settings, context.data, samples.reference, base, context.config)
    return Evaluator(plan, samples.sampler, checkpoints, logs.log_evaluation, in_run=True)


# 7. The loop


def early_stopping_of(settings: TrainSettings, resumed: Resumed | None) -> EarlyStopping:
    """EARLY_STOPPING, as far as the run that is resumed had waited."""
    early_stopping = EarlyStopping(settings.early_stopping)
    early_stopping.resume(trainer_state_of(resumed).get("patience"))
    return early_stopping


def writer_of(context: RunContext, world: World) -> CheckpointWriter:
    """The writer of checkpoints, in the background beside a GPU. Several processes take each step
    together, so one that is still writing would delay the others."""
    on_gpu = context.device.value.startswith("cuda")
    return CheckpointWriter(background=on_gpu and world.is_single_process)
