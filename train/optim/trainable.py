"""Trainable weights and saved weights: LoRA merged, EMA applied.

Without LORA_RANK and EMA_DECAY they are the same. With adapters, the saved weights are merged; with
averages, they are the averages. The trainer's state then holds what they do not contain.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from machine.errors import SotaqueError
from train.optim.activation_checkpointing import checkpoint_activations
from train.optim.ema import ExponentialMovingAverage
from train.optim.freezing import freeze
from train.optim.lora import LoraAdapters, LoraShape
from train.optim.new_rows import NewRows, NewRowsShape
from xtts.model.gpt import GPT, TEXT_TABLES, from_coqui, to_coqui


@dataclass(frozen=True)
class TrainableParts:
    """Which parts of a GPT learn, and how. ema_decay 0: no averages; freeze: patterns of names;
    new_rows: None without an added language."""

    lora: LoraShape | None = None
    freeze: Sequence[str] = ()
    ema_decay: float = 0.0
    recompute: bool = False
    new_rows: NewRowsShape | None = None


class TrainableWeights:
    """A GPT on its device, prepared for training.

    Raises SotaqueError for a FREEZE or LORA_RANK that does not fit the model.
    """

    def __init__(self, gpt: GPT, parts: TrainableParts, seed: int) -> None:
        self.gpt = gpt
        if parts.lora and parts.freeze:
            raise SotaqueError(
                f"FREEZE={','.join(parts.freeze)} and LORA_RANK={parts.lora.rank} do not go "
                "together: with adapters everything else is frozen. Leave one of them empty."
            )
        self.lora = LoraAdapters(gpt, parts.lora, seed) if parts.lora else None
        freeze(gpt, parts.freeze)
        self.new_rows = NewRows(gpt, parts.new_rows) if parts.new_rows else None
        if parts.recompute:
            checkpoint_activations(gpt)
        # The weights below the adapters, if these are no longer the base model's.
        self._ground: dict[str, Tensor] | None = None
        self.averages = ExponentialMovingAverage(gpt, parts.ema_decay) if parts.ema_decay else None

    @property
    def trainable(self) -> list[Tensor]:
        """The weights that have gradients."""
        return [parameter for parameter in self.gpt.parameters() if parameter.requires_grad]

    @property
    def trainable_share(self) -> float:
        """The share of all weights that learn."""
        every = sum(parameter.numel() for parameter in self.gpt.parameters())
        return sum(weight.numel() for weight in self.trainable) / every

    def scaled_step(self) -> AbstractContextManager[None]:
        """Around an optimizer step: gives new rows their own rate."""
        return self.new_rows.scaled() if self.new_rows else nullcontext()

    def after_step(self, step: int) -> None:
        """Updates the averages after optimizer step `step` (from 1)."""
        if self.averages:
            self.averages.add(step)

    @contextmanager
    def as_saved(self) -> Iterator[None]:
        """Inside, the GPT has the weights that would be saved."""
        with self.averages.in_place() if self.averages else nullcontext():
            yield

    @torch.no_grad()
    def unsaved_state(self) -> dict[str, Tensor]:
        """The tensors of `model_state` on their device and not copied; `xtts.model.gpt.to_coqui`
        converts them. The caller must copy them before the next step."""
        with self.as_saved():
            state = self.lora.merged() if self.lora else self.gpt.state_dict()
            return {name: tensor.detach() for name, tensor in state.items()}

    @torch.no_grad()
    def model_state(self) -> dict[str, Tensor]:
        """The weights that are saved and evaluated: on the CPU, by Coqui's names and orientation,
        merged."""
        with self.as_saved():
            state = self.lora.merged() if self.lora else self.gpt.state_dict()
            # A copy, because the averages are swapped out again and would change shared memory.
            copied = self.averages is not None
            return to_coqui(
                {
                    name: tensor.detach().cpu().clone() if copied else tensor.detach().cpu()
                    for name, tensor in state.items()
                }
            )

    @torch.no_grad()
    def adapter(self) -> tuple[dict[str, Tensor], int] | None:
        """A and B, as they are merged into what is saved, and LoRA's alpha. None without LORA_RANK,
        and where they stand on other weights than the base model's, such as new rows that learned
        too: alone they would be no voice.
        """
        if self.lora is None or self._ground is not None or self.new_rows:
            return None
        with self.as_saved():
            return self.lora.alone(), self.lora.shape.alpha

    def state(self) -> dict[str, Any]:
        """What `model_state` does not contain; empty if it contains everything."""
        state: dict[str, Any] = {}
        if self.lora:
            state["lora"] = _on_cpu(self.lora.adapters())
            state["lora_ground"] = self._ground
        if self.averages:
            trainable = {n: p for n, p in self.gpt.named_parameters() if p.requires_grad}
            state["raw"] = _on_cpu(trainable)
            state["averages"] = _on_cpu(self.averages.values)
        return state

    def resume(self, model_state: Mapping[str, Tensor], state: Mapping[str, Any] | None) -> None:
        """Restores saved weights. state: of the trainer, None if only the weights are left."""
        weights, state = from_coqui(model_state), state or {}
        if not self.lora:
            self.gpt.load_state_dict(weights)
        elif not state.get("lora"):
            # Weights of another run, or without the trainer's state: new adapters start on top of
            # them.
            self.lora.load_base(weights)
            self._ground = _on_cpu(self.lora.base())
        else:
            if state.get("lora_ground"):
                self._ground = dict(state["lora_ground"])
                self.lora.load_base(self._ground)
            self.lora.load_adapters(state["lora"])
            if self.new_rows:
                tables = {name: weights[name] for name in TEXT_TABLES}
                self.gpt.load_state_dict(tables, strict=False)
        if self.averages and state.get("averages"):
            self.gpt.load_state_dict(dict(state["raw"]), strict=False)
            self.averages.load(state["averages"])
        elif self.averages:
            self.averages.restart()


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}
