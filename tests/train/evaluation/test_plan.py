"""Which recogniser is used: the setting's, else pocketsphinx for English, else none, with the
reason."""

import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import texts
from machine.errors import SotaqueError
from tests.models import ALL_LANGUAGES
from tests.train.evaluation.spoken import PERSON
from train.dataset.dataset import Clip, Dataset
from train.evaluation import plan
from train.evaluation.judges import WORD_ERRORS, describe_judges
from train.evaluation.plan import (
    SENTENCES_FOLDER,
    EvaluationPlan,
    built_in_sentences,
    old_language_sentences,
    plan_of,
    planned_sentences,
    recogniser_of,
    why_no_naturalness,
)
from train.sampling.reference import SampleReference
from train.settings import TrainSettings
from xtts import encoding
from xtts.model.config import DecoderSteps, Extension, ModelConfig
from xtts.text.tokenizer import Tokenizer
from xtts.voices.base_models import DEMO
from xtts.workers.decoder_schedule import DEFAULT_STEPS


@pytest.mark.parametrize(
    ("setting", "language", "installed", "name", "reason"),
    [
        ("auto", "en", True, "pocketsphinx", None),
        ("auto", "en", False, "", "pocketsphinx is not installed"),
        ("off", "en", True, "", "is off"),
        ("auto", "pt", True, "", "EVALUATE_RECOGNISER"),
    ],
)
def test_which_recogniser_listens_or_why_none_does(monkeypatch, setting, language, installed, name, reason):
    if installed:
        monkeypatch.setattr("xtts.evaluation.recogniser.can_hear_english", lambda: True)
    else:
        monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    found = recogniser_of(setting, language)
    assert found[0] == name
    assert found[1] is None if reason is None else reason in (found[1] or "")


def test_whether_naturalness_is_judged_or_why_not(monkeypatch, tmp_path):
    assert why_no_naturalness("off") == "EVALUATE_NATURALNESS is off"
    monkeypatch.setattr("xtts.evaluation.naturalness.missing_reason", lambda: None)
    assert why_no_naturalness("auto") is None
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "distillmos", None)
    assert "distillmos is not installed" in why_no_naturalness("auto")


def test_a_folder_is_looked_at_before_anything_is_spoken(tmp_path):
    with pytest.raises(SotaqueError, match=r"EVALUATE_RECOGNISER: .* not a folder with a Whisper"):
        recogniser_of(str(tmp_path / "none"), "pt")
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    found = recogniser_of(str(tmp_path), "pt")
    assert found == (str(tmp_path), None)
    told = describe_judges(PERSON, *found, None, None)[WORD_ERRORS].meaning
    assert f"Whisper ({tmp_path.name})" in told


# The sentences: in every language of XTTS-v2, and none from the other sets or the demo


def clip(number: int, text: str) -> Clip:
    return Clip(f"c{number}", Path(f"{number}.wav"), text, "anna", "en", 2.0, f"{number}", (1, 2))


@pytest.mark.parametrize("language", ALL_LANGUAGES)
def test_every_language_has_sentences_and_none_twice(language):
    found = built_in_sentences(language)
    assert len(found) >= 15 and len(set(found)) == len(found)
    assert all(len(text) <= 70 for text in found)


def test_no_language_more_or_less_than_the_model_speaks():
    assert {path.stem for path in SENTENCES_FOLDER.glob("*.txt")} == {
        language[:2] for language in ALL_LANGUAGES
    }


def test_no_sentence_is_one_that_something_is_chosen_or_reported_by():
    plain = re.compile(r"[^a-z ]")
    own = {plain.sub("", text.lower()) for text in built_in_sentences("en")}
    for name in texts.FILES:
        assert own.isdisjoint(plain.sub("", text.lower()) for text in texts.sentences(name))
    learned = (SENTENCES_FOLDER.parent / "demo" / "metadata.csv").read_text(encoding="utf-8").splitlines()
    assert own.isdisjoint(plain.sub("", line.split("|")[1].lower()) for line in learned)


def test_the_embedded_voice_says_each_in_one_piece():
    tokenizer = Tokenizer(ModelConfig.read(DEMO), DEMO)
    assert {len(tokenizer.split(text, "en")) for text in built_in_sentences("en")} == {1}


def test_the_persons_own_words_stand_between():
    clips = [clip(number, f"Word {number}.") for number in range(3)]
    found = planned_sentences(None, "en", clips, seed=0)
    assert [one.source for one in found[:8]] == [
        "built_in",
        "built_in",
        "built_in",
        "clip",
        "built_in",
        "built_in",
        "built_in",
        "clip",
    ]
    assert len({one.request.seed for one in found}) == len(found)
    assert len(found) == len(built_in_sentences("en")) + 3


