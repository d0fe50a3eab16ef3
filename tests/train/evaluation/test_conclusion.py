"""When a decoder is learned for the best weights, when it is kept and when it is used."""

import json
import re
import shutil
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.forked import in_child
from tests.train.evaluation.test_evaluator import BAD, SOUNDS, Ground
from train import defaults
from train.evaluation.conclusion import judged, learn_best_decoder
from train.sampling.decoders import minutes_of
from xtts.model.gpt import PREFIX, TEXT_TABLES
from xtts.voices import learned_decoder, voice_files
from xtts.voices.evaluation_file import MeanInterval, write_evaluation
from xtts.voices.learned_decoder import LearnedDecoder, decoder_beside, learned_for
from xtts.voices.run_folder import read_checkpoint
from xtts.voices.voice_files import VoiceSpec, find_voice
from xtts.workers.decoder_schedule import steps_for, steps_until
from xtts.workers.failures import WorkerFailed


@pytest.fixture
def ground(tmp_path: Path, base_folder: Path) -> Ground:
    """A run whose best weights are epoch 2 at 50 %."""
    found = Ground(tmp_path, base_folder, dict(SOUNDS))
    for epoch in (1, 2):
        found.judge(epoch)
    return found


def kept(ground: Ground) -> LearnedDecoder | None:
    return learned_decoder.read(ground.run.best_decoder)


def test_it_is_learned_once_for_what_is_best_and_belongs_to_it_alone(ground):
    ground.conclude()
    assert ground.best()["kind"] == "blend"
    (request,) = ground.speaking.learned
    assert request.voice.weights == ground.run.checkpoint_path(2)
    assert request.voice.share == ground.best()["share"]
    found = kept(ground)
    assert found.file is not None  # `read` has compared its hash
    assert decoder_beside(ground.run.best_blend) == ground.run.best_decoder
    assert decoder_beside(ground.run.checkpoint_path(2)) is None
    ground.conclude()
    assert len(ground.speaking.learned) == 1


def test_one_that_comes_no_nearer_speaks_nowhere_and_is_not_looked_for_again(ground, caplog):
    ground.speaking.distance_after = 2.0
    ground.conclude()
    assert "The base's decoder stays" in caplog.text
    assert decoder_beside(ground.run.best_blend) is None and not ground.run.best_decoder.exists()
    ground.restart()
    ground.conclude()
    assert len(ground.speaking.learned) == 1  # the answer was kept


@pytest.mark.parametrize(("errors", "harder"), [(0.1, False), (0.6, True)])
@pytest.mark.parametrize("of_base", [False, True])
def test_one_that_is_measurably_harder_to_understand_speaks_nowhere(
    tmp_path, base_folder, caplog, errors, harder, of_base
):
    sound = {"voice": 0.4, "errors": 0.1}
    good = {**BAD, "errors": 0.9} if of_base else {"voice": 0.7, "errors": 0.1}
    ground = Ground(tmp_path, base_folder, {(0, 0.0): sound, (1, 1.0): good})
    ground.recogniser = ("pocketsphinx", None)
    ground.restart()
    ground.speaking.errors_with_learned = errors
    ground.judge(1)
    ground.conclude("off")
    assert ground.best()["kind"] == ("base" if of_base else "epoch")
    found, asked = kept(ground), ground.speaking.requests[-1]
    assert asked.voice.of_base == of_base
    assert asked.voice.decoder == ground.speaking.learned[-1].out
    assert all(one.out is None for one in asked.sentences)
    assert found.harder == harder
    assert (found.more_word_errors > 0.3) == harder
    assert ("so the base's decoder stays" in caplog.text) == harder
    assert (found.file is None) == harder != ground.run.best_decoder.is_file()


