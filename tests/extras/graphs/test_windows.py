"""The windows of the vocoder are recorded on a GPU, and sound the same; tested without a GPU."""

from collections.abc import Callable

import pytest
import torch

from extras.graphs import speech
from extras.graphs.capture import Compute
from tests.xtts.model.test_streaming_vocoder import LIKE_PUBLISHED, WIDTH, speaking, whole_sound
from xtts.model import vocoder as vocoders
from xtts.model.streaming_vocoder import ChunkedVocoder, chunk_codes


def on_a_gpu(monkeypatch: pytest.MonkeyPatch, capture: object) -> None:
    """The vocoder takes the path of a GPU, with this capture."""
    monkeypatch.setattr(vocoders, "plans_each_width", lambda _: True)
    monkeypatch.setattr(speech, "captures_on", lambda _: capture)


def recomputed(compute: Compute) -> tuple[tuple[torch.Tensor, ...], Callable[[], object]]:
    """A fake capture: a replay writes into the recorded results."""
    found = compute()

    def replay() -> None:
        for there, new in zip(found, compute(), strict=True):
            there.copy_(new)

    return found, replay


@pytest.mark.parametrize("codes", [9, 40, 130])
def test_a_gpus_windows_are_recorded_and_say_the_same(codes, monkeypatch):
    vocoder, speaker = speaking(LIKE_PUBLISHED)
    latents = torch.randn(codes, WIDTH)
    whole = whole_sound(vocoder, latents, speaker)
    captures = []

    def capture(compute: Compute) -> tuple[tuple[torch.Tensor, ...], Callable[[], object]]:
        captures.append(compute)
        return recomputed(compute)

    on_a_gpu(monkeypatch, capture)
    for _ in range(2):
        vocoder.warm_up()
    assert len(captures) == 4, "each once, whoever opens a voice of the same base"
    eager = set[int]()
    computed = vocoder.compute
    monkeypatch.setattr(
        vocoder, "compute", lambda steps, who: eager.add(steps.shape[2]) or computed(steps, who)
    )
    chunked, parts = ChunkedVocoder(vocoder, speaker), []
    sizes = chunk_codes()
    size = next(sizes)
    for latent in latents:
        chunked.add(latent[None])
        if chunked.ready_codes() >= size:
            parts += chunked.speak()
            size = next(sizes)
    parts += chunked.rest()
    joined = torch.cat(parts)
    assert len(joined) == len(whole)
    assert float((joined - whole).norm() / whole.norm()) < 1e-5
    # A sentence shorter than the first window is computed without a graph.
    assert not eager or codes == 9


def test_windows_that_cannot_be_recorded_are_spoken_all_the_same(monkeypatch, caplog):
    vocoder, speaker = speaking(LIKE_PUBLISHED)

    def refused(_: Compute) -> tuple[tuple[torch.Tensor, ...], Callable[[], object]]:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    def stale(compute: Compute) -> tuple[tuple[torch.Tensor, ...], Callable[[], object]]:
        return tuple(torch.zeros_like(output) for output in compute()), lambda: None

    for capture, told in ((refused, "not permitted"), (stale, "is off by")):
        on_a_gpu(monkeypatch, capture)
        vocoder.warm_up()
        assert caplog.text.count("without CUDA graphs") == 1 and told in caplog.text
        caplog.clear()
        steps = torch.randn(1, WIDTH, 64)
        assert vocoder.sound(steps, speaker).abs().max() > 0
