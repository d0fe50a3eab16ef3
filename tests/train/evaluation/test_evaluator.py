"""From saved epochs to evaluation.json, best.json and best.pt, also after a kill or a fault."""

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.forked import in_child
from tests.train.evaluation.spoken import CENTRE, PERSON, facts
from train.checkpointing.checkpoints import Checkpoints
from train.dataset.dataset import Clip
from train.evaluation.conclusion import conclude, judge_remaining, seconds_left
from train.evaluation.evaluator import SHORT_SECONDS, Evaluator
from train.evaluation.plan import MAX_RUN_SENTENCES, NATURALNESS_OFF, EvaluationPlan, EvaluationSentence
from train.sampling.reference import SampleReference
from train.sampling.sampler import SamplingPlan
from train.settings import TrainSettings
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.gpt import PREFIX
from xtts.model.loading import read_tensors
from xtts.voices.evaluation_file import Evaluation, read_evaluation, write_evaluation
from xtts.voices.run_folder import RunFolder, VerifiedCheckpoint, read_checkpoint
from xtts.voices.run_lock import lock
from xtts.workers.decoder_schedule import MIN_STEPS
from xtts.workers.failures import WorkerFailed
from xtts.workers.requests import (
    SLOTS,
    DecoderLearned,
    EvaluateRequest,
    HeardRecordings,
    LearnDecoderRequest,
    ListenRequest,
    RecordingFacts,
    ReportProgress,
    SpokenSet,
    no_progress,
)

# Invented measurements of each epoch and each share of it.
GOOD = {"voice": 0.7}
BAD = {"voice": 0.9, "lost": 0.2}
HALF = {"voice": 0.8, "lost": 0.0}
BEST = 99  # stands for an epoch number when best.pt speaks


class Speaking:
    """A sampler whose worker returns invented measurements; also the samples of its run."""

    def __init__(self, sounds: dict[tuple[int, float], dict[str, float]]) -> None:
        self.plan = SamplingPlan("cpu_subprocess", ComputeConfig(), "a test")
        self.sounds = sounds
        self.asked: list[tuple[int, float]] = []
        self.best = 0  # how often the best weights spoke
        self.fault: Exception | None = None
        self.requests: list[EvaluateRequest] = []
        self.learned: list[LearnDecoderRequest] = []
        self.distance_after, self.new_steps = 1.5, 50
        self.errors_with_learned: float | None = None
        self.voice_with_learned: float | None = None
        # What changes where the weights speak with a learned decoder.
        self.with_decoder: dict[tuple[int, float], dict[str, float]] = {}
        self.now, self.seconds_a_sentence = 0.0, 0.0
        # Each epoch's measurements in a language of the base other than the run's.
        self.old_sounds: dict[int, dict[str, float]] = {}

    def ask(self, request: Any, progress: ReportProgress = no_progress) -> Any:
        progress(1.0)
        if isinstance(request, ListenRequest):
            return HeardRecordings([RecordingFacts(2.0, CENTRE.tolist(), 120.0)], [])
        if self.fault is not None:
            raise self.fault
        if isinstance(request, LearnDecoderRequest):
            return self.learn_decoder(request)
        return self.evaluate(request)

    def submit(self, work: Any) -> None:
        work()

    def finish(self) -> None:
        pass

    def speak_best(self, _verdict: Any = None) -> None:
        self.best += 1

    def learn_decoder(self, request: LearnDecoderRequest) -> DecoderLearned:
        self.learned.append(request)
        weaker = "" if request.strength == 1 else f" at {request.strength}"
        request.out.write_text(f"tensors{weaker}")
        if request.state_out is not None:
            with zipfile.ZipFile(request.state_out, "w") as file:  # as torch.save writes
                file.writestr("state", "of the learner")
        return DecoderLearned(2.0, self.distance_after, 40, 250, 1.0, new_steps=self.new_steps)

    def evaluate(self, request: EvaluateRequest) -> SpokenSet:
        self.requests.append(request)
        asked = _asked(request)
        if request.sentences[0].request.language == "pt":
            sound = self.old_sounds.get(asked[0], {})
            return SpokenSet(facts(50 + asked[0], count=len(request.sentences), **sound))
        if request.sentences[0].request.seed % 100 == 0:  # a candidate's seeds, not a decoder's
            self.asked.append(asked)
        epoch = asked[0]
        sound: dict[str, Any] = self.sounds.get(asked, {"voice": 0.4})
        if request.voice.decoder is not None:
            sound = {**sound, "errors": self.errors_with_learned}
            if self.voice_with_learned is not None:
                sound["voice"] = self.voice_with_learned
            _, _, strength = request.voice.decoder.read_text(errors="replace").partition(" at ")
            weaker = (*asked, float(strength)) if strength else asked
            sound |= self.with_decoder.get(weaker, self.with_decoder.get(asked, {}))
        count = len(request.sentences)
        self.now += self.seconds_a_sentence * count
        said = facts(epoch + int(100 * request.voice.share), count=count, **sound)
        return SpokenSet(
            [
                one if task.natural else replace(one, naturalness=None)
                for one, task in zip(said, request.sentences, strict=True)
            ]
        )


