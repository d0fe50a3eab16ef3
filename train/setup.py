"""Sets up a run: machine, base, dataset, resume, learner, logs; then starts the trainer.

Cheap checks first (machine, base model, dataset), then what is on disk, then the feature cache and
the model: a mistake is reported in seconds, before anything is written.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from machine.devices import current_gpu, selection
from machine.onnxruntime.sessions import ModelRefused, RuntimeMissing
from machine.storage.file_cache import FileCache
from train import defaults, distributed, runtime
from train.checkpointing import disk_space
from train.checkpointing.async_writer import CheckpointWriter
from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint
from train.checkpointing.resume import Resumed, require_same, resume
from train.dataset import dataset
from train.dataset import features as cached
from train.dataset.batch_plan import OomBackoff
from train.dataset.batches import Batches, ConditioningChoice
from train.defaults import AutoChoice
from train.distributed import ALONE, World
from train.early_stopping import EarlyStopping
from train.evaluation.budget import JudgingBudget
from train.evaluation.evaluator import Evaluator, shares_of
from train.evaluation.plan import plan_of, warn_of_few_clips
from train.inspection import suspects
from train.inspection.outside_models import OutsideModelError
from train.learner import Learner, OptimizationConfig
from train.memory import autotune
from train.memory.estimate import MemoryEstimate, estimate_memory
from train.metrics import curve_folder, tensorboard_server
from train.metrics.deferred import DeferredMetrics
from train.metrics.logs import Logs, NullLogger
from train.metrics.system_usage import MachineMetrics
from train.optim import activation_checkpointing, freezing
from train.optim.lora import LoraShape
from train.optim.trainable import TrainableParts
from train.resilience.heartbeat import Heartbeat
from train.resilience.lost_gpu import lost_gpu
from train.resilience.stopping import StopRequest, stop_on_signals
from train.run_context import RunContext, StartPosition
from train.sampling.sampler import Sampler, sampler_of
from train.settings import TrainSettings
from train.trainer import Trainer
from xtts.download.xtts_v2 import ModelSource
from xtts.model.config import ModelConfig
from xtts.model.gpt import GPT
from xtts.model.loading import load_gpt, read_tensors
from xtts.text.tokenizer import Tokenizer
from xtts.voices import base_models
from xtts.voices.run_folder import RunError, RunFolder, normalizer_of, read_checkpoint

log = logging.getLogger("train")


@contextmanager
def open_trainer(settings: TrainSettings) -> Iterator[Trainer]:
    """The trainer of a run, with its lock, signals and workers, which end with the block; under
    torchrun together with the other processes."""
    started_at = time.perf_counter()
    world = distributed.world()
    if not world.is_main:
        log.setLevel(logging.WARNING)
    context = build_context(settings, world)
    device = context.device.value
    current_gpu.make_current(device)
    run = RunFolder(settings.output_dir)
    with ExitStack() as closing:
        if world.is_main:
            closing.enter_context(run.lock())
        stop = closing.enter_context(stop_on_signals(settings.stop_seconds))
        closing.enter_context(distributed.joined(world, device))
        closing.enter_context(lost_gpu(device))
        yield _build_trainer(settings, context, run, stop, closing, world, started_at)


def build_context(settings: TrainSettings, world: World = ALONE) -> RunContext:
    """Looks at machine, base model and dataset; raises their errors."""
    machine = selection.look_at_machine()
    device = selection.choose_device(machine, settings.device)
    if (own := distributed.device_of(world, device.value)) != device.value:
        device = selection.choose_device(machine, own)
    runtime.set_up_runtime(settings, machine, device.value, world)
    precision = selection.choose_precision(machine, device.value, settings.precision)
    base = base_models.locate_base(
        settings.base_model, ModelSource.of(settings), tos_agreed=settings.coqui_tos_agreed
    )
    base_models.check_base(base)
    config = run_config(settings, ModelConfig.read(base))
    _log_base_model(settings, config)
    for what, choice in (("Device", device), ("Precision", precision)):
        log.info("%s: %s (%s)", what, choice.value, choice.reason)
    tokenizer = Tokenizer(config, base)
    data = dataset.read(settings, tokenizer, config.gpt)
    context = RunContext(machine, device, precision, base, config, tokenizer, data)
    if settings.suspect_clips == "keep":
        return context
    return replace(context, data=suspects.left_out(settings, context))


def context_of_run(settings: TrainSettings, run: RunFolder) -> RunContext:
    """The context of a verb that works on a run that is there. Raises ResumeError where it was made
    from another base or other data, and what `build_context` does."""
    context = build_context(replace(settings, resume="auto"))
    data, shape = context.data, context.config.gpt
    require_same(run, Fingerprint.of(context.base, data.sha256, shape, settings.cache_dir))
    return context


def run_config(settings: TrainSettings, config: ModelConfig) -> ModelConfig:
    """The base's, with the normaliser that this run began with: texts that change in the middle of
    a run would be other data."""
    if settings.resume == "never":
        return config
    run = RunFolder(settings.output_dir)
    named = [] if settings.resume == "auto" else [Path(settings.resume)]
    saved = [run.interrupted, *map(run.checkpoint_path, reversed(run.epochs()))]
    for path in [path for path in (*saved, *named) if path.is_file()]:
        with suppress(RunError):
            return replace(config, normalizer=normalizer_of(read_checkpoint(path).provenance))
    return config


def prepare(settings: TrainSettings) -> int:
    """`python -m train prepare`: computes the feature cache and trains nothing."""
    context = build_context(settings)
    log.info(context.data.report())
    build_feature_cache(settings, context)
    return 0


def _build_trainer(
    settings: TrainSettings,
    context: RunContext,
    run: RunFolder,
    stop: StopRequest,
    closing: ExitStack,
    world: World,
    started_at: float,
) -> Trainer:
    config, data = context.config, context.data
    _report_data(settings, context, world)
    checkpoints = Checkpoints(run, settings.keep_checkpoints, settings.save_every)
    epochs = defaults.num_epochs(settings.num_epochs, config.training)
    rate = defaults.learning_rate(settings.learning_rate, config.training)
    num_epochs = int(epochs.value)
    log.info("Epochs: %d (%s)", num_epochs, epochs.reason)
    log.info("Learning rate: %g (%s)", rate.value, rate.reason)
    fingerprint = Fingerprint.of(context.base, data.sha256, config.gpt, settings.cache_dir)
    resumed = find_start(settings, checkpoints, fingerprint, rate.value, world)
    start = start_position(resumed)
    if world.is_main:
        disk_space.ask(disk_space.of_run(settings, context, run, resumed, start, num_epochs))
    batches, validation = build_batches(settings, context, resumed, world)
    learner = build_learner(settings, context, rate.value, batches, resumed, world)
    state = _kept_state(resumed)
    if settings.batch_seconds is None and "batch_seconds" not in state:
        autotune_batch_size(settings, context, learner, batches)
    set_schedule_length(learner, batches, num_epochs)
    early_stopping = EarlyStopping(settings.early_stopping)
    early_stopping.resume(state.get("patience"))
    logs = closing.enter_context(
        _logs(settings, context, run, num_epochs, start, learner, batches, closing)
    )
    sampler = closing.enter_context(_sampler(settings, context, run, world, logs, stop))
    provenance = _provenance(settings, config, fingerprint, rate.value)
    evaluator = _evaluator(settings, context, sampler, checkpoints, provenance, logs, world)
    heartbeat = closing.enter_context(Heartbeat(settings.stall_seconds))
    # Several ranks take each step together: one that is still writing would hold up the others.
    background = context.device.value.startswith("cuda") and world.is_single_process
    return Trainer(
        settings=settings,
        num_epochs=num_epochs,
        start=start,
        started_at=started_at,
        learner=learner,
        batches=batches,
        validation=validation,
        logs=logs,
        metrics=DeferredMetrics(learner, logs, settings.log_every),
        sampler=sampler,
        evaluator=evaluator,
        base=context.base,
        checkpoints=checkpoints,
        writer=closing.enter_context(CheckpointWriter(background=background)),
        provenance=provenance,
        early_stopping=early_stopping,
        heartbeat=heartbeat,
        stop=stop,
        world=world,
    )


def _report_data(settings: TrainSettings, context: RunContext, world: World) -> None:
    """What is learned from, and which clips of it are suspect."""
    log.info(context.data.report())
    if world.is_main and settings.suspect_clips == "keep":
        try:
            suspects.report_kept(settings, context)
        except (OutsideModelError, ModelRefused, RuntimeMissing) as error:
            log.warning("Suspect clips are not looked for: %s", error)


# Where the run starts


def find_start(
    settings: TrainSettings,
    checkpoints: Checkpoints,
    fingerprint: Fingerprint,
    rate: float,
    world: World,
) -> Resumed | None:
    """Rank 0 sets aside and archives; the others read what it left. A restart by torchrun goes on
    with what the run has, also with RESUME=never."""
    never = settings.resume == "never" and (world.restarts or not world.is_main)
    setting = "auto" if never else settings.resume
    if world.is_main:
        found = checkpoints.resume(
            setting, fingerprint, learning_rate=rate, runs_dir=settings.runs_dir
        )
        world.barrier()
        return found
    world.barrier()
    return resume(checkpoints.run, setting, fingerprint, learning_rate=rate)


def start_position(resumed: Resumed | None) -> StartPosition:
    """The epoch and batch to start with, logged."""
    if resumed is None:
        return StartPosition()
    for note in resumed.notes:
        log.info(note)
    start = StartPosition(resumed.epoch + 1, resumed.batch)
    inside = f", batch {start.batch + 1}" if start.batch else ""
    log.info("Going on from %s: epoch %d%s.", resumed.source.name, start.epoch, inside)
    return start


def _kept_state(resumed: Resumed | None) -> dict[str, Any]:
    """The trainer's state in the checkpoint that a run goes on from."""
    return (resumed.trainer_state if resumed else None) or {}


