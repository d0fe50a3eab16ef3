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
from train.evaluation.evaluator import Evaluator
from train.evaluation.further_judges import FurtherJudges
from train.evaluation.report import evaluation_markdown, evaluation_table
from xtts.voices.evaluation_file import Evaluation, FurtherFigure, JudgeDescription
from xtts.workers.requests import EvaluateRequest, SpokenSet


class Humour:
    """The judge of a test: the figure is always 0.5."""

    name = "humour"

    def __init__(self, clips: Sequence[Clip], absent: str | None = None) -> None:
        self.clips = clips
        self.description = JudgeDescription("share", "higher", "It laughs.", absent=absent, further=True)
        self.asked: list[tuple[list[bool], ...]] = []
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
    plan = replace(ground.evaluator.plan, clips=clips, training_clips=clips[:1])
    ground.evaluator.plan = plan
    ground.evaluator._further_judges = FurtherJudges(plan)
    asked = ground.speaking.evaluate

    def evaluate(request: EvaluateRequest) -> SpokenSet:
        for task in request.sentences:
            if not task.measured:
                task.out.parent.mkdir(parents=True, exist_ok=True)
                task.out.write_bytes(b"a sound")
        return asked(request)

    ground.speaking.evaluate = evaluate
    return ground


@pytest.fixture
def humour(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Humour:
    judge = Humour(ground.evaluator.plan.held_out_clips)
    use(monkeypatch, judge)
    return judge


def use(monkeypatch: pytest.MonkeyPatch, judge: Any) -> None:
    """Makes this the only judge of an extra; None cannot be opened."""

    def judge_of(_clips: Sequence[Clip], _language: str) -> Any:
        if judge is None:
            raise ValueError("not today")
        return judge

    module = SimpleNamespace(__name__="a_test", judge_of=judge_of)
    monkeypatch.setattr(extras, "modules", lambda port: [module] if port == "JUDGE" else [])


def end(ground: Ground) -> Evaluation:
    """The evaluation of a run that ends after one epoch, the best."""
    ground.judge(1)
    ground.conclude("off", "off")
    evaluation = ground.evaluation()
    assert evaluation.verdict.epoch == 1
    return evaluation


def test_the_best_has_a_column_and_a_note(ground, humour):
    evaluation = end(ground)
    base, epoch = evaluation.candidates
    assert (base.further, epoch.further["humour"].mean) == ({}, 0.5)
    assert "humour" not in epoch.judges
    assert evaluation.judges["humour"].further
    table = evaluation_table(evaluation)
    assert "humour" in table.splitlines()[0]
    assert "0.50 ±0.10" in table
    assert "epoch 1: It laughs at *bath*." in table
    assert "| humour |" in evaluation_markdown(evaluation)


def test_base_and_best_say_the_sentences_once(ground, humour):
    end(ground)
    assert humour.asked == [([True] * 3, [True] * 3)]
    further = [request for request in ground.speaking.requests if not request.sentences[0].measured]
    assert [request.voice.of_base for request in further] == [True, False]
    ground.conclude("off", "off")
    assert len(humour.asked) == 1


def test_the_verdict_is_the_same_without_it(ground, humour, monkeypatch):
    with_it = end(ground)
    use(monkeypatch, Humour((), "nobody laughs"))
    ground.run.evaluation_file.unlink()
    ground.restart()
    ground.evaluator.judge_epoch(ground.run.verified(1))
    ground.conclude("off", "off")
    without = ground.evaluation()
    assert with_it.verdict == without.verdict
    assert "No humour: nobody laughs." in evaluation_table(without)


def test_a_sentence_that_did_not_end_has_no_sound(ground, humour):
    evaluate = ground.speaking.evaluate

    def endless(request: EvaluateRequest) -> SpokenSet:
        spoken = evaluate(request)
        if request.sentences[0].measured:
            return spoken
        return SpokenSet([*spoken.sentences[:-1], replace(spoken.sentences[-1], finished=False)])

    ground.speaking.evaluate = endless
    end(ground)
    assert humour.asked == [([True, True, False], [True, True, False])]


def test_its_error_costs_its_figure(ground, humour, caplog):
    humour.fault = ValueError("no sense of humour")
    assert end(ground).candidates[1].further == {}
    assert "There is no figure of humour: no sense of humour" in caplog.text


def test_a_judge_that_cannot_be_opened_costs_nothing(ground, monkeypatch, caplog):
    use(monkeypatch, None)
    assert end(ground).candidates[1].further == {}
    assert "a_test does not judge: not today" in caplog.text


def test_where_judging_is_slow_a_run_leaves_it_out(ground, humour, monkeypatch):
    monkeypatch.setattr(Evaluator, "is_slow", True)
    assert end(ground).candidates[1].further == {}
