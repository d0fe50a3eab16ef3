"""The figures of the evaluation benchmark, from made-up results."""

import json
from dataclasses import asdict

from benchmarks import evaluation as benchmark
from benchmarks import texts
from benchmarks.__main__ import main
from benchmarks.evaluation import HeardCandidate
from machine.errors import SotaqueError
from tests.train.evaluation.spoken import base, candidate, facts, verdict_of
from xtts.voices.evaluation_file import Candidate, Evaluation


def run(seed: int, lost: tuple[float, ...]) -> Evaluation:
    """A run whose epochs lose these shares of words; the first is closest to the person's voice."""
    epochs = [
        candidate(
            facts(seed + 10 * number, lost=share, voice=0.9 - 0.1 * number),
            epoch=number,
        )
        for number, share in enumerate(lost, start=1)
    ]  # fmt: skip
    told, verdict = verdict_of(base(seed), *epochs)
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