# The data


def build_batches(
    settings: TrainSettings, context: RunContext, resumed: Resumed | None, world: World
) -> tuple[Batches, Batches | None]:
    """The batches of training, and of validation where there are clips for it."""
    data, config = context.data, context.config
    features = build_feature_cache(settings, context, world)
    train, held_out = features.present(data.train), features.present(data.validation)
    seconds = [data.clips[i].seconds for i in train]
    state = _kept_state(resumed)
    budget = defaults.batch_seconds(
        settings.batch_seconds, config.training, state.get("batch_seconds"),
        device=context.device.value, total_seconds=sum(seconds) / world.size,
        longest_seconds=max(seconds),
    )  # fmt: skip
    log.info("Batches: %g s of audio (%s)", budget.value, budget.reason)
    common: dict[str, Any] = {
        "seed": settings.seed,
        "batch_seconds": budget.value,
        "stop_input": config.stop_input_trained,
        "conditions": ConditioningChoice(settings.conditioning, train),
        "rank": world.rank,
        "world_size": world.size,
        "pinned": settings.overlap and context.device.value.startswith("cuda"),
    }
    training = Batches(
        data.clips, train, features, config.gpt, prefetch=settings.prefetch,
        bucketing=settings.bucketing, **common,
    )  # fmt: skip
    training.halvings = [OomBackoff(*kept) for kept in state.get("halvings", ())]
    if not held_out:
        return training, None
    return training, Batches(data.clips, held_out, features, config.gpt, fixed=True, **common)


