"""Finds the language of a base model that is most similar to a new one, to initialise its tag."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from extras.languages.spelling import romanise
from train.evaluation.plan import built_in_sentences


def nearest_language(texts: Sequence[str], candidates: Sequence[str]) -> str:
    """The candidate whose built-in sentences are most similar to the texts, by pairs of letters, as
    written and romanised; the first candidate if none has sentences.

    candidates: languages of the base, at least one.
    """
    if len(candidates) == 1:
        return candidates[0]
    written, sounded = _pairs(texts), _pairs(map(romanised_words, texts))

    def likeness(candidate: str) -> float:
        sentences = [sentence.lower() for sentence in built_in_sentences(candidate)]
        if not sentences:
            return -1.0
        sounds = map(romanised_words, sentences)
        return _cosine(written, _pairs(sentences)) + _cosine(sounded, _pairs(sounds))

    return max(candidates, key=likeness)


def romanised_words(text: str) -> str:
    """A text with each word in Latin letters."""
    return " ".join(map(romanise, text.split()))


def _pairs(texts: Iterable[str]) -> Counter[str]:
    pairs = Counter[str]()
    for text in texts:
        for word in text.split():
            pairs.update("".join(pair) for pair in pairwise(f" {word} "))
    return pairs


def _cosine(counts: Counter[str], other: Counter[str]) -> float:
    shared = sum(count * other[pair] for pair, count in counts.items())
    lengths = (math.sqrt(sum(count * count for count in each.values())) for each in (counts, other))
    return shared / max(math.prod(lengths), 1e-12)