@pytest.mark.parametrize("heard", [True, False], ids=["recogniser", "no recogniser"])
@pytest.mark.parametrize(
    ("voice", "less_alike"), [(0.75, False), (0.7, False), (0.6, True)],
)  # fmt: skip
def test_one_that_sounds_measurably_less_like_the_person_speaks_nowhere(
    tmp_path, base_folder, caplog, voice, less_alike, heard
):
    errors = {"errors": 0.1} if heard else {}
    ground = Ground(
        tmp_path, base_folder,
        {(0, 0.0): {"voice": 0.4, **errors}, (1, 1.0): {"voice": 0.7, **errors}},
    )  # fmt: skip
    ground.recogniser = ("pocketsphinx", None) if heard else ("", "EVALUATE_RECOGNISER is off")
    ground.restart()
    ground.speaking.voice_with_learned = voice
    ground.speaking.errors_with_learned = 0.1 if heard else None
    ground.judge(1)
    ground.conclude("off")
    assert ground.best()["kind"] == "epoch"
    found = kept(ground)
    assert found.less_alike == less_alike and not found.harder
    # The base, the epoch, then the epoch again without and with the decoder.
    assert [one.voice.decoder is None for one in ground.speaking.requests] == [
        True,
        True,
        True,
        False,
    ]
    assert found.closer_voice == pytest.approx(0.6 * (voice - 0.7), abs=0.01)  # a cosine
    assert (found.more_word_errors is None) is not heard
    told = "It sounds less like the reference, so the base's decoder stays."
    assert (told in caplog.text) == less_alike
    assert ground.run.best_decoder.is_file() is not less_alike
    assert (decoder_beside(ground.run.checkpoint_path(1)) is None) == less_alike


def test_each_judge_may_be_against_it():
    learned = LearnedDecoder(0, 0.0, "", 2.0, 1.5, 40, 250)
    worse = {
        "word_errors": MeanInterval(0.2, 0.1, 0.3, 16), "voice": MeanInterval(-0.2, -0.3, -0.1, 16),
    }  # fmt: skip
    found = judged(learned, worse)
    assert (found.more_word_errors, found.closer_voice) == (0.2, -0.2)
    assert found.more_natural is None and not found.less_natural
    rough = {"naturalness": MeanInterval(-0.3, -0.5, -0.1, 16)}
    rougher = judged(learned, rough)
    assert (rougher.more_natural, rougher.less_natural, rougher.better) == (-0.3, True, False)
    assert found.harder and found.less_alike and not found.better
    assert judged(learned, {}) == learned


def test_it_goes_with_the_weights_that_it_was_learned_for(ground):
    ground.conclude("off")
    first = kept(ground)
    assert first.share == 1
    assert decoder_beside(ground.run.checkpoint_path(first.epoch)) == ground.run.best_decoder
    ground.conclude()
    second = kept(ground)
    assert second.share < 1
    assert decoder_beside(ground.run.checkpoint_path(first.epoch)) is None


def test_where_the_base_is_best_one_is_learned_for_the_base(
    tmp_path, base_folder, monkeypatch, caplog
):
    """With too few clips for a fine-tune, a decoder still brings the voice closer."""
    ground = Ground(tmp_path, base_folder, {(1, 1.0): BAD, (2, 1.0): BAD})
    for epoch in (1, 2):
        ground.judge(epoch)
    caplog.set_level("INFO")
    ground.conclude("off")
    assert ground.best()["kind"] == "base"
    assert re.search(r"speaks with the voice of \S+ through the decoder", caplog.text)
    (request,) = ground.speaking.learned
    assert request.voice.of_base and request.voice.share == 0
    assert learned_for(ground.run, None) == ground.run.best_decoder
    assert decoder_beside(ground.run.checkpoint_path(2)) is None

    monkeypatch.setattr(voice_files, "base_of", lambda *_, **__: base_folder)
    run, other = str(ground.run.folder), tmp_path / "other.wav"
    assert find_voice(VoiceSpec(run)).decoder == ground.run.best_decoder
    assert find_voice(VoiceSpec(run, reference=other)).decoder is None
    # As the API opens it, by an epoch of the run.
    epoch = str(ground.run.checkpoint_path(2))
    of_run = ground.run.samples / "epoch_2_reference.wav"
    for recording, expected in ((of_run, ground.run.best_decoder), (other, None)):
        spec = VoiceSpec(epoch, reference=recording, base_only=True)
        assert find_voice(spec).decoder == expected
    ground.conclude("off")
    assert len(ground.speaking.learned) == 1


def test_killed_before_it_is_written_it_is_learned_again(ground):
    assert in_child(ground.conclude, crash_at="before decoder") == -9
    assert kept(ground) is None and not ground.run.best_blend.exists()
    ground.restart()
    ground.conclude()
    assert kept(ground) is not None and ground.best()["kind"] == "blend"


