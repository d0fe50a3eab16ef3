"""What the base model says of spans of a recording."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.train.cutting.recordings import demo_texts, join_demo
from train.cutting.base_alignment import CODES_A_SECOND, BaseScorer, Breath, ScoringBase
from train.cutting.recordings import SourceRecording, open_recording
from train.dataset.features import features_of
from xtts.audio import CODE_RATE, read
from xtts.evaluation.word_evidence import log_likelihoods
from xtts.voices.base_models import DEMO


@pytest.fixture(scope="module")
def base() -> ScoringBase:
    return ScoringBase.load(DEMO, "cpu")


def recorded(
    folder: Path, numbers: list[int], pause: float = 0.7
) -> tuple[SourceRecording, list[Breath]]:
    spans = join_demo(folder / "tape.wav", numbers, pause)
    # The demo's clips have a tenth of a second of quiet at both ends.
    breaths = [Breath(start + 0.1, end - 0.1) for start, end in spans]
    return open_recording(folder / "tape.wav", "tape", folder), breaths


def scorer_of(base: ScoringBase, folder: Path, numbers: list[int]) -> BaseScorer:
    recording, breaths = recorded(folder, numbers)
    latents = base.voice(recording, breaths)
    assert latents is not None
    texts = [demo_texts()[number - 1] for number in numbers]
    pace = sum(end - start for start, end in breaths) / sum(map(len, texts))
    codes = base.codes(recording)
    return BaseScorer(base, latents, codes, breaths, texts, "en", pace)


def test_codes_of_blocks_are_those_of_the_whole(base: ScoringBase, tmp_path: Path) -> None:
    recording, _ = recorded(tmp_path, [1, 2, 3, 5, 7, 8, 9, 11, 12, 13, 14, 15], pause=1.0)
    assert recording.seconds > 31
    whole, _ = features_of(read(recording.path, CODE_RATE), base.dvae, base.stats)
    found = base.codes(recording)
    assert found.dtype == whole.dtype
    assert abs(len(found) - len(whole)) <= 1
    count = min(len(found), len(whole))
    assert (found[:count] == whole[:count]).mean() > 0.99


def test_its_own_sentence_fits_a_breath_and_others_do_not(
    base: ScoringBase, tmp_path: Path
) -> None:
    scorer = scorer_of(base, tmp_path, [1, 2, 3])
    for breath in range(3):
        groups = [range(piece, piece + 1) for piece in range(3)]
        nats = [
            max((one.nats for one in found if one.last == breath + 1), default=-np.inf)
            for found in scorer.score(breath, groups)
        ]
        assert int(np.argmax(nats)) == breath
        assert nats[breath] > 30
        assert sorted(nats)[-2] < nats[breath] / 4


def test_a_last_piece_that_nobody_says_is_not_taken_along(
    base: ScoringBase, tmp_path: Path
) -> None:
    scorer = scorer_of(base, tmp_path, [1, 2, 3])
    alone, joined = scorer.score(0, [range(1), range(2)])
    assert [one.last for one in alone if one.nats > 0] == [1]
    assert 1 not in [one.last for one in joined]


def test_one_pass_tells_what_a_pass_for_each_end_would(base: ScoringBase, tmp_path: Path) -> None:
    recording, breaths = recorded(tmp_path, [1, 2])
    latents = base.voice(recording, breaths)
    assert latents is not None
    codes = torch.from_numpy(base.codes(recording).astype(np.int64))[:60]
    ids = base.tokenizer.encode(demo_texts()[0], "en")
    scorer = BaseScorer(base, latents, codes.numpy(), breaths, [demo_texts()[0]], "en", 0.05)
    own, stop, _ = scorer._ask(0, 60, [range(1)])
    for end in (20, 41, 60):
        (wanted,) = log_likelihoods(base.gpt, latents, [ids], codes[:end], stopped=True)
        found = own[0, :end].sum() + stop[0, end]
        assert found == pytest.approx(float(wanted), abs=1e-2)


def test_a_recording_without_a_long_breath_has_no_voice(base: ScoringBase, tmp_path: Path) -> None:
    recording, _ = recorded(tmp_path, [1])
    assert base.voice(recording, [(0.5, 0.9)]) is None
    assert len(base.codes(recording)) == pytest.approx(recording.seconds * CODES_A_SECOND, abs=1)
