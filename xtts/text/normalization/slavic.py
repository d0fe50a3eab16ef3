"""How Polish, Russian and Czech are read: numerals and what they count agree, dates and hours are
ordinals."""

import re

from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.quantities import ClockTime, Noun, WrittenNumber, moneys, nouns
from xtts.text.normalization.spelling import spell


class SlavicRules(LanguageRules):
    """What the three share: a noun has one form behind 1, one behind 2 to 4, one behind the rest,
    and one behind a fraction."""

    # Whether 21 and 31 count as 1 does.
    last_one_counts = False
    # Behind a year that is an ordinal; "" where it is a cardinal.
    of_year = ""

    def form(self, number: WrittenNumber, noun: Noun) -> str:
        """By the last two digits."""
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
        said = f"{self.ordinal(day, 'm-gen')} {self.months[month - 1]}"
        if year is None:
            return said
        if not self.of_year:
            return f"{said} {self.cardinal(year)}"
        return f"{said} {self.ordinal(year, 'm-gen')} {self.of_year}"

    def _named_date(self, match: re.Match[str]) -> str:
        names = [name.casefold() for name in self.months]
        if match[2].casefold() not in names or not 1 <= int(match[1]) <= 31:
            return match[0]
        year = int(match[3]) if match[3] else None
        return self.date(int(match[1]), names.index(match[2].casefold()) + 1, year)


