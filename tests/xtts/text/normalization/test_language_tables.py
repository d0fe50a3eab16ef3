"""The tables of the languages in full: days, hours, letters, numbers, plurals."""

import re

import pytest

from xtts.text.normalization.registry import LANGUAGES, rules_of

HUNGARIAN_DAYS = (
    "elseje másodika harmadika negyedike ötödike hatodika hetedike nyolcadika kilencedike tizedike "
    "tizenegyedike tizenkettedike tizenharmadika tizennegyedike tizenötödike tizenhatodika "
    "tizenhetedike tizennyolcadika tizenkilencedike huszadika huszonegyedike huszonkettedike "
    "huszonharmadika huszonnegyedike huszonötödike huszonhatodika huszonhetedike huszonnyolcadika "
    "huszonkilencedike harmincadika harmincegyedike"
).split()
GERMAN_DAYS = (
    "ersten zweiten dritten vierten fünften sechsten siebten achten neunten zehnten elften "
    "zwölften dreizehnten vierzehnten fünfzehnten sechzehnten siebzehnten achtzehnten neunzehnten "
    "zwanzigsten einundzwanzigsten zweiundzwanzigsten dreiundzwanzigsten vierundzwanzigsten "
    "fünfundzwanzigsten sechsundzwanzigsten siebenundzwanzigsten achtundzwanzigsten "
    "neunundzwanzigsten dreißigsten einunddreißigsten"
).split()
ENGLISH_DAYS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first "
    "twenty-second twenty-third twenty-fourth twenty-fifth twenty-sixth twenty-seventh "
    "twenty-eighth twenty-ninth thirtieth thirty-first"
).split()
POLISH_DAYS = [
    *(
        "pierwszego drugiego trzeciego czwartego piątego szóstego siódmego ósmego dziewiątego "
        "dziesiątego jedenastego dwunastego trzynastego czternastego piętnastego szesnastego "
        "siedemnastego osiemnastego dziewiętnastego dwudziestego"
    ).split(),
    *(
        f"dwudziestego {day}"
        for day in "pierwszego drugiego trzeciego czwartego piątego szóstego "
        "siódmego ósmego dziewiątego".split()
    ),
    "trzydziestego",
    "trzydziestego pierwszego",
]
RUSSIAN_DAYS = [
    *(
        "первого второго третьего четвертого пятого шестого седьмого восьмого девятого десятого "
        "одиннадцатого двенадцатого тринадцатого четырнадцатого пятнадцатого шестнадцатого "
        "семнадцатого восемнадцатого девятнадцатого двадцатого"
    ).split(),
    *(
        f"двадцать {day}"
        for day in "первого второго третьего четвертого пятого шестого седьмого восьмого девятого".split()
    ),
    "тридцатого",
    "тридцать первого",
]
DAYS = {
    "hu": ("Május {}.", "május {}.", HUNGARIAN_DAYS),
    "de": ("Am {}.5.2024", "Am {} Mai zweitausendvierundzwanzig", GERMAN_DAYS),
    "en": ("May {}, 2024", "May {}, twenty twenty-four", ENGLISH_DAYS),
    "pl": ("{} maja", "{} maja", POLISH_DAYS),
    "ru": ("{} мая", "{} мая", RUSSIAN_DAYS),
}
MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października "
    "listopada grudnia",
    "cs": "ledna února března dubna května června července srpna září října listopadu prosince",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "zh": "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月",
    "ja": "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月",
    "ko": "일월 이월 삼월 사월 오월 유월 칠월 팔월 구월 시월 십일월 십이월",
    "tr": "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık",
    "hu": "január február március április május június július augusztus szeptember október november december",
    "ar": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
    "hi": "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
}
PORTUGUESE = [
    *"zero uma duas três quatro cinco seis sete oito nove dez onze doze treze catorze quinze "
    "dezesseis dezessete dezoito dezenove vinte".split(),
    "vinte e uma",
    "vinte e duas",
    "vinte e três",
    "vinte e quatro",
]
FRENCH = (
    "zéro une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize dix-sept dix-huit dix-neuf vingt vingt-et-une vingt-deux vingt-trois vingt-quatre"
).split()
HUNGARIAN = (
    "nulla egy két három négy öt hat hét nyolc kilenc tíz tizenegy tizenkét tizenhárom tizennégy "
    "tizenöt tizenhat tizenhét tizennyolc tizenkilenc húsz huszonegy huszonkét huszonhárom "
    "huszonnégy"
).split()
RUSSIAN = [
    *"ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать "
    "тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать "
    "двадцать".split(),
    "двадцать один",
    "двадцать два",
    "двадцать три",
    "двадцать четыре",
]
HOURS = {
    "pt": ("{}h", [f"{hour} {'hora' if n == 1 else 'horas'}" for n, hour in enumerate(PORTUGUESE)]),
    "fr": ("{}h", [f"{hour} {'heure' if n < 2 else 'heures'}" for n, hour in enumerate(FRENCH)]),
    "hu": ("{}:00", [f"{hour} óra" for hour in HUNGARIAN]),
    "ru": (
        "{}:00",
        [
            f"{hour} {'час' if n in (1, 21) else 'часа' if n in (2, 3, 4, 22, 23, 24) else 'часов'}"
            for n, hour in enumerate(RUSSIAN)
        ],
    ),
}
LETTERS = {
    "a": "ay",
    "b": "bee",
    "c": "see",
    "d": "dee",
    "e": "ee",
    "f": "eff",
    "g": "gee",
    "h": "aitch",
    "i": "eye",
    "j": "jay",
    "k": "kay",
    "l": "ell",
    "m": "em",
    "n": "en",
    "o": "oh",
    "p": "pee",
    "q": "cue",
    "r": "are",
    "s": "ess",
    "t": "tee",
    "u": "you",
    "v": "vee",
    "w": "double-you",
    "x": "ex",
    "y": "why",
    "z": "zee",
}
# The form of the unit after each of these numbers is tested.
COUNTED = ("1", "2", "5", "11", "12", "21", "22", "101", "111", "112", "1,5")
PLURALS = {
    "pl": ("zł", "złoty złote złotych złotych złotych złotych złote złotych złotych złotych złotego"),
    "cs": (
        "km",
        "kilometr kilometry kilometrů kilometrů kilometrů kilometrů kilometrů kilometrů "
        "kilometrů kilometrů kilometru",
    ),
    "ru": ("₽", "рубль рубля рублей рублей рублей рубль рубля рубль рублей рублей рубля"),
    "ar": (
        "كم",
        "كيلومتر كيلومتر كيلومترات كيلومترا كيلومترا كيلومترا كيلومترا كيلومتر كيلومترا كيلومترا كيلومتر",
    ),
    "en": ("kg", "kilogram" + 10 * " kilograms"),
    "de": ("t", "Tonne" + 10 * " Tonnen"),
    "fr": ("kg", "kilogramme" + 9 * " kilogrammes" + " kilogramme"),
}


