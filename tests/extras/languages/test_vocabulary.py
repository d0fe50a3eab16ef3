"""A vocabulary with an added language: old texts keep their ids, new texts have no UNK."""

import json
import random
from collections import Counter

import pytest
from tokenizers import Tokenizer

from extras.languages.vocabulary import extend, learned_merges
from tests.models import write_vocabulary

UKRAINIAN = [
    "привіт, як справи сьогодні?",
    "її країна є великою і гарною.",
    "київ — столиця україни.",
    "мені подобається читати книжки ввечері.",
    "ґанок, їжак і їжа.",
] * 8
CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюяё"


@pytest.fixture
def content(tmp_path):
    write_vocabulary(tmp_path / "vocab.json", ("en", "ru"), f"abcdefghijklmnopqrstuvwxyz.,?'{CYRILLIC}")
    return json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))


def opened(content) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(content))


def prepared(text: str, language: str) -> str:
    return f"[{language}]" + text.replace(" ", "[SPACE]")


def test_ids_and_merges_that_were_there_stay_and_ten_thousand_old_texts_have_the_same_ids(content):
    made = extend(content, "uk", UKRAINIAN)
    old, new = opened(content), opened(made.content)
    assert {t: new.get_vocab()[t] for t in old.get_vocab()} == old.get_vocab()
    before = content["model"]["merges"]
    assert made.content["model"]["merges"][: len(before)] == before
    generator = random.Random(0)
    letters = f"abcdefghijklmnopqrstuvwxyz.,?' {CYRILLIC}  €ß"
    for _ in range(10_000):
        text = "".join(generator.choices(letters, k=generator.randint(1, 60)))
        normalised = prepared(text, generator.choice(("en", "ru")))
        assert old.encode(normalised).ids == new.encode(normalised).ids


def test_no_text_that_was_learned_from_has_an_unknown_id_and_pieces_are_used(content):
    made = extend(content, "uk", UKRAINIAN, min_uses=5)
    new = opened(made.content)
    assert made.tokens[0] == "[uk]" and made.first_id == 1 + max(opened(content).get_vocab().values())
    assert {"і", "ї", "є", "ґ", "—"} == set(made.tokens[1 : 1 + made.num_characters])
    used = Counter(token for text in UKRAINIAN for token in new.encode(prepared(text, "uk")).tokens)
    assert "[UNK]" not in used and used["[uk]"] == len(UKRAINIAN)
    pieces = made.tokens[1 + made.num_characters :]
    assert len(pieces) > 3 and any(used[piece] for piece in pieces)
    ids = [new.token_to_id(token) for token in made.tokens]
    assert ids == list(range(made.first_id, made.first_id + len(ids)))


def test_a_language_of_old_letters_gets_its_tag_alone(content):
    made = extend(content, "sw", ["habari ya asubuhi, rafiki yangu?"] * 30)
    assert made.tokens == ("[sw]",)
    assert made.content["model"]["merges"] == content["model"]["merges"]


def test_a_symbol_gets_no_row(content):
    made = extend(content, "uk", ["ціна: 5 ₴ і ще ₴"] * 3)
    assert "₴" not in made.tokens and ":" in made.tokens


def test_a_tag_that_stands_among_the_added_tokens_only_keeps_its_id(content):
    at = content["model"]["vocab"].pop("[START]")
    before = opened(content).token_to_id("[START]")
    made = extend(content, "uk", UKRAINIAN)
    assert at == before == opened(made.content).token_to_id("[START]")


def test_merges_can_be_pairs_or_strings(content):
    before = content["model"]["merges"]
    as_strings = [" ".join(merge) if not isinstance(merge, str) else merge for merge in before]
    content["model"]["merges"] = as_strings
    made = extend(content, "uk", UKRAINIAN, min_uses=5).content["model"]["merges"]
    content["model"]["merges"] = [string.split(" ") for string in as_strings]
    pairs = extend(content, "uk", UKRAINIAN, min_uses=5).content["model"]["merges"]
    assert [merge.split(" ") for merge in made] == pairs and len(pairs) > len(before)


def test_a_pair_is_merged_only_with_a_new_part_and_often_enough():
    words = {("x", "y", "N"): 5, ("y", "N"): 5, ("x", "y"): 99, ("M", "x"): 2}
    assert learned_merges(words, {"x", "y"}, 10, 5) == [("y", "N"), ("x", "yN")]
    assert learned_merges(words, {"x", "y"}, 1, 5) == [("y", "N")]
    assert learned_merges({("N", "N", "N"): 4}, set(), 10, 4) == [("N", "N"), ("NN", "N")]
