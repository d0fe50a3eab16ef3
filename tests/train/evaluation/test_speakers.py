"""Each further speaker of a dataset is judged with the best weights and gets a separate decoder."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from machine.storage.checksums import sha256_of
from machine.storage.files import Written
from tests.forked import in_child
from tests.train.evaluation.spoken import facts
from tests.train.evaluation.test_evaluator import GOOD, Ground
from train.dataset.dataset import Clip
from train.evaluation.judges import judge_sentences
from train.evaluation.report import evaluation_table
from train.evaluation.speakers import SPEAKER_SECONDS, figures_of, judge_speakers
from train.sampling.decoders import minutes_of
from xtts.voices import learned_decoder, speakers
from xtts.voices.speakers import Speaker
from xtts.workers.decoder_schedule import steps_for
from xtts.workers.failures import WorkerFailed

ALIKE, FAR = {"voice": 0.4, "errors": 0.1}, {"voice": 0.4, "errors": 0.6}


class Several(Ground):
    """A run of anna, ben and cleo."""

    def restart(self, count: int = 24, **more: Any) -> None:
        super().restart(count, **more)
        others = {name: self.clips(name) for name in ("ben", "cleo")}
        self.evaluator.plan = replace(self.evaluator.plan, clips_by_speaker=others)

    def clips(self, name: str, count: int = 9) -> list[Clip]:
        path = self.run.folder.parent / "clip.wav"
        return [
            Clip(f"{name}{i}", path, "hello", name, "en", 2.0, f"{name}{i}", (1,) * 25) for i in range(count)
        ]

    def recording(self, number: int) -> Path:
        return self.run.speakers / f"{number}.wav"

    def row(self, name: str) -> Any:
        return next(speaker for speaker in self.evaluation().speakers if speaker.name == name)


@pytest.fixture
def ground(tmp_path: Path, base_folder: Path) -> Several:
    """A run whose best weights are epoch 1."""
    sounds = {(0, 0.0): {"voice": 0.4, "errors": 0.1}, (1, 1.0): {**GOOD, "errors": 0.1}}
    found = Several(tmp_path, base_folder, sounds)
    found.recogniser, found.learns = ("pocketsphinx", None), True
    found.restart()
    found.run.speakers.mkdir(parents=True)
    rows = []
    for number, name in enumerate(("anna", "ben", "cleo"), start=1):
        path = found.recording(number)
        path.write_bytes(name.encode())
        rows.append(Speaker(name, path.name, Written(sha256_of(path), path.stat().st_size)))
    speakers.write(found.run.folder, rows)
    found.speaking.errors_with_learned, found.speaking.voice_with_learned = 0.1, 0.9
    found.speaking.with_decoder = {(0, 0.0): {"voice": 0.4}}  # the base gains nothing by one
    found.judge(1)
    return found


def test_each_has_a_row_a_verdict_and_a_decoder_of_their_own(ground, caplog):
    ground.conclude("off")
    assert [speaker.name for speaker in ground.evaluation().speakers] == ["ben", "cleo"]
    ben = ground.row("ben")
    assert (ben.clips, ben.sentences) == (9, 24)
    assert ben.base.voice.mean < ben.best.voice.mean < ben.learned.voice.mean
    assert ben.than_base["voice"].low > 0
    told = "The best weights with a decoder for this speaker are measurably closer to the speaker"
    assert ben.verdict == f"{told} than the base."
    assert f"As ben: word error rate {ben.learned.word_errors.mean:.2f} (base " in caplog.text
    # Each learned from that speaker's clips and recording, for the best weights.
    own, *others = ground.speaking.learned
    assert [other.voice.reference for other in others] == [ground.recording(2), ground.recording(3)]
    assert [other.clips[0].recording for other in others] == [ground.run.folder.parent / "clip.wav"] * 2
    checkpoint = ground.run.checkpoint_path(1)
    assert {one.voice.weights for one in (own, *others)} == {checkpoint}
    for number in (2, 3):
        tensors = speakers.decoder_of(ground.recording(number))
        for weights, expected in ((checkpoint, tensors), (None, None)):
            found = learned_decoder.decoder_for(ground.run, weights, tensors)
            assert found == expected


def test_what_is_judged_is_not_judged_again_until_the_weights_change(ground):
    ground.conclude("off")
    asked = len(ground.speaking.requests)
    ground.restart()
    ground.conclude("off")
    assert len(ground.speaking.requests) == asked and len(ground.speaking.learned) == 3
    ground.speaking.sounds[1, 0.3] = {"voice": 0.8, "errors": 0.0}
    ground.conclude(0.3)
    assert ground.best()["kind"] == "blend"
    assert ground.row("ben").weights["share"] == 0.3
    assert len(ground.speaking.learned) == 5


@pytest.mark.parametrize(
    ("errors", "voice", "how"), [(0.6, 0.9, "closer to the speaker"), (0.1, 0.5, "closer to the speaker")]
)
def test_a_decoder_that_is_worse_by_words_or_voice_is_not_theirs(ground, errors, voice, how):
    ground.speaking.errors_with_learned, ground.speaking.voice_with_learned = errors, voice
    ground.conclude("off")
    ben = ground.row("ben")
    assert ben.learned is None
    assert ben.verdict == f"The best weights are measurably {how} than the base."
    tensors = speakers.decoder_of(ground.recording(2))
    record = learned_decoder.read(tensors)
    assert (record.harder, record.less_alike) == (errors > 0.5, voice < 0.7)
    assert not tensors.exists()


def test_for_whom_the_base_is_better_the_verdict_says_so(ground):
    ground.conclude("off", learn_decoder="off")
    row = ground.row("ben")
    assert row.learned is None and len(ground.speaking.learned) == 0
    ground.speaking.sounds[1, 1.0] = {"voice": 0.2, "errors": 0.6}
    known = replace(ground.evaluation(), speakers=[])
    (ben, _) = judge_speakers(ground.evaluator, known).speakers
    assert ben.verdict == (
        "The best weights are measurably harder to understand and less like the speaker than the base."
    )
    assert ben.verdict in evaluation_table(ground.evaluation())


def clock_of(ground: Several, monkeypatch: pytest.MonkeyPatch, sentence: float) -> None:
    """A clock on which a sentence takes `sentence` seconds, and a decoder as long as a speaker
    may."""
    ground.speaking.seconds_a_sentence = sentence
    clock = SimpleNamespace(perf_counter=lambda: ground.speaking.now)
    monkeypatch.setattr("train.evaluation.speakers.time", clock)
    learn = ground.speaking.learn_decoder

    def for_all_its_time(request: Any) -> Any:
        ground.speaking.now += SPEAKER_SECONDS
        return learn(request)

    monkeypatch.setattr(ground.speaking, "learn_decoder", for_all_its_time)


def test_without_time_they_are_named_and_train_evaluate_judges_them(ground, monkeypatch, caplog):
    """Ben takes the time of both."""
    ground.restart(in_run=True)
    clock_of(ground, monkeypatch, SPEAKER_SECONDS / 24)
    ground.conclude("off")
    assert [speaker.name for speaker in ground.evaluation().speakers] == ["ben"]
    assert "these speakers are not judged: cleo." in caplog.text
    ground.restart()
    ground.conclude("off")
    assert [bool(speaker.learned) for speaker in ground.evaluation().speakers] == [True, True]


def test_rows_of_other_weights_do_not_stay_where_there_is_no_time_for_new_ones(ground, monkeypatch):
    ground.conclude("off")
    ground.speaking.sounds[1, 0.3] = {"voice": 0.8, "errors": 0.0}
    ground.restart(in_run=True)
    monkeypatch.setattr("train.evaluation.speakers.SPEAKER_SECONDS", 0.0)
    ground.conclude(0.3)
    assert ground.best()["kind"] == "blend" and ground.evaluation().speakers == []


def test_the_steps_of_a_speaker_follow_their_sound_and_no_clock(ground, monkeypatch):
    ground.restart(in_run=True)
    clock_of(ground, monkeypatch, 0.0)
    ground.conclude("off")
    steps = steps_for(minutes_of(ground.evaluator.plan.clips_by_speaker["ben"]))
    asked = [(one.steps, one.budget_seconds, one.state) for one in ground.speaking.learned[1:]]
    assert asked == [(steps, None, None)] * 2


def test_a_fault_costs_one_speaker_and_a_kill_none_that_was_judged(ground, monkeypatch, caplog):
    learn = ground.speaking.learn_decoder

    def refuse_ben(request: Any) -> Any:
        if request.voice.reference == ground.recording(2):
            raise WorkerFailed("refused", "A clip cannot be read.")
        return learn(request)

    monkeypatch.setattr(ground.speaking, "learn_decoder", refuse_ben)
    ground.conclude("off")
    assert "The speaker ben was not judged: A clip cannot be read." in caplog.text
    assert [speaker.name for speaker in ground.evaluation().speakers] == ["cleo"]
    monkeypatch.undo()
    ground.restart()
    ground.conclude("off")
    assert [speaker.name for speaker in ground.evaluation().speakers] == ["ben", "cleo"]


def test_killed_while_their_decoder_is_kept_it_is_learned_again(ground):
    ground.conclude("off")
    (ground.run.speakers / "2_decoder.json").unlink()  # as a kill leaves it
    assert in_child(ground.conclude, crash_at="before decoder") == -9
    ground.restart()
    ground.conclude("off")
    tensors = speakers.decoder_of(ground.recording(2))
    weights = ground.run.checkpoint_path(1)
    assert learned_decoder.decoder_for(ground.run, weights, tensors) == tensors


def test_few_clips_learn_no_decoder(ground):
    plan = ground.evaluator.plan
    few = {"ben": ground.clips("ben", 5), "cleo": plan.clips_by_speaker["cleo"]}
    ground.evaluator.plan = replace(plan, clips_by_speaker=few)
    ground.conclude("off")
    assert ground.row("ben").learned is None and ground.row("cleo").learned is not None


@pytest.mark.parametrize("fault", ["cut", "babbling", "unfinished"])
def test_a_sentence_that_failed_is_in_no_figure_of_a_speaker(ground, fault):
    """As in the candidates' table: its measurements would be noise."""
    said = facts(3, voice=0.6, errors=0.1)
    first = said[0]
    codes = {"cut": first.codes // 3, "babbling": 4 * first.codes}.get(fault, first.codes)
    failed = replace(
        first,
        codes=codes,
        finished=fault != "unfinished",
        word_errors=1.0,
        embedding=[-x for x in first.embedding],
    )
    evaluator = ground.evaluator
    person = evaluator.person.compared_with(evaluator.reference_embedding)

    def figures(facts: Any) -> Any:
        return figures_of(judge_sentences(evaluator.plan.sentences, facts, person, 0.0))

    alone = figures(said[1:])
    assert figures([failed, *said[1:]]) == alone
    assert alone.voice.count == alone.word_errors.count == len(said) - 1
