"""OPTIMIZER=adamw8bit: AdamW with 8-bit states, by torchao.

Dettmers et al. 2022 (https://arxiv.org/abs/2110.02861): each block of 256 values has a scale, each
value is one of 256 levels. Small tensors (under 4,096 values) stay in float32. Weights and
arithmetic are float32 as before; at XTTS-v2's size 2.6 GB less.

torchao compiles its step, which needs a C compiler and a minute; here it runs as it is written, the
same on every machine, a tensor at a time. Its states are kept as plain tensors in checkpoints.
"""

from collections.abc import Mapping
from typing import Any

import torch

from train.optim.optimizer import ADAM_BETAS, ADAM_EPSILON, OptimizerError, other_state


class AdamW8bit(torch.optim.Optimizer):
    """torchao's optimizer with rates and states that are plain values.

    Raises OptimizerError where torchao is not installed.
    """

    def __init__(self, groups: list[dict[str, Any]], learning_rate: float) -> None:
        quantised = _imported()
        self._inner = quantised(groups, lr=learning_rate, betas=ADAM_BETAS, eps=ADAM_EPSILON)
        plain = [{**group, "lr": learning_rate} for group in self._inner.param_groups]
        super().__init__(plain, {})
        self.state = self._inner.state

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step at the groups' rates."""
        del closure
        for own, inner in zip(self.param_groups, self._inner.param_groups, strict=True):
            inner["lr"].fill_(own["lr"])
        with torch.compiler.set_stance("force_eager"):
            self._inner.step()

    def state_dict(self) -> dict[str, Any]:
        """Plain tensors and values only, in the order of the weights."""
        states = [
            {name: _packed(value) for name, value in self.state.get(weight, {}).items()}
            for group in self.param_groups
            for weight in group["params"]
        ]
        return {"adamw8bit": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes up what `state_dict` told. Raises OptimizerError for another optimizer's."""
        if "adamw8bit" not in state_dict:
            raise OptimizerError(other_state("adamw", "adamw8bit"))
        weights = [weight for group in self.param_groups for weight in group["params"]]
        for weight, kept in zip(weights, state_dict["adamw8bit"], strict=True):
            if kept:
                self.state[weight] = {
                    name: _unpacked(value, weight) for name, value in kept.items()
                }


def _packed(value: Any) -> Any:
    """A quantised average as codes, scales and sign; anything else as it is."""
    if not hasattr(value, "codes"):
        return value
    return {"codes": value.codes, "scale": value.scale, "signed": value.signed}


def _unpacked(value: Any, weight: torch.Tensor) -> Any:
    if not isinstance(value, Mapping):
        # The count of steps stays on the CPU, as torchao has it.
        return value.clone() if value.dim() == 0 else value.to(weight.device, copy=True)
    from torchao.optim.subclass_8bit import OptimState8bit

    block = value["codes"].numel() // value["scale"].numel()
    empty = OptimState8bit.zeros(
        weight.shape, value["signed"], block, weight.device, dtype=weight.dtype
    )
    empty.codes.copy_(value["codes"])
    empty.scale.copy_(value["scale"])
    return empty


def _imported() -> Any:
    try:
        from torchao.optim import AdamW8bit as Quantised
    except ImportError as error:
        raise OptimizerError(
            f"OPTIMIZER=adamw8bit needs torchao, which is not installed ({error}). Type "
            "`.venv/bin/uv pip install 'sotaque[adamw8bit]'`, or set OPTIMIZER=adamw."
        ) from error
    return Quantised
