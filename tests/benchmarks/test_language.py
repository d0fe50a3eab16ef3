"""The cipher language: its letters, its usual recipe, and how its table is made."""

import json
from dataclasses import asdict

import pytest
import torch

from benchmarks import language
from benchmarks.language import CIPHER, ENGLISH, LETTERS, Heard, ciphered, figures, read_heard
from extras.languages.rows import TABLES
from xtts.model.config import ModelConfig
from xtts.model.loading import read_tensors
from xtts.text.phonemes import PHONES
from xtts.text.tokenizer import Tokenizer
from xtts.voices.base_models import DEMO


def test_each_phone_has_a_letter_of_its_own_that_no_other_text_has():
    assert LETTERS.keys() == set(PHONES.values())
    assert len(set(LETTERS.values())) == len(LETTERS)
    assert all("GEORGIAN" in language_name(letter) for letter in LETTERS.values())
    assert ciphered("gUd mOrnIN, hW?") == "გცდ მქრნიფ, ჰძ?"


def language_name(letter: str) -> str:
    import unicodedata

    return unicodedata.name(letter)


@pytest.mark.slow
def test_both_bases_read_the_cipher_and_differ_in_the_new_rows_alone(tmp_path):
    plan = language.write_bases(tmp_path)
    facts = language.vocabulary_facts(plan, tmp_path / "extended", 200)
    assert facts["texts_with_unknown"] == facts["old_texts_with_other_ids"] == 0
    assert facts["old_logits_bit_equal"] is True and facts["new_ids"] == 1 + len(LETTERS)
    first = plan.extension.first_id
    ours, usual = (read_tensors(tmp_path / name / "model.pth") for name in ("extended", "usual"))
    for name, tensor in ours.items():
        old = tensor[:first] if name in TABLES else tensor
        assert torch.equal(old, usual[name][:first] if name in TABLES else usual[name])
    rows = usual[TABLES[0]][first:]
    assert float(rows.std()) == pytest.approx(1.0, abs=0.05)
    assert float(ours[TABLES[0]][first:].std()) < 0.2
    new = Tokenizer(ModelConfig.read(tmp_path / "extended"), tmp_path / "extended")
    old = Tokenizer(ModelConfig.read(DEMO), DEMO)
    text = "The boy put his shoes under the chair."
    phones = old.normalised(text, ENGLISH)
    assert new.normalised(ciphered(phones), CIPHER) == ciphered(phones)


def test_the_table_has_each_way_over_its_seeds_and_what_is_behind(tmp_path):
    def heard(way: str, seed: int, spoken: str, errors: int, share: float = 1.0) -> Heard:
        return Heard(way, seed, share, spoken, [errors, 0], [5, 5], unfinished=1)

    rows = [heard("base", 0, ENGLISH, 2)]
    rows += [heard("english", seed, ENGLISH, 3) for seed in (0, 1)]
    rows += [heard("extended", seed, CIPHER, 3 + seed) for seed in (0, 1)]
    rows += [heard("extended", 0, ENGLISH, 1), heard("usual", 0, CIPHER, 9)]
    results = tmp_path / "heard.jsonl"
    lines = "".join(json.dumps(asdict(one)) + "\n" for one in rows)
    results.write_text(lines + '{"way": "cut o', encoding="utf-8")
    assert read_heard(results) == rows
    found = figures(rows, [0, 1], sentences=2)
    ours = found["ways"]["extended at 100%, cipher"]
    assert ours["word_errors"] == {"mean": 0.35, "spread": 0.05} and ours["runs"] == 2
    assert found["points"]["extended at 100%"] == {
        "cipher_behind_english": 0.05, "english_lost": -0.1,
    }  # fmt: skip
    assert found["points"]["usual at 100%"]["cipher_behind_english"] == 0.6
    assert found["points"]["usual at 100%"]["english_lost"] is None
