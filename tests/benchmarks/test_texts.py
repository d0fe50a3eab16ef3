"""Sentences for choosing, reporting and training: none is in two sets."""

import itertools
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

from benchmarks import texts
from demo_voice import speaking
from demo_voice.text.sentences import Grammar, LongGrammar, is_judged, judged_texts, plain, sentences
from tests.demo_voice.few_words import FEW_WORDS

LENGTHS = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 8), (9, 12), (13, 18), (19, 25), (26, 35), (36, 40))
SETS = ("choosing", "reporting")


@pytest.mark.parametrize("name", SETS)
def test_every_length_from_1_to_40_words_has_several_sentences(name):
    words = [texts.num_words(line) for line in texts.sentences(name)]
    assert len(words) == 60
    assert max(words) == 40
    for shortest, longest in LENGTHS:
        assert sum(shortest <= number <= longest for number in words) >= 4, (shortest, longest)


def test_no_sentence_is_in_two_sets_nor_learned_from():
    """Nor in the demo dataset, whose validation clips judge an epoch."""
    rows = Path("train/data/demo/metadata.csv").read_text(encoding="utf-8").splitlines()
    learned = [[row.split("|")[1] for row in rows], [speaking.REFERENCE_TEXT]]
    groups = [*map(texts.sentences, texts.FILES), *learned]
    counts = Counter(plain(text) for group in groups for text in {plain(line) for line in group})
    assert [text for text, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("kind", [Grammar, LongGrammar])
def test_the_teacher_says_none_of_them(tmp_path, kind):
    """A generated sentence is left out if a file of the sets has it."""

    def drawn(unseen: Collection[str], count: int) -> list[str]:
        return list(itertools.islice(sentences(kind(FEW_WORDS, "x"), unseen), count))

    said = drawn(set(), 5)
    for name in texts.FILES.values():
        (tmp_path / name).write_text("\n".join(said[:3]), encoding="utf-8")
    assert {plain(line) for name in texts.FILES for line in texts.sentences(name)} <= judged_texts()
    assert not set(said[:3]) & set(drawn(judged_texts(tmp_path), 50))


def test_a_part_of_one_is_told():
    """The GPT trains on no clip with a part of a judged text."""
    line = next(line for line in texts.sentences("reporting") if texts.num_words(line) > 8)
    words = line.split()
    assert is_judged(line) and is_judged(" ".join(words[2:5]).upper() + "!")
    assert not is_judged(" ".join(reversed(words)))
    assert not is_judged(words[1][:-1] + "zz")
