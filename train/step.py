"""One training step, from top to bottom: batch, forward, losses, backward, clipping, optimizer.

`train_step` runs it on a `Learner`: the GPT with its optimizer, scaler and averages. Only the GPT
with its conditioning trains; DVAE, vocoder and speaker encoder are not loaded. Weights stay in
float32; matrix products run in bfloat16 if the machine supports it.
"""

import hashlib
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Protocol

import torch
from torch import Tensor

from machine.devices import cuda_errors, recovery
from train import defaults
from train.dataset.batches import Batch
from train.distributed import ALONE, Agreement, World
from train.optim import optimizer as optimization
from train.optim.optimizer import NonFiniteTally, OptimizationConfig
from train.optim.trainable import TrainableWeights, TrainerState
from xtts.model.gpt import GPT
from xtts.model.training import Losses, PackedBatch

log = logging.getLogger("train")

# The loss terms, by their names in files and curves, with their weights in the sum that is
# minimised; in the order of `xtts.model.training.Losses`, which computes them. Steps, validation,
# the console, metrics.jsonl, TensorBoard and manifests of checkpoints follow these rows.
LOSS_TERMS = {"text_loss": defaults.TEXT_LOSS_WEIGHT, "audio_loss": defaults.AUDIO_LOSS_WEIGHT}


@dataclass(frozen=True)
class StepResult:
    """The result of a step. losses: by the names of `LOSS_TERMS`, in nats a token; loss: their
    weighted sum; gradient_norm: before clipping; finite: whether the step changed the weights."""

    losses: Mapping[str, float]
    loss: float
    gradient_norm: float
    learning_rate: float
    finite: bool

    @classmethod
    def of(cls, numbers: Sequence[float], learning_rate: float) -> "StepResult":
        """The result from the `Learner.numbers` of a step."""
        *means, loss, norm = numbers
        losses = dict(zip(LOSS_TERMS, means, strict=True))
        return cls(losses, loss, norm, learning_rate, math.isfinite(loss + norm))


@dataclass(frozen=True)
class DeferredStepResult:
    """A step whose `Learner.numbers` are still on the device."""

    numbers: Tensor
    learning_rate: float


class StepGraphs(Protocol):
    """Steps as CUDA graphs, which an extra may offer (`GRAPHS`: `graphs_of(learner)`)."""

    def step(self, batch: Batch, learning_rate: float) -> Tensor | None:
        """Runs a step; returns `Learner.numbers`, or None, without any change, if it has no graph
        for the batch."""

    def release(self, reason: str) -> None:
        """Frees the memory of all graphs and captures no more."""


def train_step(
    learner: "Learner", batch: Batch, *, deferred: bool = False, graphs: StepGraphs | None = None
) -> StepResult | DeferredStepResult:
    """Runs one step. A non-finite loss or gradient changes no weight.

    Args:
        deferred: do not wait for the numbers. The device itself skips a non-finite step, and
            `Learner.read_deferred` reads the results later. Requires `learner.can_defer`.
        graphs: run a deferred step as a CUDA graph if there is one for the batch.

    Raises:
        NonFiniteError: at the third non-finite step in a row, and in fp16 when the scale stays
            below 1. For deferred steps it is raised when they are read.
    """
    learning_rate = learner.start_step(batch)
    if deferred and graphs and (replayed := graphs.step(batch, learning_rate)) is not None:
        learner.step += 1
        return DeferredStepResult(replayed, learning_rate)
    losses, loss = _forward_backward_retried(learner, batch, graphs)
    norm = learner.gradient_norm()
    numbers = learner.numbers(losses, loss, norm)
    if deferred:
        learner.clip_gradients(norm)
        learner.optimizer_step(non_finite=~torch.isfinite(numbers[-2] + numbers[-1]))
        result: StepResult | DeferredStepResult = DeferredStepResult(numbers, learning_rate)
    elif (result := StepResult.of(numbers.tolist(), learning_rate)).finite:
        learner.clip_gradients(norm)
        learner.optimizer_step()
    # Here and not before the next step: at full size it frees 1.8 GB for saving and speaking.
    learner.optimizer.zero_grad(set_to_none=True)
    if isinstance(result, StepResult):
        peak = learner.config.learning_rate
        learner.tally.after_step(result.finite, learner.scaler, learner.step, peak)
    learner.step += 1
    return result