def _asked(request: EvaluateRequest) -> tuple[int, float]:
    """Epoch and share of the requested weights; for best.pt, BEST and its share."""
    if request.voice.of_base:
        return 0, 0.0
    name = request.voice.weights.stem.split("_")[-1]
    return (BEST if name == "best" else int(name)), request.voice.share


class Ground:
    """A run folder with epochs of a tiny model, and an evaluator."""

    def __init__(self, folder: Path, base: Path, sounds: dict[tuple[int, float], Any]) -> None:
        (folder / "clip.wav").write_bytes(b"a recording")
        self.base = base
        self.recogniser: tuple[str, str | None] = ("", "EVALUATE_RECOGNISER is off")
        self.why_no_naturalness: str | None = NATURALNESS_OFF
        self.learns = False
        self.run = RunFolder(folder / "output")
        self.checkpoints = Checkpoints(self.run, keep=1)
        self.speaking = Speaking(sounds)
        self.state = {
            name: tensor.clone()
            for name, tensor in read_tensors(base / "model.pth").items()
            if name.startswith(PREFIX)
        }
        self.restart()

    def evaluation(self) -> Evaluation | None:
        return read_evaluation(self.run.evaluation_file)

    def restart(self, count: int = 24, *, in_run: bool = False, source: str = "built_in") -> None:
        """Makes the evaluator of the next start."""
        clip = Clip("c", self.run.folder.parent / "clip.wav", "hello", "anna", "en", 2.0, "s", (1,))
        sentences = [
            EvaluationSentence(SynthesisRequest(f"{i:2} is a text of thirty letters", "en", i), source)
            for i in range(count)
        ]
        plan = EvaluationPlan(
            sentences,
            SampleReference(clip.path, "hello", "en", clip.speaker),
            [clip],
            [clip],
            [],
            {"name": "tiny", "sha256": "b"},
            *self.recogniser,
            why_no_naturalness=self.why_no_naturalness,
            learns_decoder=self.learns,
        )
        self.evaluator = Evaluator(plan, self.speaking, self.checkpoints, in_run=in_run)
        self.evaluator.person = PERSON

    def save(self, epoch: int, loss: float = 2.0) -> VerifiedCheckpoint:
        """Saves an epoch's checkpoint."""
        shifted = {name: tensor + 0.01 * epoch for name, tensor in self.state.items()}
        self.checkpoints.provenance = {"base": {"name": "tiny", "sha256": "b"}, "fingerprint": {}}
        self.checkpoints.save_epoch(epoch, epoch, shifted, None, {"validation_audio_loss": loss})
        return self.run.verified(epoch)

    def judge(self, epoch: int, loss: float = 2.0, seconds: float = 0.0) -> None:
        """Saves and judges an epoch that took `seconds` to learn."""
        self.evaluator.judge_epoch(self.save(epoch, loss), seconds)

    def conclude(self, blend: float | str = "auto", learn_decoder: str = "auto") -> None:
        """The end of the run."""
        how: Any = learn_decoder
        if learn_decoder == "off":
            self.evaluator.plan = replace(self.evaluator.plan, learns_decoder=False)
        settings = TrainSettings(blend=blend, learn_decoder=how)
        conclude(self.evaluator, self.speaking, settings, self.base)

    def best(self) -> dict[str, Any]:
        return json.loads(self.run.best_file.read_text())


