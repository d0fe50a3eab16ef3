"""Runs requests in one batch: each enters when a slot is free."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import ContinuousBatcher
from xtts.inference.synthesis_request import SynthesisRequest


def batcher_of(voice: LoadedVoice, count: int) -> ContinuousBatcher:
    """A batcher of an opened voice."""
    return ContinuousBatcher(voice.backend(count), voice.guard)


def said_in(batcher: ContinuousBatcher, voice: Any, asked: Mapping[str, SynthesisRequest]) -> Iterator[Any]:
    """The parts of all requests, step by step; each request enters as soon as a slot is free."""
    waiting = dict(asked)
    while waiting or not batcher.empty:
        while waiting and batcher.num_free:
            name = next(iter(waiting))
            batcher.enter(name, voice, waiting.pop(name))
        for output in batcher.step():
            assert output.error is None
            yield output
            if output.speech.paused:
                assert batcher.begin_next_piece(output.name)


def sounds_of(
    batcher: ContinuousBatcher, voice: Any, asked: Mapping[str, SynthesisRequest]
) -> dict[str, np.ndarray]:
    """The whole sound of each request, by its name."""
    chunks: dict[str, list[np.ndarray]] = {name: [] for name in asked}
    for output in said_in(batcher, voice, asked):
        chunks[output.name] += [np.asarray(chunk) for chunk in output.chunks]
    return {name: np.concatenate(told) for name, told in chunks.items()}
