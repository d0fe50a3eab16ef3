"""The chunks of a stream equal the whole waveform, wherever they are cut."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.nn.utils import parametrize

from xtts.model import vocoder as vocoders
from xtts.model.shapes import AnyVocoderShape, SourceFilterShape, VocoderShape
from xtts.model.streaming_vocoder import (
    ChunkedVocoder,
    chunk_codes,
    num_first_steps,
    num_settled_steps,
    split_into_windows,
)
from xtts.model.vocoder import Vocoder

SMALL = VocoderShape(16, (8, 8, 4), (16, 16, 8), "2", (3, 5, 7), ((1, 2), (2, 6), (3, 12)))
# One step per code, like the embedded voice.
SLOW_STEPS = VocoderShape(32, (8, 8, 4, 4), (16, 16, 8, 8), "2", (3, 5), ((1, 2), (2, 6)))
LIKE_PUBLISHED = VocoderShape(upsample_initial_channel=32)
SHAPES = [SMALL, SLOW_STEPS, LIKE_PUBLISHED]
SOURCE = SourceFilterShape(32, 2, 16, 1, window=512)
WIDTH = 24


def speaking(shape: AnyVocoderShape) -> tuple[Vocoder, torch.Tensor]:
    torch.manual_seed(0)
    vocoder = Vocoder(WIDTH, 32, shape).eval().requires_grad_(False)
    for module in vocoder.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")
    return vocoder, torch.randn(1, 32, 1)


def whole_sound(vocoder: Vocoder, latents: torch.Tensor, speaker: torch.Tensor) -> torch.Tensor:
    """The sound computed at once: the first and last steps are repeated beyond the ends, and their
    sound is dropped."""
    copies = vocoder.shape.edge_steps
    steps = F.pad(vocoder.steps(latents[None], speaker), (copies, copies), mode="replicate")
    edge = copies * vocoder.shape.hop
    return vocoder.sound(steps, speaker)[0, edge:-edge]


@pytest.mark.parametrize("shape", [*SHAPES, SOURCE], ids=["small", "slow", "published", "source and filter"])
@pytest.mark.parametrize("codes", [1, 2, 7, 60])
@pytest.mark.parametrize("laid_out", [False, True], ids=["as published", "laid out"])
def test_chunks_joined_are_the_whole(shape, codes, laid_out):
    vocoder, speaker = speaking(shape)
    if laid_out:
        vocoder.lay_out(torch.float32)
    latents = torch.randn(codes, WIDTH)
    whole = whole_sound(vocoder, latents, speaker)
    draw = random.Random(codes)
    chunked, parts, given = ChunkedVocoder(vocoder, speaker), [], 0
    while given < codes:
        more = draw.randint(1, 9)
        chunked.add(latents[given : given + more])
        given += more
        parts += chunked.speak()
    parts += chunked.rest()
    joined = torch.cat(parts)
    assert len(joined) == len(whole)
    # The phase sums up how windows of other widths round the pitch.
    most = 1e-3 if shape is SOURCE else 1e-5
    assert float((joined - whole).norm() / whole.norm()) < most
    assert codes < 60 or len(parts[3])  # streaming began before the end


@pytest.mark.parametrize("shape", SHAPES, ids=["small", "slow", "published"])
def test_no_sample_depends_on_what_is_further_than_reach(shape):
    vocoder, speaker = speaking(shape)
    steps = torch.randn(1, WIDTH, 120)
    other = steps.clone()
    other[:, :, 60] += 10.0
    moved = (vocoder.sound(steps, speaker) - vocoder.sound(other, speaker))[0].abs() > 0
    touched = moved.nonzero().flatten() // shape.hop
    assert 60 - shape.reach <= int(touched.min()) and int(touched.max()) <= 60 + shape.reach
    # At most twice the true reach: each extra step is computed twice at every edge of a chunk.
    assert shape.reach <= 2 * (60 - int(touched.min())) + 2


@pytest.mark.parametrize("shape", [SMALL, SLOW_STEPS], ids=["small", "slow"])
@pytest.mark.parametrize("codes", range(1, 40))
def test_settled_steps_are_those_that_no_later_latent_changes(codes, shape):
    vocoder, speaker = speaking(shape)
    latents = torch.randn(codes + 30, WIDTH)
    now = vocoder.steps(latents[None, :codes], speaker)
    later = vocoder.steps(latents[None], speaker)
    settled = num_settled_steps(codes, shape)
    assert torch.equal(now[..., :settled], later[..., :settled])
    assert (
        codes * shape.steps_per_code < 12 or now.shape[2] - settled <= 5
    )  # and few of the settled steps are missed


def test_chunks_grow():
    sizes = [size for size, _ in zip(chunk_codes(), range(12), strict=False)]
    assert sizes == sorted(sizes) and sizes[0] <= 8 and sizes[-1] == sizes[-2]


@pytest.mark.parametrize("reach", [0, 3, 15, 40])
def test_windows_hold_all_that_they_settle(reach):
    draw = random.Random(reach)
    for _ in range(300):
        there = draw.randint(1, 900)
        end = draw.randint(1, there)
        begin = at = draw.randrange(end)
        for left, right, upto in split_into_windows(begin, end, there, reach, (64, 128, 192)):
            assert 0 <= left <= max(0, at - reach) and right <= there
            assert at < upto and (upto <= right - reach or right == there)
            assert right - left in (64, 128, 192) or there < 64 or 2 * reach >= 64
            at = upto
        assert at == end


def test_beside_training_a_gpus_windows_keep_no_memory(monkeypatch):
    vocoder, _ = speaking(LIKE_PUBLISHED)
    monkeypatch.setattr(vocoders, "plans_each_width", lambda _: True)
    seen, sound = [], vocoder.sound
    vocoder.sound = lambda steps, who: seen.append(steps.shape[2]) or sound(steps, who)
    vocoder.warm_up(records=False)
    assert seen == [num_first_steps(LIKE_PUBLISHED), 64, 128, 192] and vocoder.recorded_windows is None


def test_a_laid_out_vocoder_sees_few_widths_whatever_the_sentence():
    """oneDNN compiles code for each width: a new one in each sentence would cost seconds."""
    vocoder, speaker = speaking(LIKE_PUBLISHED)
    vocoder.lay_out(torch.float32)
    seen = set[int]()
    sound = vocoder.sound
    vocoder.sound = lambda steps, who: seen.add(steps.shape[2]) or sound(steps, who)
    vocoder.warm_up()
    prepared = set(seen)
    assert prepared == {num_first_steps(LIKE_PUBLISHED), 64, 128, 192}
    for codes in (16, 23, 50, 71, 90):
        chunked = ChunkedVocoder(vocoder, speaker)
        chunked.add(torch.randn(codes, WIDTH))
        list(chunked.rest())
    stream = ChunkedVocoder(vocoder, speaker)
    while stream.ready_codes() < next(chunk_codes()):
        stream.add(torch.randn(1, WIDTH))
    list(stream.speak())
    assert seen == prepared


@pytest.mark.parametrize("speed", [0.25, 0.7, 1.3, 2.0, 4.0])
@pytest.mark.parametrize("count", [5, 40])
def test_speed_is_coquis_interpolation(speed, count):
    latents = torch.randn(count, 8, generator=torch.Generator().manual_seed(count))
    expected = F.interpolate(latents.t()[None], scale_factor=1 / speed, mode="linear")[0].t()
    for arrays, given_latents in ((torch, latents), (np, latents.numpy())):
        chunked = ChunkedVocoder(SimpleNamespace(shape=VocoderShape()), None, speed)
        for latent in given_latents:
            chunked.add([latent])
        chunked.rest()
        assert np.allclose(arrays.stack(chunked._latents), expected, atol=1e-5)


def test_speed_one_changes_no_bit():
    latent, chunked = torch.randn(8), ChunkedVocoder(SimpleNamespace(shape=VocoderShape()), None)
    chunked.add([latent])
    chunked.rest()
    assert chunked._latents[0] is latent and len(chunked._latents) == 1
