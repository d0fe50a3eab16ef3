"""Takes: which one is kept, and that a batch of takes says what each says alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.models import tiny_voice
from tests.xtts.inference.crowds import sounds_of
from xtts.evaluation import recogniser, speaker_judge
from xtts.inference import takes
from xtts.inference.alignment.guarded_piece import MAX_RETRIES, RETRY_SEED_STRIDE
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import ContinuousBatcher
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.takes import Take, TakeFigures, TakeJudge, choose_take, request_of_take, speak_takes
from xtts.voices.base_models import DEMO
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

TEXT = "The ship left the port in the morning. [pause:1s] The sea was calm and the air was warm."


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> LoadedVoice:
    return load_voice(VoiceSpec(str(tiny_voice(tmp_path_factory.mktemp("takes") / "voice"))))


@pytest.mark.parametrize(
    ("figures", "number", "reason"),
    [
        # The fewest word errors, but not of another voice.
        ([(0.8, 2), (0.7, 1), (0.59, 0)], 1, "word errors"),
        ([(0.8, 2), (0.7, 1), (0.61, 0)], 2, "word errors"),
        ([(0.2, 0), (0.8, 9), (0.1, 0)], 1, "similarity"),
        # The endings, then the attempts, then the lowest seed.
        ([(0.8, 1, 1, 1), (0.7, 1, 0, 3), (0.9, 1, 0, 2)], 2, "attempts"),
        ([(0.8, 1, 1, 1), (0.7, 1, 0, 3), (0.9, 2, 0, 1)], 1, "endings"),
        ([(0.7, 1, 0, 1), (0.9, 1, 0, 1)], 0, "seed"),
        # A criterion that is unknown is skipped.
        ([(0.8, None, 1, 1), (0.7, 3, 0, 1)], 1, "endings"),
        ([(None, 2), (None, 1)], 1, "word errors"),
        ([(None, 0), (0.5, 1)], 1, "similarity"),
        # All of them sound like others.
        ([(-0.4, 0), (-0.12, 1), (-0.1, 2)], 1, "word errors"),
        ([(0.3, 5)], 0, "similarity"),
    ],
)
def test_the_gate_and_then_words_endings_attempts_and_the_seed(figures, number, reason):
    choice = choose_take([TakeFigures(*row) for row in figures])
    assert (choice.number, choice.count, choice.reason) == (number, len(figures), reason)
    assert choice.figures == TakeFigures(*figures[number])


def test_a_choice_is_told_in_a_line():
    told = {
        TakeFigures(0.812, 0): "take 1 of 1 (voice 0.81, no word missed)",
        TakeFigures(None, 1): "take 1 of 1 (1 word missed)",
        TakeFigures(-0.1, 2): "take 1 of 1 (voice -0.10, 2 words missed)",
        TakeFigures(): "take 1 of 1",
    }
    assert {take: str(choose_take([take])) for take in told} == told


def test_no_attempt_of_a_take_has_the_seed_of_another():
    seeds = [
        (request_of_take(SynthesisRequest("a", "en", seed), number).seed + RETRY_SEED_STRIDE * again) % 2**32
        for seed in range(20)
        for number in range(16)
        for again in range(MAX_RETRIES + 1)
    ]
    assert len(set(seeds)) == len(seeds) and seeds[0] == 0


@pytest.mark.parametrize("slots", [pytest.param(3, marks=pytest.mark.slow), 2])
def test_a_batch_says_what_each_take_says_alone(voice, monkeypatch, slots):
    """With two slots, as on a full GPU, pieces wait for a slot."""
    backend = voice.backend
    monkeypatch.setattr(voice, "backend", lambda count=None: backend(count and slots))
    request = SynthesisRequest(TEXT, "en", seed=5)
    together = speak_takes(voice, request, 3)
    for number, take in enumerate(together):
        batcher = ContinuousBatcher(backend(slots), voice.guard)
        alone = sounds_of(batcher, voice.own_voice, {"a": request_of_take(request, number)})["a"]
        assert np.array_equal(take.waveform, alone)
        assert len(take.sounds) == len(take.pieces) == 2
    assert not np.array_equal(together[0].waveform, together[1].waveform)


def test_a_take_is_what_its_seed_says_without_a_batch(voice):
    """A batch's matrix products are rounded otherwise on some processors, which nobody hears."""
    request = SynthesisRequest(TEXT, "en", seed=4, max_codes=15)
    for number, take in enumerate(speak_takes(voice, request, 2)):
        alone = voice.synthesize(request_of_take(request, number))
        assert take.waveform.shape == alone.shape
        assert np.square(take.waveform - alone).mean() < 1e-3 * np.square(alone).mean()


def test_the_recording_itself_is_the_most_similar_take(base_folder, monkeypatch):
    from xtts import audio

    person = VoiceSpec(str(base_folder), reference=DEMO / "reference.wav")
    voice, asked = load_voice(person), SynthesisRequest("One.", "en")
    recording = audio.read(DEMO / "reference.wav", audio.VOCODER_RATE).numpy()
    noise = np.random.default_rng(1).normal(0, 0.1, len(recording)).astype(np.float32)

    def similarity(sound: np.ndarray) -> float | None:
        return TakeJudge(voice, "off").choose(asked, [Take([sound])]).figures.similarity

    if speaker_judge.missing_reason() is None:
        assert similarity(recording) > 0.9 and similarity(noise) < 0.3
        assert TakeJudge(voice, "off").choose(asked, [Take([noise]), Take([recording])]).number == 1
    monkeypatch.setattr(takes, "_speaker_judge", lambda: None)
    assert similarity(recording) > 0.99 > similarity(noise) and similarity(recording[:99]) is None


def test_what_is_not_judged_is_said_once(voice, monkeypatch, caplog):
    monkeypatch.setattr(takes, "_speaker_judge", lambda: None)
    monkeypatch.setattr(voice, "model", replace(voice.model, speaker_encoder=None))
    takes._warn_once.cache_clear()
    silence = [Take([np.zeros(24_000, np.float32)])] * 2
    for _ in range(2):
        choice = TakeJudge(voice).choose(SynthesisRequest("Um.", "pt"), silence)
    assert choice.figures == TakeFigures() and str(choice) == "take 1 of 2"
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 2 and "not compared" in told[0] + told[1]
    assert "no recogniser for pt" in told[0] + told[1]


class Ears(recogniser.Recogniser):
    """Hears the ship in sound and nothing in silence."""

    def hear(self, samples: np.ndarray) -> str:
        return "the ship left" if np.abs(samples).max() > 0.01 else ""


def test_words_are_counted_over_all_pieces(voice, monkeypatch):
    monkeypatch.setattr(recogniser, "recogniser_of", lambda *_: ("ears", None))
    monkeypatch.setattr(takes, "_recogniser", lambda *_: Ears())
    sound, silence = torch.randn(24_000).numpy() * 0.1, np.zeros(24_000, np.float32)
    asked = SynthesisRequest("The ship left. The ship left.", "en")
    judge = TakeJudge(voice)
    monkeypatch.setattr(judge, "_new_comparison", lambda _: None)
    options = [Take([sound, silence]), Take([sound, sound]), Take([silence, silence])]
    choice = judge.choose(asked, options)
    assert choice.number == 1 and choice.figures.word_errors == 0
    assert judge.choose(asked, options[:1]).figures.word_errors == 3
