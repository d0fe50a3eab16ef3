"""How the base model scores spans; the likeliest reading, with a model that knows the truth."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from extras.cut.base_alignment import (
    CODES_PER_SECOND,
    BaseScorer,
    Breath,
    ScoringBase,
    SpanMatch,
    SpanScore,
    best_matches,
)
from extras.cut.recordings import SourceRecording, open_recording
from tests.tapes import demo_texts, join_demo, spoken_by
from train.dataset.features import codes_of
from xtts.audio import CODE_RATE, read
from xtts.evaluation.word_evidence import log_likelihoods
from xtts.voices.base_models import DEMO


@pytest.fixture(scope="module")
def base() -> ScoringBase:
    return ScoringBase.load(DEMO, "cpu")


def recorded(folder: Path, numbers: list[int], pause: float = 0.7) -> tuple[SourceRecording, list[Breath]]:
    spans = join_demo(folder / "tape.wav", numbers, pause)
    # The demo's clips begin and end with a tenth of a second of quiet.
    breaths = [Breath(start + 0.1, end - 0.1) for start, end in spans]
    return open_recording(folder / "tape.wav", "tape", folder), breaths


def scorer_of(base: ScoringBase, folder: Path, numbers: list[int]) -> BaseScorer:
    recording, breaths = recorded(folder, numbers)
    latents = base.speaker_latents(recording, breaths)
    texts = spoken_by(numbers)
    pace = sum(end - start for start, end in breaths) / sum(map(len, texts))
    codes = base.encode(recording)
    return BaseScorer(base, latents, codes, breaths, texts, "en", pace)


def test_codes_of_blocks_are_those_of_the_whole(base, tmp_path):
    recording, _ = recorded(tmp_path, [1, 2, 3, 5, 7, 8, 9, 11, 12, 13, 14, 15], pause=1.0)
    assert recording.seconds > 31
    whole = codes_of(read(recording.path, CODE_RATE), base.dvae, base.stats)
    found = base.encode(recording)
    assert found.dtype == whole.dtype
    assert abs(len(found) - len(whole)) <= 1
    count = min(len(found), len(whole))
    assert (found[:count] == whole[:count]).mean() > 0.99


def test_its_own_sentence_fits_a_breath_and_others_do_not(base, tmp_path):
    scorer = scorer_of(base, tmp_path, [1, 2, 3])
    for breath in range(3):
        groups = [range(piece, piece + 1) for piece in range(3)]
        nats = [
            max((span.nats for span in found if span.end_breath == breath + 1), default=-np.inf)
            for found in scorer.score(breath, groups)
        ]
        assert int(np.argmax(nats)) == breath
        assert nats[breath] > 30
        assert sorted(nats)[-2] < nats[breath] / 4


def test_a_last_piece_that_nobody_says_is_not_taken_along(base, tmp_path):
    scorer = scorer_of(base, tmp_path, [1, 2, 3])
    alone, joined = scorer.score(0, [range(1), range(2)])
    assert [span.end_breath for span in alone if span.nats > 0] == [1]
    assert 1 not in [span.end_breath for span in joined]


def test_one_pass_tells_what_a_pass_for_each_end_would(base, tmp_path):
    recording, breaths = recorded(tmp_path, [1, 2])
    latents = base.speaker_latents(recording, breaths)
    codes = torch.from_numpy(base.encode(recording).astype(np.int64))[:60]
    ids = base.tokenizer.encode(demo_texts()[0], "en")
    scorer = BaseScorer(base, latents, codes.numpy(), breaths, [demo_texts()[0]], "en", 0.05)
    likelihoods = scorer._likelihoods(0, 60, [range(1)])
    for end in (20, 41, 60):
        (expected,) = log_likelihoods(base.gpt, latents, [ids], codes[:end], stopped=True)
        found = likelihoods.codes[0, :end].sum() + likelihoods.stop[0, end]
        assert found == pytest.approx(float(expected), abs=1e-2)


def test_a_recording_without_a_long_breath_has_no_voice(base, tmp_path):
    recording, _ = recorded(tmp_path, [1])
    assert base.speaker_latents(recording, [(0.5, 0.9)]) is None
    assert len(base.encode(recording)) == pytest.approx(recording.seconds * CODES_PER_SECOND, abs=1)


# The likeliest reading

NATS_PER_CODE, CODES = 2.5, 20


class KnowingScorer:
    """Knows which piece is spoken in each breath (None: none); a breath has 20 codes."""

    def __init__(self, truth: Sequence[int | None], most_joined: int = 3) -> None:
        self.truth = truth
        self.asked = 0
        self._most_joined = most_joined

    def may_join(self, pieces: range) -> bool:
        return len(pieces) <= self._most_joined

    def score(self, first: int, groups: Sequence[range]) -> list[list[SpanScore]]:
        self.asked += len(groups)
        return [
            [
                self._score(first, last, group)
                for last in range(first + 1, min(first + 6, len(self.truth)) + 1)
            ]
            for group in groups
        ]

    def _score(self, first: int, last: int, group: range) -> SpanScore:
        said = self.truth[first:last]
        right = sum(piece in group for piece in said)
        # STOP is likely only after the whole text, in order, with nothing else.
        whole = sorted({piece for piece in said if piece is not None}) == list(group)
        nats = NATS_PER_CODE * CODES * (2 * right - len(said)) - (0 if whole else 15)
        return SpanScore(last, nats, CODES * len(said), 0.0)


def reading(breaths: Sequence[Breath], pieces: int, model: KnowingScorer) -> list[SpanMatch]:
    return best_matches(breaths, pieces, model.score, model.may_join)


def matched(truth: Sequence[int | None], pieces: int) -> list[SpanMatch]:
    breaths = [Breath(2.0 * place, 2.0 * place + 1.5) for place in range(len(truth))]
    return reading(breaths, pieces, KnowingScorer(truth))


def said(matches: Sequence[SpanMatch], breaths: int) -> list[int | None]:
    """The first piece of the match of each breath."""
    found: list[int | None] = [None] * breaths
    for match in matches:
        for breath in match.breaths:
            found[breath] = match.pieces.start
    return found


@pytest.mark.parametrize(
    ("truth", "pieces"),
    [
        ([0, 1, 2], 3),
        ([0, 0, 1, 1, 1, 2], 3),
        ([None, 0, None, None, 1, None], 2),
        ([0, 2, 3], 4),
        ([0, 1, None, 4, 5, 6], 7),
        ([None] * 12 + [9, 10, 11], 12),
    ],
    ids=["plain", "pauses inside", "other speech", "not said", "both", "begins late"],
)
def test_each_breath_says_what_it_says(truth, pieces):
    found = matched(truth, pieces)
    assert said(found, len(truth)) == truth
    assert all(len(match.pieces) == 1 for match in found)
    assert found[0].nats_per_code == pytest.approx(NATS_PER_CODE)


def test_sentences_without_a_pause_between_are_one_span():
    class WithoutPause(KnowingScorer):
        def _score(self, first: int, last: int, group: range) -> SpanScore:
            fits = (first, last, group) in {(0, 1, range(2)), (1, 2, range(2, 3))}
            return SpanScore(last, 100.0 if fits else -50.0, CODES, 0.0)

    breaths = [Breath(0.0, 3.0), Breath(3.5, 5.0)]
    one, other = reading(breaths, 3, WithoutPause([0, 2]))
    assert (one.pieces, other.pieces) == (range(2), range(2, 3))
    assert other.follows(one)
    assert not one.follows(other)


def test_nothing_is_found_where_nothing_is_said():
    assert matched([None] * 5, 3) == []
    assert reading([], 3, KnowingScorer([])) == []


def test_the_model_is_asked_a_bounded_number_of_times():
    truth = [place // 2 for place in range(400)]
    breaths = [Breath(2.0 * place, 2.0 * place + 1.5) for place in range(len(truth))]
    scorer = KnowingScorer(truth)
    assert said(reading(breaths, 200, scorer), 400) == truth
    assert scorer.asked < 400 * 24