def test_off_leaves_none_behind(ground):
    ground.conclude()
    ground.conclude(learn_decoder="off")
    assert kept(ground) is None and len(ground.speaking.learned) == 1
    assert not ground.run.best_decoder.exists() and not ground.run.best_decoder_state.exists()


def test_a_base_may_recommend_to_learn_none(ground, tmp_path, caplog):
    ground.base = Path(shutil.copytree(ground.base, tmp_path / "advised"))
    config = json.loads((ground.base / "config.json").read_text())
    config["sotaque"] |= {"training": {"learn_decoder": "off"}}
    (ground.base / "config.json").write_text(json.dumps(config))
    caplog.set_level("INFO")
    ground.conclude(blend="off")
    assert not ground.speaking.learned
    assert "LEARN_DECODER: off (recommended by the base model)" in caplog.text
    ground.conclude(learn_decoder="on", blend="off")
    assert len(ground.speaking.learned) == 1


def test_a_fault_costs_the_decoder_and_not_the_best(ground, monkeypatch, caplog):
    def refuse(_: object) -> None:
        raise WorkerFailed("refused", "Too few clips.")

    monkeypatch.setattr(ground.speaking, "learn_decoder", refuse)
    ground.conclude()
    assert "No decoder was trained: Too few clips." in caplog.text
    assert ground.run.best_blend.is_file() and kept(ground) is None


@pytest.mark.parametrize("damage", [b"", b"other tensors"])
def test_damaged_tensors_speak_nowhere_and_are_learned_again(ground, damage):
    ground.conclude()
    ground.run.best_decoder.write_bytes(damage)
    assert decoder_beside(ground.run.best_blend) is None
    ground.conclude()
    assert decoder_beside(ground.run.best_blend) is not None and len(ground.speaking.learned) == 2


def test_its_steps_follow_the_sound_and_it_continues_the_newest_epoch_s(ground):
    """In a run, afterwards and with LEARN_DECODER=on alike, without a time limit."""
    minutes = minutes_of(ground.evaluator.plan.clips)
    for epoch in (1, 2):
        with_state(ground, epoch)
    for number, (in_run, how) in enumerate([(True, "auto"), (True, "on"), (False, "auto")]):
        learned_decoder.remove(ground.run.best_decoder)
        ground.restart(in_run=in_run)
        ground.conclude(learn_decoder=how)
        request = ground.speaking.learned[number]
        assert request.state == ground.run.decoder_state_path(2)
        assert (request.steps, request.budget_seconds) == (steps_for(minutes), None)
        # Half of epoch 2 is best, and its decoder knows the whole of it.
        assert request.least_steps == steps_until(1, minutes)


def with_state(ground: Ground, epoch: int) -> None:
    """The decoder of an epoch and its state."""
    tensors, sha256 = ground.run.decoder_path(epoch), f"{epoch}"
    checkpoint = ground.run.verified(epoch)
    learned_decoder.write(
        tensors, LearnedDecoder(epoch, 1.0, checkpoint.sha256 if checkpoint else sha256, 2.0, 1.9,
                                40, 50),
    )  # fmt: skip
    with zipfile.ZipFile(ground.run.decoder_state_path(epoch), "w") as file:
        file.writestr("state", sha256)


def test_the_newest_epoch_itself_needs_no_step_for_other_weights(ground):
    ground.speaking.sounds = {(1, 1.0): {"voice": 0.3}, (2, 1.0): {"voice": 0.9}}
    ground.run.evaluation_file.unlink()
    ground.restart()
    ground.judge(2)
    with_state(ground, 2)
    ground.conclude("off")
    assert ground.best()["epoch"] == 2 and ground.best()["kind"] == "epoch"
    assert [one.least_steps for one in ground.speaking.learned] == [0]


def test_it_learns_from_so_many_clips(ground, monkeypatch):
    monkeypatch.setattr(defaults, "DECODER_CLIPS", 5)
    clip = ground.evaluator.plan.clips[0]
    clips = [replace(clip, name=str(number)) for number in range(9)]
    ground.evaluator.plan = replace(ground.evaluator.plan, clips=clips)
    ground.conclude()
    assert len(ground.speaking.learned[-1].clips) == 5


