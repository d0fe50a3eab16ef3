"""What learns, and how one step goes: losses, gradients, clipping, AdamW, schedule.

Only the GPT with its conditioning learns; DVAE, vocoder and speaker encoder are not even loaded.
Weights are kept in float32, products run in bfloat16 where the machine has it.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from machine.devices import cuda_errors
from train.dataset.batches import Batch
from train.distributed import ALONE, Totals, World, totals
from train.optim.factory import new_optimizer
from train.optim.optimizer import (
    Schedule,
    load_state,
    mix_seed,
    set_rate,
    weight_groups,
)
from train.optim.optimizer_step import (
    DeferredStepResult,
    clip_gradients,
    compile_blocks,
    fuses_clipping,
    gradient_norm,
    step_unless_non_finite,
)
from train.optim.step_outcome import NonFiniteTally, StepResult, Validation
from train.optim.trainable import TrainableParts, TrainableWeights
from xtts.model.gpt import GPT, Losses

log = logging.getLogger("train")


@dataclass(frozen=True)
class OptimizationConfig:
    """The choices of one run: peak rate per step, warm-up in steps, loss weights, clipping norm;
    schedule and total_steps: how the rate falls; learning: what learns at all."""

    learning_rate: float
    warmup_steps: int
    weight_decay: float
    gradient_clip: float
    text_loss_weight: float
    audio_loss_weight: float
    precision: str
    seed: int
    optimizer: str = "adamw"
    schedule: str = "inverse_sqrt"
    total_steps: int = 0
    learning: TrainableParts = field(default_factory=TrainableParts)
    fused: bool = True
    compiled: bool = False


class Learner:
    """The GPT with its optimizer. `step` counts optimizer steps from the beginning of the run.

    world: the other processes, which take each step together with this one.
    """

    def __init__(
        self,
        gpt: GPT,
        recipe: OptimizationConfig,
        device: torch.device | str = "cpu",
        world: World = ALONE,
    ) -> None:
        self.device = torch.device(device)
        self.gpt = gpt.to(self.device)
        self.world = world
        self.weights = TrainableWeights(self.gpt, recipe.learning, recipe.seed)
        if recipe.compiled:
            compile_blocks(self.gpt)
        self.losses = world.forward(self.gpt)
        self.totals = Totals(0.0, 0.0, 1.0, 1.0)
        self.recipe = recipe
        self.schedule = Schedule(recipe.schedule, recipe.warmup_steps, recipe.total_steps)
        self.step = 0
        self.tally = NonFiniteTally()
        self.scaler = torch.amp.grad_scaler.GradScaler(
            self.device.type, enabled=recipe.precision == "fp16"
        )
        groups = weight_groups(self.gpt, recipe.weight_decay)
        self.optimizer = new_optimizer(
            recipe.optimizer, groups, recipe.learning_rate, fused=recipe.fused
        )

    @property
    def ahead(self) -> bool:
        """Whether steps can be taken without looking at their numbers (`learn_ahead`)."""
        return (
            self.device.type != "cpu"
            and fuses_clipping(self.optimizer)
            and not self.scaler.is_enabled()
            and self.world.is_single_process
            and self.weights.averages is None
        )

    def learn(self, batch: Batch) -> StepResult:
        """One step. A loss or gradient that is no number moves no weight.

        Raises NonFiniteError at the third such step in a row, and in fp16 when its scale stays
        below 1.
        """
        rate = self._begin(batch)
        losses, loss = self._gradients(batch)
        self.scaler.unscale_(self.optimizer)
        norm = gradient_norm(self.weights.learning)
        text, audio, total, length = self._told(losses, loss, norm)
        finite = math.isfinite(total + length)
        # In fp16 the scaler looks for its scale by overflowing: that is no fault of the data.
        searching = self.scaler.is_enabled() and self.scaler.get_scale() > 1.0
        if finite:
            self._clip(norm)
            self.scaler.step(self.optimizer)
            self.weights.moved(self.step + 1)
        self.scaler.update()
        # Here, not before the next step: at full size 1.8 GB less while saving and speaking.
        self.optimizer.zero_grad(set_to_none=True)
        self.tally.count(finite, searching, self.step, self.recipe.learning_rate)
        if self.scaler.is_enabled():
            self.tally.judge_scale(self.scaler.get_scale(), self.step)
        self.step += 1
        return StepResult(text, audio, total, length, rate, finite)

    def train_step_async(self, batch: Batch) -> DeferredStepResult:
        """One step that waits for nothing: the device itself leaves the weights where a number is
        none. `seen` tells how it went. Only where `ahead` holds."""
        rate = self._begin(batch)
        losses, loss = self._gradients(batch)
        norm = gradient_norm(self.weights.learning)
        numbers = torch.stack((losses.text, losses.audio, loss, norm.to(loss))).detach()
        self._clip(norm)
        step_unless_non_finite(self.optimizer, ~torch.isfinite(numbers[2] + numbers[3]))
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return DeferredStepResult(numbers, rate)

    def seen(self, steps: Sequence[DeferredStepResult]) -> list[StepResult]:
        """Looks at steps that were taken ahead, all at once. Raises NonFiniteError as `learn`."""
        if not steps:
            return []
        results = []
        rows = torch.stack([one.numbers for one in steps]).tolist()
        for (text, audio, total, length), one in zip(rows, steps, strict=True):
            finite = math.isfinite(total + length)
            self.tally.count(finite, False, self.step, self.recipe.learning_rate)
            results.append(StepResult(text, audio, total, length, one.learning_rate, finite))
        return results

    def _begin(self, batch: Batch) -> float:
        """The rate of this step."""
        self.gpt.train()
        rate = self.recipe.learning_rate * self.schedule.share(self.step)
        set_rate(self.optimizer, rate)
        if not self.world.is_single_process:
            self.totals = totals(self.world, batch.rows)
        return rate

    def _clip(self, norm: Tensor) -> None:
        # The scaler of fp16 keeps its own number in the kernel's place.
        weights, largest = self.weights.learning, self.recipe.gradient_clip
        if self.scaler.is_enabled():
            nn.utils.clip_grads_with_norm_(weights, largest, norm)
        else:
            clip_gradients(self.optimizer, weights, norm, largest)

    @torch.no_grad()
    def evaluate(self, batches: Iterable[Batch]) -> Validation:
        """Mean losses without dropout, of the weights that are saved; nothing of it stays."""
        self.gpt.eval()
        sums = torch.zeros(4, dtype=torch.float64)
        with self.weights.heard():
            for batch in batches:
                with self._precision():
                    found = self.gpt.losses(batch.rows.to(self.device))
                text, audio = float(found.text), float(found.audio)
                counts = (found.num_text, found.num_audio)
                sums += torch.tensor([text * counts[0], audio * counts[1], *counts]).double()
        text, audio, num_text, num_audio = self.world.all_reduce(*sums.tolist())
        # A stop while validating leaves nothing to divide by; what comes of it is not used.
        return Validation(text / max(1.0, num_text), audio / max(1.0, num_audio))

    def model_state(self) -> dict[str, Tensor]:
        """The weights in float32 on the CPU, in Coqui's names and orientation."""
        return self.weights.model_state()

    def trainer_state(self) -> dict[str, Any]:
        """What a resumed run needs beyond the weights."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            **self.tally.state(),
            **self.weights.state(),
        }

    def resume(
        self, model_state: dict[str, Tensor], trainer_state: dict[str, Any] | None, step: int
    ) -> None:
        """Takes up weights after `step` steps, and the optimizer where its state was kept."""
        self.weights.resume(model_state, trainer_state)
        # The schedule and the dropout of a step depend on its number, with or without an optimizer.
        self.step = step
        if trainer_state is None:
            return
        load_state(self.optimizer, trainer_state["optimizer"])
        self.scaler.load_state_dict(trainer_state["scaler"])
        self.tally.resume(trainer_state)

    def _gradients(self, batch: Batch) -> tuple[Losses, Tensor]:
        """Losses, and their gradients in the weights. Memory that is short gets one more try."""
        try:
            return self._backward(batch)
        except Exception as error:
            found = cuda_errors.classify(error)
            if found is None or not found.transient:
                raise
        # Behind the `except`: the error held the tensors that are to go.
        log.warning("Step %d once more, after: %s", self.step, found.words)
        self.optimizer.zero_grad(set_to_none=True)
        cuda_errors.free_after_fault(str(self.device))
        return self._backward(batch)

    def _backward(self, batch: Batch) -> tuple[Losses, Tensor]:
        # Dropout draws from (seed, step) alone: whatever ran between two steps changes nothing.
        torch.manual_seed(mix_seed(self.recipe.seed, self.step, self.world.rank))
        with self._precision():
            losses = Losses(*self.losses(batch.rows.to(self.device)))
        loss = self._weighted(losses.text, losses.audio)
        self.scaler.scale(loss).backward()
        return losses, loss

    def _weighted(self, text: Tensor, audio: Tensor) -> Tensor:
        """The loss whose gradients, over all ranks, are those of the mean over all tokens."""
        if not self.world.is_single_process:
            text, audio = text * self.totals.text_share, audio * self.totals.audio_share
        return self.recipe.text_loss_weight * text + self.recipe.audio_loss_weight * audio

    def _told(self, losses: Losses, loss: Tensor, norm: Tensor) -> list[float]:
        """Text, audio, loss and gradient norm of the step: the one look at the device in it."""
        found = torch.stack((losses.text, losses.audio, loss, norm.to(loss))).tolist()
        if self.world.is_single_process:
            return found
        own = (self.totals.text_share, self.totals.audio_share, 1.0)
        parts = (value * share / self.world.size for value, share in zip(found, own, strict=False))
        return [*self.world.all_reduce(*parts), found[3]]

    @contextmanager
    def _precision(self) -> Iterator[None]:
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        kind = kinds.get(self.recipe.precision)
        with torch.autocast(self.device.type, dtype=kind, enabled=kind is not None):
            yield