SOUNDS: dict[tuple[int, float], Any] = {(1, 1.0): GOOD, (2, 1.0): BAD, (2, 0.5): HALF}


@pytest.fixture
def ground(tmp_path: Path, base_folder: Path) -> Ground:
    return Ground(tmp_path, base_folder, dict(SOUNDS))


def test_each_epoch_is_judged_against_the_base_and_the_verdict_is_kept(ground):
    ground.judge(1, seconds=600.0)
    assert ground.speaking.asked == [(0, 0.0), (1, 1.0)]
    assert (ground.best()["kind"], ground.best()["epoch"]) == ("epoch", 1)
    ground.judge(2, loss=1.0)
    found = ground.evaluation()
    assert [candidate.name for candidate in found.candidates] == ["base", "epoch 1", "epoch 2"]
    # KEEP_CHECKPOINTS=1 and the second epoch has the lowest loss, but the verdict names the first.
    assert ground.best()["epoch"] == 1 and ground.run.epochs() == [1, 2]
    best = ground.run.best_weights()
    assert best.weights == ground.run.checkpoint_path(1)
    ground.save(3)
    assert ground.run.epochs() == [1, 3]


def takes(monkeypatch: pytest.MonkeyPatch, speaking: Speaking, seconds: float) -> None:
    """Judging a candidate of a run takes `seconds`."""
    speaking.seconds_a_sentence = seconds / MAX_RUN_SENTENCES
    clock = SimpleNamespace(perf_counter=lambda: speaking.now)
    monkeypatch.setattr("train.evaluation.evaluator.time", clock)


@pytest.mark.parametrize(("source", "spoken"), [("built_in", MAX_RUN_SENTENCES), ("own", 24)])
def test_a_run_speaks_sixteen_sentences_or_all_of_the_users_own(ground, source, spoken):
    ground.restart(in_run=True, source=source)
    ground.evaluator.judge_base()
    ground.judge(1, seconds=47.0)
    found = ground.evaluation()
    assert {len(candidate.sentences) for candidate in found.candidates} == {spoken}
    assert ground.speaking.asked == [(0, 0.0), (1, 1.0)] and found.left_out == []


def test_where_a_recogniser_listens_all_is_heard_and_some_is_kept(ground):
    ground.recogniser = ("pocketsphinx", None)
    ground.restart()
    ground.judge(1)
    asked = ground.speaking.requests[-1]
    assert asked.recogniser == "pocketsphinx" and all(task.sounded for task in asked.sentences)
    assert sum(task.out is not None for task in asked.sentences) == 4


@pytest.mark.parametrize(
    ("judging", "epoch", "judged"),
    [(SHORT_SECONDS, 25.0, True), (61.0, 25.0, False), (61.0, 407.0, True), (61.0, 406.0, False)],
)
def test_epochs_are_skipped_once_judging_takes_more_than_a_share_of_them(
    ground, caplog, monkeypatch, judging, epoch, judged
):
    """Up to a minute is never too long, so a short run judges all of its epochs."""
    ground.checkpoints.keep = 3
    ground.restart(in_run=True)
    takes(monkeypatch, ground.speaking, judging)
    ground.evaluator.judge_base()
    for number in (1, 2, 3):
        ground.judge(number, seconds=epoch)
    wanted = [(number, 1.0) for number in (1, 2, 3)] if judged else []
    assert ground.speaking.asked == [(0, 0.0), *wanted]
    told = [line for line in caplog.messages if line.startswith("Judging took")]
    if judged:
        assert not told
    else:
        (line,) = told
        assert f"{judging:.0f} s, more than 15 % of the {epoch:.0f} s that epoch 1" in line
        assert "judges only its newest epoch" in line and "train evaluate` judges all" in line


