"""Common English words for the sentences that train the embedded voice.

A small list by part of speech, extended by WordNet's most common nouns, verbs, adjectives and
adverbs (Princeton, free licence; Debian package `wordnet-base`) and their irregular forms.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from machine.errors import SotaqueError
from xtts.text.pronunciations import is_known

WORDNET = Path("/usr/share/wordnet")
WORDNET_FILES = ("noun", "verb", "adj", "adv")
KIND_OF_SENSE = {"1": "noun", "2": "verb", "3": "adjective", "5": "adjective", "4": "adverb"}
MAX_WORDS = {"noun": 2200, "verb": 700, "adjective": 700, "adverb": 250}

PEOPLE = """man woman boy girl child baby friend neighbor teacher doctor nurse driver farmer baker
cook waiter student lawyer judge soldier sailor writer painter singer king queen uncle aunt cousin
father mother brother sister son daughter husband wife grandfather grandmother captain boss guest
stranger visitor dentist butcher policeman postman engineer captain tailor clerk""".split()
NAMES = """John Mary Peter Anna Tom Susan David Emma Paul Lucy Mark Helen James Laura George Alice
Robert Sarah Michael Julia Henry Kate Daniel Rose Martin Grace Frank Nancy Charles
Linda""".split()
THINGS = """cup table chair lamp door window key letter book pen pencil paper newspaper picture
clock watch phone radio bag box basket bottle glass plate knife fork spoon bowl pot pan kettle
bread butter cheese milk coffee tea sugar salt egg eggs apple orange pear lemon potato tomato
onion carrot soup cake pie sandwich meat fish chicken rice coat hat shirt shoe shoes sock dress
jacket scarf glove umbrella ring blanket pillow bed sofa carpet curtain mirror towel soap brush
broom bucket hammer nail ladder rope saw candle match fire coin money ticket stamp map present toy
ball doll kite piano guitar violin drum song bike car truck bus train boat ship plane wheel tree
flower rose grass leaf seed stone rock sand wood wall fence gate roof floor stairs light battery
computer camera machine engine dog cat horse cow sheep pig goat duck hen bird fox mouse rabbit
lion bear snake spider bee butterfly story joke question answer lesson meal dinner lunch breakfast
supper dozen piece wallet""".split()
PLACES = """house garden kitchen bathroom bedroom office school church shop market bank station
airport hospital library museum theater park street road bridge river lake sea beach island
mountain hill valley forest field farm village town city country square corner harbor hotel
restaurant cafe factory prison castle tower cellar attic garage yard stable zoo court hall
room""".split()
TIMES = """
today|tonight|this morning|this evening|last night|last week|every day|every night|
in the morning|in the evening|at noon|at night|at midnight|on Monday|on Tuesday|
on Wednesday|on Thursday|on Friday|on Saturday|on Sunday|next week|next year|
last summer|in winter|in spring|an hour ago|two days ago|a week ago|after dinner|
before lunch|all day|all night|for an hour|for years|again|soon|at once|in January|
in April|in June|in August|in October|in December|once a year|twice a week|
early in the morning|late at night|since yesterday|until dark|in the middle of the night|
at the end of the day
""".replace("\n", "")
NUMBERS = """two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty
sixty hundred thousand""".split()
PREPOSITIONS = """in on at under behind near beside from to into over across through along by with
without around between above below against toward past inside outside opposite""".split()
DETERMINERS = """the the the the the a a a this that my your his her our their some every each no
another any""".split()
PRONOUNS = "I you he she we they it".split()
OBJECTS = "me you him her us them it this that everything nothing something someone".split()
WAYS = """slowly quickly carefully quietly loudly suddenly gently badly well hard fast early late
alone together again often sometimes always never almost already still soon really""".split()
QUESTIONS = "who what where when why how which whose".split()


@dataclass(frozen=True)
class Lexicon:
    """Words by kind; the irregular forms of verbs; and WordNet's definitions with their examples."""

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    adverbs: tuple[str, ...]
    irregular: dict[str, tuple[str, ...]]
    glosses: tuple[str, ...]


def read(folder: Path = WORDNET) -> Lexicon:
    """The lexicon with WordNet's words. Raises SotaqueError."""
    if not (folder / "cntlist.rev").is_file():
        raise SotaqueError(
            f"{folder} has no WordNet. It is the Debian package wordnet-base; install it with: "
            "apt-get install wordnet-base flite"
        )
    counts = _count_words(_read_lines(folder / "cntlist.rev"))
    common = {
        kind: tuple(word for word, _ in counts[kind].most_common(max_words))
        for kind, max_words in MAX_WORDS.items()
    }
    lines = (line for name in WORDNET_FILES for line in _read_lines(folder / f"data.{name}") if " | " in line)
    return Lexicon(
        nouns=tuple(dict.fromkeys((*THINGS, *PEOPLE, *PLACES, *common["noun"]))),
        verbs=common["verb"],
        adjectives=common["adjective"],
        adverbs=tuple(dict.fromkeys((*WAYS, *common["adverb"]))),
        irregular=_irregular_forms(_read_lines(folder / "verb.exc")),
        glosses=tuple(line.split(" | ", 1)[1] for line in lines),
    )


def _read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _count_words(lines: Iterable[str]) -> dict[str, Counter[str]]:
    """How often each word is tagged in WordNet's corpus, by kind; only words with known phones."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in MAX_WORDS}
    for line in lines:
        key, _, tagged = line.split()
        word, sense = key.split("%")
        if word.isalpha() and word.islower() and is_known(word):
            counts[KIND_OF_SENSE[sense[0]]][word] += int(tagged)
    return counts


def _irregular_forms(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The irregular forms of each verb (past and participle), in the file's alphabetical order."""
    forms: dict[str, tuple[str, ...]] = {}
    for line in lines:
        form, verb = line.split()[:2]
        if form.isalpha() and not form.endswith(("ing", "s")):
            forms[verb] = (*forms.get(verb, ()), form)
    return forms
