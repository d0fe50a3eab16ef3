"""Texts for the guard's counts: 1 to 40 words, endings of every kind, numbers, single words.

They are drawn at random, and are always the same for a set. The sets `choosing` and `reporting`
share no text: the words of a text decide which set it belongs to.
"""

import random
import re
import zlib

from benchmarks.texts import sentences
from demo_voice.text import lexicon as words
from demo_voice.text.lexicon import Lexicon
from demo_voice.text.sentences import Grammar, is_judged, plain

SETS = ("choosing", "reporting")
MOST_WORDS = 40
VERBS = """ask answer bring build buy call carry catch change choose clean climb close count cover
cross cut draw drop feed fill find follow forget hear help hide hold hope invite keep know learn
leave lift like listen look lose love make meet mend miss move need notice open order paint pay
pick plan play pull push reach read receive remember repair sell send share show sing sleep smell
speak stay steal stop study take teach tell thank throw touch travel trust try turn understand
use visit wait walk want warn wash watch wear welcome win work write""".split()
ADJECTIVES = """angry bad beautiful big black blue brave bright broken brown careful cheap clean
clever cold cool dangerous dark deep dirty dry easy empty famous fast fresh friendly full funny
good great green grey happy hard heavy high hot huge hungry kind large late lazy light little lonely
long loud lucky narrow new nice noisy old pale poor proud quick quiet red rich sad sharp short
silent simple slow small soft strange strong sweet tall thick thin tired ugly warm weak wet white
whole wide wild wise wooden yellow young""".split()
WORDS = """absolutely always anyway apple autumn beautiful because bicycle birthday blue bravo
breakfast brilliant careful certainly cheers chocolate coffee congratulations continue correct
danger definitely delicious diamond dinner done early elephant enough evening everybody everything
exactly excellent eyes fantastic february finally finished fire forever forty friday garden goodbye
gosh half handsome help here hey history hope hurry impossible indeed information interesting
island jealous january june kitchen language later laughter lemon library listen look lovely
magnificent maybe meanwhile midnight monday music naturally never nevertheless nine no nonsense
nothing november obviously october often okay onions outside oxygen paper patience peace perfect
please potatoes pressure quality quick quiet ready really recently relax ridiculous right saturday
science seriously seven silence sixteen slowly someday sometimes sorry splendid stop strawberry
strength suddenly sugar summer sunday supper surely surprise sure telephone terrible thirteen
thirsty thursday today together tonight true tuesday twelve twice umbrella understood university
unbelievable unfortunately vegetables victory wait wednesday welcome well what whatever when where
why winter wonderful worse yellow yes yesterday you zero""".split()
# Without these, "buyed" would appear, which no recogniser knows.
PASTS = """bring brought build built buy bought catch caught choose chose cut cut draw drew feed fed
find found forget forgot hear heard hide hid hold held keep kept know knew learn learned leave left
lose lost make made meet met pay paid read read sell sold send sent show showed sing sang sleep
slept speak spoke steal stole stop stopped take took teach taught tell told think thought throw
threw understand understood wear wore win won write wrote drop dropped plan planned""".split()
MONTHS = """January February March April May June July August September October November
December""".split()
# Every kind of ending, the usual ones more often; most voices stop differently behind each.
ENDINGS = (
    *["."] * 8, *["!"] * 3, *["?"] * 3, *["", "...", ",", ";", ":", '."', '!"', ".)", " -"],
)  # fmt: skip
JOINTS = (", and ", ", but ", " because ", " while ", ", so ", ". ", "; ", " and then ")


def drawn(name: str, count: int) -> list[str]:
    """So many different texts of a set, always the same."""
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
    pasts.update((verb, (past,)) for verb, past in zip(PASTS[::2], PASTS[1::2], strict=True))
    lexicon = Lexicon(nouns, tuple(VERBS), tuple(ADJECTIVES), tuple(words.WAYS), pasts, ())
    return Grammar(lexicon, seed)


def _ended(draw: random.Random, text: str) -> str:
    """The text with another ending; a question keeps its own."""
    bare = text.rstrip(".?!")
    ending = "?" if text.endswith("?") and draw.random() < 0.7 else draw.choice(ENDINGS)
    opening = '"' if ending.endswith('"') else "(" if ending.endswith(")") else ""
    return f"{opening}{bare[0].upper()}{bare[1:]}{ending}"


def _word(draw: random.Random, _: Grammar) -> str:
    return _ended(draw, draw.choice(WORDS))


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
    year, month = draw.randint(1700, 2030), draw.choice(MONTHS)
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