def test_where_judging_is_slow_the_end_judges_the_newest_epoch_and_one_blend_of_it(
    ground, caplog, monkeypatch
):
    ground.checkpoints.keep = 3
    ground.restart(in_run=True)
    takes(monkeypatch, ground.speaking, 70.0)
    ground.evaluator.judge_base()
    for number in (1, 2):
        ground.judge(number, seconds=100.0)
    ground.conclude()
    assert ground.speaking.asked == [(0, 0.0), (2, 1.0), (2, 0.5)]
    found = ground.evaluation()
    assert found.verdict.kind == "blend"
    assert found.left_out == ["epoch 1", "epoch 2 at 70%", "epoch 2 at 30%"]
    # `train evaluate` judges them, with the same number of sentences.
    ground.restart()
    ground.conclude()
    assert set(ground.speaking.asked[3:]) == {(1, 1.0), (2, 0.7), (2, 0.3)}
    found = ground.evaluation()
    assert found.left_out == [] and {len(candidate.sentences) for candidate in found.candidates} == {16}


def test_the_next_start_knows_what_judging_took_here_and_not_on_another_device(ground, monkeypatch):
    ground.restart(in_run=True)
    takes(monkeypatch, ground.speaking, 70.0)
    judge_remaining(ground.evaluator, ())
    ground.judge(1, seconds=1000.0)
    ground.restart(in_run=True)
    ground.judge(2, seconds=100.0)
    assert ground.speaking.asked == [(0, 0.0), (1, 1.0)] and ground.evaluator.is_slow
    known = ground.evaluation()
    moved = [replace(candidate, device="cuda") for candidate in known.candidates]
    write_evaluation(ground.run.evaluation_file, replace(known, candidates=moved))
    ground.restart(in_run=True)
    ground.judge(3, seconds=100.0)
    assert ground.speaking.asked[2:] == [(3, 1.0)]


def test_the_base_is_judged_once_and_before_an_epoch_of_the_run_is_there(ground):
    ground.restart(in_run=True)
    ground.evaluator.judge_base()
    (asked,) = ground.speaking.requests
    assert asked.voice.of_base and asked.voice.weights is None and ground.evaluation() is None
    ground.judge(1, seconds=47.0)
    ground.restart(in_run=True)
    ground.evaluator.judge_base()
    assert ground.speaking.asked == [(0, 0.0), (1, 1.0)]


def test_what_is_left_counts_blends_and_the_decoder(ground, monkeypatch):
    settings = TrainSettings()
    ground.learns = True
    ground.restart(in_run=True)
    decoder = MIN_STEPS * 0.1
    assert seconds_left(ground.evaluator, settings, 0.1) == decoder  # nothing is judged yet
    takes(monkeypatch, ground.speaking, 10.0)
    ground.evaluator.judge_base()
    assert seconds_left(ground.evaluator, settings, 0.1) == 10.0 + decoder
    one_blend = TrainSettings(blend=0.5)
    assert seconds_left(ground.evaluator, one_blend, 0.1) == (1 + 1) * 10.0 + decoder
    takes(monkeypatch, ground.speaking, 70.0)
    ground.judge(1, seconds=100.0)
    assert ground.evaluator.is_slow
    assert seconds_left(ground.evaluator, settings, 0.1) == (1 + 1) * 70.0 + decoder
    ground.judge(2)  # Without the time of an epoch, nothing is slow. It lost words.
    assert seconds_left(ground.evaluator, settings, 0.1) == (3 + 1) * 70.0 + decoder
    ground.judge(3, seconds=100.0)
    assert seconds_left(ground.evaluator, settings, 0.1) == (1 + 1 + 1) * 70.0 + decoder
    ground.evaluator.plan = replace(ground.evaluator.plan, learns_decoder=False)
    settings = TrainSettings(learn_decoder="off", blend="off")
    assert seconds_left(ground.evaluator, settings, 0.1) == 70.0


