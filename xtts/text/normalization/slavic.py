"""Rules for Polish, Russian and Czech.

Numerals agree with the noun that they count; dates and hours are ordinals.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from xtts.text.normalization.language_rules import LanguageRules, Step
from xtts.text.normalization.quantities import (
    ClockTime,
    Noun,
    WrittenNumber,
    marks,
    moneys,
    nouns,
    scale_words,
)  # fmt: skip
from xtts.text.normalization.spelling import spell


class SlavicRules(LanguageRules):
    """Common rules of the three languages: a noun has one form after 1, one after 2 to 4, one after
    other numbers, and one after a fraction."""

    cardinals = {"m": "cardinal-masculine", "f": "cardinal-feminine", "n": "cardinal-neuter"}
    # Whether 21 and 31 take the form after 1.
    last_one_counts = False
    # The word after a year that is an ordinal; "" if it is a cardinal.
    of_year = ""
    # The word after an hour without minutes.
    full_hour: ClassVar[Noun | None] = None
    # A date with the month's name and the word after the year.
    named_date: ClassVar[re.Pattern[str] | None] = None
    # The ordinals of 0 to 19 and of tens, and their endings after hard and soft stems, by gender
    # and case.
    units_ordinals: ClassVar[Sequence[str]] = ()
    tens_ordinals: ClassVar[Sequence[str]] = ()
    endings: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def below_hundred(self, number: int, gender: str) -> str:
        """The ordinal of 0 to 99: both of its words are ordinals."""
        tens, units = divmod(number, 10)
        if tens < 2:
            return self.declined(self.units_ordinals[number], gender)
        spoken = self.declined(self.tens_ordinals[tens - 2], gender)
        return f"{spoken} {self.declined(self.units_ordinals[units], gender)}" if units else spoken

    def declined(self, word: str, gender: str) -> str:
        """An ordinal with the ending of a gender, or of a gender and a case (`m-gen`)."""
        return word[:-1] + self.endings[gender][word.endswith(("i", "í"))]

    def form(self, number: WrittenNumber, noun: Noun) -> str:
        """The form, by the last two digits."""
        if number.fraction:
            return noun.part
        value = number.value
        if value == 1 or (self.last_one_counts and value % 10 == 1 and value % 100 != 11):
            return noun.one
        few = value % 10 in (2, 3, 4) and value % 100 not in (12, 13, 14)
        if few and (self.code != "cs" or value < 5):
            return noun.few
        return noun.many

    def date(self, day: int, month: int, year: int | None, before: str = "") -> str:
        """Piątego marca dwa tysiące dwudziestego czwartego roku."""
        spoken = f"{self.day(day)} {self.months[month - 1]}"
        if year is None:
            return spoken
        if not self.of_year:
            return f"{spoken} {self.cardinal(year)}"
        return f"{spoken} {self.ordinal(year, 'm-gen')} {self.of_year}"

    def day(self, number: int, before: str = "") -> str:
        """Piątego."""
        return self.ordinal(number, "m-gen")

    def time(self, at: ClockTime) -> str:
        """Čtrnáct třicet; devět hodin, unless that word follows in the text."""
        if self.full_hour is None or not at.full_hour:
            return super().time(at)
        spoken = self.cardinal(at.hour, self.full_hour.gender)
        if re.match(rf"\s*{self.full_hour.one[:3]}", at.after):
            return spoken
        return f"{spoken} {self.form(WrittenNumber(str(at.hour)), self.full_hour)}"

    @cached_property
    def read_named_dates(self) -> Step:
        """Reads the dates of `named_date`, if the language has that pattern."""
        if self.named_date is None:
            return super().read_named_dates
        pattern = self.named_date
        return lambda text: pattern.sub(self._named_date, text)

    def _named_date(self, match: re.Match[str]) -> str:
        names = [name.casefold() for name in self.months]
        if match[2].casefold() not in names or not 1 <= int(match[1]) <= 31:
            return match[0]
        year = int(match[3]) if match[3] else None
        return self.date(int(match[1]), names.index(match[2].casefold()) + 1, year)


class PolishRules(SlavicRules):
    """Polish."""

    code = "pl"
    point, minus, to = "przecinek", "minus", "do"
    of_year, zero_minute = "roku", "zero "
    named_date = re.compile(
        r"(?<![\w.,])([0-9]{1,2})\s(\w{4,12})(?:\s([12][0-9]{3})(?:\s(?:r\.|roku))?(?![\w.,]?\d))?(?!\w)"
    )
    # 2. before a word
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,3})\.(?=\s([a-ząćęłńóśźż]{2,30}))")
    calling = "tel|telefon|zadzwoń|dzwoń|numer|komórka|faks|pod"
    months = (
        "stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia",
        "września", "października", "listopada", "grudnia",
    )  # fmt: skip
    percent = Noun.of("procent/procent/procent/procent")
    scales = ("tysiąc", "tysiące", "tysięcy", "milion", "miliony", "milionów", "miliardów")
    clock_words = "godz\\.|godzinie|godziny|o"
    thousands = ("tysiąc", "tysiące", "tysięcy")
    scale_marks = marks("tys. tys = 3, mln mln. mio = 6, mld mld. mlrd = 9, bln bln. = 12")
    scale_nouns = scale_words(
        "milion/miliony/milionów/miliona", "miliard/miliardy/miliardów/miliarda",
        "bilion/biliony/bilionów/biliona",
    )  # fmt: skip
    denominators = (
        "trzecia/trzecie/trzecich piąta/piąte/piątych szósta/szóste/szóstych "
        "siódma/siódme/siódmych ósma/ósme/ósmych dziewiąta/dziewiąte/dziewiątych "
        "dziesiąta/dziesiąte/dziesiątych"
    )
    denominator_gender, bar = "f", "przez"
    mixed, mixed_half = "{} i {}", "{} i pół"
    powers = ("do kwadratu", "do sześcianu", "do potęgi {}")
    currencies = moneys("""
        zł PLN = złoty/złote/złotych/złotego; grosz/grosze/groszy
        € EUR = euro/euro/euro/euro; cent/centy/centów
        $ US$ USD = dolar/dolary/dolarów/dolara; cent/centy/centów
        £ = funt/funty/funtów/funta; pens/pensy/pensów
    """)
    units = nouns("""
        kg = kilogram/kilogramy/kilogramów/kilograma, g = gram/gramy/gramów/grama,
        dag = dekagram/dekagramy/dekagramów/dekagrama,
        mg = miligram/miligramy/miligramów/miligrama, t = tona/tony/ton/tony f,
        km = kilometr/kilometry/kilometrów/kilometra, m = metr/metry/metrów/metra,
        cm = centymetr/centymetry/centymetrów/centymetra,
        mm = milimetr/milimetry/milimetrów/milimetra,
        km/h = kilometr na godzinę/kilometry na godzinę/kilometrów na godzinę/kilometra na godzinę,
        m² = metr kwadratowy/metry kwadratowe/metrów kwadratowych/metra kwadratowego,
        l = litr/litry/litrów/litra, ml = mililitr/mililitry/mililitrów/mililitra,
        godz. = godzina/godziny/godzin/godziny f, min min. = minuta/minuty/minut/minuty f,
        sek. = sekunda/sekundy/sekund/sekundy f,
        °C ℃ = stopień Celsjusza/stopnie Celsjusza/stopni Celsjusza/stopnia Celsjusza,
        ° = stopień/stopnie/stopni/stopnia, kW = kilowat/kilowaty/kilowatów/kilowata,
        kWh = kilowatogodzina/kilowatogodziny/kilowatogodzin/kilowatogodziny f,
        MB = megabajt/megabajty/megabajtów/megabajta, GB = gigabajt/gigabajty/gigabajtów/gigabajta
    """)
    abbreviations = {
        "np.": "na przykład", "itd.": "i tak dalej", "itp.": "i tym podobne",
        "m.in.": "między innymi", "tzn.": "to znaczy", "tj.": "to jest", "tzw.": "tak zwany",
        "ok.": "około", "dr": "doktor", "mgr": "magister", "inż.": "inżynier", "prof.": "profesor",
        "ul.": "ulica", "nr": "numer", "al.": "aleja", "pl.": "plac", "św.": "święty",
        "str.": "strona", "tel.": "telefon", "wg": "według", "p.n.e.": "przed naszą erą",
        "n.e.": "naszej ery", "woj.": "województwo", "o godz.": "o godzinie",
        "od godz.": "od godziny", "do godz.": "do godziny", "godz.#": "godzina",
        "hab.": "habilitowany",
    }  # fmt: skip
    fractions = {"½": "pół", "¼": "ćwierć", "¾": "trzy czwarte"}
    units_ordinals = (
        "zerowy pierwszy drugi trzeci czwarty piąty szósty siódmy ósmy dziewiąty dziesiąty "
        "jedenasty dwunasty trzynasty czternasty piętnasty szesnasty siedemnasty osiemnasty "
        "dziewiętnasty"
    ).split()
    tens_ordinals = (
        "dwudziesty trzydziesty czterdziesty pięćdziesiąty sześćdziesiąty siedemdziesiąty "
        "osiemdziesiąty dziewięćdziesiąty"
    ).split()
    _HUNDREDS = (
        "setny dwusetny trzechsetny czterechsetny pięćsetny sześćsetny siedemsetny osiemsetny "
        "dziewięćsetny"
    ).split()
    endings = {
        "m": ("y", "i"), "f": ("a", "a"), "n": ("e", "ie"), "m-gen": ("ego", "iego"),
        "f-gen": ("ej", "iej"), "m-loc": ("ym", "im"), "f-ins": ("ą", "ą"),
    }  # fmt: skip

    def ordinal(self, number: int, gender: str = "m") -> str:
        """gender: m, f, n, or with a case: m-gen, f-gen, m-loc, f-ins."""
        above, last = divmod(number, 100)
        if last or not number:
            before = f"{self.cardinal(above * 100)} " if above else ""
            return before + self.below_hundred(last, gender)
        if number % 1000 == 0:
            stem = "tysięczny" if number == 1000 else f"{self._joined(number // 1000)}tysięczny"
            return self.declined(stem, gender)
        thousands, hundreds = divmod(above, 10)
        before = f"{self.cardinal(thousands * 1000)} " if thousands else ""
        return before + self.declined(self._HUNDREDS[hundreds - 1], gender)

    def _joined(self, thousands: int) -> str:
        known = {2: "dwu", 3: "trzy", 4: "cztero"}
        return known.get(thousands) or spell(
            "pl", thousands, "cardinal-masculine-genitive"
        ).replace(" ", "")

    def declined(self, word: str, gender: str) -> str:
        """A soft stem stays soft before a and ą: trzecia, but druga."""
        form = super().declined(word, gender)
        soft = word.endswith("i") and word != "drugi" and form.endswith(("a", "ą"))
        return f"{form[:-1]}i{form[-1]}" if soft else form

    def time(self, at: ClockTime) -> str:
        """Czternasta trzydzieści; o dziewiątej."""
        word = re.search(r"(\w+)\s*$", at.before)
        governs = word[1].casefold() if word else ""
        case = (
            "f-gen" if governs in ("o", "od", "do", "po", "około", "godziny", "godzinie") else "f"
        )
        case = "f-ins" if governs in ("przed", "między") else case
        spoken = self.ordinal(at.hour, case)
        if not at.full_hour:
            spoken += f" {self.minutes(at.minute)}"
        return spoken if at.second is None else f"{spoken} i {self.cardinal(at.second, 'f')} sekund"

    def read_years(self, text: str) -> str:
        """1999 r., w 1999 roku."""
        return _POLISH_YEAR.sub(self._in_year, text)

    def _in_year(self, match: re.Match[str]) -> str:
        number, word = int(match[2]), match[3]
        locative = (match[1] or "").strip().casefold() in ("w", "we", "po")
        if word in ("r.", "roku"):
            dot = "." if word == "r." and match.end() == len(match.string) else ""
            spoken = self.ordinal(number, "m-loc" if locative else "m-gen")
            return f"{match[1] or ''}{spoken} roku{dot}"
        return f"{match[1] or ''}{self.ordinal(number)} {word}"

    def _ordinal(self, match: re.Match[str]) -> str:
        noun = match[2]
        gender = "f" if noun.endswith("a") else "n" if noun.endswith(("o", "e", "ę", "um")) else "m"
        return self.ordinal(int(match[1]), gender)


_POLISH_YEAR = re.compile(
    r"((?<!\w)(?:[wW]e?|po|od|do|z|rok)\s)?(?<![\w.,])([12][0-9]{3})\s(r\.|roku|rok)(?!\w)"
)


class CzechRules(SlavicRules):
    """Czech."""

    code = "cs"
    corrections = (("milión", "milion"),)
    point, minus, to = "celá", "minus", "až"
    zero_minute = "nula "
    # 2. before a word
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\.\s(?=([a-záčďéěíňóřšťúůýž]{2,30}))")
    calling = "tel|telefon|volejte|zavolejte|volej|číslo|mobil|fax"
    months = (
        "ledna", "února", "března", "dubna", "května", "června", "července", "srpna", "září",
        "října", "listopadu", "prosince",
    )  # fmt: skip
    full_hour = Noun.of("hodina/hodiny/hodin", "f")
    percent = Noun.of("procento/procenta/procent/procenta", "n")
    scales = ("tisíc", "milion", "miliony", "milionů", "miliard", "miliardy")
    thousands = ("tisíc", "tisíce")
    scale_marks = marks("tis. tis = 3, mil. mil mio mio. = 6, mld. mld mrd. = 9, bil. bil = 12")
    scale_nouns = scale_words(
        "milion/miliony/milionů/milionu", "miliarda/miliardy/miliard/miliardy f",
        "bilion/biliony/bilionů/bilionu",
    )  # fmt: skip
    denominators = (
        "třetina/třetiny/třetin pětina/pětiny/pětin šestina/šestiny/šestin sedmina/sedminy/sedmin "
        "osmina/osminy/osmin devítina/devítiny/devítin desetina/desetiny/desetin"
    )
    denominator_gender, bar = "f", "lomeno"
    mixed, mixed_half = "{} a {}", "{} a půl"
    powers = ("na druhou", "na třetí", "na {}")
    currencies = moneys("""
        Kč CZK = koruna/koruny/korun/koruny f; haléř/haléře/haléřů
        € EUR = euro/eura/eur/eura n; cent/centy/centů
        $ US$ USD = dolar/dolary/dolarů/dolaru; cent/centy/centů
        £ = libra/libry/liber/libry f; pence
    """)
    units = nouns("""
        kg = kilogram/kilogramy/kilogramů/kilogramu, g = gram/gramy/gramů/gramu,
        dkg = dekagram/dekagramy/dekagramů/dekagramu, mg = miligram/miligramy/miligramů/miligramu,
        t = tuna/tuny/tun/tuny f, km = kilometr/kilometry/kilometrů/kilometru,
        m = metr/metry/metrů/metru, cm = centimetr/centimetry/centimetrů/centimetru,
        mm = milimetr/milimetry/milimetrů/milimetru,
        km/h = kilometr za hodinu/kilometry za hodinu/kilometrů za hodinu/kilometru za hodinu,
        m² = metr čtvereční/metry čtvereční/metrů čtverečních/metru čtverečního,
        l = litr/litry/litrů/litru, ml = mililitr/mililitry/mililitrů/mililitru,
        h hod. = hodina/hodiny/hodin/hodiny f, min min. = minuta/minuty/minut/minuty f,
        °C ℃ = stupeň Celsia/stupně Celsia/stupňů Celsia/stupně Celsia,
        ° = stupeň/stupně/stupňů/stupně, kW = kilowatt/kilowatty/kilowattů/kilowattu,
        kWh = kilowatthodina/kilowatthodiny/kilowatthodin/kilowatthodiny f,
        MB = megabajt/megabajty/megabajtů/megabajtu, GB = gigabajt/gigabajty/gigabajtů/gigabajtu
    """)
    abbreviations = {
        "např.": "například", "atd.": "a tak dále", "apod.": "a podobně", "tj.": "to jest",
        "tzv.": "takzvaný", "č.": "číslo", "str.": "strana", "ul.": "ulice", "nám.": "náměstí",
        "cca": "cirka", "prof.": "profesor", "mj.": "mimo jiné", "popř.": "popřípadě",
        "tzn.": "to znamená", "př. n. l.": "před naším letopočtem", "n. l.": "našeho letopočtu",
        "tel.": "telefon", "sv.": "svatý", "Ing.": "inženýr", "Mgr.": "magistr", "MUDr.": "doktor",
    }  # fmt: skip
    fractions = {"½": "půl", "¼": "čtvrt", "¾": "tři čtvrtě"}
    units_ordinals = (
        "nultý první druhý třetí čtvrtý pátý šestý sedmý osmý devátý desátý jedenáctý dvanáctý "
        "třináctý čtrnáctý patnáctý šestnáctý sedmnáctý osmnáctý devatenáctý"
    ).split()
    tens_ordinals = (
        "dvacátý třicátý čtyřicátý padesátý šedesátý sedmdesátý osmdesátý devadesátý"
    ).split()
    endings = {
        "m": ("ý", "í"), "f": ("á", "í"), "n": ("é", "í"), "m-gen": ("ého", "ího"),
        "m-loc": ("ém", "ím"), "f-gen": ("é", "í"), "f-loc": ("é", "í"),
    }  # fmt: skip

    def ordinal(self, number: int, gender: str = "m") -> str:
        """gender: m, f, n, or with a case: m-gen, m-loc, f-gen, f-loc."""
        above, last = divmod(number, 100)
        if last or not number:
            before = f"{self.cardinal(above * 100)} " if above else ""
            return before + self.below_hundred(last, gender)
        return self.declined("tisící", gender) if number == 1000 else self.cardinal(number)

    def decimal_words(self, number: WrittenNumber) -> str:
        """Tři celé čtrnáct: the word for "whole" is feminine."""
        value = number.value
        whole = "celá" if value in (0, 1) else "celé" if value in (2, 3, 4) else "celých"
        return f"{self.whole(number.whole, 'f')} {whole} {self.fraction(number.fraction)}"

    def _ordinal(self, match: re.Match[str]) -> str:
        """In the case that the preposition before it requires."""
        word = re.search(r"(\w+)\s$", match.string[: match.start()])
        governs = word[1].casefold() if word else ""
        noun = match[2]
        case_tells = governs in ("ve", "v", "na", "o", "po", "do", "od")
        if noun.endswith(("a", "ka", "y", "ce")) and not case_tells:
            gender = "f"
        elif governs in ("ve", "v", "na", "o", "po", "při"):
            feminine = noun.endswith(("ě", "í", "ce")) and not noun.endswith("ství")
            gender = "f-loc" if feminine else "m-loc"
        elif governs in ("do", "od", "z", "ze", "bez", "kolem", "u", "během"):
            gender = "f-gen" if noun.endswith(("y", "e")) else "m-gen"
        else:
            gender = "n" if noun.endswith("o") else "m"
        return f"{self.ordinal(int(match[1]), gender)} "


class RussianRules(SlavicRules):
    """Russian."""

    code = "ru"
    # A thousand is тысяча, without "one".
    corrections = (("одна тысяча ", "тысяча "),)
    point, minus, plus, to = "запятая", "минус", "плюс", "тире"
    last_one_counts = True
    of_year, zero_minute = "года", "ноль "
    named_date = re.compile(
        r"(?<![\w.,])([0-9]{1,2})\s([а-яА-Я]{3,8})"
        r"(?:\s([12][0-9]{3})(?:\s(?:г\.|года|году))?(?![\w.,]?\d))?(?!\w)"
    )
    # 2-й, 3-м, 5-го
    ordinal_mark = re.compile(
        r"(?<![\w.,])([0-9]{1,4})-(ый|ий|ой|й|ая|я|ое|ье|е|ого|его|го|ому|му|ом|ем|м|ую|ю|х)(?!\w)"
    )
    calling = "тел|телефон|звоните|звони|позвоните|номер|факс"
    months = (
        "января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября",
        "октября", "ноября", "декабря",
    )  # fmt: skip
    full_hour = Noun.of("час/часа/часов")
    percent = Noun.of("процент/процента/процентов/процента")
    scales = ("миллион", "миллиона", "миллионов", "миллиардов", "тысяч")
    thousands = ("тысяча", "тысячи", "тысяч")
    scale_marks = marks("тыс. тыс = 3, млн млн. = 6, млрд млрд. = 9, трлн трлн. = 12")
    money_marks = marks("к = 3, м = 6")
    scale_nouns = scale_words(
        "миллион/миллиона/миллионов/миллиона", "миллиард/миллиарда/миллиардов/миллиарда",
        "триллион/триллиона/триллионов/триллиона",
    )  # fmt: skip
    denominators = (
        "треть/трети/третей пятая/пятых шестая/шестых седьмая/седьмых восьмая/восьмых "
        "девятая/девятых десятая/десятых"
    )
    denominator_gender, bar = "f", "дробь"
    mixed, mixed_half = "{} и {}", "{} с половиной"
    powers = ("в квадрате", "в кубе", "в степени {}")
    currencies = moneys("""
        ₽ руб. RUB = рубль/рубля/рублей/рубля; копейка/копейки/копеек f
        € EUR = евро/евро/евро/евро; цент/цента/центов
        $ US$ USD = доллар/доллара/долларов/доллара; цент/цента/центов
        £ = фунт/фунта/фунтов/фунта; пенс/пенса/пенсов
    """)
    units = nouns("""
        кг kg = килограмм/килограмма/килограммов/килограмма, г g = грамм/грамма/граммов/грамма,
        мг = миллиграмм/миллиграмма/миллиграммов/миллиграмма, т = тонна/тонны/тонн/тонны f,
        км km = километр/километра/километров/километра, м m = метр/метра/метров/метра,
        см cm = сантиметр/сантиметра/сантиметров/сантиметра,
        мм mm = миллиметр/миллиметра/миллиметров/миллиметра,
        км/ч = километр в час/километра в час/километров в час/километра в час,
        м² = квадратный метр/квадратных метра/квадратных метров/квадратного метра,
        л = литр/литра/литров/литра, мл = миллилитр/миллилитра/миллилитров/миллилитра,
        ч = час/часа/часов/часа, мин мин. = минута/минуты/минут/минуты f,
        сек сек. = секунда/секунды/секунд/секунды f,
        °C °С ℃ = градус Цельсия/градуса Цельсия/градусов Цельсия/градуса Цельсия,
        ° = градус/градуса/градусов/градуса, кВт = киловатт/киловатта/киловатт/киловатта,
        МБ = мегабайт/мегабайта/мегабайт/мегабайта, ГБ = гигабайт/гигабайта/гигабайт/гигабайта
    """)
    abbreviations = {
        "и т. д.": "и так далее", "и т. п.": "и тому подобное", "т. е.": "то есть",
        "т. к.": "так как", "и др.": "и другие", "напр.": "например", "ул.": "улица", "д.#": "дом",
        "кв.#": "квартира", "стр.": "страница", "№": "номер", "проф.": "профессор", "им.": "имени",
        "до н. э.": "до нашей эры", "н. э.": "нашей эры", "см.": "смотри", "тел.": "телефон",
        "т. н.": "так называемый", "г-н": "господин", "г-жа": "госпожа",
    }  # fmt: skip
    fractions = {"½": "половина", "¼": "четверть", "¾": "три четверти"}
    _PARTS = {1: ("десятая", "десятых"), 2: ("сотая", "сотых"), 3: ("тысячная", "тысячных")}

    def decimal_words(self, number: WrittenNumber) -> str:
        """Двенадцать целых пять десятых."""
        digits = number.fraction
        if len(digits) > 3 or not int(digits):
            return f"{self.whole(number.whole)} {self.point} {self.digits(digits)}"
        whole, part = number.value, int(digits)
        one, many = self._PARTS[len(digits)]
        return (
            f"{self.cardinal(whole, 'f')} {'целая' if _ends_in_one(whole) else 'целых'} "
            f"{self.cardinal(part, 'f')} {one if _ends_in_one(part) else many}"
        )

    def ordinal(self, number: int, gender: str = "m") -> str:
        """gender: m, f, n, or with a case: m-gen, m-loc, f-gen, f-loc."""
        genders = {"m": "masculine", "f": "feminine", "n": "neuter"}
        cases = {"gen": "-genitive", "loc": "-locative", "dat": "-dative", "abl": "-ablative"}
        kind, _, case = gender.partition("-")
        return self._corrected(spell("ru", number, f"ordinal-{genders[kind]}{cases.get(case, '')}"))

    def phone(self, text: str) -> str:
        """Reads the code and the first three digits as hundreds, the rest in pairs."""
        plus = "плюс " if text.startswith("+") else ""
        return plus + ", ".join(
            self.whole(part) if len(part) <= 3 else self.digits(part)
            for part in re.findall(r"\d+", text)
        )

    def read_years(self, text: str) -> str:
        """1999 году, 1999 г."""
        return _RUSSIAN_YEAR.sub(self._in_year, text)

    def _in_year(self, match: re.Match[str]) -> str:
        number, word = int(match[2]), match[3].casefold()
        inside = (match[1] or "").strip().casefold() in ("в", "во", "о")
        case = {"году": "m-loc", "год": "m", "года": "m-gen"}.get(
            word, "m-loc" if inside else "m-gen"
        )
        spoken = word if not word.endswith(".") else "году" if inside else "года"
        dot = "." if word.endswith(".") and match.end() == len(match.string) else ""
        return f"{match[1] or ''}{self.ordinal(number, case)} {spoken}{dot}"

    def _ordinal(self, match: re.Match[str]) -> str:
        endings = {
            "й": "m", "ый": "m", "ий": "m", "ой": "m", "я": "f", "ая": "f", "е": "n", "ое": "n",
            "ье": "n",
            "го": "m-gen", "ого": "m-gen", "его": "m-gen", "му": "m-dat", "ому": "m-dat",
            "м": "m-loc",
            "ом": "m-loc", "ем": "m-loc", "х": "m-gen", "ю": "f", "ую": "f",
        }  # fmt: skip
        ordinal = self.ordinal(int(match[1]), endings[match[2]])
        if match[2] in ("ю", "ую"):
            ordinal = spell("ru", int(match[1]), "ordinal-feminine-accusative")
        if match[2] == "х":
            ordinal = spell("ru", int(match[1]), "ordinal-plural-genitive")
        if match[2] == "е" and re.match(r"\s\w+(?:ы|и)\b", match.string[match.end() :]):
            ordinal = spell("ru", int(match[1]), "ordinal-plural")
        return ordinal


def _ends_in_one(value: int) -> bool:
    return value % 10 == 1 and value % 100 != 11


_RUSSIAN_YEAR = re.compile(
    r"((?<!\w)(?:[вВоО]|[вВ]о|с|до|от)\s)?(?<![\w.,])([12][0-9]{3})\s(г\.|году|года|год)(?!\w)"
)
