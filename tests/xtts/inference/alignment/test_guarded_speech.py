"""The embedded voice under guard, with its real heads; faults are made by patched logits."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.xtts.inference.crowds import batcher_of, said_in
from xtts.inference import torch_backend
from xtts.inference.alignment import heads
from xtts.inference.alignment.guard import Ending
from xtts.inference.alignment.guarded_piece import RETRY_SEED_STRIDE, words_of_speech
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.gpt import AttentionLayout
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

ASK = SynthesisRequest("Turn left here.", "en", seed=1)
STOP = 1025
Patch = Callable[[int, Tensor], None]


@pytest.fixture(scope="module")
def voice() -> LoadedVoice:
    return load_voice(VoiceSpec("demo"), ComputeConfig(precision="fp32"))


@pytest.fixture(scope="module")
def plain(voice) -> np.ndarray:
    return voice.synthesize_guarded(ASK, None)


@pytest.fixture
def patch(monkeypatch) -> Iterator[Callable[[Patch], None]]:
    """Lets a test change the logits of each sampling; the number is that of the sampling."""
    real, count = torch_backend.sample, [0]

    def use(change: Patch) -> None:
        def patched(logits, *rest):
            logits = logits.clone()
            for row in logits:
                change(count[0], row)
                count[0] += 1
            return real(logits, *rest)

        monkeypatch.setattr(torch_backend, "sample", patched)

    yield use


def test_the_heads_of_config_json_are_those_that_a_measurement_finds(voice):
    assert voice.heads == voice.model.config.alignment_heads
    measured = heads.measure(voice.backend(), voice.own_voice)
    assert set(measured) == set(voice.heads) and 1 <= len(measured) <= 3


def test_where_nothing_is_wrong_the_guard_changes_no_bit(voice, plain):
    guard = voice.guard(ASK)
    assert np.array_equal(voice.synthesize_guarded(ASK, guard), plain)
    assert [piece.as_dict() for piece in guard.pieces] == [
        {"ending": "good", "reason": "", "attempts": 1, "cut_off": False, "aligned": True}
    ]
    times = guard.pieces[0].times
    assert (np.diff(times, axis=0) >= 0).all() and times[-1, 1] < len(plain) / 24_000 + 0.1
    chunks = list(voice.speech(ASK, voice.guard(ASK)).chunks())
    streamed = np.concatenate(list(voice.speech(ASK, None).chunks()))
    assert np.array_equal(np.concatenate(chunks), streamed)
    # The last half second waits for the verdict, and is not in the first chunk.
    assert len(chunks[-1]) >= 0.45 * 24_000 and len(chunks) > 1


def test_an_utterance_that_went_wrong_is_spoken_again_with_another_seed(voice, patch):
    patch(lambda number, logits: logits[STOP].fill_(1e4) if number == 12 else None)
    guard = voice.guard(ASK)
    again = voice.synthesize_guarded(ASK, guard)
    assert (guard.pieces[0].ending, guard.pieces[0].attempts) == (Ending.GOOD, 2)
    next_seed = SynthesisRequest(ASK.text, "en", seed=ASK.seed + RETRY_SEED_STRIDE)
    assert np.array_equal(again, voice.synthesize_guarded(next_seed, None))


def test_what_stays_unfinished_is_told(voice, patch, plain):
    patch(lambda number, logits: logits[STOP].fill_(1e4) if number % 13 == 12 else None)
    guard = voice.guard(ASK)
    sound = voice.synthesize_guarded(ASK, guard)
    piece = guard.pieces[0]
    assert (piece.ending, piece.attempts, piece.faulty) == (Ending.UNFINISHED, 3, True)
    assert "of the text" in piece.reason and len(sound) < len(plain) / 2


@pytest.mark.parametrize("streamed", [False, True])
def test_sound_behind_the_last_word_is_cut_off_unless_it_has_left(voice, patch, plain, streamed, monkeypatch):
    shape = voice.model.config.gpt
    monkeypatch.setattr(type(shape), "max_codes", property(lambda _: 80))
    patch(lambda _, logits: logits[STOP].fill_(-1e4))
    guard = voice.guard(ASK)
    if streamed:
        sound = np.concatenate(list(voice.speech(ASK, guard).chunks()))
    else:
        sound = voice.synthesize_guarded(ASK, guard)
    piece = guard.pieces[0]
    assert piece.ending in (Ending.CONTINUED, Ending.REPEATED)
    if streamed:
        assert (piece.cut_off, piece.faulty, piece.attempts) == (False, True, 1)
        assert len(sound) > 2 * len(plain)
    else:
        assert (piece.cut_off, piece.faulty, piece.attempts) == (True, False, 3)
        assert abs(len(sound) - len(plain)) < 0.5 * 24_000


def test_a_word_alone_waits_for_its_verdict_in_a_stream(voice, patch):
    """Its first attempt goes on after the end; a longer text is sent as it is made."""
    word = SynthesisRequest("Hi.", "en")
    guard = voice.guard(word)
    streamed = np.concatenate(list(voice.speech(word, guard).chunks()))
    assert guard.pieces[0].attempts > 1 and len(streamed) < 24_000
    whole = voice.synthesize_guarded(word, voice.guard(word))
    assert np.allclose(streamed, whole, atol=0.01)
    patch(lambda number, logits: logits[STOP].fill_(1e4) if number == 12 else None)
    guard = voice.guard(ASK)
    list(voice.speech(ASK, guard).chunks())
    assert guard.pieces[0].attempts == 1


def test_the_batcher_says_and_tells_the_same(voice, patch, plain):
    """Two requests at once, both whole; the logits of one are patched in its first attempt."""
    asked = {
        "one": SynthesisRequest(ASK.text, "en", seed=1, whole=True),
        "two": SynthesisRequest("Good morning.", "en", seed=3, whole=True),
    }
    patch(lambda number, logits: logits[STOP].fill_(1e4) if number == 16 else None)
    done = [output for output in said_in(batcher_of(voice, 2), voice.own_voice, asked) if output.speech.done]
    assert sorted(output.speech.pieces[0].attempts for output in done) == [1, 2]
    for output in done:
        (piece,), ask = output.speech.pieces, asked[output.name]
        assert piece.ending is Ending.GOOD and piece.aligned
        seed = ask.seed + RETRY_SEED_STRIDE * (piece.attempts - 1)
        expected = voice.synthesize_guarded(replace(ask, seed=seed, whole=False), None)
        # A whole request is sent at its end. Rounding moves the phase of the highest harmonics.
        assert np.allclose(torch.cat(list(output.chunks)), expected, atol=0.01)


def test_attention_is_what_the_whole_row_gives(voice):
    """From the stored queries, against attention computed over the row at once."""
    model, head = voice.model, voice.heads[0]
    ids = torch.tensor(model.tokenizer.split(ASK.text, "en")[0].ids)
    generator = torch.Generator().manual_seed(1)
    utterance = torch_backend.TorchUtterance(model.gpt, model.config.decoding, generator, None, (head,))
    torch_backend.decode(model.gpt, voice.own_voice.latents, [(ids, utterance)])
    seen: dict[int, tuple[Tensor, Tensor]] = {}

    class Watching(AttentionLayout):
        def attend(self, layer, queries, keys, values):
            seen[layer] = queries, keys
            return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)

    with torch.inference_mode():
        prefix = model.gpt.prefix(voice.own_voice.latents, ids)
        codes = torch.tensor([model.config.gpt.audio_start, *utterance.codes])
        inputs = [model.gpt.audio_input(code[None], at) for at, code in enumerate(codes)]
        model.gpt.gpt(torch.cat((prefix, *inputs), 1), Watching())
    layer, number = head
    queries, keys = (part[0, number] for part in seen[layer])
    span = slice(32, prefix.shape[1])
    expected = (queries[prefix.shape[1] :] @ keys[span].T / keys.shape[1] ** 0.5).softmax(-1)
    attention = utterance.attention()
    assert attention.shape == expected.shape and np.allclose(attention, expected.numpy(), atol=1e-4)


def test_every_word_has_its_time(voice):
    guard = voice.guard(ASK)
    sound = voice.synthesize_guarded(ASK, guard)
    tokenizer = voice.model.tokenizer
    words = words_of_speech(tokenizer.split(ASK.text, "en"), guard.pieces)
    assert [word.word for word in words] == ["Turn", "left", "here"]
    times = [time for word in words for time in (word.start_time, word.end_time)]
    assert times == sorted(times) and 0 <= times[0] and times[-1] < len(sound) / 24_000
