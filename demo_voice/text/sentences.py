"""Sentences for the teachers, from a grammar or cut out of WordNet.

The same seed gives the same sentences; each voice gets different ones. Sentences of the evaluation
are left out.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path

from num2words import num2words

from demo_voice.text import lexicon as words
from demo_voice.text.lexicon import Lexicon
from xtts.text.pronunciations import is_known

# Phrases of WordNet with rarer words are left out: these words occur once or twice and teach little.
MIN_WORD_COUNT = 12
_CONJUNCTIONS = (
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
EVALUATION_FOLDER = Path(__file__).parents[2] / "benchmarks"
EVALUATION_FILES = ("sentences.txt", "choosing.txt", "reporting.txt")


class Grammar:
    """Draws everyday sentences, which combine the words of the lexicon at random.

    Attributes:
        min_words, max_words: The length of a sentence.
        wordnet_share: The share of the sentences that are taken from WordNet.
    """

    min_words, max_words, wordnet_share = 2, 12, 0.45

    def __init__(self, lexicon: Lexicon, seed: str) -> None:
        self.lexicon = lexicon
        self.rng = random.Random(seed)

    def sentence(self) -> str:
        """One sentence with its full stop."""
        return _capitalised(
            self._draw_form(
                (self._past, 6),
                (self._present, 4),
                (self._to_be, 4),
                (self._modal, 4),
                (self._question, 4),
                (self._command, 3),
                (self._there, 2),
                (self._two_clauses, 3),
                (self._report, 2),
                (self._short, 2),
            )()
        )

    def _draw_form(self, *weighted_forms: tuple[Callable[[], str], int]) -> Callable[[], str]:
        """One of the forms, drawn by its weight."""
        forms, weights = zip(*weighted_forms, strict=True)
        return self.rng.choices(forms, weights)[0]

    def _pick(self, options: tuple[str, ...] | list[str]) -> str:
        return self.rng.choice(options)

    def _maybe(self, chance: float, form: Callable[[], str], before: str = " ") -> str:
        return before + form() if self.rng.random() < chance else ""

    def _common(self, options: tuple[str, ...]) -> str:
        """Draws common words more often: the lists are sorted by frequency."""
        return options[int(len(options) * self.rng.random() ** 1.4)]

    def _noun(self) -> str:
        lists = (words.THINGS, words.PEOPLE, words.PLACES)
        if self.rng.random() < 0.5:
            return self._pick(self.rng.choice(lists))
        return self._common(self.lexicon.nouns)

    def _subject(self) -> str:
        chance = self.rng.random()
        if chance < 0.35:
            return self._pick(words.PRONOUNS)
        if chance < 0.5:
            return self._pick(words.NAMES)
        if chance < 0.75:
            return f"{self._pick(words.DETERMINERS)}{self._adjective(0.3)} {self._pick(words.PEOPLE)}"
        return self._thing()

    def _thing(self) -> str:
        chance = self.rng.random()
        if chance < 0.15:
            return f"{self._pick(words.NUMBERS)}{self._adjective(0.3)} {plural(self._noun())}"
        if chance < 0.25:
            return f"the{self._adjective(0.4)} {plural(self._noun())}"
        return f"{self._pick(words.DETERMINERS)}{self._adjective(0.4)} {self._noun()}"

    def _adjective(self, chance: float) -> str:
        return self._maybe(chance, lambda: self._common(self.lexicon.adjectives))

    def _object(self) -> str:
        return self._pick(words.OBJECTS) if self.rng.random() < 0.2 else self._thing()

    def _where(self) -> str:
        place = self._pick(words.PLACES) if self.rng.random() < 0.6 else self._noun()
        return f"{self._pick(words.PREPOSITIONS)} {self._pick(words.DETERMINERS)} {place}"

    def _time(self) -> str:
        return self._pick(words.TIMES.split("|"))

    def _predicate_end(self) -> str:
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
        return f"{self._subject()} {past(self._verb(), self.lexicon)}{self._predicate_end()}."

    def _present(self) -> str:
        subject = self._subject()
        is_plural = subject in ("I", "you", "we", "they")
        verb = self._verb() if is_plural else plural(self._verb())
        way = self._maybe(0.15, lambda: self._pick(words.WAYS))
        return f"{subject}{way} {verb}{self._predicate_end()}."

    def _to_be(self) -> str:
        verb = self._pick(["is", "was", "is not", "was never", "has been", "will be", "looks"])
        kind = self._pick(["adjective", "where", "thing", "doing"])
        complement = {
            "adjective": lambda: (
                self._maybe(0.3, lambda: self._pick(["very", "so", "too", "quite"]), "")
                + self._adjective(1.0)
            ),
            "where": self._where,
            "thing": self._thing,
            "doing": lambda: f"{present_participle(self._verb())}{self._maybe(0.6, self._object)}",
        }[kind]()
        subject = self._pick(words.NAMES) if self.rng.random() < 0.3 else self._thing()
        return f"{subject} {verb} {complement.strip()}{self._maybe(0.3, self._time)}."

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
        return f"{self._subject()} {modal} {self._verb()}{self._predicate_end()}."

    def _question(self) -> str:
        question = self._maybe(0.5, lambda: self._pick(words.QUESTIONS), "")
        auxiliary = self._pick(["did", "do", "can", "will", "would", "could", "should", "must"])
        return f"{question} {auxiliary} {self._subject()} {self._verb()}{self._predicate_end()}?".strip()

    def _command(self) -> str:
        opening = self._maybe(0.4, lambda: self._pick(["please", "do not", "let us", "never"]), "")
        return f"{opening} {self._verb()} {self._object()}{self._maybe(0.4, self._where)}.".strip()

    def _there(self) -> str:
        verb = self._pick(["is", "was", "are", "were", "will be"])
        return f"there {verb} {self._thing()} {self._where()}."

    def _two_clauses(self) -> str:
        first, second = self._past().rstrip("."), self._past()
        conjunction = self._pick([", and ", ", but ", ", so ", " because ", " when ", " while ", " before "])
        return first + conjunction + second

    def _report(self) -> str:
        verb = self._pick(["said", "thinks", "knew", "told us", "hopes", "was sure", "is afraid"])
        return f"{self._subject()} {verb} that {self._past()}"

    def _short(self) -> str:
        kind = self._pick(["thing", "time", "number", "answer"])
        return {
            "thing": lambda: f"{self._thing()}.",
            "time": lambda: f"{self._time()}, {self._past()}",
            "number": lambda: (
                f"{self._pick(words.NUMBERS)} {self._pick(words.NUMBERS)} {self._pick(words.NUMBERS)}."
            ),
            "answer": lambda: f"{self._pick(['yes', 'no', 'well', 'good', 'oh'])}, {self._past()}",
        }[kind]()


class LongGrammar(Grammar):
    """Draws sentences of several clauses."""

    min_words, max_words, wordnet_share = 13, 40, 0.35

    def sentence(self) -> str:
        """One sentence of 13 to 40 words with its full stop."""
        form = self._draw_form(
            (self._chain, 8),
            (self._list, 4),
            (self._count, 3),
            (self._indirect_question, 4),
            (self._relative, 3),
            (self._condition, 3),
        )
        sentence = form()
        while not self.min_words <= len(split(sentence)) <= self.max_words:
            sentence = form()
        return _capitalised(sentence)

    def _clauses(self, count: int) -> str:
        clauses = self._clause()
        for _ in range(count - 1):
            clauses += self._pick(_CONJUNCTIONS) + self._clause()
        return clauses

    def _clause(self) -> str:
        return self.rng.choice((self._past, self._past, self._modal, self._to_be))().rstrip(".")

    def _chain(self) -> str:
        return self._clauses(self.rng.randint(2, 5)) + "."

    def _list(self) -> str:
        things = [self._thing() for _ in range(self.rng.randint(3, 7))]
        listed = ", ".join(things[:-1]) + ", and " + things[-1]
        if self.rng.random() < 0.5:
            verb = past(self._verb(), self.lexicon)
            return f"{self._subject()} {verb} {listed} {self._where()}."
        verb = self._pick(["was", "is", "were", "will be"])
        return f"{self._where()} {verb} {listed}, and {self._clause()}."

    def _count(self) -> str:
        clause = self.rng.choice((self._digits, self._amount, self._year))()
        return f"{clause}{self._pick(_CONJUNCTIONS)}{self._clauses(self.rng.randint(1, 2))}."

    def _digits(self) -> str:
        digits = [_in_words(self.rng.randint(0, 9)) for _ in range(self.rng.randint(3, 9))]
        noun = self._pick(["number", "code", "room", "ticket", "telephone number", "address"])
        return f"{self._pick(words.NAMES)}'s {noun} is {', '.join(digits)}"

    def _amount(self) -> str:
        number = _in_words(int(10 ** self.rng.uniform(1, 5)))
        return f"there were {number} {plural(self._noun())} {self._where()}"

    def _year(self) -> str:
        year = num2words(self.rng.randint(1500, 2030), to="year").replace("-", " ")
        day = num2words(self.rng.randint(1, 31), to="ordinal").replace("-", " ")
        return f"on the {day} of {self._pick(_MONTHS)}, {year}, {self._clause()}"

    def _indirect_question(self) -> str:
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
        question = self._pick(["if", "whether", "why", "when", "where", "how"])
        return f"{opening} {question} {self._clauses(self.rng.randint(1, 3))}?"

    def _relative(self) -> str:
        main_clause_end = self._clauses(self.rng.randint(1, 2)).split(" ", 1)[-1]
        subject = f"the{self._adjective(0.3)} {self._pick(words.PEOPLE)}"
        verb = past(self._verb(), self.lexicon)
        return f"{subject} who {verb} {self._thing()} {self._where()} {main_clause_end}."

    def _condition(self) -> str:
        first, second = self._present().rstrip("."), self._modal().rstrip(".")
        third = self._pick(_CONJUNCTIONS) + self._clause() if self.rng.random() < 0.5 else ""
        return f"{self._pick(['if', 'when', 'whenever', 'unless'])} {first}, {second}{third}."


def _capitalised(sentence: str) -> str:
    """With a capital, and "an" in place of "a" before a vowel."""
    sentence = re.sub(r"\ba ([aeiou])", r"an \1", sentence)
    return sentence[0].upper() + sentence[1:]


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


def present_participle(verb: str) -> str:
    """The -ing form of a verb."""
    return (verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else verb) + "ing"


def plural(word: str) -> str:
    """A noun's plural or a verb's third person."""
    if word.endswith(("s", "sh", "ch", "x", "z", "o")):
        return word + "es"
    if word.endswith("y") and len(word) > 1 and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def phrases(lexicon: Lexicon, min_words: int, max_words: int) -> list[str]:
    """WordNet's definitions and examples, split at punctuation, if all their words are common."""
    parts = (part.strip(" \"'") for gloss in lexicon.glosses for part in re.split(r"[;:()\"]|--", gloss))
    all_phrases = [part for part in parts if re.fullmatch(r"[A-Za-z][a-z]*(?:,? [a-z']+)+", part)]
    counts = Counter(word for phrase in all_phrases for word in split(phrase))
    common = [
        phrase
        for phrase in dict.fromkeys(all_phrases)
        if min_words <= len(split(phrase)) <= max_words
        and all(counts[word] >= MIN_WORD_COUNT and is_known(word) for word in split(phrase))
    ]
    return [phrase[0].upper() + phrase[1:] + "." for phrase in common]


