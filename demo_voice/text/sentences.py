"""Sentences for the teachers, from a grammar or cut out of WordNet.

The same seed gives the same sentences; each voice gets different ones. Sentences of the evaluation
are left out.
"""

import random
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path

from num2words import num2words

from demo_voice.text import lexicon as words
from demo_voice.text.lexicon import Lexicon
from xtts.text.pronunciations import is_known

# Rarer words in WordNet's phrases teach little, because they occur once or twice.
MIN_COUNT = 12
_JOINTS = (
    ", and ",
    ", but ",
    ", so ",
    " because ",
    " when ",
    " while ",
    " before ",
    " after ",
    " until ",
    " although ",
    ", and then ",
    " as soon as ",
)
_MONTHS = """January February March April May June July August September October November
December""".split()
FOLDER = Path(__file__).parents[2] / "benchmarks"
FILES = ("sentences.txt", "choosing.txt", "reporting.txt")


class Grammar:
    """Draws everyday sentences, which combine the words of the lexicon at random.

    Attributes:
        lengths: The smallest and the largest number of words of a sentence.
        cut: The share of the sentences that are taken from WordNet.
    """

    lengths, cut = (2, 12), 0.45

    def __init__(self, lexicon: Lexicon, seed: str) -> None:
        self.lexicon = lexicon
        self.draw = random.Random(seed)

    def sentence(self) -> str:
        """One sentence with its full stop."""
        kinds: tuple[tuple[Callable[[], str], int], ...] = (
            (self._past, 6),
            (self._present, 4),
            (self._to_be, 4),
            (self._modal, 4),
            (self._question, 4),
            (self._command, 3),
            (self._there, 2),
            (self._two, 3),
            (self._report, 2),
            (self._short, 2),
        )
        made = self.draw.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]()
        made = re.sub(r"\ba ([aeiou])", r"an \1", made)
        return made[0].upper() + made[1:]

    def _pick(self, options: tuple[str, ...] | list[str]) -> str:
        return self.draw.choice(options)

    def _maybe(self, chance: float, made: Callable[[], str], before: str = " ") -> str:
        return before + made() if self.draw.random() < chance else ""

    def _common(self, options: tuple[str, ...]) -> str:
        """Draws common words more often: the lists are sorted by frequency."""
        return options[int(len(options) * self.draw.random() ** 1.4)]

    def _noun(self) -> str:
        lists = (words.THINGS, words.PEOPLE, words.PLACES)
        if self.draw.random() < 0.5:
            return self._pick(self.draw.choice(lists))
        return self._common(self.lexicon.nouns)

    def _subject(self) -> str:
        chance = self.draw.random()
        if chance < 0.35:
            return self._pick(words.PRONOUNS)
        if chance < 0.5:
            return self._pick(words.NAMES)
        if chance < 0.75:
            return f"{self._pick(words.DETERMINERS)}{self._adjective(0.3)} {self._pick(words.PEOPLE)}"
        return self._thing()

    def _thing(self) -> str:
        chance = self.draw.random()
        if chance < 0.15:
            return f"{self._pick(words.NUMBERS)}{self._adjective(0.3)} {plural(self._noun())}"
        if chance < 0.25:
            return f"the{self._adjective(0.4)} {plural(self._noun())}"
        return f"{self._pick(words.DETERMINERS)}{self._adjective(0.4)} {self._noun()}"

    def _adjective(self, chance: float) -> str:
        return self._maybe(chance, lambda: self._common(self.lexicon.adjectives))

    def _object(self) -> str:
        return self._pick(words.OBJECTS) if self.draw.random() < 0.2 else self._thing()

    def _where(self) -> str:
        place = self._pick(words.PLACES) if self.draw.random() < 0.6 else self._noun()
        return f"{self._pick(words.PREPOSITIONS)} {self._pick(words.DETERMINERS)} {place}"

    def _time(self) -> str:
        return self._pick(words.TIMES.split("|"))

    def _rest(self) -> str:
        """A phrase that can follow a verb."""
        return (
            self._maybe(0.75, self._object)
            + self._maybe(0.35, self._where)
            + self._maybe(0.15, lambda: self._common(self.lexicon.adverbs))
            + self._maybe(0.3, self._time)
        )

    def _verb(self) -> str:
        return self._common(self.lexicon.verbs)

    def _past(self) -> str:
        return f"{self._subject()} {past(self._verb(), self.lexicon)}{self._rest()}."

    def _present(self) -> str:
        subject = self._subject()
        many = subject in ("I", "you", "we", "they")
        verb = self._verb() if many else plural(self._verb())
        way = self._maybe(0.15, lambda: self._pick(words.WAYS))
        return f"{subject}{way} {verb}{self._rest()}."

    def _to_be(self) -> str:
        verb = self._pick(["is", "was", "is not", "was never", "has been", "will be", "looks"])
        what = self._pick(["adjective", "where", "thing", "doing"])
        rest = {
            "adjective": lambda: (
                self._maybe(0.3, lambda: self._pick(["very", "so", "too", "quite"]), "")
                + self._adjective(1.0)
            ),
            "where": self._where,
            "thing": self._thing,
            "doing": lambda: f"{doing(self._verb())}{self._maybe(0.6, self._object)}",
        }[what]()
        subject = self._pick(words.NAMES) if self.draw.random() < 0.3 else self._thing()
        return f"{subject} {verb} {rest.strip()}{self._maybe(0.3, self._time)}."

    def _modal(self) -> str:
        modal = self._pick(
            [
                "can",
                "cannot",
                "could",
                "will",
                "would",
                "should",
                "must",
                "may",
                "might",
                "did not",
                "will not",
                "would like to",
                "want to",
                "have to",
                "had to",
                "used to",
                "tried to",
                "forgot to",
                "decided to",
                "need to",
                "could not",
            ]
        )
        return f"{self._subject()} {modal} {self._verb()}{self._rest()}."

    def _question(self) -> str:
        asked = self._maybe(0.5, lambda: self._pick(words.QUESTIONS), "")
        helper = self._pick(["did", "do", "can", "will", "would", "could", "should", "must"])
        return f"{asked} {helper} {self._subject()} {self._verb()}{self._rest()}?".strip()

    def _command(self) -> str:
        please = self._maybe(0.4, lambda: self._pick(["please", "do not", "let us", "never"]), "")
        return f"{please} {self._verb()} {self._object()}{self._maybe(0.4, self._where)}.".strip()

    def _there(self) -> str:
        verb = self._pick(["is", "was", "are", "were", "will be"])
        return f"there {verb} {self._thing()} {self._where()}."

    def _two(self) -> str:
        first, second = self._past().rstrip("."), self._past()
        join = self._pick([", and ", ", but ", ", so ", " because ", " when ", " while ", " before "])
        return first + join + second

    def _report(self) -> str:
        verb = self._pick(["said", "thinks", "knew", "told us", "hopes", "was sure", "is afraid"])
        return f"{self._subject()} {verb} that {self._past()}"

    def _short(self) -> str:
        made = self._pick(["thing", "time", "number", "answer"])
        return {
            "thing": lambda: f"{self._thing()}.",
            "time": lambda: f"{self._time()}, {self._past()}",
            "number": lambda: (
                f"{self._pick(words.NUMBERS)} {self._pick(words.NUMBERS)} {self._pick(words.NUMBERS)}."
            ),
            "answer": lambda: f"{self._pick(['yes', 'no', 'well', 'good', 'oh'])}, {self._past()}",
        }[made]()


