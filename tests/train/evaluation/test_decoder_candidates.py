"""Every candidate is judged with the decoder with which it would be served."""

from pathlib import Path
from typing import Any

import pytest

from machine.storage.checksums import sha256_of
from machine.storage.files import Written
from tests.forked import in_child
from tests.train.evaluation.spoken import CENTRE, base, candidate, facts, verdict_of
from tests.train.evaluation.test_evaluator import Ground
from xtts.voices import learned_decoder, voice_files
from xtts.voices.evaluation_file import weights_of_epoch
from xtts.voices.learned_decoder import LearnedDecoder, decoder_beside, decoder_for
from xtts.voices.voice_files import VoiceSpec, find_voice

BASE: dict[str, Any] = {"voice": 0.4, "errors": 0.1, "natural": 3.6}
# The GPT brings nothing and costs words.
WORSE: dict[str, Any] = {"voice": 0.4, "errors": 0.5, "natural": 3.6}
NEARER: dict[str, Any] = {"voice": 0.7, "errors": 0.1, "natural": 3.6}


def made(folder: Path, base_folder: Path, sounds: Any, with_decoder: Any) -> Ground:
    """A run of two epochs that learned a decoder each, judged by words, voice and naturalness."""
    ground = Ground(folder, base_folder, {(0, 0.0): BASE, **sounds})
    ground.recogniser, ground.why_no_naturalness, ground.learns = ("pocketsphinx", None), None, True
    ground.checkpoints.keep = 3
    ground.restart()
    ground.speaking.errors_with_learned = 0.1
    ground.speaking.with_decoder = with_decoder
    for epoch in (1, 2):
        learn(ground, epoch)
        ground.judge(epoch)
    return ground


def learn(ground: Ground, epoch: int) -> None:
    """The decoder of an epoch, as it was learned before its sample."""
    tensors, saved = ground.run.decoder_path(epoch), ground.save(epoch)
    tensors.write_bytes(b"decoder %d" % epoch)
    file = Written(sha256_of(tensors), tensors.stat().st_size)
    record = LearnedDecoder(
        **weights_of_epoch(epoch, saved.sha256),
        distance_before=2.0,
        distance_after=1.8,
        clips=40,
        steps=50 * epoch,
        file=file,
    )
    learned_decoder.write(tensors, record)


def only_decoder(folder: Path, base_folder: Path) -> Ground:
    """The decoder brings nearness; the GPT brings nothing and costs words."""
    near = {"voice": 0.7}
    costs = {"voice": 0.7, "errors": 0.5}
    every = {(epoch, share): WORSE for epoch in (1, 2) for share in (1.0, 0.7, 0.5, 0.3)}
    with_decoder = {(0, 0.0): near, **dict.fromkeys(every, costs)}
    return made(folder, base_folder, every, with_decoder)


def test_the_untrained_gpt_with_the_decoder_is_served_where_that_alone_brings_nearness(
    tmp_path, base_folder, monkeypatch, caplog
):
    ground = only_decoder(tmp_path, base_folder)
    caplog.set_level("INFO")
    ground.conclude()
    known, best = ground.evaluation(), ground.best()
    assert known.verdict.candidate == "base_decoder" and known.best.name == "base with decoder"
    assert (best["kind"], best["decoder"]) == ("base", known.verdict.decoder)
    assert decoder_for(ground.run, None) == ground.run.best_decoder
    assert sha256_of(ground.run.best_decoder) == known.verdict.decoder
    told = known.verdict.reason
    assert told.startswith("The untrained model with the decoder that learned the clips is the")
    assert "compared with training clips, which flatters it" in told  # of one clip, none is held out
    assert known.verdict.way is None
    assert "All of it comes from the decoder" in told and "The cost: none" in told
    assert "through the decoder trained on the clips" in caplog.text
    monkeypatch.setattr(voice_files, "verified_base_folder", lambda *_, **__: base_folder)
    run = str(ground.run.folder)
    assert find_voice(VoiceSpec(run)).decoder == ground.run.best_decoder
    epoch = str(ground.run.checkpoint_path(2))
    plain = VoiceSpec(epoch, base_only=True, base_decoder=False)
    assert find_voice(plain).decoder is None


