"""Four languages added to bases: their texts, and what is told of a base that was extended."""

from pathlib import Path

import pytest

from benchmarks import extension, synthetic
from extras.languages.command import write
from extras.languages.plan import plan_of
from tests.models import tiny_base
from train.settings import TrainSettings
from xtts.model.config import ModelConfig


@pytest.mark.parametrize("language", extension.LANGUAGES)
def test_each_language_has_150_different_sentences_without_a_stray_sign(language):
    texts = extension.sentences(language)
    assert len(texts) == len(set(texts)) == 150
    # A dataset separates its columns with it.
    assert not any("|" in text or text != text.strip() or not text for text in texts)


def test_the_line_for_coqui_is_the_documentations():
    page = Path(__file__).parents[2] / "docs" / "languages.md"
    assert extension.COQUI_LINE in page.read_text(encoding="utf-8").splitlines()


def test_the_facts_of_an_extended_base_and_refused_checkpoints_in_both_directions(tmp_path):
    base, extended = tiny_base(tmp_path / "base"), tmp_path / "extended"
    clips = extension.write_clips("el", tmp_path / "clips")
    plan = plan_of(TrainSettings(dataset_dir=clips, language="el"), base)
    assert len(plan.texts) == 150 + extension.NUMBERS and not plan.unreadable
    write(plan, extended)
    facts = extension.vocabulary_facts(base, extended, "el", count=100)
    assert facts["unknown_before"] == 150 and facts["unknown"] == 0
    assert facts["old_texts_with_other_ids"] == 0
    assert facts["first_id"] == ModelConfig.read(base).gpt.text_ids
    assert facts["new_ids"] == 1 + facts["characters"] + facts["pieces"] > 30
    assert extension.same_weights(base, extended)
    other = tiny_base(tmp_path / "other", seed=1)
    assert not extension.same_weights(other, extended)
    own, learned = (extension.checkpoint_of(one, tmp_path / f"{one.name}-run")
                    for one in (base, extended))  # fmt: skip
    assert extension.refused(own, extended) and extension.refused(learned, base)
    assert not extension.refused(own, base) and not extension.refused(learned, extended)


@pytest.mark.slow
def test_a_base_of_another_vocabulary_has_as_many_rows_as_it_has_ids(tmp_path):
    vocabulary = tiny_base(tmp_path / "tiny") / "vocab.json"
    made = synthetic.write_base(tmp_path / "base", full=False, vocabulary=vocabulary)
    ours, tiny = (ModelConfig.read(one).gpt for one in (made, tmp_path / "tiny"))
    assert (ours.text_ids, ours.text_start) == (tiny.text_ids, tiny.text_start)
