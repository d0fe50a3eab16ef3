"""Initialises a new language's rows in the text embedding and the text head."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from xtts.model.gpt import PREFIX, TEXT_TABLES

# The tables with a row for each id, in Coqui's names.
TABLES = tuple(PREFIX + name for name in TEXT_TABLES)


def extended_tables(
    state: Mapping[str, Tensor], first_id: int, sources: Sequence[Sequence[int]]
) -> dict[str, Tensor]:
    """The tables of `TABLES` with rows for new ids; the old rows are unchanged.

    Args:
        state: The tensors of a model.pth.
        first_id: The first new id. Rows from there on were padding.
        sources: For each new id, the old ids whose mean initialises it; empty for the mean of all.
    """
    return {name: _extend(state[name], first_id, sources) for name in TABLES}


def _extend(table: Tensor, first_id: int, sources: Sequence[Sequence[int]]) -> Tensor:
    old = table[:first_id]
    rows = [_row(old[list(ids)] if ids else old) for ids in sources]
    return torch.cat((old, torch.stack(rows), table[first_id + len(rows) :]))


def _row(rows: Tensor) -> Tensor:
    """The mean of some rows, scaled to their average norm. A plain mean is shorter than the rows,
    which the model has not seen in training. For biases, the plain mean."""
    if len(rows) == 1 or rows.dim() == 1:
        return rows.mean(0) if len(rows) > 1 else rows[0]
    exact = rows.double()
    mean = exact.mean(0)
    length = torch.linalg.vector_norm(mean).clamp(min=1e-12)
    return (mean * torch.linalg.vector_norm(exact, dim=1).mean() / length).to(rows.dtype)