def forward_backward(learner: "Learner", batch: Batch) -> tuple[Losses, Tensor]:
    """The losses of a batch and their weighted sum; leaves the gradients in the weights."""
    learner.seed_dropout()
    losses = learner.losses_of(batch.rows.to(learner.device))
    loss = learner.weighted_loss(losses)
    learner.scaler.scale(loss).backward()
    return losses, loss


def _forward_backward_retried(
    learner: "Learner", batch: Batch, graphs: StepGraphs | None
) -> tuple[Losses, Tensor]:
    """Runs `forward_backward`; if memory runs out, frees unused memory and the graphs and runs it
    once more."""
    try:
        return forward_backward(learner, batch)
    except Exception as error:
        fault = cuda_errors.classify(error)
        if fault is None or not fault.transient:
            raise
    # After the `except` block: the error referenced the tensors that must be freed.
    log.warning("Step %d is repeated after: %s", learner.step, fault.words)
    learner.optimizer.zero_grad(set_to_none=True)
    if graphs:
        graphs.release(fault.words)
    recovery.free_after_fault(str(learner.device))
    return forward_backward(learner, batch)


class Learner:
    """The GPT with its optimizer. `step` counts optimizer steps from the beginning of the run;
    world: the processes that take each step together."""

    def __init__(
        self, gpt: GPT, config: OptimizationConfig, device: torch.device | str = "cpu", world: World = ALONE
    ) -> None:
        self.device = torch.device(device)
        self.gpt = gpt.to(self.device)
        self.world = world
        self.weights = TrainableWeights(self.gpt, config.trainable, config.seed)
        self.forward_losses = world.forward(self.gpt)
        # The weight of this rank's loss terms in a step of all ranks.
        self.rank_weights = (1.0,) * len(LOSS_TERMS)
        self.config = config
        self.step = 0
        self.tally = NonFiniteTally()
        self.scaler = torch.amp.grad_scaler.GradScaler(self.device.type, enabled=config.precision == "fp16")
        undecayed = self.weights.new_rows.undecayed if self.weights.new_rows else ()
        groups = optimization.weight_groups(self.gpt, config.weight_decay, undecayed)
        self.optimizer = optimization.new_optimizer(config.optimizer, groups, config.learning_rate)

    # The parts of `train_step`, in its order; CUDA graphs record the same ones

    def start_step(self, batch: Batch) -> float:
        """Sets and returns the learning rate of this step."""
        self.gpt.train()
        factor = optimization.rate_factor(self.step, self.config.warmup_steps)
        rate = self.config.learning_rate * factor
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if not self.world.is_single_process:
            agreement = batch.agreement or Agreement(self.world, batch.rows)
            self.rank_weights = agreement.rank_weights
        return rate

    def seed_dropout(self) -> None:
        """Dropout depends on (seed, step) alone, not on what ran between two steps."""
        torch.manual_seed(mix_seed(self.config.seed, self.step, self.world.rank))

    def losses_of(self, rows: PackedBatch) -> Losses:
        """The losses of rows on this device, with the dropout of torch's random state."""
        with self.autocast():
            return Losses(*self.forward_losses(rows))

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Runs matrix products inside the block with PRECISION."""
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.config.precision)
        with torch.autocast(self.device.type, dtype=kind, enabled=kind is not None):
            yield

    def weighted_loss(self, losses: Losses) -> Tensor:
        """The loss whose gradients, over all ranks, are those of the mean over all tokens."""
        means = list(losses)
        if not self.world.is_single_process:
            means = [mean * weight for mean, weight in zip(means, self.rank_weights, strict=True)]
        weighted = zip(LOSS_TERMS.values(), means, strict=True)
        return reduce(add, (weight * mean for weight, mean in weighted))

    def gradient_norm(self) -> Tensor:
        """The 2-norm over all gradients, before clipping, on their device."""
        self.scaler.unscale_(self.optimizer)
        gradients = [weight.grad for weight in self.weights.trainable if weight.grad is not None]
        return torch.nn.utils.get_total_norm(gradients)

    def numbers(self, losses: Losses, loss: Tensor, norm: Tensor) -> Tensor:
        """The numbers of a step of all ranks, `[terms + 2]`: loss terms, loss and gradient norm.

        They stay on their device. Every rank gets the same, and skips the same steps.
        """
        numbers = torch.stack((*losses, loss, norm.to(loss))).detach()
        if not self.world.is_single_process:
            for number, weight in zip(numbers[:-1], (*self.rank_weights, 1.0), strict=True):
                number.mul_(weight / self.world.size)
            self.world.sum_in_place(numbers[:-1])
        return numbers

    def clip_gradients(self, norm: Tensor) -> None:
        """Clips the norm, inside the optimizer's kernel if possible."""
        # In fp16 the scaler uses the argument that the kernel would need.
        optimization.clip_gradients(
            self.optimizer,
            self.weights.trainable,
            norm,
            self.config.gradient_clip,
            in_kernel=not self.scaler.is_enabled(),
        )

    def optimizer_step(self, non_finite: Tensor | None = None) -> None:
        """Updates the weights. non_finite: a 1 on the device skips the update."""
        with self.weights.scaled_step():
            if non_finite is not None:
                optimization.step_unless(self.optimizer, non_finite)
                return
            self.scaler.step(self.optimizer)
        self.weights.after_step(self.step + 1)

    # Deferred steps

    @property
    def can_defer(self) -> bool:
        """Whether the device can skip a non-finite step itself, without waiting for the host."""
        return (
            self.device.type != "cpu"
            and optimization.fuses_clipping(self.optimizer)
            and not self.scaler.is_enabled()
            and self.weights.averages is None
        )

    def read_deferred(self, steps: Sequence[DeferredStepResult]) -> list[StepResult]:
        """The results of deferred steps, read at once. Raises NonFiniteError as `train_step`."""
        results = []
        rows = torch.stack([step.numbers for step in steps]).tolist() if steps else []
        for numbers, step in zip(rows, steps, strict=True):
            results.append(StepResult.of(numbers, step.learning_rate))
            self.tally.count(results[-1].finite, False, self.step, self.config.learning_rate)
        return results

    # The saved state

    def model_state(self) -> dict[str, Tensor]:
        """The weights in float32 on the CPU, in Coqui's names and orientation."""
        return self.weights.model_state()

    def trainer_state(self) -> TrainerState:
        """The state that a resumed run needs in addition to the weights."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "non_finite_in_a_row": self.tally.non_finite_in_a_row,
            "num_non_finite": self.tally.num_non_finite,
            "low_scale_in_a_row": self.tally.low_scale_in_a_row,
            **self.weights.state(),
        }

    def resume(self, model_state: dict[str, Tensor], trainer_state: TrainerState | None, step: int) -> None:
        """Loads the weights after `step` steps, and the optimizer state if there is one."""
        self.weights.resume(model_state, trainer_state)
        # The schedule and the dropout of a step depend on its number, with or without an optimizer.
        self.step = step
        if trainer_state is None:
            return
        optimization.load_state(self.optimizer, trainer_state["optimizer"])
        if trainer_state["scaler"]:  # empty without fp16
            self.scaler.load_state_dict(trainer_state["scaler"])
        for name in asdict(self.tally):  # an older checkpoint may lack some
            setattr(self.tally, name, trainer_state.get(name, 0))


def mix_seed(seed: int, step: int, rank: int = 0) -> int:
    """A 63-bit hash of all three, so that neighbouring seeds share no step, and no two ranks do."""
    of_rank = f"/{rank}" if rank else ""
    digest = hashlib.sha256(f"{seed}/{step}{of_rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