def build_feature_cache(
    settings: TrainSettings, context: RunContext, world: World = ALONE
) -> cached.FeatureCache | cached.UncachedFeatures:
    """From the cache, which is built where something is missing; CACHE=off computes them again.

    The first rank of each machine builds, the others find it done.
    """
    if not settings.cache:
        log.info("CACHE=off: features are computed for each batch again.")
        return cached.UncachedFeatures(context.data.clips, context.base, context.config)
    if world.local_rank:
        world.barrier()
    place = selection.choose_feature_device(context.machine, context.device.value)
    found = cached.build(context.data, context.base, context.config, settings.cache_dir, place)
    if not world.local_rank:
        world.barrier()
    return found


# The learner: it depends on the longest clip, so it comes behind the data.


def build_learner(
    settings: TrainSettings,
    context: RunContext,
    learning_rate: float,
    batches: Batches,
    resumed: Resumed | None,
    world: World,
) -> Learner:
    """The model on its device with its optimizer, where the run goes on. Raises LoraError,
    FreezeError, OptimizerError."""
    gpt = load_gpt(read_tensors(context.base / "model.pth"), context.config, settings.dropout)
    learner = Learner(
        gpt,
        OptimizationConfig(
            learning_rate=learning_rate,
            warmup_steps=settings.warmup_steps,
            weight_decay=settings.weight_decay,
            gradient_clip=settings.gradient_clip,
            text_loss_weight=settings.text_loss_weight,
            audio_loss_weight=settings.audio_loss_weight,
            precision=context.precision.value,
            seed=settings.seed,
            optimizer=settings.optimizer,
            schedule=settings.schedule,
            learning=_trainable_parts(settings, context, gpt, batches),
            fused=settings.fused_optimizer,
            compiled=settings.compile and runtime.can_compile(context.device.value),
        ),
        context.device.value,
        world,
    )
    if resumed:
        learner.resume(resumed.model_state, resumed.trainer_state, resumed.step)
    return learner