def test_judging_without_a_limit_says_how_far_it_is(ground, caplog, monkeypatch):
    """As in `train evaluate`: the base, two epochs and three blends."""
    monkeypatch.setattr("train.progress._TELL_EVERY_SECONDS", 0.0)
    ground.checkpoints.keep = 2
    ground.save(1)
    ground.save(2)
    ground.conclude()
    told = [line for line in caplog.messages if line.startswith("Judging: ")]
    done = [line.split(",")[0] for line in told]
    assert done == [f"Judging: {number} of 6 candidates" for number in range(1, 7)]
    assert told[-1].endswith("left 0:00:00")


@pytest.mark.parametrize(("recogniser", "count"), [(("pocketsphinx", None), 24), (("", "off"), 16)])
def test_another_recogniser_or_other_sentences_judge_everything_again(ground, recogniser, count):
    ground.judge(1)
    ground.recogniser = recogniser
    ground.restart(count)
    ground.judge(2)
    assert ground.speaking.asked == [(0, 0.0), (1, 1.0), (0, 0.0), (2, 1.0)]
    found = ground.evaluation()
    assert found.judges["word_errors"].absent == recogniser[1]
    assert {len(candidate.sentences) for candidate in found.candidates} == {count}


def test_a_blend_is_written_once_and_says_what_it_is(ground):
    del ground.speaking.sounds[(2, 0.5)]
    ground.speaking.sounds[(2, 0.3)] = HALF
    ground.judge(2)
    ground.conclude()
    assert ground.speaking.asked[2:] == [(2, 0.7), (2, 0.5), (2, 0.3)]
    wanted = {"kind": "blend", "epoch": 2, "share": 0.3, "file": "best.pt"}
    assert wanted.items() <= ground.best().items()
    found = read_checkpoint(ground.run.best_blend)
    assert found.provenance["blend"]["share"] == 0.3 and found.provenance["epoch"] == 2
    for name, tensor in found.model.items():
        assert torch.allclose(tensor, ground.state[name] + 0.3 * 0.02, atol=1e-6), name
    own = read_checkpoint(ground.run.checkpoint_path(2)).model
    assert all(torch.equal(own[name], ground.state[name] + 0.02) for name in own)
    assert ground.speaking.best == 1 and ground.run.best_weights().kind == "blend"
    written = ground.run.best_blend.stat().st_mtime_ns
    ground.restart()
    ground.conclude()
    assert len(ground.speaking.asked) == 5 and ground.run.best_blend.stat().st_mtime_ns == written


@pytest.mark.parametrize(("blend", "shares"), [("off", []), (0.4, [(2, 0.4)])])
def test_blend_says_which_shares_are_tried(ground, blend, shares):
    ground.judge(2)
    ground.conclude(blend)
    assert ground.speaking.asked[2:] == shares


def test_what_a_kill_left_out_is_done_at_the_next_start(ground):
    ground.judge(2)
    judge_remaining(ground.evaluator, (0.5,))
    # Killed after the verdict, before the file that it names was written.
    assert ground.evaluation().verdict.kind == "blend" and not ground.run.best_blend.exists()
    best = ground.run.best_weights()
    assert "train evaluate" in best.fallback and best.weights == ground.run.checkpoint_path(2)
    with lock(ground.run):  # while a run is at work, there is nothing to repair
        waiting = ground.run.best_weights()
    assert "epoch 2 at 50%, is written at the end of the run" in waiting.fallback
    assert "checkpoint_epoch_2.pt is used until then" in waiting.fallback
    assert "train evaluate" not in waiting.fallback and waiting.weights == best.weights
    ground.save(3)  # killed before it was judged
    ground.restart()
    ground.conclude(0.5)
    assert (3, 1.0) in ground.speaking.asked
    assert ground.run.best_weights().weights == ground.run.best_blend