def test_ones_own_sentences_replace_the_built_in_ones(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text("One.\n\n Two. \nOne.\n", encoding="utf-8")
    assert [(one.request.text, one.source) for one in planned_sentences(path, "en", [], seed=1)] == [
        ("One.", "own"),
        ("Two.", "own"),
    ]
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(SotaqueError, match="holds no sentence"):
        planned_sentences(path, "en", [], seed=1)
    with pytest.raises(SotaqueError, match="cannot be read"):
        planned_sentences(tmp_path / "absent.txt", "en", [], seed=1)


def test_another_seed_text_or_recording_is_another_set(tmp_path):
    def set_of(language: str, seed: int, recording: str) -> str:
        path = tmp_path / recording
        path.write_text(recording, encoding="utf-8")
        texts = planned_sentences(None, language, [], seed)
        reference = SampleReference(path, "", language, "ana")
        return EvaluationPlan(texts, reference, (), (), (), {}, "", None).sentence_set

    sets = {set_of("en", 0, "a"), set_of("en", 1, "a"), set_of("de", 0, "a"), set_of("en", 0, "b")}
    assert len(sets) == 4


@pytest.mark.parametrize("recommended", [DecoderSteps(45.0), None])
def test_decoders_take_the_steps_that_the_base_recommends(tmp_path, recommended):
    config = ModelConfig.read(DEMO)
    config = replace(config, training=replace(config.training, decoder_steps=recommended))
    clip = Clip("a", tmp_path / "a.wav", "One.", "ana", "en", 4.0, "00", (1,))
    reference = SampleReference(tmp_path / "a.wav", "One.", "en", "ana")
    plan = plan_of(TrainSettings(), Dataset((clip,), (), (0,), ()), reference, {}, config)
    assert plan.learns_decoder and plan.decoder_steps == (recommended or DEFAULT_STEPS)


def test_decoders_learn_training_clips_of_the_person_alone():
    """Speech is compared with validation clips: a decoder that had learned them would be nearer."""
    clips = [replace(clip(number, f"Text {number}."), speaker="ab"[number % 2]) for number in range(8)]
    data = Dataset.of(clips[:6], clips[6:], ())
    reference = SampleReference(clips[0].path, "", "en", "a")
    plan = plan_of(TrainSettings(), data, reference, {}, ModelConfig.read(DEMO))
    assert plan.training_clips == [clips[0], clips[2], clips[4]]
    assert plan.compared_clips[0] == clips[6] and plan.compares_held_out_clips


def test_without_validation_clips_the_compared_clips_were_trained_on():
    clips = [replace(clip(number, f"Text {number}."), speaker="a") for number in range(4)]
    reference = SampleReference(clips[0].path, "", "en", "a")
    plan = plan_of(TrainSettings(), Dataset.of(clips, (), ()), reference, {}, ModelConfig.read(DEMO))
    assert plan.compared_clips and not plan.compares_held_out_clips


def test_held_out_clips_are_neither_learned_nor_in_the_reference(tmp_path):
    clips = [clip(number, f"Text {number}.") for number in range(6)]
    recording = tmp_path / "reference.wav"
    written = encoding.write_wav(recording, np.zeros(100, np.float32))
    record = {"clips": [clips[4].sha256], "written": asdict(written)}
    recording.with_suffix(".json").write_text(json.dumps(record))
    reference = SampleReference(recording, "", "en", "anna")
    plan = EvaluationPlan((), reference, clips, clips[:3], (), {}, "", None)
    assert {one.name for one in plan.held_out_clips} == {"c3", "c5"}
    recording.with_suffix(".json").unlink()
    assert {one.name for one in plan.held_out_clips} == {"c3", "c4", "c5"}


def test_the_old_language_is_the_bases_first_with_sentences_and_never_an_added_one():
    demo = ModelConfig.read(DEMO)
    spoken = old_language_sentences(demo, seed=0)
    assert [one.request.text for one in spoken] == built_in_sentences("en")[:8]
    added = replace(
        demo,
        languages=("ru", "uk", "xx", "pt"),
        extensions=(Extension("ru", "uk", 50, 2), Extension("uk", "ru", 52, 2)),
    )
    assert {old_sentence.request.language for old_sentence in old_language_sentences(added, seed=0)} == {"pt"}
    assert old_language_sentences(replace(added, languages=("ru", "uk", "xx")), seed=0) == []
    # The base was exported from a run that learned Russian.
    learned = replace(added, extensions=(Extension("ru", "uk", 50, 2, learned=True),))
    assert {old_sentence.request.language for old_sentence in old_language_sentences(learned, seed=0)} == {
        "ru"
    }


def test_a_byte_order_mark_is_not_read_aloud(tmp_path):
    (tmp_path / "texts.txt").write_text("One.\n\nTwo.\nOne.\n", encoding="utf-8-sig")
    assert plan._read_texts(tmp_path / "texts.txt") == ["One.", "Two."]