def set_schedule_length(learner: Learner, batches: Batches, num_epochs: int) -> None:
    """A cosine ends with the last epoch. Steps are counted by the first epoch's plan, also in a
    resumed run: a plan that was halved meanwhile must not move the rates."""
    steps = -(-len(batches.plan(1, halvings=())) // batches.world_size)
    learner.schedule = replace(learner.schedule, total_steps=num_epochs * steps)


def _trainable_parts(
    settings: TrainSettings, context: RunContext, gpt: GPT, batches: Batches
) -> TrainableParts:
    lora = None
    if settings.lora_rank:
        alpha = settings.lora_alpha or 2 * settings.lora_rank
        lora = LoraShape(settings.lora_rank, alpha)
        log.info("LoRA: rank %d, alpha %d; the rest is frozen.", lora.rank, lora.alpha)
    needed = _estimate(settings, context, gpt, longest_seconds(batches), recomputed=False)
    recompute, reason = activation_checkpointing.chosen(
        settings.gradient_checkpointing, needed, _room_bytes(context)
    )
    log.info("Gradient checkpointing: %s (%s)", "on" if recompute else "off", reason)
    frozen, reason = freezing.chosen(
        settings.freeze, context.config.training, with_adapters=lora is not None
    )
    if frozen:
        log.info("Frozen: %s (%s)", ", ".join(frozen), reason)
    averaged = defaults.ema_decay(settings.ema_decay, context.config.training)
    if averaged.value:
        log.info("Average of the weights: decay %g (%s)", averaged.value, averaged.reason)
    return TrainableParts(lora, frozen, averaged.value, recompute)


# The batch size


def autotune_batch_size(
    settings: TrainSettings, context: RunContext, learner: Learner, batches: Batches
) -> None:
    """BATCH_SECONDS=auto: no more than this machine has room for; logged with its reason.

    Ranks agree on the smallest.
    """
    device, wanted = context.device.value, batches.batch_seconds
    longest = longest_seconds(batches)
    if device.startswith("cuda"):
        chosen = _largest_on_gpu(settings, context, learner, batches, longest)
    else:
        recomputed = learner.config.learning.recompute
        needed = _estimate(settings, context, learner.gpt, longest, recomputed)
        ram = context.machine.memory_bytes // learner.world.local_size
        second = needed.activations / longest
        chosen = autotune.fitting_on_cpu(wanted, second, needed.held_bytes, ram)
    batches.batch_seconds = learner.world.all_reduce_min(max(chosen.value, longest))
    log.info("Memory: batches of %g s (%s)", batches.batch_seconds, chosen.reason)


def longest_seconds(batches: Batches) -> float:
    """Of the clips that are trained on."""
    return max(batches.clips[clip].seconds for clip in batches.indices)


def _largest_on_gpu(
    settings: TrainSettings,
    context: RunContext,
    learner: Learner,
    batches: Batches,
    longest: float,
) -> AutoChoice:
    """Tried once for a machine and a model, then remembered."""
    wanted = batches.batch_seconds
    memory = FileCache(settings.cache_dir / "batch_seconds.json")
    name = torch.cuda.get_device_name(context.device.value)
    total = torch.cuda.get_device_properties(context.device.value).total_memory
    key = repr(
        (torch.__version__, name, total, context.config.gpt, learner.config.learning, wanted,
         settings.optimizer, context.precision.value, round(longest, 1), settings.compile)
    )  # fmt: skip
    if known := memory.get(key):
        return AutoChoice(float(known), f"as it was tried on {name} before")
    meter = autotune.CudaMemoryMeter(learner, batches)
    fitting = autotune.largest_fitting(meter, max(1, int(wanted // longest)))
    whole = fitting.clips == max(1, int(wanted // longest))
    seconds = wanted if whole else fitting.clips * longest
    if learner.world.local_rank == 0:
        memory.put(key, seconds)
        memory.save()
    return AutoChoice(seconds, f"tried on {name}: {fitting.reason}")


def _estimate(
    settings: TrainSettings, context: RunContext, gpt: GPT, seconds: float, recomputed: bool
) -> MemoryEstimate:
    """Of the longest clip alone."""
    parameters = sum(parameter.numel() for parameter in gpt.parameters())
    shape = context.config.gpt
    # Of each block's four matrices, A and B: 3 + 1, 1 + 1, 1 + 4 and 4 + 1 widths.
    adapters = settings.lora_rank * 16 * shape.width * shape.layers
    return estimate_memory(
        shape,
        parameters=parameters,
        learning=adapters or parameters,
        audio_seconds=seconds,
        clips=1,
        precision=context.precision.value,
        optimizer=settings.optimizer,
        recomputed=recomputed,
    )


def _room_bytes(context: RunContext) -> int:
    if context.device.value.startswith("cuda"):
        return int(torch.cuda.mem_get_info(context.device.value)[0])
    return int(context.machine.memory_bytes * autotune.CPU_SHARE)


# Samples, logs, provenance


def _sampler(
    settings: TrainSettings,
    context: RunContext,
    run: RunFolder,
    world: World,
    logs: Logs,
    stop: StopRequest,
) -> Sampler:
    found = sampler_of(
        settings, context, run, "" if world.is_main else "off",
        heard=logs.sample, interrupted=lambda: stop.requested,
    )  # fmt: skip
    log.info("Samples: %s (%s)", found.plan.mode, found.plan.reason)
    return found


def _evaluator(
    settings: TrainSettings,
    context: RunContext,
    sampler: Sampler,
    checkpoints: Checkpoints,
    provenance: Mapping[str, Any],
    logs: Logs,
    world: World,
) -> Evaluator | None:
    """Where samples are spoken; None elsewhere. Raises EvaluationError as `plan_of`."""
    if not world.is_main:
        return None
    warn_of_few_clips(context.data)
    epochs = logs.num_epochs
    plan = plan_of(settings, context.data, sampler.reference, dict(provenance["base"]))
    budget = JudgingBudget(
        plan,
        num_epochs=epochs,
        saved=[one for one in range(1, epochs + 1) if checkpoints.due(one, epochs)],
        shares=shares_of(settings.blend),
        learns_decoder=settings.learn_decoder != "off",
    )
    evaluator = Evaluator(plan, sampler, checkpoints, logs.evaluation, budget=budget)
    if evaluator.working:
        # When all is judged the best speaks once more; after too many failures nothing does.
        logs.remaining.judging = lambda: (
            budget.seconds_left() + budget.sample_seconds() if evaluator.working else 0.0
        )
        logs.remaining.epoch_end = budget.sample_seconds
    return evaluator


def _logs(
    settings: TrainSettings,
    context: RunContext,
    run: RunFolder,
    num_epochs: int,
    start: StartPosition,
    learner: Learner,
    batches: Batches,
    closing: ExitStack,
) -> Logs:
    if not learner.world.is_main:
        return NullLogger()
    in_container = context.machine.in_container
    return Logs(
        run,
        curve_folder.claim(run, settings.runs_dir),
        num_epochs=num_epochs,
        steps_per_epoch=-(-len(batches.plan(start.epoch)) // learner.world.size),
        first_step=learner.step,
        log_every=settings.log_every,
        peak_flops=runtime.peak_flops(context.device.value, context.precision.value),
        machine=closing.enter_context(MachineMetrics()),
        tensorboard=tensorboard_server.of_run(settings, in_container=in_container),
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
        "normalizer": config.normalizer,
    }


def _log_base_model(settings: TrainSettings, config: ModelConfig) -> None:
    log.info("Base model: %s; licence of its weights: %s", settings.base_model, config.licence)
    if config.weights == "random":
        warning = "BASE_MODEL=%s has random weights: it learns, but what it speaks is noise."
        log.warning(warning, settings.base_model)
