"""Extends a vocabulary by a language: its tag, its characters, and pieces that contain them.

Old texts keep their ids: a merge is added only if one of its parts is new, so it cannot apply to
old characters, and the old merges come first, in their order. The new pieces are learned from words
to which the old merges were applied, as in tokenisation.
"""

import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from xtts.text.reading import is_spoken
from xtts.text.tokenizer import UNKNOWN

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# The limit of multi-character pieces to add, and the minimum uses of each; rarer rows hardly learn.
MAX_PIECES = 500
MIN_USES = 20


@dataclass(frozen=True)
class ExtendedVocabulary:
    """A vocabulary with a further language.

    Attributes:
        content: The content of its vocab.json.
        first_id: The id of the language's tag, the first that is new.
        tokens: The new tokens in the order of their ids: the tag, characters, pieces.
        num_characters: The number of single characters among them.
    """

    content: dict[str, Any]
    first_id: int
    tokens: tuple[str, ...]
    num_characters: int


def tag_of(language: str) -> str:
    """The tag that precedes texts of a language."""
    return f"[{language}]"


def lacking(characters: Container[str], texts: Iterable[str]) -> Counter[str]:
    """The characters of normalised texts that are not in `characters`, with their counts."""
    counted = Counter(character for text in texts for character in text if character != " ")
    return Counter({character: count for character, count in counted.items() if character not in characters})


def can_be_added(character: str) -> bool:
    """Whether a character can be added: letters, digits, marks and punctuation, but not symbols."""
    return is_spoken(character) or unicodedata.category(character).startswith("P")


def extend(
    content: Mapping[str, Any],
    language: str,
    texts: Sequence[str],
    *,
    max_pieces: int = MAX_PIECES,
    min_uses: int = MIN_USES,
) -> ExtendedVocabulary:
    """The vocabulary of `content`, the content of a vocab.json, with the language of the texts.

    texts: normalised, as `Tokenizer.normalised` returns them.
    """
    from tokenizers import Tokenizer

    extended_content = deepcopy(dict(content))
    old = Tokenizer.from_str(json.dumps(content)).get_vocab()
    ids: dict[str, int] = extended_content["model"]["vocab"]
    # Tags that are only in `added_tokens` would get other ids when the vocabulary grows.
    ids.update({token: id_ for token, id_ in old.items() if token not in ids})
    first_id = 1 + max(old.values())
    tag = tag_of(language)
    missing = lacking(old, texts)
    characters = [
        character
        for character in sorted(missing, key=lambda character: (-missing[character], character))
        if can_be_added(character)
    ]
    ids.update({token: first_id + place for place, token in enumerate((tag, *characters))})
    extended_content["added_tokens"] = [
        *(extended_content.get("added_tokens") or []),
        _special_token(tag, first_id),
    ]

    words = _count_split_words(Tokenizer.from_str(json.dumps(extended_content)), texts)
    merges = learned_merges(words, old, max_pieces, min_uses)
    pieces = ["".join(merge) for merge in merges]
    ids.update({piece: 1 + first_id + len(characters) + at for at, piece in enumerate(pieces)})
    earlier = extended_content["model"].get("merges") or []
    as_pairs = bool(earlier) and not isinstance(earlier[0], str)
    added = [list(merge) if as_pairs else " ".join(merge) for merge in merges]
    extended_content["model"]["merges"] = [*earlier, *added]
    return ExtendedVocabulary(extended_content, first_id, (tag, *characters, *pieces), len(characters))


def _special_token(tag: str, id_: int) -> dict[str, object]:
    return {
        "id": id_,
        "special": True,
        "content": tag,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
    }


def _count_split_words(tokenizer: "Tokenizer", texts: Iterable[str]) -> Counter[tuple[str, ...]]:
    """The words of the texts as the vocabulary splits them, with their counts."""
    words = Counter(word for text in texts for word in text.split(" ") if word)
    split = Counter[tuple[str, ...]]()
    for word, count in words.items():
        for part, _ in tokenizer.pre_tokenizer.pre_tokenize_str(word):
            if all(map(is_spoken, part)):
                split[tuple(token.value for token in tokenizer.model.tokenize(part))] += count
    return split


def learned_merges(
    words: Mapping[tuple[str, ...], int], old: Container[str], max_merges: int, min_uses: int
) -> list[tuple[str, str]]:
    """Byte pair encoding: the most frequent pairs of tokens with at least one new token, in the
    order of merging.

    Args:
        words: Words as tokens, with their counts.
        old: The old tokens, which are not merged with each other.
        max_merges: How many merges may be learned.
        min_uses: How often the pair of a merge must occur.
    """
    tokens_of_words = [list(word) for word in words]
    counts = list(words.values())
    uses, words_of_pair = Counter[tuple[str, str]](), defaultdict[tuple[str, str], set[int]](set)

    def count_pairs(word: int, sign: int) -> None:
        for pair in pairwise(tokens_of_words[word]):
            if (pair[0] in old and pair[1] in old) or UNKNOWN in pair or "".join(pair) in old:
                continue
            uses[pair] += sign * counts[word]
            words_of_pair[pair].add(word)

    for word in range(len(tokens_of_words)):
        count_pairs(word, 1)
    merges = list[tuple[str, str]]()
    while uses and len(merges) < max_merges:
        best = max(uses, key=lambda pair: (uses[pair], pair))
        if uses[best] < min_uses:
            break
        merges.append(best)
        for word in words_of_pair.pop(best):
            count_pairs(word, -1)
            tokens_of_words[word] = _merge(tokens_of_words[word], best)
            count_pairs(word, 1)
        words_of_pair.pop(best, None)
        del uses[best]
    return merges


def _merge(tokens: Sequence[str], pair: tuple[str, str]) -> list[str]:
    merged = list[str]()
    at = 0
    while at < len(tokens):
        if tuple(tokens[at : at + 2]) == pair:
            merged.append("".join(pair))
            at += 2
        else:
            merged.append(tokens[at])
            at += 1
    return merged
