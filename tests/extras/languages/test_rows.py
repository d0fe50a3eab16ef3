"""The first rows of a new language."""

import torch

from extras.languages.rows import TABLES, extended_tables


def tables(rows: int = 6, width: int = 8) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((rows, width), (rows, width), (rows,))
    return {name: torch.randn(size, generator=generator) for name, size in zip(TABLES, sizes, strict=True)}


def test_old_rows_stay_and_a_new_one_is_the_mean_of_its_sources_at_their_length():
    state = tables()
    made = extended_tables(state, 6, [[2], [0, 1], []])
    for name in TABLES:
        assert torch.equal(made[name][:6], state[name])
        assert torch.equal(made[name][6], state[name][2])
        assert len(made[name]) == 9
    weight, old = made[TABLES[0]], state[TABLES[0]]
    mean = old[:2].mean(0)
    assert torch.allclose(weight[7].norm(), old[:2].norm(dim=1).mean())
    assert torch.allclose(weight[7] / weight[7].norm(), mean / mean.norm(), atol=1e-6)
    assert torch.allclose(weight[8].norm(), old.norm(dim=1).mean())
    assert torch.allclose(made[TABLES[2]][7], state[TABLES[2]][:2].mean())


def test_rows_that_padded_the_tables_are_used_first():
    state = tables()
    made = extended_tables(state, 4, [[0]])
    assert torch.equal(made[TABLES[0]][4], state[TABLES[0]][0])
    assert torch.equal(made[TABLES[0]][5], state[TABLES[0]][5]) and len(made[TABLES[0]]) == 6
