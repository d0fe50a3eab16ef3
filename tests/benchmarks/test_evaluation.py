"""The figures of the evaluation's benchmark, from results that are made up."""

import json
from dataclasses import asdict

import pytest

from benchmarks import evaluation as benchmark
from benchmarks import texts
from benchmarks.__main__ import main
from benchmarks.evaluation import HeardCandidate
from machine.errors import SotaqueError
from tests.train.evaluation.spoken import base, candidate, facts, verdict_of
from xtts.voices.evaluation_file import Candidate, Evaluation


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "RESAMPLES", 100)


def run(seed: int, lost: tuple[float, ...], *, recognised: bool = False) -> Evaluation:
    """A run whose epochs leave out so many words; the first comes nearest to the person.
    recognised: a recogniser hears as many wrong."""
    epochs = [
        candidate(
            facts(seed + 10 * number, lost=share, voice=0.9 - 0.1 * number,
                  errors=share if recognised else None),
            epoch=number,
        )
        for number, share in enumerate(lost, start=1)
    ]  # fmt: skip
    told, verdict = verdict_of(base(seed, **{"errors": 0.0} if recognised else {}), *epochs)
    return Evaluation(
        "", "en", {}, "set", {}, {"reference": "a.wav"}, {}, list(told.values()), verdict
    )


def heard(seed: int, one: Candidate, errors: int) -> HeardCandidate:
    return HeardCandidate(
        0 if one.kind == "base" else seed, one.kind, one.epoch, one.share, one.checkpoint_sha256,
        "reporting", [errors, 0], [10, 90], 0,
    )  # fmt: skip


def test_how_far_the_chosen_one_is_behind_the_best_one():
    found = run(1, (0.0, 0.2))
    listened = [
        heard(1, one, errors) for one, errors in zip(found.candidates, (6, 4, 1), strict=True)
    ]
    told = benchmark.figures({1: found}, listened)
    assert (told["sentences"], told["words"], told["within"]) == (2, 100, 0)
    row = told["seeds"][0]
    assert row["errors"] == {"base": 6.0, "epoch 1": 4.0, "epoch 2": 1.0}
    assert (row["chosen"], row["best"], row["behind"], row["behind_base"]) == (
        "epoch 1", "epoch 2", 3.0, -2.0,
    )  # fmt: skip
    nearer = [*listened[:2], heard(1, found.candidates[2], 2)]
    assert benchmark.figures({1: found}, nearer)["within"] == 1
    assert "| 1 | 24 | 6.0 | 4.0 | 1.0 | epoch 1 | 3.0 (epoch 2) |" in benchmark.report(told)


def test_a_ranking_that_agrees_is_told_with_its_intervals():
    lost = (0.0, 0.1, 0.2, 0.3, 0.4)
    runs = {seed: run(seed, lost) for seed in (1, 2, 3)}
    listened = [
        heard(seed, one, number)
        for seed, found in runs.items()
        for number, one in enumerate(found.candidates)
    ]
    told = benchmark.figures(runs, listened)["epochs"]
    assert told["checkpoints"] == 15 and told["spearman"] > 0.9
    for low, high in (told["interval"], told["interval_over_runs"]):
        assert low <= told["spearman"] <= high <= 1
    against = [heard(one.seed, runs[1].candidates[one.epoch], 5 - one.epoch) for one in listened]
    assert benchmark.figures(runs, against)["epochs"]["spearman"] < -0.9


def test_the_recogniser_of_the_evaluation_is_ranked_where_it_listened():
    found = run(1, (0.0, 0.2, 0.4), recognised=True)
    listened = [heard(1, one, number) for number, one in enumerate(found.candidates)]
    told = benchmark.figures({1: found}, listened)
    assert told["word errors, epochs"]["checkpoints"] == 3
    assert told["word errors, epochs"]["spearman"] == pytest.approx(1)
    deaf = run(1, (0.0, 0.2, 0.4))
    assert benchmark.figures({1: deaf}, listened)["word errors, epochs"] == {"checkpoints": 0}


def test_ranks_share_their_ties_and_a_constant_agrees_with_nothing():
    one, other = benchmark.np.array([1, 2, 2, 4]), benchmark.np.array([1, 3, 3, 9])
    assert benchmark.spearman(one, other) == pytest.approx(1)
    assert benchmark.spearman(one, benchmark.np.ones(4)) == 0


def test_results_are_gone_on_with_and_never_overwritten(tmp_path, capsys):
    found = run(1, (0.0,))
    results = tmp_path / "heard.jsonl"
    first = json.dumps(asdict(heard(1, found.candidates[1], 2)))
    results.write_text(f"{first}\n{first[:20]}")
    there = benchmark.known(results)
    assert [one.epoch for one in there] == [1]
    assert [one.kind for one in benchmark.missing(found, 1, "reporting", there)] == ["base"]
    assert len(benchmark.missing(found, 1, "choosing", there)) == 2
    assert main(["evaluation", "--work", str(tmp_path)]) == SotaqueError.exit_code
    assert "--resume" in capsys.readouterr().err


def test_the_sentences_are_a_fixed_part_of_the_set():
    found = benchmark.sentences("reporting")
    assert len(found) == 22 and set(found) <= set(texts.sentences("reporting"))