class LongGrammar(Grammar):
    """Draws sentences of several clauses."""

    lengths, cut = (13, 40), 0.35

    def sentence(self) -> str:
        """One sentence of 13 to 40 words with its full stop."""
        kinds: tuple[tuple[Callable[[], str], int], ...] = (
            (self._chain, 8),
            (self._list, 4),
            (self._count, 3),
            (self._asked, 4),
            (self._relative, 3),
            (self._condition, 3),
        )
        draw = self.draw.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        made = draw()
        while not self.lengths[0] <= len(split(made)) <= self.lengths[1]:
            made = draw()
        made = re.sub(r"\ba ([aeiou])", r"an \1", made)
        return made[0].upper() + made[1:]

    def _clauses(self, number: int) -> str:
        made = self._clause()
        for _ in range(number - 1):
            made += self._pick(_JOINTS) + self._clause()
        return made

    def _clause(self) -> str:
        return self.draw.choice((self._past, self._past, self._modal, self._to_be))().rstrip(".")

    def _chain(self) -> str:
        return self._clauses(self.draw.randint(2, 5)) + "."

    def _list(self) -> str:
        things = [self._thing() for _ in range(self.draw.randint(3, 7))]
        listed = ", ".join(things[:-1]) + ", and " + things[-1]
        if self.draw.random() < 0.5:
            verb = past(self._verb(), self.lexicon)
            return f"{self._subject()} {verb} {listed} {self._where()}."
        verb = self._pick(["was", "is", "were", "will be"])
        return f"{self._where()} {verb} {listed}, and {self._clause()}."

    def _count(self) -> str:
        made = self.draw.choice((self._digits, self._amount, self._year))()
        return f"{made}{self._pick(_JOINTS)}{self._clauses(self.draw.randint(1, 2))}."

    def _digits(self) -> str:
        spoken = [_spoken(self.draw.randint(0, 9)) for _ in range(self.draw.randint(3, 9))]
        what = self._pick(["number", "code", "room", "ticket", "telephone number", "address"])
        return f"{self._pick(words.NAMES)}'s {what} is {', '.join(spoken)}"

    def _amount(self) -> str:
        number = _spoken(int(10 ** self.draw.uniform(1, 5)))
        return f"there were {number} {plural(self._noun())} {self._where()}"

    def _year(self) -> str:
        year = num2words(self.draw.randint(1500, 2030), to="year").replace("-", " ")
        day = num2words(self.draw.randint(1, 31), to="ordinal").replace("-", " ")
        return f"on the {day} of {self._pick(_MONTHS)}, {year}, {self._clause()}"

    def _asked(self) -> str:
        opening = self._pick(
            [
                "can you tell me",
                "do you know",
                "did they say",
                "could you find out",
                "would you like to know",
                "has anybody told you",
                "who knows",
                "why did she ask",
            ]
        )
        about = self._pick(["if", "whether", "why", "when", "where", "how"])
        return f"{opening} {about} {self._clauses(self.draw.randint(1, 3))}?"

    def _relative(self) -> str:
        rest = self._clauses(self.draw.randint(1, 2)).split(" ", 1)[-1]
        who = f"the{self._adjective(0.3)} {self._pick(words.PEOPLE)}"
        did = past(self._verb(), self.lexicon)
        return f"{who} who {did} {self._thing()} {self._where()} {rest}."

    def _condition(self) -> str:
        first, second = self._present().rstrip("."), self._modal().rstrip(".")
        more = self._pick(_JOINTS) + self._clause() if self.draw.random() < 0.5 else ""
        return f"{self._pick(['if', 'when', 'whenever', 'unless'])} {first}, {second}{more}."


