"""Which weights of a GPT learn, and which are saved: LoRA merged, EMA applied.

Without LORA_RANK and averages, both are the same weights. With adapters, the saved weights are merged;
with averages, they are the averages. The trainer state then has what they lack.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from machine.errors import SotaqueError
from train import defaults
from train.optim.lora import LoraAdapters, rank_of
from xtts.model.config import TrainingAdvice
from xtts.model.gpt import GPT, TEXT_TABLES, from_coqui, to_coqui

# GRADIENT_CHECKPOINTING=auto: blocks are recomputed if the longest clip alone takes more than this
# share of the free memory.
MAX_MEMORY_SHARE = 0.7


# What torch returns as the state of an optimizer or a scaler.
StateDict = dict[str, Any]


class TrainerState(TypedDict, total=False):
    """What a resumed run needs in addition to the weights; an older file may lack some."""

    optimizer: StateDict
    scaler: StateDict
    # Of `train.optim.optimizer.NonFiniteTally`.
    non_finite_in_a_row: int
    num_non_finite: int
    low_scale_in_a_row: int
    # Adapters, and the weights below them if they are not the base model's.
    lora: dict[str, Tensor]
    lora_ground: dict[str, Tensor] | None
    # Averages, and the weights that they are averages of.
    raw: dict[str, Tensor]
    averages: dict[str, Tensor]
    # Batches and their `OomBackoff`s; `train.epoch_end.EarlyStopping.state`.
    batch_seconds: float
    halvings: list[list[float]]
    patience: dict[str, float]


@dataclass(frozen=True)
class TrainableParts:
    """Which parts of a GPT learn, and how. lora_rank 0: no adapters; freeze: patterns of names;
    ema_decay 0: no averages; new_rows: the rows of the languages that a run adds."""

    lora_rank: int = 0
    freeze: Sequence[str] = ()
    ema_decay: float = 0.0
    recompute: bool = False
    new_rows: Sequence[int] = ()


class TrainableWeights:
    """A GPT on its device, prepared for training.

    Raises SotaqueError for a pattern or LORA_RANK that does not fit the model.
    """

    def __init__(self, gpt: GPT, parts: TrainableParts, seed: int) -> None:
        self.gpt = gpt
        self.lora = LoraAdapters(gpt, parts.lora_rank, seed) if parts.lora_rank else None
        freeze(gpt, parts.freeze)
        self.new_rows = NewRows(gpt, parts.new_rows) if parts.new_rows else None
        if parts.recompute:
            checkpoint_activations(gpt)
        # The weights below the adapters, if they are no longer the base model's.
        self._ground: dict[str, Tensor] | None = None
        self.averages = ExponentialMovingAverage(gpt, parts.ema_decay) if parts.ema_decay else None

    @property
    def trainable(self) -> list[Tensor]:
        """The weights that have gradients."""
        return [parameter for parameter in self.gpt.parameters() if parameter.requires_grad]

    def scaled_step(self) -> AbstractContextManager[None]:
        """Around an optimizer step: applies the rate of new rows."""
        return self.new_rows.scaled() if self.new_rows else nullcontext()

    def after_step(self, step: int) -> None:
        """Updates the averages after optimizer step `step` (from 1)."""
        if self.averages:
            self.averages.add(step)

    def as_saved(self) -> AbstractContextManager[None]:
        """Inside, the GPT has the weights that would be saved."""
        return self.averages.in_place() if self.averages else nullcontext()

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
        state = {name: tensor.cpu() for name, tensor in self.unsaved_state().items()}
        if self.averages:  # the next step changes them in place
            state = {name: tensor.clone() for name, tensor in state.items()}
        return to_coqui(state)

    @torch.no_grad()
    def adapter(self) -> tuple[dict[str, Tensor], int] | None:
        """LoRA's A and B as they are merged into the saved weights, and its alpha. None without
        LORA_RANK, and if other weights than the base model's are below them, such as new rows: without
        those, A and B are not a voice."""
        if self.lora is None or self._ground is not None or self.new_rows:
            return None
        with self.as_saved():
            return self.lora.alone(), self.lora.alpha

    def state(self) -> TrainerState:
        """The state that `model_state` does not contain; empty if it contains everything."""
        state = TrainerState()
        if self.lora:
            state["lora"] = _on_cpu(self.lora.adapters())
            state["lora_ground"] = self._ground
        if self.averages:
            trainable = {n: p for n, p in self.gpt.named_parameters() if p.requires_grad}
            state["raw"] = _on_cpu(trainable)
            state["averages"] = _on_cpu(self.averages.values)
        return state

    def resume(self, model_state: Mapping[str, Tensor], state: TrainerState | None) -> None:
        """Restores saved weights. state: of the trainer, None if only the weights are left.

        Raises SotaqueError for a state of adapters without adapters, or the reverse.
        """
        if state is not None:
            saved_rank = rank_of(state.get("lora") or {})
            rank = rank_of(self.lora.adapters()) if self.lora else 0
            if bool(saved_rank) != bool(rank):
                learned = f"adapters of rank {saved_rank}" if saved_rank else "all weights"
                raise SotaqueError(
                    f"This run trains {learned}, and LORA_RANK is {rank}. Set LORA_RANK={saved_rank} to "
                    "continue, or RESUME=never to start over."
                )
        weights, state = from_coqui(model_state), state or TrainerState()
        if not self.lora:
            self.gpt.load_state_dict(weights)
        elif not state.get("lora"):
            # Weights of another run, or without the trainer's state: new adapters start on top of
            # them.
            self.lora.load_base(weights)
            self._ground = _on_cpu(self.lora.base())
        else:
            if ground := state.get("lora_ground"):
                self._ground = dict(ground)
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


# Exponential moving average (Polyak and Juditsky 1992)


class ExponentialMovingAverage:
    """Averages of the trainable weights of `module`, on the same device.

    The first steps have more weight than the decay gives them (as in TensorFlow's
    ExponentialMovingAverage); otherwise the average would stay near the base for long.

    decay: the share of the old average that remains after a step.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = module
        self.decay = decay
        self.values = {name: tensor.detach().clone() for name, tensor in self._trainable_weights()}

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Updates the averages after optimizer step `step` (from 1)."""
        decay = min(self.decay, step / (step + 9))
        names, tensors = zip(*self._trainable_weights(), strict=True)
        torch._foreach_lerp_([self.values[name] for name in names], list(tensors), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the averages are the module's weights; afterwards the old weights return, bit for
        bit."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def load(self, values: Mapping[str, Tensor]) -> None:
        """Restores saved averages."""
        for name, tensor in self.values.items():
            tensor.copy_(values[name])

    def restart(self) -> None:
        """Resets the averages to the present weights."""
        self.load({name: tensor.detach() for name, tensor in self._trainable_weights()})

    def _trainable_weights(self) -> list[tuple[str, Tensor]]:
        return [(n, p) for n, p in self.module.named_parameters() if p.requires_grad]

    def _swap(self) -> None:
        for name, parameter in self._trainable_weights():
            parameter.data, self.values[name] = self.values[name], parameter.data


# Weights that are not trained, by patterns of their names


def frozen_weights(advice: TrainingAdvice, *, with_adapters: bool) -> tuple[str, ...]:
    """The patterns that the base model recommends. With adapters, everything else is frozen
    anyway."""
    names = "" if with_adapters else advice.freeze or ""
    return tuple(part.strip() for part in names.split(",") if part.strip())


def freeze(module: nn.Module, globs: Sequence[str]) -> None:
    """Freezes every weight that a pattern matches.

    A pattern matches a whole name (`text_embedding.weight`) or the name of a part
    (`conditioning_*`). Raises SotaqueError if one matches nothing.
    """
    named = dict(module.named_parameters())
    for glob in globs:
        matching = [name for name in named if fnmatchcase(name, glob) or fnmatchcase(name, f"{glob}.*")]
        for name in matching:
            named[name].requires_grad_(False)
        if not matching or not any(weight.requires_grad for weight in named.values()):
            which = "every weight" if matching else "no weight"
            raise SotaqueError(
                f"`freeze` in config.json has {glob!r}, which matches {which} of the model. Its "
                f"parts are {', '.join(sorted({name.split('.')[0] for name in named}))}."
            )


# Rows that `train extend` added to the text tables


class NewRows:
    """Trains the new rows of a GPT's text tables at a separate rate.

    AdamW divides by the size of the gradients, so scaled gradients would change nothing: the step's
    change of these rows is scaled instead. They also learn in a frozen table (by advice or with
    adapters); its old rows stay, bit for bit (as with peft's `trainable_token_indices`).

    Attributes:
        undecayed: The tables that were frozen. Weight decay would change their old rows.
    """

    def __init__(self, gpt: GPT, ids: Sequence[int]) -> None:
        parameters = dict(gpt.named_parameters())
        self._tables = [parameters[name] for name in TEXT_TABLES]
        self._ids = torch.tensor(ids, device=self._tables[0].device)
        self.undecayed = [table for table in self._tables if not table.requires_grad]
        for table in self.undecayed:
            table.requires_grad_(True)
            # Neither the norm that is clipped nor the optimizer sees the old rows.
            table.register_hook(self._mask_old_rows)

    @contextmanager
    def scaled(self) -> Iterator[None]:
        """Inside, the optimizer takes a step; afterwards its change of the rows is scaled."""
        rows_before = [table.detach()[self._ids] for table in self._tables]
        yield
        with torch.no_grad():
            for table, rows in zip(self._tables, rows_before, strict=True):
                table[self._ids] = rows.lerp(table[self._ids], defaults.NEW_ROWS_RATE)

    def _mask_old_rows(self, gradient: Tensor) -> Tensor:
        masked = torch.zeros_like(gradient)
        masked[self._ids] = gradient[self._ids]
        return masked


# GRADIENT_CHECKPOINTING: activations that are computed twice


def checkpoint_activations(gpt: GPT) -> None:
    """From now on, the transformer's blocks keep only their inputs in training, and run forward
    once more in the backward pass, with the same dropout.

    Chen et al. 2016 (https://arxiv.org/abs/1604.06174). This takes about a third more arithmetic
    and, at XTTS-v2's size, a tenth of the memory for activations. The results are the same, bit for
    bit.
    """
    for block in gpt.gpt.h:
        _recompute(block)


def recomputes(setting: str, needed_bytes: int, room_bytes: int) -> tuple[bool, str]:
    """Resolves GRADIENT_CHECKPOINTING, with the reason. needed_bytes: of a step on the longest
    clip."""
    if setting != "auto":
        return setting == "on", f"GRADIENT_CHECKPOINTING={setting}"
    sizes = f"{needed_bytes / 1e9:.1f} of {room_bytes / 1e9:.1f} GB"
    return needed_bytes > MAX_MEMORY_SHARE * room_bytes, f"the longest clip takes about {sizes}"


def _recompute(block: nn.Module) -> None:
    forward: Callable[..., object] = block.forward

    def recomputing_forward(*args: Any, **kwargs: Any) -> object:
        if not (block.training and torch.is_grad_enabled()):
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=True, **kwargs)

    # Set on the instance, so that the module's names, state and `torch.compile` are unchanged.
    block.forward = recomputing_forward
