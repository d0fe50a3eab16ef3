"""A judge that an extra adds: its sentences, its column, and that it decides nothing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from machine import extras
from tests.train.evaluation.test_evaluator import SOUNDS, Ground
from train.dataset.dataset import Clip
from train.evaluation.further_judges import BASE, FurtherJudges
from train.evaluation.verdict import evaluation_markdown, evaluation_table
from xtts.voices.evaluation_file import FurtherFigure, JudgeDescription
from xtts.workers.requests import EvaluateRequest, SpokenSet

COUNT = 24


class Humour:
    """The judge of a test: the base's figure is 0, every other candidate's 0.5."""

    name = "humour"

    def __init__(self, clips: Sequence[Clip], absent: str | None = None) -> None:
        self.clips = clips
        self.description = JudgeDescription("share", "higher", "It laughs.", absent=absent, further=True)
        self.asked: list[tuple[list[bool], list[bool]]] = []
        self.fault: Exception | None = None

    def figure(self, base: Sequence[Path], candidate: Sequence[Path]) -> FurtherFigure | None:
        if self.fault:
            raise self.fault
        self.asked.append(tuple([path.is_file() for path in paths] for paths in (base, candidate)))
        return FurtherFigure(0.5, 0.4, 0.6, len(candidate), "It laughs at *bath*.", {"jokes": [1]})


@pytest.fixture
def ground(tmp_path: Path, base_folder: Path) -> Ground:
    """Three of the person's four clips are held out."""
    ground = Ground(tmp_path, base_folder, dict(SOUNDS))
    (clip,) = ground.evaluator.plan.clips
    clips = [replace(clip, audio_sha256=str(number)) for number in range(4)]
    plan = replace(ground.evaluator.plan, clips=clips, training=clips[:1])
    ground.evaluator.plan = plan
    ground.evaluator._further = FurtherJudges(plan, ground.run)
    asked = ground.speaking.evaluate

    def evaluate(request: EvaluateRequest) -> SpokenSet:
        spoken = asked(request)
        for task in request.sentences:
            if not task.measured:
                task.out.parent.mkdir(parents=True, exist_ok=True)
                task.out.write_bytes(b"a sound")
        return spoken

    ground.speaking.evaluate = evaluate
    return ground


@pytest.fixture
def humour(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Humour:
    judge = Humour(ground.evaluator.plan.held_out)
    use(monkeypatch, judge)
    return judge


def use(monkeypatch: pytest.MonkeyPatch, judge: Any) -> None:
    """Makes this the only judge of an extra."""
    module = SimpleNamespace(__name__="a_test", judge_of=lambda _clips, _language: judge)
    monkeypatch.setattr(extras, "modules", lambda port: [module] if port == "JUDGE" else [])


def test_it_is_a_column_and_a_note_and_no_judge_of_the_verdict(ground, humour):
    ground.judge(1)
    evaluation = ground.evaluation()
    base, epoch = evaluation.candidates
    assert (base.further, epoch.further["humour"].mean) == ({}, 0.5)
    assert "humour" not in epoch.judges
    assert evaluation.judges["humour"].further
    table = evaluation_table(evaluation)
    assert "humour" in table.splitlines()[0]
    assert "0.50 ±0.10" in table
    assert ("epoch 1: It laughs at *bath*." in table) == (evaluation.best is epoch)
    assert "| humour |" in evaluation_markdown(evaluation)
    assert [len(candidate.sentences) for candidate in evaluation.candidates] == [COUNT, COUNT]


def test_the_verdict_is_the_same_without_it(ground, humour, monkeypatch):
    ground.judge(1)
    ground.judge(2)
    with_it = ground.evaluation()
    use(monkeypatch, Humour((), "nobody laughs"))
    ground.run.evaluation_file.unlink()
    ground.restart()
    for epoch in (1, 2):
        ground.evaluator.judge(ground.run.verified(epoch))
    without = ground.evaluation()
    assert with_it.verdict == without.verdict
    assert "No humour: nobody laughs." in evaluation_table(without)


def test_sounds_of_the_base_are_kept_and_others_are_not(ground, humour):
    ground.judge(1)
    assert humour.asked == [([True] * 3, [True] * 3)]
    sounds = ground.run.samples / "evaluation"
    assert len(list((sounds / BASE / "humour").iterdir())) == 3
    assert not (sounds / "epoch_1" / "humour").exists()


def test_a_sentence_that_did_not_end_has_no_sound(ground, humour, monkeypatch):
    evaluate = ground.speaking.evaluate

    def endless(request: EvaluateRequest) -> SpokenSet:
        spoken = evaluate(request).sentences
        return SpokenSet([*spoken[:-1], replace(spoken[-1], finished=False)])

    ground.speaking.evaluate = endless
    ground.judge(1)
    assert humour.asked == [([True, True, False], [True, True, False])]


def test_its_error_costs_its_figure(ground, humour, caplog):
    humour.fault = ValueError("no sense of humour")
    ground.judge(1)
    assert ground.evaluation().candidates[1].further == {}
    assert "epoch_1 has no figure of humour: no sense of humour" in caplog.text


def test_a_judge_that_cannot_open_costs_nothing(ground, monkeypatch, caplog):
    use(monkeypatch, None)  # has no name
    ground.judge(1)
    assert len(ground.evaluation().candidates) == 2
    assert "a_test does not judge" in caplog.text


def test_an_evaluation_that_began_without_it_continues_without_it(ground, monkeypatch):
    use(monkeypatch, Humour((), "nobody laughs"))
    ground.judge(1)
    ground.evaluator._further = FurtherJudges(ground.evaluator.plan, ground.run)
    use(monkeypatch, Humour(ground.evaluator.plan.held_out))
    ground.judge(2)
    assert [candidate.further for candidate in ground.evaluation().candidates] == [{}, {}, {}]
