"""Two numbers beside each other are both said, and never become one."""

import itertools
import re
import time

import pytest

from xtts.text.normalization.registry import LANGUAGES, rules_of
from xtts.text.reading import clean_text


def words(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_pair_of_amounts_becomes_one_number(language):
    rules = rules_of(language)
    signs, units = list(rules.currencies)[:3], list(rules.units)[:3]
    for first, second in itertools.product((5, 12, 95), (2, 20, 100, 345)):
        pairs = [f"{first}\n{second}", f"{first}%\n{second}", f"{first}% {second} w"]
        pairs += [f"{first}/{second}"] * rules.has_spaces
        pairs += [f"{first} {sign} {second} w" for sign in signs]
        pairs += [f"{first} {sign}\n{second} {sign}" for sign in signs]
        pairs += [f"{sign}{first}\n{second} w" for sign in signs]
        pairs += [f"{first} {unit} {second} w" for unit in units]
        one_number = {words(rules.cardinal(int(f"{first}{second:03}")))}
        for pair in pairs:
            reading = rules.read(clean_text(pair))
            assert not re.search(r"\d", reading), (pair, reading)
            if len(str(second)) == 3:
                assert not any(number in words(reading) for number in one_number), (pair, reading)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sign_behind_its_number_is_not_taken_by_the_next(language):
    rules = rules_of(language)
    for sign in list(rules.currencies)[:4]:
        reading = rules.read(f"7 {sign} 20 w")
        alone = rules.read(f"7 {sign}").rstrip(".")
        assert words(reading).startswith(words(alone)), reading


@pytest.mark.parametrize(
    ("language", "written", "reading"),
    [
        ("en", "5 100-word essays", "five one hundred-word essays"),
        ("en", "$5 100", "five dollars one hundred"),
        ("en", "10 $20 bills", "ten twenty-dollar bills"),
        ("en", "100 200 300", "one hundred two hundred three hundred"),
        ("en", "12\u202f345", "twelve thousand three hundred and forty-five"),
        ("en", "$10 USD 20 years", "ten us dollars twenty years"),
        ("en", "page 5 100 lines", "page five one hundred lines"),
        ("fr", "12 345 habitants", "douze mille trois cent quarante-cinq habitants"),
        ("fr", "page 5 100 lignes", "page cinq cent lignes"),
        ("de", "Größe 12 100 % Wolle", "Größe zwölf einhundert Prozent Wolle"),
        ("zh", "10% 5", "百分之十、五"),
        ("ja", "5 100", "五, 百"),
        ("ru", "5 руб. 50 коп.", "пять рублей пятьдесят копеек."),
    ],
)
def test_each_number_is_said_by_itself(language, written, reading):
    assert rules_of(language).read(clean_text(written)).casefold() == reading.casefold()


@pytest.mark.parametrize(
    "text",
    [
        "1 ",
        "1/",
        "12 345 ",
        "10 USD ",
        "1,2,",
        "$x^",
        "5\n",
        "page 1 ",
        "a.",
        "a-",
        "a@",
        "www.",
        "a.co/",
        "IV ",
        "1x",
        "1°",
    ],
)
def test_a_mass_of_numbers_takes_no_longer_than_a_text(text):
    rules = rules_of("en")
    started = time.thread_time()
    rules.read(clean_text((text * 10_000)[:10_000]))
    assert time.thread_time() - started < 1.0


@pytest.mark.parametrize(
    ("language", "following"),
    [
        ("en", "deal de dime marks make minutes people plan a at house kid light to text into of this from"),
        ("de", "der Deal Mai mit mal am Stunden so sind und um her Kinder kam Tage Tausende ein in Leute"),
        ("fr", "des deux mai mais mois me hommes est elle avec kilos le la par sont soir très tout une gens"),
        ("es", "del dos días mayo más me hombres hasta el años al kilos los la por son todo una gente miles"),
        ("pt", "do dos dias maio mais me homens anos ao quilos os por são tudo uma gente minutos mitos"),
        ("it", "due da maggio ma mesi ore è in anni al chili il la per sono tutto una gente minuti"),
        ("nl", "de dit mei maar maanden mensen uren en jaar aan het in per toen tot twee of goed"),
    ],
)
def test_no_word_behind_an_amount_is_lost(language, following):
    rules = rules_of(language)
    sign, scale = next(iter(rules.currencies)), next(iter(rules.scale_marks))
    amounts = (
        "5",
        "10%",
        f"{sign}5",
        f"5 {sign}",
        f"{sign}10{scale}",
        "3/4",
        "15:30",
        "10-12",
        "2020",
        "5 km",
    )
    for amount, word in itertools.product(amounts, following.split()):
        reading = rules.read(clean_text(f"{amount} {word} zebra."))
        assert word in re.split(r"\W+", reading), (amount, word, reading)
