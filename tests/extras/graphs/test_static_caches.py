"""Fixed slots hold the same keys and values as separate rows."""

import torch

from extras.graphs.static_caches import StaticCaches
from tests.xtts.model.test_kv_cache import LAYERS, a_cache, parts, read


def test_slots_that_never_move_say_what_rows_say():
    filled = [a_cache(), a_cache()]
    static = StaticCaches(a_cache(3).entries)
    for slot, time in ((0, 2), (2, 5)):
        cache = filled[slot // 2]
        read(cache, time, seed=slot)
        static.enter(slot, cache)
    assert static.lengths.tolist() == [2, 0, 5] and static.smallest_span(4) == 8
    for step in range(2):
        q, k, v = parts(3, 1, 20 + step)
        for layer in range(LAYERS):
            found = static.attend_next(layer, torch.stack((q, k, v), 1))
            for slot, cache in ((0, filled[0]), (2, filled[1])):
                row = slice(slot, slot + 1)
                expected = cache.attend_next(layer, torch.stack((q[row], k[row], v[row]), 1))
                assert torch.allclose(found[row], expected, atol=1e-6)
        static.advance(1)
        static.count_positions()
        for cache in filled:
            cache.advance(1)
    assert static.lengths.tolist() == [4, 0, 7]  # an empty slot does not advance