class PolishRules(SlavicRules):
    """Polish."""

    code = "pl"
    cardinals = {"m": "cardinal-masculine", "f": "cardinal-feminine", "n": "cardinal-neuter"}
    point, minus, to = "przecinek", "minus", "do"
    of_year, zero_minute = "roku", "zero "
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
    scale_nouns = nouns("""
        tys. = tysiąc/tysiące/tysięcy/tysiąca m
        mln = milion/miliony/milionów/miliona m
        mld = miliard/miliardy/miliardów/miliarda m
    """)
    currencies = moneys("""
        zł PLN = złoty/złote/złotych/złotego m; grosz/grosze/groszy m
        € EUR = euro/euro/euro/euro m; cent/centy/centów m
        $ USD = dolar/dolary/dolarów/dolara m; cent/centy/centów m
        £ = funt/funty/funtów/funta m; pens/pensy/pensów m
    """)
    units = nouns("""
        kg = kilogram/kilogramy/kilogramów/kilograma m
        g = gram/gramy/gramów/grama m
        dag = dekagram/dekagramy/dekagramów/dekagrama m
        mg = miligram/miligramy/miligramów/miligrama m
        t = tona/tony/ton/tony f
        km = kilometr/kilometry/kilometrów/kilometra m
        m = metr/metry/metrów/metra m
        cm = centymetr/centymetry/centymetrów/centymetra m
        mm = milimetr/milimetry/milimetrów/milimetra m
        km/h = kilometr na godzinę/kilometry na godzinę/kilometrów na godzinę/kilometra na godzinę m
        m² = metr kwadratowy/metry kwadratowe/metrów kwadratowych/metra kwadratowego m
        l = litr/litry/litrów/litra m
        ml = mililitr/mililitry/mililitrów/mililitra m
        godz. = godzina/godziny/godzin/godziny f
        min min. = minuta/minuty/minut/minuty f
        sek. = sekunda/sekundy/sekund/sekundy f
        °C ℃ = stopień Celsjusza/stopnie Celsjusza/stopni Celsjusza/stopnia Celsjusza m
        ° = stopień/stopnie/stopni/stopnia m
        kW = kilowat/kilowaty/kilowatów/kilowata m
        kWh = kilowatogodzina/kilowatogodziny/kilowatogodzin/kilowatogodziny f
        MB = megabajt/megabajty/megabajtów/megabajta m
        GB = gigabajt/gigabajty/gigabajtów/gigabajta m
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
    _UNITS = (
        "zerowy pierwszy drugi trzeci czwarty piąty szósty siódmy ósmy dziewiąty dziesiąty "
        "jedenasty dwunasty trzynasty czternasty piętnasty szesnasty siedemnasty osiemnasty "
        "dziewiętnasty"
    ).split()
    _TENS = (
        "dwudziesty trzydziesty czterdziesty pięćdziesiąty sześćdziesiąty siedemdziesiąty "
        "osiemdziesiąty dziewięćdziesiąty"
    ).split()
    _HUNDREDS = (
        "setny dwusetny trzechsetny czterechsetny pięćsetny sześćsetny siedemsetny osiemsetny "
        "dziewięćsetny"
    ).split()
    # Endings behind a hard and a soft stem, by gender and case.
    _ENDINGS = {
        "m": ("y", "i"), "f": ("a", "a"), "n": ("e", "ie"), "m-gen": ("ego", "iego"),
        "f-gen": ("ej", "iej"), "m-loc": ("ym", "im"), "f-ins": ("ą", "ą"),
    }  # fmt: skip

    def ordinal(self, number: int, gender: str = "m") -> str:
        """gender: m, f, n, or with a case: m-gen, f-gen, m-loc, f-ins."""
        above, last = divmod(number, 100)
        said = []
        if last == 0 and number:
            if number % 1000 == 0:
                stem = "tysięczny" if number == 1000 else f"{self._joined(number // 1000)}tysięczny"
                return self._declined(stem, gender)
            thousands, hundreds = divmod(above, 10)
            prefix = f"{self.cardinal(thousands * 1000)} " if thousands else ""
            return prefix + self._declined(self._HUNDREDS[hundreds - 1], gender)
        if above:
            said.append(self.cardinal(above * 100))
        if last < 20:
            said.append(self._declined(self._UNITS[last], gender))
        else:
            said.append(self._declined(self._TENS[last // 10 - 2], gender))
            if last % 10:
                said.append(self._declined(self._UNITS[last % 10], gender))
        return " ".join(said)

    def _joined(self, thousands: int) -> str:
        known = {2: "dwu", 3: "trzy", 4: "cztero"}
        return known.get(thousands) or spell(
            "pl", thousands, "cardinal-masculine-genitive"
        ).replace(" ", "")

    def _declined(self, word: str, gender: str) -> str:
        soft = word.endswith("i")
        stem, ending = word[:-1], self._ENDINGS[gender][soft]
        if soft and word == "drugi":
            ending = {"a": "a", "ą": "ą", "ie": "ie"}.get(ending, ending)
        elif soft and ending in ("a", "ą"):
            stem += "i"
        return stem + ending

    def read_named_dates(self, text: str) -> str:
        """As in `LanguageRules`, with what stands behind the year."""
        return _POLISH_DATE.sub(self._named_date, text)

    def time(self, at: ClockTime) -> str:
        """Czternasta trzydzieści; o dziewiątej."""
        word = re.search(r"(\w+)\s*$", at.before)
        governs = word[1].casefold() if word else ""
        case = (
            "f-gen" if governs in ("o", "od", "do", "po", "około", "godziny", "godzinie") else "f"
        )
        case = "f-ins" if governs in ("przed", "między") else case
        said = self.ordinal(at.hour, case)
        if not at.full_hour:
            said += f" {self.minutes(at.minute)}"
        return said if at.second is None else f"{said} i {self.cardinal(at.second, 'f')} sekund"

    def read_years(self, text: str) -> str:
        """1999 r., w 1999 roku."""
        return _POLISH_YEAR.sub(self._in_year, text)

    def _in_year(self, match: re.Match[str]) -> str:
        number, word = int(match[2]), match[3]
        locative = (match[1] or "").strip().casefold() in ("w", "we", "po")
        if word in ("r.", "roku"):
            dot = "." if word == "r." and match.end() == len(match.string) else ""
            said = self.ordinal(number, "m-loc" if locative else "m-gen")
            return f"{match[1] or ''}{said} roku{dot}"
        return f"{match[1] or ''}{self.ordinal(number)} {word}"

    def _ordinal(self, match: re.Match[str]) -> str:
        noun = match[2]
        gender = "f" if noun.endswith("a") else "n" if noun.endswith(("o", "e", "ę", "um")) else "m"
        return self.ordinal(int(match[1]), gender)


_POLISH_DATE = re.compile(
    r"(?<![\w.,])([0-9]{1,2})\s(\w{4,12})(?:\s([12][0-9]{3})(?:\s(?:r\.|roku))?(?![\w.,]?\d))?(?!\w)"
)
_POLISH_YEAR = re.compile(
    r"((?<!\w)(?:[wW]e?|po|od|do|z|rok)\s)?(?<![\w.,])([12][0-9]{3})\s(r\.|roku|rok)(?!\w)"
)


class CzechRules(SlavicRules):
    """Czech."""

    code = "cs"
    cardinals = {"m": "cardinal-masculine", "f": "cardinal-feminine", "n": "cardinal-neuter"}
    point, minus, to = "celá", "minus", "až"
    zero_minute = "nula "
    # 2. before a word
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\.\s(?=([a-záčďéěíňóřšťúůýž]{2,30}))")
    calling = "tel|telefon|volejte|zavolejte|volej|číslo|mobil|fax"
    months = (
        "ledna", "února", "března", "dubna", "května", "června", "července", "srpna", "září",
        "října", "listopadu", "prosince",
    )  # fmt: skip
    percent = Noun.of("procento/procenta/procent/procenta", "n")
    scales = ("tisíc", "milion", "miliony", "milionů", "miliard", "miliardy")
    scale_nouns = nouns("""
        tis. = tisíc/tisíce/tisíc/tisíce m
        mil. mil = milion/miliony/milionů/milionu m
        mld. mld = miliarda/miliardy/miliard/miliardy f
    """)
    currencies = moneys("""
        Kč CZK = koruna/koruny/korun/koruny f; haléř/haléře/haléřů m
        € EUR = euro/eura/eur/eura n; cent/centy/centů m
        $ USD = dolar/dolary/dolarů/dolaru m; cent/centy/centů m
        £ = libra/libry/liber/libry f; pence m
    """)
    units = nouns("""
        kg = kilogram/kilogramy/kilogramů/kilogramu m
        g = gram/gramy/gramů/gramu m
        dkg = dekagram/dekagramy/dekagramů/dekagramu m
        mg = miligram/miligramy/miligramů/miligramu m
        t = tuna/tuny/tun/tuny f
        km = kilometr/kilometry/kilometrů/kilometru m
        m = metr/metry/metrů/metru m
        cm = centimetr/centimetry/centimetrů/centimetru m
        mm = milimetr/milimetry/milimetrů/milimetru m
        km/h = kilometr za hodinu/kilometry za hodinu/kilometrů za hodinu/kilometru za hodinu m
        m² = metr čtvereční/metry čtvereční/metrů čtverečních/metru čtverečního m
        l = litr/litry/litrů/litru m
        ml = mililitr/mililitry/mililitrů/mililitru m
        h hod. = hodina/hodiny/hodin/hodiny f
        min min. = minuta/minuty/minut/minuty f
        °C ℃ = stupeň Celsia/stupně Celsia/stupňů Celsia/stupně Celsia m
        ° = stupeň/stupně/stupňů/stupně m
        kW = kilowatt/kilowatty/kilowattů/kilowattu m
        kWh = kilowatthodina/kilowatthodiny/kilowatthodin/kilowatthodiny f
        MB = megabajt/megabajty/megabajtů/megabajtu m
        GB = gigabajt/gigabajty/gigabajtů/gigabajtu m
    """)
    abbreviations = {
        "např.": "například", "atd.": "a tak dále", "apod.": "a podobně", "tj.": "to jest",
        "tzv.": "takzvaný", "č.": "číslo", "str.": "strana", "ul.": "ulice", "nám.": "náměstí",
        "cca": "cirka", "prof.": "profesor", "mj.": "mimo jiné", "popř.": "popřípadě",
        "tzn.": "to znamená", "př. n. l.": "před naším letopočtem", "n. l.": "našeho letopočtu",
        "tel.": "telefon", "sv.": "svatý", "Ing.": "inženýr", "Mgr.": "magistr", "MUDr.": "doktor",
    }  # fmt: skip
    fractions = {"½": "půl", "¼": "čtvrt", "¾": "tři čtvrtě"}
    _UNITS = (
        "nultý první druhý třetí čtvrtý pátý šestý sedmý osmý devátý desátý jedenáctý dvanáctý "
        "třináctý čtrnáctý patnáctý šestnáctý sedmnáctý osmnáctý devatenáctý"
    ).split()
    _TENS = ("dvacátý třicátý čtyřicátý padesátý šedesátý sedmdesátý osmdesátý devadesátý").split()
    _ENDINGS = {
        "m": ("ý", "í"), "f": ("á", "í"), "n": ("é", "í"), "m-gen": ("ého", "ího"),
        "m-loc": ("ém", "ím"), "f-gen": ("é", "í"), "f-loc": ("é", "í"),
    }  # fmt: skip

    def ordinal(self, number: int, gender: str = "m") -> str:
        """gender: m, f, n, or with a case: m-gen, m-loc, f-gen, f-loc."""
        above, last = divmod(number, 100)
        said = [self.cardinal(above * 100)] if above and last else []
        if last < 20 and (last or not above):
            said.append(self._declined(self._UNITS[last], gender))
        elif last:
            said.append(self._declined(self._TENS[last // 10 - 2], gender))
            if last % 10:
                said.append(self._declined(self._UNITS[last % 10], gender))
        elif above == 10:
            said.append(self._declined("tisící", gender))
        else:
            return self.cardinal(number)
        if number == 100:
            return self._declined("stý", gender)
        return " ".join(said)

    def _declined(self, word: str, gender: str) -> str:
        return word[:-1] + self._ENDINGS[gender][word.endswith("í")]

    def cardinal(self, number: int, gender: str = "") -> str:
        """Milion is short."""
        return super().cardinal(number, gender).replace("milión", "milion")

    def decimal_words(self, number: WrittenNumber) -> str:
        """Tři celé čtrnáct: what is whole is feminine."""
        value = number.value
        whole = "celá" if value in (0, 1) else "celé" if value in (2, 3, 4) else "celých"
        return f"{self.whole(number.whole, 'f')} {whole} {self.fraction(number.fraction)}"

    def time(self, at: ClockTime) -> str:
        """Čtrnáct třicet; devět hodin."""
        if not at.full_hour:
            return super().time(at)
        said = self.cardinal(at.hour, "f")
        if re.match(r"\s*hod", at.after):
            return said
        return f"{said} {self.form(WrittenNumber(str(at.hour)), Noun.of('hodina/hodiny/hodin'))}"

    def _ordinal(self, match: re.Match[str]) -> str:
        """In the case that the preposition before it asks for."""
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
    cardinals = {"m": "cardinal-masculine", "f": "cardinal-feminine", "n": "cardinal-neuter"}
    point, minus, plus, to = "запятая", "минус", "плюс", "тире"
    last_one_counts = True
    of_year, zero_minute = "года", "ноль "
    # 2-й, 3-м, 5-го
    ordinal_mark = re.compile(
        r"(?<![\w.,])([0-9]{1,4})-(ый|ий|ой|й|ая|я|ое|ье|е|ого|его|го|ому|му|ом|ем|м|ую|ю|х)(?!\w)"
    )
    calling = "тел|телефон|звоните|звони|позвоните|номер|факс"
    months = (
        "января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября",
        "октября", "ноября", "декабря",
    )  # fmt: skip
    percent = Noun.of("процент/процента/процентов/процента")
    scales = ("миллион", "миллиона", "миллионов", "миллиардов", "тысяч")
    scale_nouns = nouns("""
        тыс. = тысяча/тысячи/тысяч/тысячи f
        млн млн. = миллион/миллиона/миллионов/миллиона m
        млрд млрд. = миллиард/миллиарда/миллиардов/миллиарда m
    """)
    currencies = moneys("""
        ₽ руб. RUB = рубль/рубля/рублей/рубля m; копейка/копейки/копеек f
        € EUR = евро/евро/евро/евро m; цент/цента/центов m
        $ USD = доллар/доллара/долларов/доллара m; цент/цента/центов m
        £ = фунт/фунта/фунтов/фунта m; пенс/пенса/пенсов m
    """)
    units = nouns("""
        кг kg = килограмм/килограмма/килограммов/килограмма m
        г g = грамм/грамма/граммов/грамма m
        мг = миллиграмм/миллиграмма/миллиграммов/миллиграмма m
        т = тонна/тонны/тонн/тонны f
        км km = километр/километра/километров/километра m
        м m = метр/метра/метров/метра m
        см cm = сантиметр/сантиметра/сантиметров/сантиметра m
        мм mm = миллиметр/миллиметра/миллиметров/миллиметра m
        км/ч = километр в час/километра в час/километров в час/километра в час m
        м² = квадратный метр/квадратных метра/квадратных метров/квадратного метра m
        л = литр/литра/литров/литра m
        мл = миллилитр/миллилитра/миллилитров/миллилитра m
        ч = час/часа/часов/часа m
        мин мин. = минута/минуты/минут/минуты f
        сек сек. = секунда/секунды/секунд/секунды f
        °C °С ℃ = градус Цельсия/градуса Цельсия/градусов Цельсия/градуса Цельсия m
        ° = градус/градуса/градусов/градуса m
        кВт = киловатт/киловатта/киловатт/киловатта m
        МБ = мегабайт/мегабайта/мегабайт/мегабайта m
        ГБ = гигабайт/гигабайта/гигабайт/гигабайта m
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

    def cardinal(self, number: int, gender: str = "") -> str:
        """A thousand is not one thousand."""
        return super().cardinal(number, gender).replace("одна тысяча ", "тысяча ", 1)

    def ordinal(self, number: int, gender: str = "m") -> str:
        """gender: m, f, n, or with a case: m-gen, m-loc, f-gen, f-loc."""
        genders = {"m": "masculine", "f": "feminine", "n": "neuter"}
        cases = {"gen": "-genitive", "loc": "-locative", "dat": "-dative", "abl": "-ablative"}
        kind, _, case = gender.partition("-")
        said = spell("ru", number, f"ordinal-{genders[kind]}{cases.get(case, '')}")
        return said.replace("одна тысяча ", "тысяча ", 1)

    def read_named_dates(self, text: str) -> str:
        """As in `LanguageRules`, with what stands behind the year."""
        return _RUSSIAN_DATE.sub(self._named_date, text)

    def time(self, at: ClockTime) -> str:
        """Четырнадцать тридцать; девять часов."""
        if not at.full_hour or re.match(r"\s*час", at.after):
            return super().time(at)
        hours = self.form(WrittenNumber(str(at.hour)), Noun.of("час/часа/часов"))
        return f"{self.cardinal(at.hour)} {hours}"

    def phone(self, text: str) -> str:
        """By groups: the code and the first three as hundreds, the rest in pairs."""
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
        said = word if not word.endswith(".") else "году" if inside else "года"
        dot = "." if word.endswith(".") and match.end() == len(match.string) else ""
        return f"{match[1] or ''}{self.ordinal(number, case)} {said}{dot}"

    def _ordinal(self, match: re.Match[str]) -> str:
        endings = {
            "й": "m", "ый": "m", "ий": "m", "ой": "m", "я": "f", "ая": "f", "е": "n", "ое": "n",
            "ье": "n",
            "го": "m-gen", "ого": "m-gen", "его": "m-gen", "му": "m-dat", "ому": "m-dat",
            "м": "m-loc",
            "ом": "m-loc", "ем": "m-loc", "х": "m-gen", "ю": "f", "ую": "f",
        }  # fmt: skip
        found = self.ordinal(int(match[1]), endings[match[2]])
        if match[2] in ("ю", "ую"):
            found = spell("ru", int(match[1]), "ordinal-feminine-accusative")
        if match[2] == "х":
            found = spell("ru", int(match[1]), "ordinal-plural-genitive")
        if match[2] == "е" and re.match(r"\s\w+(?:ы|и)\b", match.string[match.end() :]):
            found = spell("ru", int(match[1]), "ordinal-plural")
        return found


def _ends_in_one(value: int) -> bool:
    return value % 10 == 1 and value % 100 != 11


_RUSSIAN_DATE = re.compile(
    r"(?<![\w.,])([0-9]{1,2})\s([а-яА-Я]{3,8})(?:\s([12][0-9]{3})(?:\s(?:г\.|года|году))?(?![\w.,]?\d))?(?!\w)"
)
_RUSSIAN_YEAR = re.compile(
    r"((?<!\w)(?:[вВоО]|[вВ]о|с|до|от)\s)?(?<![\w.,])([12][0-9]{3})\s(г\.|году|года|год)(?!\w)"
)