@pytest.mark.parametrize("point", ["after blend", "after replace:best.pt"])
def test_killed_while_best_pt_is_written(ground, point):
    ground.judge(2)
    judge_remaining(ground.evaluator, (0.5,))
    assert in_child(lambda: ground.conclude(0.5), crash_at=point) == -9
    assert bool(ground.run.best_weights().fallback) is (point != "after blend")
    ground.restart()
    ground.conclude(0.5)
    assert not ground.run.best_weights().fallback and ground.best()["kind"] == "blend"


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [truncate, Path.unlink])
def test_a_best_pt_that_is_damaged_is_replaced_by_its_epoch_and_made_again(ground, damage, caplog):
    ground.judge(2)
    ground.conclude(0.5)
    assert "made again" not in caplog.text
    mapped = read_checkpoint(ground.run.best_blend).model
    whole = {name: tensor.clone() for name, tensor in mapped.items()}
    damage(ground.run.best_blend)
    best = ground.run.best_weights()
    assert best.weights == ground.run.checkpoint_path(2)
    assert (best.kind, best.share) == ("epoch", 1.0) and "best.pt" in best.fallback
    ground.restart()
    ground.conclude(0.5)
    assert "best.pt" in caplog.text and "written again from epoch 2" in caplog.text
    again = read_checkpoint(ground.run.best_blend).model
    assert all(torch.equal(again[name], tensor) for name, tensor in whole.items())
    assert len(ground.speaking.asked) == 3  # nothing was judged again


def test_best_pt_speaks_where_its_epoch_was_deleted(ground):
    ground.judge(2)
    ground.conclude(0.5)
    before = ground.run.verdict()
    for path in (ground.run.checkpoint_path(2), ground.run.manifest_path(2)):
        path.unlink()
    best = ground.run.best_weights()
    assert best.weights == ground.run.best_blend and not best.fallback
    ground.restart()
    ground.speaking.asked.clear()
    ground.conclude(0.5)
    assert ground.speaking.asked == []
    assert ground.evaluation().verdict.weights == before.weights
    # A later epoch does not rule it out, because best.pt has its weights.
    ground.judge(3)
    assert ground.evaluation().verdict.weights == before.weights
    assert ground.run.best_blend.is_file()


@pytest.mark.parametrize("could", [True, False], ids=["could", "could not"])
def test_a_best_pt_that_could_not_be_made_again_stays(ground, could):
    """A blend that is no longer the best is deleted only if its epoch still exists."""
    ground.judge(2)
    ground.conclude(0.5)
    if not could:
        ground.run.checkpoint_path(2).unlink()
    ground.speaking.sounds[(3, 1.0)] = {"voice": 0.97}
    ground.judge(3)
    assert (ground.best()["kind"], ground.best()["epoch"]) == ("epoch", 3)
    for path in (ground.run.best_blend, ground.run.best_blend_manifest):
        assert path.exists() is not could


def test_what_went_wrong_with_a_sentence_is_counted_by_its_kind(ground, monkeypatch):
    speak, lengths = ground.speaking.evaluate, {1: 0.3, 2: 0.3, 3: 2.5, 4: 2.5, 5: 2.5}

    def badly(request: EvaluateRequest) -> SpokenSet:
        found = speak(request)
        if request.voice.of_base:
            return found
        said = [
            replace(one, codes=round(lengths.get(number, 1.0) * one.codes), finished=number > 0)
            for number, one in enumerate(found.sentences)
        ]
        return replace(found, sentences=said)

    monkeypatch.setattr(ground.speaking, "evaluate", badly)
    ground.judge(1)
    found = ground.evaluation().find("epoch", 1)
    assert (found.unfinished, found.cut, found.babbling) == (1, 2, 3)
    assert "1 unfinished, 2 cut, 3 babbling" in (found.ruled_out or "")