def past(verb: str, lexicon: Lexicon) -> str:
    """The past tense of a verb, irregular if WordNet lists it."""
    irregular = lexicon.irregular.get(verb)
    if verb in ("be", "have", "do"):
        return {"be": "was", "have": "had", "do": "did"}[verb]
    if irregular:
        return irregular[-1] if len(irregular) == 1 else irregular[0]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + "ed"


def doing(verb: str) -> str:
    """The -ing form."""
    return (verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else verb) + "ing"


def plural(word: str) -> str:
    """A noun's plural or a verb's third person."""
    if word.endswith(("s", "sh", "ch", "x", "z", "o")):
        return word + "es"
    if word.endswith("y") and len(word) > 1 and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def phrases(lexicon: Lexicon, fewest: int, most: int) -> list[str]:
    """WordNet's definitions and examples, split at punctuation, if all their words are common."""
    cut = [piece.strip(" \"'") for gloss in lexicon.glosses for piece in re.split(r"[;:()\"]|--", gloss)]
    cut = [piece for piece in cut if re.fullmatch(r"[A-Za-z][a-z]*(?:,? [a-z']+)+", piece)]
    counts: dict[str, int] = {}
    for piece in cut:
        for word in split(piece):
            counts[word] = counts.get(word, 0) + 1
    common = [
        piece
        for piece in dict.fromkeys(cut)
        if fewest <= len(split(piece)) <= most
        and all(counts[word] >= MIN_COUNT and is_known(word) for word in split(piece))
    ]
    return [piece[0].upper() + piece[1:] + "." for piece in common]


def sentences(grammar: Grammar, unseen: Collection[str]) -> Iterator[str]:
    """An endless stream of distinct sentences, without those in `unseen` (compared by `plain`)."""
    cut = phrases(grammar.lexicon, *grammar.lengths)
    grammar.draw.shuffle(cut)
    used = set(unseen)
    while True:
        sentence = cut.pop() if cut and grammar.draw.random() < grammar.cut else grammar.sentence()
        if plain(sentence) not in used and len(split(sentence)) <= grammar.lengths[1]:
            used.add(plain(sentence))
            yield sentence


def plain(sentence: str) -> str:
    """A sentence for comparison: only its words, in lower case."""
    return " ".join(split(sentence))


def split(sentence: str) -> list[str]:
    """The words of a sentence in lower case."""
    return re.findall(r"[a-z']+", sentence.lower())


def _spoken(number: int) -> str:
    return str(num2words(number)).replace("-", " ").replace(",", "")


@cache
def judged_texts(folder: Path = FOLDER) -> frozenset[str]:
    """All sentences of the evaluation, in the form of `plain`."""
    read = [(folder / name).read_text(encoding="utf-8") for name in FILES]
    return frozenset(plain(line) for text in read for line in text.splitlines())


def is_judged(text: str) -> bool:
    """Whether the words of this text occur in one of these sentences, in order and adjacent."""
    words = f" {plain(text)} "
    return any(words in f" {judged} " for judged in judged_texts())
