"""The state that a step changes: the GPT, its optimizer, scaler and average.

Only the GPT with its conditioning trains; DVAE, vocoder and speaker encoder are not loaded.
Weights stay in float32; matrix products run in bfloat16 if the machine supports it. The step itself
is `train.trainer.train_step`.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from train import defaults
from train.dataset.batches import Batch
from train.distributed import ALONE, Agreement, World
from train.losses import LOSS_TERMS, NonFiniteError
from train.optim import optimizer as optimization
from train.optim.optimizer import rate_factor
from train.optim.trainable import TrainableParts, TrainableWeights
from xtts.model import training
from xtts.model.gpt import GPT
from xtts.model.training import Losses, PackedBatch

MAX_NON_FINITE_IN_A_ROW = 3
# With a scale below 1, gradients overflow fp16 even unscaled, and that only gets worse.
MAX_LOW_SCALE_IN_A_ROW = 10


@dataclass(frozen=True)
class OptimizationConfig:
    """The optimization settings of one run.

    Attributes:
        learning_rate: The peak rate.
        gradient_clip: The maximum norm.
        trainable: Which weights train.
    """

    learning_rate: float
    precision: str
    seed: int
    warmup_steps: int = defaults.WARMUP_STEPS
    weight_decay: float = defaults.WEIGHT_DECAY
    gradient_clip: float = defaults.GRADIENT_CLIP
    optimizer: str = "adamw"
    trainable: TrainableParts = field(default_factory=TrainableParts)


@dataclass(frozen=True)
class StepResult:
    """The result of a step.

    Attributes:
        losses: By the names of `LOSS_TERMS`, in nats a token.
        loss: Their weighted sum.
        gradient_norm: Before clipping.
        finite: Whether the step changed the weights.
    """

    losses: Mapping[str, float]
    loss: float
    gradient_norm: float
    learning_rate: float
    finite: bool

    @classmethod
    def of(cls, numbers: Sequence[float], learning_rate: float) -> "StepResult":
        """The result from the `Learner.numbers` of a step."""
        *means, loss, norm = numbers
        losses = {term.name: mean for term, mean in zip(LOSS_TERMS, means, strict=True)}
        return cls(losses, loss, norm, learning_rate, math.isfinite(loss + norm))


@dataclass(frozen=True)
class DeferredStepResult:
    """A step whose numbers are still on the device, as `train.trainer.train_step` stacks them."""

    numbers: Tensor
    learning_rate: float


class Learner:
    """The GPT with its optimizer. `step` counts optimizer steps from the beginning of the run.

    world: the processes that take each step together.
    """

    def __init__(
        self,
        gpt: GPT,
        config: OptimizationConfig,
        device: torch.device | str = "cpu",
        world: World = ALONE,
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
        self.scaler = torch.amp.grad_scaler.GradScaler(
            self.device.type, enabled=config.precision == "fp16"
        )
        undecayed = self.weights.new_rows.undecayed if self.weights.new_rows else ()
        groups = optimization.weight_groups(self.gpt, config.weight_decay, undecayed)
        self.optimizer = optimization.new_optimizer(config.optimizer, groups, config.learning_rate)

    # The parts of a step, in the order of `train.trainer.train_step`.

    @property
    def can_defer(self) -> bool:
        """Whether the device can skip a non-finite step itself, without waiting for the host."""
        return (
            self.device.type != "cpu"
            and optimization.fuses_clipping(self.optimizer)
            and not self.scaler.is_enabled()
            and self.weights.averages is None
        )

    def start_step(self, batch: Batch) -> float:
        """Sets and returns the learning rate of this step."""
        self.gpt.train()
        rate = self.config.learning_rate * rate_factor(self.step, self.config.warmup_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if not self.world.is_single_process:
            agreement = batch.agreement or Agreement(self.world, batch.rows)
            self.rank_weights = agreement.rank_weights
        return rate

    def forward(self, batch: Batch) -> Losses:
        """The losses of a batch, with dropout."""
        self.seed_dropout()
        return self.losses_of(batch.rows.to(self.device))

    def seed_dropout(self) -> None:
        """Dropout depends on (seed, step) alone, not on what ran between two steps."""
        torch.manual_seed(mix_seed(self.config.seed, self.step, self.world.rank))

    def losses_of(self, rows: PackedBatch) -> Losses:
        """The losses of rows on this device, with the dropout of torch's random state."""
        with self.autocast():
            return Losses(*self.forward_losses(rows))

    def weighted_loss(self, losses: Losses) -> Tensor:
        """The loss whose gradients, over all ranks, are those of the mean over all tokens."""
        means = [term.mean(losses) for term in LOSS_TERMS]
        if not self.world.is_single_process:
            means = [mean * own for mean, own in zip(means, self.rank_weights, strict=True)]
        weighted = zip(LOSS_TERMS, means, strict=True)
        return reduce(add, (term.weight * mean for term, mean in weighted))

    def gradient_norm(self) -> Tensor:
        """The 2-norm over all gradients, before clipping, on their device."""
        self.scaler.unscale_(self.optimizer)
        gradients = [one.grad for one in self.weights.trainable if one.grad is not None]
        return torch.nn.utils.get_total_norm(gradients)

    def numbers(self, losses: Losses, loss: Tensor, norm: Tensor) -> Tensor:
        """The numbers of a step of all ranks, `[terms + 2]`: loss terms, loss and gradient norm.

        They stay on their device. Every rank gets the same, and skips the same steps.
        """
        means = (term.mean(losses) for term in LOSS_TERMS)
        numbers = torch.stack((*means, loss, norm.to(loss))).detach()
        if not self.world.is_single_process:
            for number, own in zip(numbers[:-1], (*self.rank_weights, 1.0), strict=True):
                number.mul_(own / self.world.size)
            self.world.sum_in_place(numbers[:-1])
        return numbers

    def clip_gradients(self, norm: Tensor) -> None:
        """Clips the norm, inside the optimizer's kernel if possible."""
        weights, largest = self.weights.trainable, self.config.gradient_clip
        if self.scaler.is_enabled():  # the scaler uses the argument that the kernel would need
            torch.nn.utils.clip_grads_with_norm_(weights, largest, norm)
        else:
            optimization.clip_gradients(self.optimizer, weights, norm, largest)

    def optimizer_step(self, non_finite: Tensor | None = None) -> None:
        """Updates the weights. non_finite: a 1 on the device skips the update."""
        with self.weights.scaled_step():
            if non_finite is not None:
                optimization.step_unless(self.optimizer, non_finite)
                return
            self.scaler.step(self.optimizer)
        self.weights.after_step(self.step + 1)

    def count_step(self, result: StepResult) -> None:
        """Updates the scale of fp16 and the tally. Raises NonFiniteError at the third non-finite
        step in a row, and in fp16 when the scale stays below 1."""
        # In fp16 the scaler finds its scale by overflowing; the data is not at fault.
        searching = self.scaler.is_enabled() and self.scaler.get_scale() > 1.0
        self.scaler.update()
        self.tally.count(result.finite, searching, self.step, self.config.learning_rate)
        if self.scaler.is_enabled():
            self.tally.judge_scale(self.scaler.get_scale(), self.step)

    def read_deferred(self, steps: Sequence[DeferredStepResult]) -> list[StepResult]:
        """The results of deferred steps, read all at once. Raises NonFiniteError, see
        `count_step`."""
        if not steps:
            return []
        results = []
        rows = torch.stack([one.numbers for one in steps]).tolist()
        for numbers, one in zip(rows, steps, strict=True):
            results.append(StepResult.of(numbers, one.learning_rate))
            self.tally.count(results[-1].finite, False, self.step, self.config.learning_rate)
        return results

    @torch.no_grad()
    def evaluate(self, batches: Iterable[Batch]) -> dict[str, float]:
        """The mean loss terms over all tokens of these batches, without dropout, with the weights
        that would be saved.

        Changes no state.
        """
        self.gpt.eval()
        sums = torch.zeros(2 * len(LOSS_TERMS), dtype=torch.float64)
        with self.weights.as_saved():
            for batch in batches:
                with self.autocast():
                    losses = training.losses(self.gpt, batch.rows.to(self.device))
                means = [float(term.mean(losses)) for term in LOSS_TERMS]
                counts = [term.num_targets(batch.rows) for term in LOSS_TERMS]
                products = [mean * count for mean, count in zip(means, counts, strict=True)]
                sums += torch.tensor([*products, *counts]).double()
        all_sums = self.world.all_reduce(*sums.tolist())
        totals, numbers = all_sums[: len(LOSS_TERMS)], all_sums[len(LOSS_TERMS) :]
        # A stop during validation may leave no tokens; the result is not used then.
        return {
            term.name: total / max(1.0, number)
            for term, total, number in zip(LOSS_TERMS, totals, numbers, strict=True)
        }

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Runs matrix products inside the block with PRECISION."""
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        kind = kinds.get(self.config.precision)
        with torch.autocast(self.device.type, dtype=kind, enabled=kind is not None):
            yield

    def model_state(self) -> dict[str, Tensor]:
        """The weights in float32 on the CPU, in Coqui's names and orientation."""
        return self.weights.model_state()

    def trainer_state(self) -> dict[str, Any]:
        """The state that a resumed run needs in addition to the weights."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            **asdict(self.tally),
            **self.weights.state(),
        }

    def resume(
        self, model_state: dict[str, Tensor], trainer_state: dict[str, Any] | None, step: int
    ) -> None:
        """Loads the weights after `step` steps, and the optimizer state if there is one."""
        self.weights.resume(model_state, trainer_state)
        # The schedule and the dropout of a step depend on its number, with or without an optimizer.
        self.step = step
        if trainer_state is None:
            return
        optimization.load_state(self.optimizer, trainer_state["optimizer"])
        self.scaler.load_state_dict(trainer_state["scaler"])
        for name in asdict(self.tally):  # an older checkpoint may lack some
            setattr(self.tally, name, trainer_state.get(name, 0))


@dataclass
class NonFiniteTally:
    """Counts non-finite steps, in a row and in total, and steps in a row at a scale below 1."""

    non_finite_in_a_row: int = 0
    num_non_finite: int = 0
    low_scale_in_a_row: int = 0

    def count(self, finite: bool, searching: bool, step: int, learning_rate: float) -> None:
        """Counts one step. Raises NonFiniteError at the third non-finite step in a row.

        Args:
            searching: whether fp16's scaler is still finding its scale by overflowing.
        """
        if finite or searching:
            self.non_finite_in_a_row = 0
            return
        self.non_finite_in_a_row += 1
        self.num_non_finite += 1
        if self.non_finite_in_a_row >= MAX_NON_FINITE_IN_A_ROW:
            raise NonFiniteError(
                f"The loss was not finite in {self.non_finite_in_a_row} steps in a row, up to step "
                f"{step}. They changed no weights. Lower LEARNING_RATE (it is "
                f"{learning_rate:g}), or set PRECISION=fp32. The log names the clips."
            )

    def judge_scale(self, scale: float, step: int) -> None:
        """Checks the scale of fp16 after a step. Raises NonFiniteError when it stays below 1."""
        self.low_scale_in_a_row = self.low_scale_in_a_row + 1 if scale < 1.0 else 0
        if self.low_scale_in_a_row >= MAX_LOW_SCALE_IN_A_ROW:
            raise NonFiniteError(
                f"The gradient scale of PRECISION=fp16 was below 1 in {self.low_scale_in_a_row} "
                f"steps in a row (it is {scale:g}), up to step {step}: the "
                "gradients are too large for fp16. Set PRECISION=bf16 or fp32, and resume from the "
                "last epoch."
            )


def mix_seed(seed: int, step: int, rank: int = 0) -> int:
    """A 63-bit hash of all three, so that neighbouring seeds share no step, and no two ranks do."""
    own = f"/{rank}" if rank else ""
    digest = hashlib.sha256(f"{seed}/{step}{own}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
