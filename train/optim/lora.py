"""LORA_RANK: LoRA adapters on the transformer's linear layers, by peft.

Hu et al. 2021 (https://arxiv.org/abs/2106.09685), with peft's low-level API. Only A and B learn in
y = Wx + (alpha/r) B A x. Everything else is frozen, including the conditioning, so that the model
learns a voice without forgetting other languages. Checkpoints hold W + (alpha/r) B A under the
plain names, so their readers need not handle adapters. A and B are also saved separately
(`xtts.voices.adapter_file`), which takes megabytes.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from machine import commands
from machine.errors import SotaqueError
from xtts.model.gpt import GPT, PREFIX
from xtts.model.shapes import GPTShape

# In every block: queries, keys and values; attention's output; the feed-forward's two.
TARGETS = ("c_attn", "c_proj", "c_fc")
_ADAPTER = "default"
ALPHA_OF_RANK = 2


def num_adapter_weights(rank: int, shape: GPTShape) -> int:
    """The weights of A and B in each block's four matrices: 3 + 1, 1 + 1, 1 + 4 and 4 + 1
    widths."""
    return rank * 16 * shape.width * shape.layers


class LoraAdapters:
    """Adapters in a GPT's transformer. Freezes the rest of the GPT.

    Raises SotaqueError if peft is not installed.
    """

    def __init__(self, gpt: GPT, rank: int, seed: int) -> None:
        self.gpt = gpt
        self.alpha = ALPHA_OF_RANK * rank
        gpt.requires_grad_(False)
        _inject(gpt, rank, self.alpha, seed)
        self.layers: dict[str, Any] = {
            name: module for name, module in gpt.named_modules() if hasattr(module, "lora_A")
        }
        # Adapters are fp32 even on a base of fewer bits, because differences are small.
        for name, parameter in gpt.named_parameters():
            parameter.requires_grad_(_is_adapter(name))

    def merged(self) -> dict[str, Tensor]:
        """The GPT's state under its plain names, with every difference added to its weight.

        On the CPU, a layer at a time: merged copies would take another 1.2 GB of a GPU that may be
        just large enough.
        """
        state = {}
        for name, tensor in self.gpt.state_dict().items():
            if _is_adapter(name):
                continue
            tensor = tensor.detach().cpu()
            layer, _, leaf = name.partition(".base_layer.")
            if leaf == "weight":
                tensor = tensor + self._difference(layer).to(tensor.dtype)
            state[f"{layer}.{leaf}" if leaf else name] = tensor
        return state

    def _difference(self, layer: str) -> Tensor:
        """(alpha/r) B A of a layer, as peft's `get_delta_weight`, on the CPU."""
        adapted = self.layers[layer]
        a, b = (getattr(adapted, half)[_ADAPTER].weight.detach().cpu() for half in ("lora_A", "lora_B"))
        difference: Tensor = (b @ a) * adapted.scaling[_ADAPTER]
        return difference

    def load_base(self, state: Mapping[str, Tensor]) -> None:
        """Loads weights under their plain names, below the adapters."""
        renamed = {}
        for name, tensor in state.items():
            layer, _, leaf = name.rpartition(".")
            renamed[f"{layer}.base_layer.{leaf}" if layer in self.layers else name] = tensor
        mismatch = self.gpt.load_state_dict(renamed, strict=False)
        if mismatch.unexpected_keys or not all(map(_is_adapter, mismatch.missing_keys)):
            raise SotaqueError(f"These weights belong to another model: {mismatch.unexpected_keys[:3]}.")

    def base(self) -> dict[str, Tensor]:
        """The weights below the adapters, copied, under their plain names."""
        return {
            name.replace(".base_layer.", "."): tensor.detach().clone()
            for name, tensor in self.gpt.state_dict().items()
            if not _is_adapter(name)
        }

    def adapters(self) -> dict[str, Tensor]:
        """A and B of each layer, not copied."""
        return {n: t.detach() for n, t in self.gpt.state_dict().items() if _is_adapter(n)}

    def alone(self) -> dict[str, Tensor]:
        """Copies of A and B as `xtts.voices.adapter_file` keeps them, by Coqui's names."""
        return {
            PREFIX + name.replace(f".{_ADAPTER}.", "."): tensor.clone()
            for name, tensor in self.adapters().items()
        }

    def load_adapters(self, state: Mapping[str, Tensor]) -> None:
        """Restores A and B. Raises SotaqueError for those of another rank."""
        adapters = self.adapters()
        if {n: t.shape for n, t in adapters.items()} != {n: t.shape for n, t in state.items()}:
            old, new = rank_of(state), rank_of(adapters)
            raise SotaqueError(
                f"This run has adapters of rank {old}, and LORA_RANK is {new}. Set LORA_RANK={old} "
                "to continue, or RESUME=never to start over."
            )
        self.gpt.load_state_dict(dict(state), strict=False)


def rank_of(adapters: Mapping[str, Tensor]) -> int:
    """The rank of adapters; 0 if there are none."""
    return next((tensor.shape[0] for name, tensor in adapters.items() if "lora_A" in name), 0)


def _inject(gpt: GPT, rank: int, alpha: int, seed: int) -> None:
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise SotaqueError(
            f"LORA_RANK={rank} needs peft, which is not installed ({error}). "
            f"Install it with `{commands.install_extra('lora')}`, or set LORA_RANK=0."
        ) from error
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=list(TARGETS))
    device = next(gpt.parameters()).device
    # A is random: it depends on the seed alone and changes no other random state.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, gpt.gpt, adapter_name=_ADAPTER)


def _is_adapter(name: str) -> bool:
    return ".lora_" in name