def test_an_epoch_that_was_trained_again_is_judged_again(ground):
    ground.judge(1)
    ground.state = {name: tensor * 1.5 for name, tensor in ground.state.items()}
    ground.save(1)
    assert [epoch.epoch for epoch in ground.evaluator.unjudged_epochs()] == [1]
    assert ground.run.best_weights().fallback  # the verdict is about other weights
    ground.conclude("off")
    assert not ground.run.best_weights().fallback


def test_a_fault_costs_an_evaluation_and_never_the_run(ground, caplog):
    epoch = ground.save(1)
    ground.speaking.fault = WorkerFailed("hang", "The worker was ended.")
    for _ in range(5):
        ground.evaluator.judge_epoch(epoch)
    assert caplog.text.count("The evaluation failed: The worker was ended.") == 3
    assert "this run is not evaluated further" in caplog.text
    assert ground.evaluation() is None
    assert ground.best() == {"epoch": 1, "validation_audio_loss": 2.0}


def test_three_faults_up_to_the_end_of_a_run_end_its_evaluation(ground, caplog):
    epoch = ground.save(1)
    ground.save(2)
    ground.speaking.fault = WorkerFailed("hang", "The worker was ended.")
    ground.evaluator.judge_epoch(epoch)
    judge_remaining(ground.evaluator, (0.5,))
    assert caplog.text.count("The evaluation failed: The worker was ended.") == 3
    assert not ground.evaluator.can_judge


def test_a_stop_leaves_the_evaluation_for_the_next_start(ground, caplog):
    ground.speaking.fault = WorkerFailed("interrupted", "The run is to stop.")
    ground.judge(1)
    assert "interrupted. The next start" in caplog.text and ground.evaluator.failures == 0


@pytest.mark.parametrize("damage", [b"", b"{", b'{"schema": 99}'])
def test_a_damaged_evaluation_is_made_again(ground, damage):
    ground.restart(in_run=True)
    for epoch in (1, 2):
        ground.judge(epoch, seconds=1.0)
    before, best = ground.run.verdict(), ground.run.best_weights()
    assert before.epoch == 1
    ground.run.evaluation_file.write_bytes(damage)
    # Until it is made again, speech and pruning follow best.json.
    assert (ground.run.verdict(), ground.run.best_weights()) == (before, best)
    ground.checkpoints.publish_best()
    ground.save(3)
    assert ground.run.epochs() == [1, 3] and ground.best()["epoch"] == 1
    ground.restart(in_run=True)
    ground.conclude("off")
    assert ground.evaluation().verdict == before


def test_a_run_that_was_killed_while_it_judged_at_its_end_is_judged_at_the_next_start(ground):
    ground.checkpoints.keep = 3
    ground.judge(1)
    ground.save(2)
    ground.speaking.asked.clear()
    ground.restart(in_run=True)
    ground.conclude("off")
    assert ground.speaking.asked == [(2, 1.0)]


