"""The grammar of long sentences for the teachers: 13 to 40 words, with clauses, lists, numbers and
questions."""

import re
from collections.abc import Callable

from num2words import num2words

from demo_voice.text import lexicon as words
from demo_voice.text.sentences import Grammar, past, plural, split

_JOINTS = (
    ", and ", ", but ", ", so ", " because ", " when ", " while ", " before ", " after ",
    " until ", " although ", ", and then ", " as soon as ",
)  # fmt: skip
_MONTHS = """January February March April May June July August September October November
December""".split()


class LongGrammar(Grammar):
    """Draws sentences of several clauses."""

    lengths, cut = (13, 40), 0.35

    def sentence(self) -> str:
        """One sentence of 13 to 40 words with its stop."""
        kinds: tuple[tuple[Callable[[], str], int], ...] = (
            (self._chain, 8), (self._list, 4), (self._count, 3), (self._asked, 4),
            (self._relative, 3), (self._condition, 3),
        )  # fmt: skip
        draw = self.draw.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        made = draw()
        while not self.lengths[0] <= len(split(made)) <= self.lengths[1]:
            made = draw()
        made = re.sub(r"\ba ([aeiou])", r"an \1", made)
        return made[0].upper() + made[1:]

    def _clauses(self, number: int) -> str:
        made = self._clause()
        for _ in range(number - 1):
            made += self._one(_JOINTS) + self._clause()
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
        verb = self._one(["was", "is", "were", "will be"])
        return f"{self._where()} {verb} {listed}, and {self._clause()}."

    def _count(self) -> str:
        made = self.draw.choice((self._digits, self._amount, self._year))()
        return f"{made}{self._one(_JOINTS)}{self._clauses(self.draw.randint(1, 2))}."

    def _digits(self) -> str:
        spoken = [_spoken(self.draw.randint(0, 9)) for _ in range(self.draw.randint(3, 9))]
        what = self._one(["number", "code", "room", "ticket", "telephone number", "address"])
        return f"{self._one(words.NAMES)}'s {what} is {', '.join(spoken)}"

    def _amount(self) -> str:
        number = _spoken(int(10 ** self.draw.uniform(1, 5)))
        return f"there were {number} {plural(self._noun())} {self._where()}"

    def _year(self) -> str:
        year = num2words(self.draw.randint(1500, 2030), to="year").replace("-", " ")
        day = num2words(self.draw.randint(1, 31), to="ordinal").replace("-", " ")
        return f"on the {day} of {self._one(_MONTHS)}, {year}, {self._clause()}"

    def _asked(self) -> str:
        opening = self._one(
            ["can you tell me", "do you know", "did they say", "could you find out",
             "would you like to know", "has anybody told you", "who knows", "why did she ask"]
        )  # fmt: skip
        about = self._one(["if", "whether", "why", "when", "where", "how"])
        return f"{opening} {about} {self._clauses(self.draw.randint(1, 3))}?"

    def _relative(self) -> str:
        rest = self._clauses(self.draw.randint(1, 2)).split(" ", 1)[-1]
        who = f"the{self._adjective(0.3)} {self._one(words.PEOPLE)}"
        did = past(self._verb(), self.lexicon)
        return f"{who} who {did} {self._thing()} {self._where()} {rest}."

    def _condition(self) -> str:
        first, second = self._present().rstrip("."), self._modal().rstrip(".")
        more = self._one(_JOINTS) + self._clause() if self.draw.random() < 0.5 else ""
        return f"{self._one(['if', 'when', 'whenever', 'unless'])} {first}, {second}{more}."


def _spoken(number: int) -> str:
    return str(num2words(number)).replace("-", " ").replace(",", "")