def test_each_is_judged_once_and_with_its_own_decoder(tmp_path, base_folder):
    ground = only_decoder(tmp_path, base_folder)
    ground.conclude()
    spoken = [request.voice.decoder for request in ground.speaking.requests]
    path = ground.run.decoder_path
    # The base, two epochs, the base with the decoder, and three blends of an epoch.
    assert spoken[:4] == [None, path(1), path(2), path(0)] and len(spoken) == 7
    assert set(spoken[4:]) <= {path(1), path(2)}
    assert ground.speaking.best == 1
    ground.restart()
    ground.conclude()
    assert len(ground.speaking.requests) == 7 and len(ground.speaking.learned) == 1


def test_a_blend_speaks_with_the_decoder_where_both_bring_nearness(tmp_path, base_folder):
    gpt = {"voice": 0.55, "errors": 0.1, "natural": 3.6, "pitch": 120.0}
    shares = [(epoch, share) for epoch in (1, 2) for share in (1.0, 0.7, 0.5, 0.3)]
    both = {one: {"voice": 0.8} for one in shares}
    # Whole epochs cost words.
    both |= {(1, 1.0): {"voice": 0.85, "errors": 0.6}, (2, 1.0): {"voice": 0.9, "errors": 0.6}}
    ground = made(tmp_path, base_folder, dict.fromkeys(shares, gpt), {(0, 0.0): {"voice": 0.65}, **both})
    ground.conclude()
    verdict = ground.evaluation().verdict
    assert verdict.kind == "blend" and verdict.decoder == sha256_of(ground.run.decoder_path(2))
    assert decoder_beside(ground.run.best_blend) == ground.run.best_decoder
    assert sha256_of(ground.run.best_decoder) == verdict.decoder
    assert "From both decoder and GPT: voice (the decoder alone: 0.6" in verdict.reason


@pytest.mark.parametrize("gpt", [NEARER, WORSE], ids=["GPT nearer", "GPT worse"])
def test_a_decoder_that_costs_naturalness_is_not_served(tmp_path, base_folder, gpt):
    shares = [(epoch, share) for epoch in (1, 2) for share in (1.0, 0.7, 0.5, 0.3)]
    rough = {"voice": 0.8, "natural": 3.1}
    ground = made(
        tmp_path,
        base_folder,
        dict.fromkeys(shares, gpt),
        {(0, 0.0): rough, **{one: {**gpt, **rough} for one in shares}},
    )
    ground.conclude()
    found = ground.evaluation()
    assert "less natural" in found.with_id("base_decoder").ruled_out
    verdict = found.verdict
    assert (verdict.kind == "base", verdict.decoder) == (gpt is WORSE, "")
    assert not ground.run.best_decoder.exists()
    for epoch in (1, 2):
        assert decoder_beside(ground.run.checkpoint_path(epoch)) is None
        assert found.find("epoch", epoch).decoder == ""  # judged again, as it is served
    if gpt is WORSE:
        assert verdict.reason.startswith("Nothing beat the untrained model") and verdict.advice
    else:
        assert "All of it comes from the GPT" in verdict.reason
    count = len(ground.speaking.requests)
    ground.restart()
    ground.conclude()
    assert len(ground.speaking.requests) == count and ground.evaluation().verdict == verdict


def test_less_of_a_decoder_is_served_where_all_of_it_breaks_a_floor(tmp_path, base_folder):
    """joe's decoder moved him 69 % of the way, and cost 0.75 of naturalness; half of it, 39 % and 0.25."""
    heard = {
        (0, 0.0): {"voice": 0.8, "natural": 2.9},
        (0, 0.0, 0.67): {"voice": 0.7, "natural": 3.2},
        (0, 0.0, 0.33): {"voice": 0.55, "natural": 3.55},
    }
    rough = {(epoch, share): heard[0, 0.0] for epoch in (1, 2) for share in (1.0, 0.7, 0.5, 0.3)}
    ground = made(tmp_path, base_folder, {}, {**heard, **rough})
    ground.conclude()
    verdict, record = ground.evaluation().verdict, learned_decoder.read(ground.run.best_decoder)
    assert verdict.candidate == "base_decoder" and verdict.decoder == record.digest
    assert record.strength == 0.33 and [one.strength for one in ground.speaking.learned] == [1.0, 0.67, 0.33]
    assert decoder_beside(ground.run.checkpoint_path(2)) is None
    count = len(ground.speaking.requests)
    ground.restart()
    ground.conclude()
    assert len(ground.speaking.requests) == count and ground.evaluation().verdict == verdict