def test_an_old_language_is_heard_beside_an_added_one_and_what_is_lost_counts(ground):
    known = ground.evaluator.plan
    old = [
        EvaluationSentence(SynthesisRequest(f"um texto {number}", "pt", number), "built_in")
        for number in range(SLOTS)
    ]
    ground.evaluator.plan = replace(known, old_language_sentences=old, learns_added_language=True)
    ground.speaking.sounds[2, 1.0] = GOOD
    ground.speaking.old_sounds[2] = {"lost": 0.4}
    ground.judge(1, loss=2.0), ground.judge(2, loss=1.0)
    found = ground.evaluation()
    heard, of_old = ground.speaking.requests[:2]
    assert len(of_old.sentences) == SLOTS and not any(sentence.out for sentence in of_old.sentences)
    assert of_old.voice == heard.voice and heard.voice.share == 0.0
    base, first, second = found.candidates
    assert not base.knows_language and first.knows_language
    assert all(len(candidate.old_sentences) == SLOTS for candidate in found.candidates)
    assert first.ruled_out is None and second.ruled_out.startswith("It forgets the old language")
    assert (found.verdict.kind, found.verdict.epoch) == ("epoch", 1)
    # The next start takes the base's measurements from the file.
    assert found.person["old_codes_per_token"] > 0


def natural_of(request: EvaluateRequest) -> list[int]:
    """The numbers of the sentences whose naturalness is to be judged."""
    return [number for number, one in enumerate(request.sentences) if one.natural]


def with_naturalness(ground: Ground, asked: bool = True) -> None:
    ground.recogniser = ("pocketsphinx", None)
    ground.why_no_naturalness = None if asked else NATURALNESS_OFF
    sounds = {(0, 0.0): {"voice": 0.4, "natural": 3.4}, (1, 1.0): {**GOOD, "natural": 3.0}}
    ground.speaking.sounds = sounds
    ground.restart()


def test_naturalness_is_judged_of_base_and_epochs_and_rules_out(ground):
    with_naturalness(ground)
    ground.judge(1)
    found = ground.evaluation()
    assert [natural_of(request) for request in ground.speaking.requests] == [list(range(24))] * 2
    base, epoch = found.candidates
    assert base.judges["naturalness"].mean == pytest.approx(3.4, abs=0.1)
    assert epoch.judges["naturalness"].against_base.high < 0
    assert "less natural" in epoch.ruled_out and found.verdict.kind == "base"
    assert found.judges["naturalness"].absent is None


@pytest.mark.parametrize("heard", [True, False], ids=["recogniser", "no recogniser"])
def test_a_run_judges_the_naturalness_of_every_second_sentence_if_all_have_sound(ground, heard):
    with_naturalness(ground)
    ground.recogniser = ("pocketsphinx", None) if heard else ("", "off")
    ground.restart(in_run=True)
    ground.judge(1)
    for request in ground.speaking.requests:
        assert natural_of(request) == list(range(0, 16, 2 if heard else 1))


def test_without_naturalness_none_is_asked_for_and_the_reason_is_kept(ground):
    with_naturalness(ground, asked=False)
    ground.judge(1)
    assert all(natural_of(request) == [] for request in ground.speaking.requests)
    assert ground.evaluation().judges["naturalness"].absent == NATURALNESS_OFF


def test_an_evaluation_of_an_earlier_version_is_continued_without_naturalness(ground):
    ground.judge(1)
    path = ground.run.evaluation_file
    old = json.loads(path.read_text())
    del old["judges"]["naturalness"], old["person"]["naturalness"]
    for one in (said for each in old["candidates"] for said in each["sentences"]):
        del one["judges"]["naturalness"]
    path.write_text(json.dumps(old))
    ground.why_no_naturalness = None  # distillmos has been installed
    ground.restart()
    ground.judge(2)
    assert natural_of(ground.speaking.requests[-1]) == []
    assert [candidate.name for candidate in ground.evaluation().candidates] == ["base", "epoch 1", "epoch 2"]


def test_every_candidate_is_judged_by_the_sentences_that_the_base_was_judged_by(ground):
    with_naturalness(ground)
    ground.speaking.sounds[0, 0.0] |= {"unfinished": 0.3}
    ground.judge(1)
    of_base, of_epoch = (natural_of(request) for request in ground.speaking.requests)
    assert of_base == list(range(24)) and 4 < len(of_epoch) < 24
    kept = ground.evaluation().candidates[0].sentences
    assert of_epoch == [n for n in of_base if kept[n].outcome == "finished"]