@pytest.mark.parametrize("language", DAYS)
def test_the_31_days_of_a_month(language):
    written, spoken, days = DAYS[language]
    rules = rules_of(language)
    read = [rules.read(written.format(day)) for day in range(1, 32)]
    assert read == [spoken.format(day) for day in days]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_days_months_or_hours_are_read_alike(language):
    rules = rules_of(language)
    days = [rules.date(day, 5, None) for day in range(1, 32)]
    months = [rules.date(7, month, None) for month in range(1, 13)]
    hours = [rules.read(f"{hour}:05") for hour in range(1, 12 if language == "ar" else 25)]
    for read in (days, months, hours):
        assert len(set(read)) == len(read) and not re.search(r"\d", " ".join(read))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_12_months_are_named_as_in_the_language(language):
    rules, names = rules_of(language), MONTHS[language].split()
    for month, name in enumerate(names, 1):
        reading = rules.read(f"2024-{month:02}-15")
        # "一月" is also the end of "十一月".
        assert (
            max((month_name for month_name in names if month_name in reading), key=len, default="") == name
        ), reading


@pytest.mark.parametrize("language", HOURS)
def test_the_hours_of_a_day(language):
    written, hours = HOURS[language]
    rules = rules_of(language)
    assert [rules.read(written.format(hour)) for hour in range(25)] == hours


def test_the_26_letters_of_english():
    rules = rules_of("en")
    assert {letter: rules.letter(letter) for letter in LETTERS} == LETTERS
    assert rules.letters("Nm") == "en, em"


@pytest.mark.parametrize("language", PLURALS)
def test_a_noun_after_each_kind_of_number(language):
    unit, forms = PLURALS[language]
    rules = rules_of(language)
    read = [rules.read(f"{number} {unit}").split()[-1] for number in COUNTED]
    expected = forms.split()
    if language in ("en", "ar"):  # their decimal separator is a point
        read[-1] = rules.read(f"1.5 {unit}").split()[-1]
    assert read == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_to_120_differ(language):
    rules = rules_of(language)
    read = [rules.read(str(number)) for number in range(121)]
    assert len(set(read)) == 121 and not re.search(r"\d", " ".join(read))
