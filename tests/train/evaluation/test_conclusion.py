"""When a decoder is learned for the best weights, when it is kept and when it is used."""

import json
import shutil
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.train.evaluation.test_evaluator import BAD, GOOD, SOUNDS, Ground
from train import defaults
from train.evaluation.best_decoder import learn_best_decoder, with_judgement
from train.evaluation.plan import VoiceScale
from train.sampling.decoders import minutes_of
from xtts.model.gpt import PREFIX, TEXT_TABLES
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import MeanInterval, write_evaluation
from xtts.voices.learned_decoder import LearnedDecoder, decoder_for
from xtts.voices.run_folder import read_checkpoint
from xtts.workers.decoder_schedule import steps_for, steps_until
from xtts.workers.failures import WorkerFailed


@pytest.fixture
def ground(tmp_path: Path, base_folder: Path) -> Ground:
    """A run whose best weights are epoch 2 at 50 %, in which decoders learn."""
    found = Ground(tmp_path, base_folder, dict(SOUNDS))
    found.learns = True
    found.restart()
    for epoch in (1, 2):
        found.judge(epoch)
    return found


def kept(ground: Ground) -> LearnedDecoder | None:
    return learned_decoder.read(ground.run.best_decoder)


def test_each_judge_may_be_against_it():
    learned = LearnedDecoder(0, 0.0, "", 2.0, 1.5, 40, 250)
    worse = {"word_errors": MeanInterval(0.2, 0.1, 0.3, 16), "voice": MeanInterval(-0.2, -0.3, -0.1, 16)}
    found = with_judgement(learned, worse)
    assert (found.more_word_errors, found.closer_voice) == (0.2, -0.2)
    assert found.more_natural is None and not found.less_natural
    rough = {"naturalness": MeanInterval(-0.3, -0.5, -0.1, 16)}
    rougher = with_judgement(learned, rough)
    assert (rougher.more_natural, rougher.less_natural, rougher.is_better) == (-0.3, True, False)
    assert found.harder and found.less_alike and not found.is_better
    assert with_judgement(learned, {}) == learned


def test_what_the_person_s_own_clips_lack_is_no_fault_of_a_decoder():
    """kathleen's decoder was left out after five more minutes: it had become as rough as she is."""
    learned = LearnedDecoder(0, 0.0, "", 1.01, 0.79, 56, 140)
    gaps = {
        "naturalness": MeanInterval(-0.35, -0.5, -0.2, 16),
        "word_errors": MeanInterval(0.03, 0.01, 0.05, 16),
        "voice": MeanInterval(0.09, 0.07, 0.11, 16),
    }
    strict = with_judgement(learned, gaps)
    assert strict.harder and strict.less_natural
    assert with_judgement(learned, gaps, is_accent=True, allowed_loss=0.3).is_better


def test_nearness_that_is_worth_a_loss_counts_by_the_person_s_scale():
    learned = LearnedDecoder(0, 0.0, "", 1.01, 0.79, 56, 140)
    rougher = MeanInterval(-0.2, -0.3, -0.1, 16)
    gaps = {"naturalness": rougher, "voice": MeanInterval(0.09, 0.07, 0.11, 16)}
    assert with_judgement(learned, gaps).less_natural
    scale = VoiceScale(np.ones(1), cosine_at_one=0.89, cosine_at_zero=0.55)
    assert not with_judgement(learned, gaps, scale=scale).less_natural


def with_state(ground: Ground, epoch: int) -> None:
    """The decoder of an epoch and its state."""
    tensors, sha256 = ground.run.decoder_path(epoch), f"{epoch}"
    checkpoint = ground.run.verified(epoch)
    learned_decoder.write(
        tensors, LearnedDecoder(epoch, 1.0, checkpoint.sha256 if checkpoint else sha256, 2.0, 1.9, 40, 50)
    )
    with zipfile.ZipFile(ground.run.decoder_state_path(epoch), "w") as file:
        file.writestr("state", sha256)


def test_where_no_time_is_short_its_words_are_judged_by_all_sentences(tmp_path, base_folder):
    """A busy machine judged a run by ten sentences, the minimum for a verdict."""
    ground = Ground(tmp_path, base_folder, {(1, 1.0): {"voice": 0.7, "errors": 0.1}})
    ground.recogniser = ("pocketsphinx", None)
    ground.restart()
    ground.judge(1)
    known = ground.evaluation()
    few = [replace(candidate, sentences=candidate.sentences[:10]) for candidate in known.candidates]
    write_evaluation(ground.run.evaluation_file, replace(known, candidates=few))
    ground.restart()  # `train learn-decoder`
    learn_best_decoder(ground.evaluator, known.verdict, 60.0)
    before, after = ground.speaking.requests[-2:]
    assert len(before.sentences) == len(after.sentences) == 24
    assert before.voice.decoder is None and after.voice.decoder == ground.speaking.learned[-1].out


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


def test_off_leaves_none_behind(ground):
    ground.speaking.voice_with_learned = 0.9
    ground.conclude()
    assert ground.best()["kind"] == "base" and kept(ground) is not None
    ground.learns = False
    ground.restart()
    ground.conclude(learn_decoder="off")
    assert kept(ground) is None and len(ground.speaking.learned) == 1
    assert ground.best()["kind"] == "blend"
    assert not list(ground.run.checkpoints.glob("*decoder*"))


