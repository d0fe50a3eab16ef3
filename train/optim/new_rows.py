"""NEW_LANGUAGE_RATE: rows that `train extend` added to the text tables learn at their own rate.

AdamW divides by the size of the gradients, so scaled gradients would change nothing: what a step
changes in these rows is scaled instead. In a table that is frozen, by FREEZE or beside adapters,
they learn all the same and the old rows stay, bit for bit (as `trainable_token_indices` of peft).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from xtts.model.gpt import GPT, TEXT_TABLES


@dataclass(frozen=True)
class NewRowsShape:
    """ids: of the rows, as of the languages that a run learns; times: their rate, as a multiple of
    LEARNING_RATE."""

    ids: Sequence[int]
    times: float


class NewRows:
    """The new rows of a GPT's text tables, which learn from here on.

    Attributes:
        undecayed: The tables that were frozen. Weight decay would change their old rows.
    """

    def __init__(self, gpt: GPT, shape: NewRowsShape) -> None:
        self.times = shape.times
        parameters = dict(gpt.named_parameters())
        self._tables = [parameters[name] for name in TEXT_TABLES]
        self._ids = torch.tensor(shape.ids, device=self._tables[0].device)
        self.undecayed = [table for table in self._tables if not table.requires_grad]
        for table in self.undecayed:
            table.requires_grad_(True)
            # Neither the norm that is clipped nor the optimizer sees the old rows.
            table.register_hook(self._of_new_rows)

    @contextmanager
    def scaled(self) -> Iterator[None]:
        """Inside, the optimizer takes a step; afterwards what it changed is scaled."""
        before = [table.detach()[self._ids] for table in self._tables]
        yield
        with torch.no_grad():
            for table, old in zip(self._tables, before, strict=True):
                table[self._ids] = old.lerp(table[self._ids], self.times)

    def _of_new_rows(self, gradient: Tensor) -> Tensor:
        kept = torch.zeros_like(gradient)
        kept[self._ids] = gradient[self._ids]
        return kept
