"""EMA_DECAY: exponential moving average of the weights.

Polyak and Juditsky 1992. The first steps have more weight than the decay gives them (as in
TensorFlow's ExponentialMovingAverage); otherwise the average would stay near the base for long.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class ExponentialMovingAverage:
    """Averages of the trainable weights of `module`, on the same device.

    decay: the share of the old average that remains after a step.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = module
        self.decay = decay
        self.values = {name: tensor.detach().clone() for name, tensor in self._learning()}

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Updates the averages after optimizer step `step` (from 1)."""
        decay = min(self.decay, step / (step + 9))
        names, tensors = zip(*self._learning(), strict=True)
        torch._foreach_lerp_([self.values[name] for name in names], list(tensors), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the module has the averages as weights; afterwards its own again, bit for bit."""
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
        self.load({name: tensor.detach() for name, tensor in self._learning()})

    def _learning(self) -> list[tuple[str, Tensor]]:
        return [(n, p) for n, p in self.module.named_parameters() if p.requires_grad]

    def _swap(self) -> None:
        for name, parameter in self._learning():
            parameter.data, self.values[name] = self.values[name], parameter.data