def test_a_base_may_recommend_to_learn_none(ground, caplog):
    ground.learns = False  # as `plan_of` decides by the base's advice
    ground.restart()
    caplog.set_level("INFO")
    ground.conclude(blend="off")
    assert not ground.speaking.learned
    assert "LEARN_DECODER: off (recommended by the base model)" in caplog.text


def test_a_fault_costs_the_decoder_and_not_the_best(ground, monkeypatch, caplog):
    def refuse(_: object) -> None:
        raise WorkerFailed("refused", "Too few clips.")

    monkeypatch.setattr(ground.speaking, "learn_decoder", refuse)
    ground.conclude()
    assert "No decoder was trained: Too few clips." in caplog.text
    assert ground.run.best_blend.is_file() and kept(ground) is None


@pytest.mark.parametrize("damage", [b"", b"other tensors"])
def test_damaged_tensors_speak_nowhere_and_are_kept_again(ground, damage):
    ground.speaking.voice_with_learned = 0.9
    ground.conclude()
    ground.run.best_decoder.write_bytes(damage)
    assert decoder_for(ground.run, None) is None
    ground.restart()
    ground.conclude()
    assert decoder_for(ground.run, None) is not None and len(ground.speaking.learned) == 1


def test_its_steps_follow_the_sound_and_it_continues_the_newest_epoch_s(ground, monkeypatch):
    """In a run and afterwards alike, without a time limit, and from so many clips."""
    monkeypatch.setattr(defaults, "DECODER_CLIPS", 5)
    clip = ground.evaluator.plan.training_clips[0]
    for epoch in (1, 2):
        with_state(ground, epoch)
    for number, in_run in enumerate([True, False]):
        learned_decoder.remove(ground.run.decoder_path(0))
        ground.restart(in_run=in_run)
        clips = [replace(clip, name=str(one)) for one in range(9)]
        ground.evaluator.plan = replace(ground.evaluator.plan, training_clips=clips)
        ground.conclude()
        request, minutes = ground.speaking.learned[number], minutes_of(clips[:5])
        assert request.voice.of_base and len(request.clips) == 5
        assert request.state == ground.run.decoder_state_path(2)
        assert (request.steps, request.budget_seconds) == (steps_for(minutes), None)
        # The epochs' decoders know other latents.
        assert request.min_steps == steps_until(1, minutes)


def test_learned_longer_it_takes_the_place_of_the_one_before_and_a_fault_leaves_that(ground, monkeypatch):
    ground.speaking.voice_with_learned = 0.9
    ground.conclude()
    verdict = ground.evaluation().verdict
    learn = partial(learn_best_decoder, ground.evaluator, verdict, 60.0)
    ground.speaking.distance_after = 1.2
    assert learn()
    again = kept(ground)
    assert again.distance_after == 1.2 and again.continues == verdict.decoder
    request, state = ground.speaking.learned[-1], ground.run.decoder_state_path(0)
    assert (request.budget_seconds, request.steps, request.state) == (60.0, None, state)
    # It speaks with new seeds: the weights were chosen by the others.
    assert ground.speaking.requests[-1].sentences[0].request.seed % 100 == 50

    def refuse(_):
        raise WorkerFailed("refused", "Too few clips.")

    with monkeypatch.context() as patch, pytest.raises(WorkerFailed):
        patch.setattr(ground.speaking, "learn_decoder", refuse)
        learn()
    assert kept(ground) == again
    ground.restart()
    ground.conclude()  # the next start keeps it
    assert kept(ground) == again
    ground.speaking.new_steps = 0
    assert not learn() and kept(ground) == again
    ground.speaking.new_steps, ground.speaking.distance_after = 50, 2.0
    learn()  # where the longer training is not closer, the judged decoder speaks again
    assert ground.speaking.learned[-1].state == ground.run.best_decoder_state
    assert kept(ground).digest == verdict.decoder and decoder_for(ground.run, None) is not None
    # A kill before the judged decoder is copied leaves the record of the refused one.
    refused = replace(kept(ground), file=None, continues=verdict.decoder)
    learned_decoder.remove(ground.run.best_decoder)
    learned_decoder.write(ground.run.best_decoder, refused)
    ground.restart()
    ground.conclude()
    assert kept(ground).digest == verdict.decoder


@pytest.mark.parametrize(("sound", "count"), [(GOOD, 0), (BAD, 3)])
def test_blends_are_judged_if_the_nearest_epoch_lost_something(tmp_path, base_folder, sound, count):
    ground = Ground(tmp_path, base_folder, {(1, 1.0): sound})
    ground.restart()
    ground.judge(1)
    ground.conclude("auto", learn_decoder="off")
    blends = [candidate for candidate in ground.evaluation().candidates if candidate.kind == "blend"]
    assert len(blends) == count
    assert ground.evaluation().left_out == []
    ground.restart()
    ground.conclude(0.4, learn_decoder="off")  # A share that was asked for is judged.
    blends = [candidate for candidate in ground.evaluation().candidates if candidate.kind == "blend"]
    assert [candidate.share for candidate in blends][-1:] == [0.4]
