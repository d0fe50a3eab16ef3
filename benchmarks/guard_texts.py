"""Texts for the guard's counts: 1 to 40 words, endings of every kind, numbers, single words.

They are drawn at random, and are always the same for a set. The sets `choosing` and `reporting`
share no text: the words of a text decide which set it belongs to.
"""

import random
import re
import tomllib
import zlib
from pathlib import Path

from benchmarks.texts import sentences
from demo_voice.text import lexicon as words
from demo_voice.text.lexicon import Lexicon
from demo_voice.text.sentences import Grammar, is_judged, plain

SETS = ("choosing", "reporting")
MOST_WORDS = 40
# Verbs, adjectives, words that are used alone, irregular past forms (otherwise "buyed" would
# appear, which recognisers do not know), and months.
_LISTS = tomllib.loads(Path(__file__).with_name("guard_words.toml").read_text(encoding="utf-8"))
# Every kind of ending, the usual ones more often; most voices stop differently after each.
ENDINGS = (
    *["."] * 8,
    *["!"] * 3,
    *["?"] * 3,
    *["", "...", ",", ";", ":", '."', '!"', ".)", " -"],
)
JOINTS = (", and ", ", but ", " because ", " while ", ", so ", ". ", "; ", " and then ")


def drawn(name: str, count: int) -> list[str]:
    """Different texts of a set, always the same for a number."""
    draw = random.Random(f"guard/{name}")
    grammar = grammar_of(f"guard/sentences/{name}")
    makers = [(_word, 10), (_few, 12), (_sentence, 33), (_long, 30), (_number, 15)]
    kinds, weights = zip(*makers, strict=True)
    found: dict[str, str] = {}
    while len(found) < count:
        text = draw.choices(kinds, weights)[0](draw, grammar)
        known = _key(text)
        # The words of a text decide its set: every third is for choosing.
        of_set = SETS[zlib.crc32(known.encode()) % 3 != 0]
        fits = 1 <= _length(text) <= MOST_WORDS and of_set == name
        if fits and not is_judged(plain(text)):
            found.setdefault(known, text)
    return [*found.values()]


def _key(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9']+", text.lower()))


def _length(text: str) -> int:
    return len(text.split())


def grammar_of(seed: str) -> Grammar:
    """A grammar of everyday sentences, in words that a recogniser knows."""
    nouns = (*words.THINGS, *words.PEOPLE, *words.PLACES)
    pasts: dict[str, tuple[str, ...]] = {}
    told = _listed("pasts")
    pasts.update((verb, (past,)) for verb, past in zip(told[::2], told[1::2], strict=True))
    lexicon = Lexicon(nouns, _listed("verbs"), _listed("adjectives"), tuple(words.WAYS), pasts, ())
    return Grammar(lexicon, seed)


def _listed(name: str) -> tuple[str, ...]:
    return tuple(_LISTS[name].split())


def _ended(draw: random.Random, text: str) -> str:
    """The text with another ending; a question keeps its question mark."""
    bare = text.rstrip(".?!")
    ending = "?" if text.endswith("?") and draw.random() < 0.7 else draw.choice(ENDINGS)
    opening = '"' if ending.endswith('"') else "(" if ending.endswith(")") else ""
    return f"{opening}{bare[0].upper()}{bare[1:]}{ending}"


def _word(draw: random.Random, _: Grammar) -> str:
    return _ended(draw, draw.choice(_listed("words")))


def _few(draw: random.Random, grammar: Grammar) -> str:
    while _length(text := grammar.sentence()) > 4:
        pass
    return _ended(draw, text)


def _sentence(draw: random.Random, grammar: Grammar) -> str:
    return _ended(draw, grammar.sentence())


def _long(draw: random.Random, grammar: Grammar) -> str:
    wanted = draw.randint(13, MOST_WORDS)
    text = grammar.sentence().rstrip(".?!")
    while _length(text) < wanted:
        more = grammar.sentence().rstrip(".?!")
        joint = draw.choice(JOINTS)
        text += joint + (more if joint == ". " else _within(more))
    return _ended(draw, " ".join(text.split()[:wanted]))


def _within(sentence: str) -> str:
    """A sentence as a part of another."""
    first = sentence.split()[0]
    keeps = first == "I" or first in words.NAMES
    return sentence if keeps else sentence[0].lower() + sentence[1:]


def _number(draw: random.Random, _: Grammar) -> str:
    whole, hour, minute = draw.randint(2, 999), draw.randint(1, 12), draw.randint(10, 59)
    thing, name = draw.choice(words.THINGS), draw.choice(words.NAMES)
    year, month = draw.randint(1700, 2030), draw.choice(_listed("months"))
    kinds = [
        f"{whole}",
        f"room {whole}",
        f"page {whole} of {whole + draw.randint(1, 900)}",
        f"the {thing} costs ${draw.randint(2, 90)}.{minute}",
        f"{name} was born in {year}",
        f"the train leaves at {hour}:{minute} pm",
        f"we have {whole} {thing}s left",
        f"{name} came on {month} {draw.randint(1, 28)}, {year}",
        f"call 555-{draw.randint(1000, 9999)}",
        f"it is {whole} miles to the harbor",
        f"only {draw.randint(2, 99)}% of them know {name}",
        f"{name} lives at {whole} Garden Street",
        f"the {draw.randint(4, 19)}th {thing}",
        f"number {hour}, {minute}, and {draw.randint(60, 99)}",
    ]
    return _ended(draw, draw.choice(kinds))


def texts(name: str, count: int) -> list[str]:
    """So many texts of a set, the committed sentences (`benchmarks.texts`) strewn among those that
    are drawn; fewer are the first of more."""
    known = sentences(name)
    made = iter(drawn(name, count))
    random.Random(f"guard/order/{name}").shuffle(known)
    return [known.pop() if known and number % 5 == 4 else next(made) for number in range(count)]