def sentences(grammar: Grammar, unseen: Collection[str]) -> Iterator[str]:
    """An endless stream of distinct sentences, without those in `unseen` (compared by `plain`)."""
    unused_phrases = phrases(grammar.lexicon, grammar.min_words, grammar.max_words)
    grammar.rng.shuffle(unused_phrases)
    used = set(unseen)
    while True:
        is_phrase = bool(unused_phrases) and grammar.rng.random() < grammar.wordnet_share
        sentence = unused_phrases.pop() if is_phrase else grammar.sentence()
        if plain(sentence) not in used and len(split(sentence)) <= grammar.max_words:
            used.add(plain(sentence))
            yield sentence


def plain(sentence: str) -> str:
    """A sentence for comparison: only its words, in lower case."""
    return " ".join(split(sentence))


def split(sentence: str) -> list[str]:
    """The words of a sentence in lower case."""
    return re.findall(r"[a-z']+", sentence.lower())


def _in_words(number: int) -> str:
    return str(num2words(number)).replace("-", " ").replace(",", "")


@cache
def judged_texts(folder: Path = EVALUATION_FOLDER) -> frozenset[str]:
    """All sentences of the evaluation, in the form of `plain`."""
    texts = [(folder / name).read_text(encoding="utf-8") for name in EVALUATION_FILES]
    return frozenset(plain(line) for text in texts for line in text.splitlines())


def is_judged(text: str) -> bool:
    """Whether the words of a text occur in a sentence of the evaluation, in order and adjacent."""
    words = f" {plain(text)} "
    return any(words in f" {judged} " for judged in judged_texts())
