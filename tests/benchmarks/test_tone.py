"""What differs between pieces, and how they begin, on sounds whose figures are known."""

import math

import pytest
import torch
from torch import Tensor

from benchmarks import judges, tone
from benchmarks.tone import SaidPiece, Spoken
from xtts.audio import SPEAKER_RATE


class Ear:
    """A person who sounds as much alike as the sound begins loud; there is no model."""

    model = None

    def likeness(self, sound: Tensor) -> float:
        return round(float(sound[:1600].abs().max()), 1)


def hum(hertz: float, seconds: float, silence: float = 0.0) -> Tensor:
    """A tone with overtones, which has a pitch, between silences."""
    time = torch.arange(round(seconds * SPEAKER_RATE)) / SPEAKER_RATE
    sound = sum(torch.sin(2 * math.pi * k * hertz * time) / k for k in (1, 2, 3))
    return torch.nn.functional.pad(0.3 * sound, (round(silence * SPEAKER_RATE),) * 2)


@pytest.fixture(autouse=True)
def embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a loud sound [1, 0], of a quiet one [0, 1]."""

    def embedding(model: object, sound: Tensor) -> Tensor:
        return torch.tensor([1.0, 0.0] if sound.abs().max() > 0.1 else [0.0, 1.0])

    monkeypatch.setattr(tone, "embedding", embedding)


def test_drift_is_what_differs_between_neighbouring_pieces():
    pieces = [
        SaidPiece("a", 10, hum(120, 1.0, 0.3)),
        SaidPiece("b", 20, hum(120 * 2 ** (2 / 12), 1.0)),
        SaidPiece("c", 20, 0.05 * hum(120, 1.0)),
        SaidPiece("d", 20, torch.zeros(8000)),  # nothing of it has a pitch
    ]
    found = tone.drift([Spoken([pieces], [])], Ear())  # type: ignore[arg-type]
    assert found["pitch_jump_semitones"] == pytest.approx(2, abs=0.2)
    assert found["pitch_spread_semitones"] == pytest.approx(2 * math.sqrt(2) / 3, abs=0.2)
    # Twice the ids in the same time, and then as many: silence around them does not count.
    assert found["rate_jump_percent"] == pytest.approx(100 * math.log(2) / 2, abs=2)
    assert found["speaker_cosine"] == pytest.approx(0.5)


def test_texts_are_not_neighbours():
    texts = [[SaidPiece("a", 10, hum(hertz, 1.0))] * 2 for hertz in (100, 200)]
    found = tone.drift([Spoken(texts, [])], Ear())  # type: ignore[arg-type]
    assert (found["pitch_jump_semitones"], found["rate_spread_percent"]) == (0, 0)


def test_onsets_are_judged_by_themselves(monkeypatch):
    """Quiet in the first second; the recogniser misses a first word and the last two."""
    sound = torch.cat((0.5 * hum(120, 1.0), hum(120, 1.5)))
    monkeypatch.setattr(
        judges, "words_heard", lambda heard: "two three" if len(heard) > 20_000 else "yes"
    )
    long = SaidPiece("one two three four five", 20, sound)
    short = SaidPiece("Yes.", 3, hum(120, 0.5))
    found = tone.onsets([Spoken([[long]], [short, short])], Ear())  # type: ignore[arg-type]
    assert found["first_second_likeness"] < 0.7 * found["last_second_likeness"]
    assert (found["short_word_errors"], found["short_likeness"]) == (
        0,
        found["last_second_likeness"],
    )
    assert found["first_words_errors"] == pytest.approx(1 / 3)
    assert found["other_words_errors"] == 1


@pytest.mark.parametrize(
    ("heard", "places"),
    [
        ("one two three", [0, 0, 0]), ("two three", [1, 0, 0]), ("one too three", [0, 1, 0]),
        ("a one two three", [1, 0, 0]), ("one two three four five", [0, 0, 2]), ("", [1, 1, 1]),
    ],
)  # fmt: skip
def test_errors_have_their_places(heard, places):
    found = judges.error_places("One two, three.", heard)
    assert found == places
    assert sum(found) == judges.counted_errors("One two, three.", heard)[0]


def test_a_piece_is_said_by_the_source(monkeypatch):
    monkeypatch.setattr(judges, "teacher", lambda voice, text: f"{voice} says {text}")
    assert SaidPiece("hello", 5, torch.zeros(1)).said_by("slt") == SaidPiece(
        "hello",
        5,
        "slt says hello",  # type: ignore[arg-type]
    )