def test_learned_again_it_takes_the_place_of_the_one_before_and_a_fault_leaves_that(
    ground, monkeypatch
):
    ground.conclude()
    verdict = ground.evaluation().verdict
    learn = partial(learn_best_decoder, ground.evaluator, verdict)
    state = ground.run.best_decoder_state
    assert state.is_file() and ground.speaking.learned[-1].state is None
    ground.speaking.distance_after = 1.2
    learn(seconds=60.0)
    again = kept(ground)
    assert again.distance_after == 1.2
    request = ground.speaking.learned[-1]
    assert (request.budget_seconds, request.steps, request.state) == (60.0, None, state)

    def refuse(_):
        raise WorkerFailed("refused", "Too few clips.")

    with monkeypatch.context() as patch, pytest.raises(WorkerFailed):
        patch.setattr(ground.speaking, "learn_decoder", refuse)
        learn(seconds=60.0)
    assert kept(ground) == again
    ground.speaking.distance_after = 2.0  # a decoder that is not closer is a result too
    learn(seconds=60.0)
    assert decoder_beside(ground.run.best_blend) is None


def test_where_no_time_is_short_its_words_are_judged_by_all_sentences(tmp_path, base_folder):
    """A busy machine judged a run by ten sentences, the minimum for a verdict."""
    ground = Ground(tmp_path, base_folder, {(1, 1.0): {"voice": 0.7, "errors": 0.1}})
    ground.recogniser = ("pocketsphinx", None)
    ground.restart()
    ground.judge(1)
    known = ground.evaluation()
    few = [replace(one, sentences=one.sentences[:10]) for one in known.candidates]
    write_evaluation(ground.run.evaluation_file, replace(known, candidates=few))
    ground.restart()  # `train learn-decoder`
    learn_best_decoder(ground.evaluator, known.verdict, 60.0)
    before, after = ground.speaking.requests[-2:]
    assert len(before.sentences) == len(after.sentences) == 24
    assert before.voice.decoder is None and after.voice.decoder == ground.speaking.learned[-1].out


def test_without_time_for_a_step_the_last_outcome_stays(ground):
    ground.conclude()
    before, verdict = kept(ground), ground.evaluation().verdict
    ground.speaking.new_steps, ground.speaking.distance_after = 0, 1.0
    assert not learn_best_decoder(ground.evaluator, verdict, 0.0)
    assert kept(ground) == before
    # An epoch's decoder that has taken all steps is an answer.
    assert learn_best_decoder(ground.evaluator, verdict)
    assert kept(ground).distance_after == 1.0


def test_it_is_judged_on_speech_that_the_weights_were_not_chosen_by(ground):
    """The best of several weights spoke the sentences that chose it better than usual, which would
    be an unfair standard for a decoder."""
    ground.conclude()
    requests = ground.speaking.requests
    without, with_it = requests[-2:]
    assert (
        without.voice.decoder is None and with_it.voice.decoder == ground.speaking.learned[-1].out
    )
    assert replace(with_it.voice, decoder=None) == without.voice

    def seeds(request):
        return [one.request.seed for one in request.sentences]

    assert seeds(without) == seeds(with_it)
    assert not {seed for one in requests[:-2] for seed in seeds(one)} & set(seeds(without))


def test_a_written_blend_has_the_rows_of_an_added_language_as_they_were_learned(ground, tmp_path):
    """The base has not learned them, and the judges heard a blend that does not mix them."""
    config = json.loads((ground.base / "config.json").read_text())
    base = Path(shutil.copytree(ground.base, tmp_path / "extended"))
    rows = ground.state["gpt.text_embedding.weight"].shape[0]
    added = {"language": "el", "like": "en", "first_id": rows - 3, "num_ids": 3}
    config["sotaque"] = (config.get("sotaque") or {}) | {"extensions": [added]}
    (base / "config.json").write_text(json.dumps(config))
    ground.base = base
    ground.conclude(learn_decoder="off")
    assert ground.best()["kind"] == "blend"
    blended = read_checkpoint(ground.run.best_blend).model
    epoch = read_checkpoint(ground.run.checkpoint_path(2)).model
    for table in TEXT_TABLES:
        ours, theirs = blended[PREFIX + table], epoch[PREFIX + table].float()
        assert torch.equal(ours[rows - 3 :], theirs[rows - 3 :])
        assert not torch.equal(ours[: rows - 3], theirs[: rows - 3])
