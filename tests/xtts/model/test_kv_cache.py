"""All caches hold the same: a row alone and in a batch."""

import torch
from torch import Tensor
from torch.nn import functional as F

from xtts.model.gpt import KeyValueCache, QueryLog, SlotCaches

LAYERS, HEADS, CAPACITY, WIDTH = 2, 2, 8, 4


def a_cache(rows: int = 1) -> KeyValueCache:
    return KeyValueCache(torch.zeros(LAYERS, rows, 2, HEADS, CAPACITY, WIDTH))


def parts(rows: int, time: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    made = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(rows, HEADS, time, WIDTH, generator=made) for _ in range(3))
    return q, k, v


def read(cache: KeyValueCache, time: int, seed: int) -> Tensor:
    """Gives all layers the same input; returns the output of the last one."""
    attend = cache.attend_next if cache.length else cache.attend_first
    for layer in range(LAYERS):
        mixed = attend(layer, torch.stack(parts(cache.entries.shape[1], time, seed), 1))
    cache.advance(time)
    return mixed


def test_a_position_sees_itself_and_all_before_it():
    cache = a_cache()
    read(cache, 3, seed=1)
    mixed = read(cache, 1, seed=2)
    (_, k1, v1), (q, k2, v2) = parts(1, 3, 1), parts(1, 1, 2)
    expected = F.scaled_dot_product_attention(q, torch.cat((k1, k2), 2), torch.cat((v1, v2), 2))
    assert torch.allclose(mixed, expected, atol=1e-6) and cache.length == 4


def test_a_cache_of_16_bits_answers_in_the_type_that_it_is_asked_in():
    cache = KeyValueCache(a_cache().entries.bfloat16())
    read(cache, 3, seed=1)
    assert read(cache, 1, seed=2).dtype == torch.float32


def test_rows_that_attend_by_themselves_do_not_touch_each_other():
    caches: list[KeyValueCache | None] = [a_cache(), None, a_cache()]
    for time, row in ((2, 0), (5, 2)):
        cache = caches[row]
        assert cache is not None
        read(cache, time, seed=row)
    alone = [a_cache(), a_cache()]
    read(alone[0], 2, seed=0)
    read(alone[1], 5, seed=2)
    q, k, v = parts(3, 1, 9)
    together = SlotCaches(caches).attend_next(0, torch.stack((q, k, v), 1))
    assert not together[1].any()
    for row, cache in ((0, alone[0]), (2, alone[1])):
        span = slice(row, row + 1)
        assert torch.equal(together[span], cache.attend_next(0, torch.stack((q[span], k[span], v[span]), 1)))


def test_a_log_keeps_what_its_layers_asked_and_no_more():
    cache = a_cache()
    cache.log = QueryLog([1])
    read(cache, 3, seed=1)
    read(cache, 1, seed=2)
    cache.log.read_text(cache, 1, 3)
    queries, keys = cache.log.queries_and_keys(1)
    assert cache.log.layers == (1,) and len(queries) == 2
    assert torch.equal(queries[0], parts(1, 3, 1)[0][0, :, -1])
    assert torch.equal(queries[1], parts(1, 1, 2)[0][0, :, 0])
    assert torch.equal(keys, parts(1, 3, 1)[1][0, :, 1:3])
