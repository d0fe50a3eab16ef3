"""How numpy samples codes, for `tests/xtts/inference/test_sampling_rules.py`."""

from collections.abc import Sequence

import numpy as np

from extras.onnx.speech import sampling
from xtts.inference.defaults import SamplingParams

Logits = Sequence[float]


class Numpy:
    def penalised(self, logits: Logits, seen: Sequence[bool], penalty: float) -> list[float]:
        given = np.array(logits, np.float32)
        return list(sampling.repetition_penalty(given, np.array(seen), penalty).tolist())

    def kept(self, logits: Logits, params: SamplingParams) -> list[bool]:
        found = sampling.top_k_top_p(np.array(logits, np.float32), params)
        return list(np.isfinite(found).tolist())

    def drawn(
        self, logits: Logits, seen: Sequence[bool], params: SamplingParams, seed: int, count: int
    ) -> list[int]:
        random = np.random.default_rng(seed)
        given, said = np.array(logits, np.float32), np.array(seen)
        return [sampling.sample(given, said, params, random) for _ in range(count)]


WAYS = [Numpy]