def test_an_earlier_decoder_that_breaks_no_floor_stays(tmp_path, base_folder):
    """The base's took the most steps, and so did epoch 2's."""
    fine, rough = {"voice": 0.8, "natural": 3.4}, {"voice": 0.8, "natural": 2.9}
    ground = made(
        tmp_path,
        base_folder,
        {},
        {
            (0, 0.0): rough,
            (1, 1.0): fine,
            (2, 1.0): rough,
            **{(epoch, share): fine for epoch in (1, 2) for share in (0.7, 0.5, 0.3)},
        },
    )
    ground.conclude()
    kept = [decoder_beside(ground.run.checkpoint_path(epoch)) is not None for epoch in (1, 2)]
    assert kept == [True, False]
    assert "less natural" in ground.evaluation().with_id("base_decoder").ruled_out
    verdict = ground.evaluation().verdict
    assert verdict.epoch == 1 and sha256_of(ground.run.best_decoder) == verdict.decoder


def test_one_that_reproduces_no_clip_better_is_no_candidate(tmp_path, base_folder):
    ground = made(tmp_path, base_folder, {(1, 1.0): WORSE, (2, 1.0): WORSE}, {})
    ground.speaking.distance_after = 2.0
    ground.conclude("off")
    assert ground.evaluation().with_id("base_decoder") is None
    assert not ground.run.best_decoder.exists() and decoder_for(ground.run, None) is None


@pytest.mark.parametrize(
    "place", ["before decoder", "after decoder state", "before evaluation", "before decoder record"]
)
def test_a_run_that_is_killed_as_it_ends_gives_the_same_verdict(tmp_path, base_folder, place):
    folders = [tmp_path / name for name in ("straight", "killed")]
    for folder in folders:
        folder.mkdir()
    straight, killed = (only_decoder(folder, base_folder) for folder in folders)
    straight.conclude()
    assert in_child(killed.conclude, crash_at=place) == -9
    killed.restart()
    killed.conclude()
    assert killed.evaluation().verdict == straight.evaluation().verdict
    assert killed.best() == straight.best()
    kept = [learned_decoder.read(one.run.best_decoder) for one in (straight, killed)]
    assert kept[0] == kept[1] is not None


def test_more_epochs_learn_the_base_s_decoder_again(tmp_path, base_folder):
    ground = only_decoder(tmp_path, base_folder)
    ground.conclude()
    state = ground.run.decoder_state_path(2)
    state.write_bytes(ground.run.decoder_state_path(0).read_bytes())
    ground.restart()
    ground.conclude()
    assert [one.state for one in ground.speaking.learned] == [None, state]
    assert learned_decoder.read(ground.run.decoder_path(0)).after_epoch == 2


def test_a_decoder_that_learned_somebody_else_is_ruled_out_by_the_reference():
    """Clips of somebody else move the scale of the voice, and not the reference."""
    person = facts(voice=0.9)
    other = base()
    learned = candidate(person, "base", 0, 0.0, decoder="d")
    further = candidate(person, "base", 0, 0.0, decoder="d", reference=(-CENTRE).tolist())
    plain = candidate(facts(voice=0.4), "base", 0, 0.0, reference=(-CENTRE).tolist())
    assert verdict_of(other, learned)[1].candidate == "base_decoder"
    named, verdict = verdict_of(plain, further)
    assert verdict.candidate == "base"
    assert "less like the recording" in named["base with decoder"].ruled_out
