"""Rules for Polish and Czech, and those that they share with Russian.

Numerals agree with the noun that they count; dates and hours are ordinals.
"""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xtts.text.normalization.clock import ClockTime
from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.numbers import (
    NEVER,
    Noun,
    Pattern,
    WrittenNumber,
    marks,
    moneys,
    nouns,
    pairs,
    scale_words,
    spell,
    words,
)
from xtts.text.normalization.numerals import ROMAN, roman_value
from xtts.text.normalization.units import science_units


class SlavicRules(LanguageRules):
    """Common rules of the three languages: a noun has one form after 1, one after 2 to 4, one after
    other numbers, and one after a fraction."""

    cardinals = {"m": "cardinal-masculine", "f": "cardinal-feminine", "n": "cardinal-neuter"}
    # Whether 21 and 31 take the form after 1.
    uses_one_form_after_21 = False
    # A year (group 2) between a preposition (1) and the word for year (3). Other years are cardinals.
    year_pattern: ClassVar[Pattern] = NEVER
    # The word for year in the genitive and the locative.
    year_words = ("", "")
    # The cases that the forms of that word require.
    year_cases: ClassVar[Mapping[str, str]] = {}
    # The prepositions with the locative.
    locative_prepositions: ClassVar[Sequence[str]] = ()
    # The prepositions with the dative.
    dative_prepositions: ClassVar[Sequence[str]] = ()
    # The word after an hour without minutes.
    hour_noun: ClassVar[Noun | None] = None
    # The ordinals of 0 to 19, and of tens.
    ordinals_below_20: ClassVar[Sequence[str]] = ()
    ordinals_of_tens: ClassVar[Sequence[str]] = ()
    # Their endings after hard and soft stems, by gender and case.
    ordinal_endings: ClassVar[Mapping[str, tuple[str, str]]] = {}
    # A number (group 1) that makes one word with the word after it: 18-летний, 5-letni.
    compound: ClassVar[Pattern] = NEVER
    # Roman numerals (groups 1 and 3) before the word for century (4).
    century_pattern: ClassVar[Pattern] = NEVER
    # The cases that the forms of that word require.
    century_cases: ClassVar[Mapping[str, str]] = {}
    # Its short forms, with the words for them in the genitive and the locative.
    short_centuries: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def read(self, text: str) -> str:
        """Also compounds of a number and a word."""
        return super().read(self.compound.sub(lambda m: self.compound_stem(int(m[1])), text))

    def compound_stem(self, number: int) -> str:
        """The form of a number at the start of a compound."""
        return self.cardinal(number)

    def ordinal(self, number: int, gender: str = "m") -> str:
        """An ordinal; both words of its last two digits are ordinals. gender: m, f, n, or one with a
        case: m-gen, m-loc, f-gen, f-loc, f-ins."""
        hundreds, last_two_digits = divmod(number, 100)
        if number and not last_two_digits:
            return self.round_ordinal(number, gender)
        tens, units = divmod(last_two_digits, 10)
        names = [self.ordinals_below_20[last_two_digits]] if tens < 2 else [self.ordinals_of_tens[tens - 2]]
        names += [self.ordinals_below_20[units]] if tens >= 2 and units else []
        words = [self.cardinal(hundreds * 100)] if hundreds else []
        return " ".join([*words, *(self.decline(name, gender) for name in names)])

    def round_ordinal(self, number: int, gender: str) -> str:
        """The ordinal of a multiple of 100."""
        return self.decline("tisící", gender) if number == 1000 else self.cardinal(number)

    def decline(self, word: str, gender: str) -> str:
        """An ordinal with the ending of a gender, or of a gender and a case (`m-gen`)."""
        return word[:-1] + self.ordinal_endings[gender][word.endswith(("i", "í"))]

    def noun_form(self, number: WrittenNumber, noun: Noun) -> str:
        """The form of a noun, by the last two digits of its number."""
        if number.fraction:
            return noun.part
        value = number.value
        if value == 1 or (self.uses_one_form_after_21 and value % 10 == 1 and value % 100 != 11):
            return noun.one
        few = value % 10 in (2, 3, 4) and value % 100 not in (12, 13, 14)
        return noun.few if few and (self.code != "cs" or value < 5) else noun.many

    def date(self, day: int, month: int, year: int | None, before: str = "") -> str:
        """Piątego marca dwa tysiące dwudziestego czwartego roku."""
        spoken = f"{self.day(day, before)} {self.months[month - 1]}"
        if year is None:
            return spoken
        if not self.year_words[0]:
            return f"{spoken} {self.cardinal(year)}"
        return f"{spoken} {self.ordinal(year, 'm-gen')} {self.year_words[0]}"

    def read_dates(self, text: str) -> str:
        """The word for year is part of a date in figures: 12.05.2021 r., 15.03.2024 г."""
        if self.year_words[0]:
            text = _DATE_WITH_YEAR_WORD.sub(lambda match: match[1] + self.sentence_stop(match), text)
        return super().read_dates(text)

    def gender_of_noun(self, amount: str, after: str) -> str:
        """Feminine if one of the nouns that are counted most follows; else "" (masculine)."""
        return "f" if _FEMININE_NOUN_AFTER.match(after) else ""

    def day(self, number: int, before: str = "") -> str:
        """Piątego; к пятому."""
        word_before = before[-4:].split()[-1:]
        is_dative = word_before and word_before[0].casefold() in self.dative_prepositions
        return self.ordinal(number, "m-dat" if is_dative else "m-gen")

    def time(self, clock_time: ClockTime) -> str:
        """Čtrnáct třicet; devět hodin, unless that word follows in the text."""
        if self.hour_noun is None or not clock_time.is_full_hour:
            return super().time(clock_time)
        spoken = self.cardinal(clock_time.hour, self.hour_noun.gender)
        if re.match(rf"\s*{self.hour_noun.one[:3]}", clock_time.after):
            return spoken
        return f"{spoken} {self.noun_form(WrittenNumber(str(clock_time.hour)), self.hour_noun)}"

    def read_years(self, text: str) -> str:
        """1999 r., w 1999 roku; 1999 году, 1999 г., к 1999 году."""
        return self.year_pattern.sub(self._read_year, text)

    def _read_year(self, match: re.Match[str]) -> str:
        word, preposition = match[3].casefold(), match[1] or ""
        is_locative = preposition.strip().casefold() in self.locative_prepositions
        is_dative = preposition.strip().casefold() in self.dative_prepositions
        case = self.year_cases.get(word) or ("m-loc" if is_locative else "m-gen")
        case = "m-dat" if is_dative else case
        word = self.year_words[is_locative or is_dative] if word.endswith(".") else word
        return f"{preposition}{self.ordinal(int(match[2]), case)} {word}{self.sentence_stop(match)}"

    def read_roman(self, text: str) -> str:
        """Centuries, which agree with the noun after them: w XX wieku."""
        return super().read_roman(self.century_pattern.sub(self._read_century, text))

    def _read_century(self, match: re.Match[str]) -> str:
        numerals = [numeral.replace("Х", "X").replace("І", "I") for numeral in match.group(1, 3) if numeral]
        if not all(re.fullmatch(ROMAN, numeral) for numeral in numerals):
            return match[0]
        noun = match[4]
        is_locative = bool(_LOCATIVE_BEFORE.search(match.string[max(0, match.start() - 4) : match.start()]))
        if noun in self.short_centuries:
            noun, case = self.short_centuries[noun][is_locative], "m-loc" if is_locative else "m-gen"
        else:
            case = "m-loc" if noun == "wieku" and is_locative else self.century_cases[noun]
        spoken = (match[2] or "").join(self.ordinal(roman_value(numeral), case) for numeral in numerals)
        return f"{spoken} {noun}{self.sentence_stop(match)}"


def make_century_pattern(numeral: str, nouns: str) -> Pattern:
    """The pattern of `century_pattern`, from those of a numeral and of the forms of the noun."""
    return re.compile(rf"(?<![\w'’])({numeral})(?:(\s?[–—-]\s?|\s[iи]\s)({numeral}))?\s({nouns})(?!\w)")


# A preposition that puts the century after it into the locative.
_LOCATIVE_BEFORE = re.compile(r"(?<!\w)(?:w|we|po|na|o|в|во|на|о)\s$", re.I)
_DATE_WITH_YEAR_WORD = re.compile(
    r"((?<![\w.,/-])(?:[0-9]{1,2}([./-])[0-9]{1,2}\2[12][0-9]{3}|[12][0-9]{3}-[0-9]{2}-[0-9]{2}))"
    r"\s(?:r\.|roku|г\.|года)(?!\w)"
)
# Feminine nouns after one and two, in Polish and Czech, where their ordinal_endings do not tell the gender.
_FEMININE_NOUN_AFTER = re.compile(
    r"\s(?:osob|godzin|minut|sekund|stron|kobiet|córk|siostr|książk|szklank|łyżk|łyżeczk|sztuk|"
    r"noce?\b|lekcj|rzecz|gwiazdk|butelk|kaw[ay]\b|herbat|kanapk|paczk|ulic|wiosk|"
    r"drog|rodzin|grup|klas|drużyn|bramk|żen|dcer|sestr|knih|hodin|stran[ay]\b|lžíc|lžičk|láhv|"
    r"tun[ay]\b|korun)[a-zęąóě]{0,3}(?!\w)"
)


class PolishRules(SlavicRules):
    """Polish."""

    code = "pl"
    point, minus, to = "przecinek", "minus", "do"
    zero_minute = "zero "
    day_mark = r"\s"
    year_mark = r"(?:\s([12][0-9]{3})(?:\s(?-i:r\.|roku))?(?![\w.,]?\d)(?!\w))?"
    year_pattern = re.compile(
        r"((?<!\w)(?:[wW]e?|po|od|do|z|rok)\s)?(?<![\w.,])([12][0-9]{3})\s(r\.|roku|rok)(?!\w)"
    )
    year_words, year_cases, locative_prepositions = ("roku", "roku"), {"rok": "m"}, ("w", "we", "po")
    # 2. before a word
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,3})\.(?=\s([a-ząćęłńóśźż]{2,30}))")
    # 18-latek, 100-lecie, 5-letni
    compound = re.compile(
        r"(?<![\w.,/-])([1-9][0-9]{0,2})-(?=(?:late?k[a-ząęó]{0,3}|leci[a-ząęó]{1,3}|[a-ząćęłńóśźż]{2,20}[nw]"
        r"(?:i|i?(?:a|ą|e|ego|emu|ej)|[yi](?:m|ch|mi)|y))(?!\w))"
    )
    # The stems of 1 to 19, of tens and of hundreds in a compound.
    _STEMS_BELOW_20 = words("""jedno dwu trzy cztero pięcio sześcio siedmio ośmio dziewięcio dziesięcio
        jedenasto dwunasto trzynasto czternasto piętnasto szesnasto siedemnasto osiemnasto dziewiętnasto""")
    _STEMS_OF_TENS = words("""dwudziesto trzydziesto czterdziesto pięćdziesięcio sześćdziesięcio
        siedemdziesięcio osiemdziesięcio dziewięćdziesięcio""")
    _STEMS_OF_HUNDREDS = words("""stu dwustu trzystu czterystu pięćset sześćset siedemset osiemset
        dziewięćset""")
    calling_words = "tel|telefon|zadzwoń|dzwoń|numer|komórka|faks|pod"
    months = words("""stycznia lutego marca kwietnia maja czerwca lipca sierpnia września
        października listopada grudnia""")
    short_months = """sty/stycz lut mar* kwi/kwiec - cze/czerw lip sie*/sierp
        wrz/wrześ paź/paźdz lis*/listop gru/grudz"""
    percent = Noun.of("procent/procent/procent/procent")
    scales = ("tysiąc", "tysiące", "tysięcy", "milion", "miliony", "milionów", "miliardów")
    clock_words = "godz\\.|godzinie|godziny|o"
    thousands = ("tysiąc", "tysiące", "tysięcy")
    scale_marks = marks("tys. tys = 3, mln mln. mio = 6, mld mld. mlrd = 9, bln bln. = 12")
    scale_nouns = scale_words("milion/-y/-ów/-a, miliard/-y/-ów/-a, bilion/-y/-ów/-a")
    denominators = """trzecia/trzecie/trzecich piąta/piąte/piątych szósta/szóste/szóstych
        siódma/siódme/siódmych ósma/ósme/ósmych dziewiąta/dziewiąte/dziewiątych
        dziesiąta/dziesiąte/dziesiątych"""
    denominator_gender, slash = "f", "przez"
    mixed, mixed_half = "{} i {}", "{} i pół"
    number_sign = "numer"
    powers = ("do kwadratu", "do sześcianu", "do potęgi {}")
    currencies = moneys("""zł PLN = złoty/złote/-ch/złotego; grosz/-e/-y, grosz = grosz/-e/-y,
        € EUR = euro/euro/euro/euro; cent/-y/-ów, $ US$ USD = dolar/-y/-ów/-a; cent/-y/-ów,
        £ = funt/-y/-ów/-a; pens/-y/-ów""")
    units = science_units("pl") | nouns("""kg = kilogram/-y/-ów/-a, g = gram/-y/-ów/-a,
        dag = dekagram/-y/-ów/-a,
        mg = miligram/-y/-ów/-a, t = tona/tony/ton/tony f, km = kilometr/-y/-ów/-a,
        m = metr/-y/-ów/-a, cm = centymetr/-y/-ów/-a, mm = milimetr/-y/-ów/-a,
        km/h = kilometr/-y/-ów/-a + na godzinę,
        m² = metr kwadratowy/metry kwadratowe/metrów kwadratowych/metra kwadratowego,
        m³ = metr sześcienny/metry sześcienne/metrów sześciennych/metra sześciennego,
        ha = hektar/-y/-ów/-a, dB = decybel/-e/-i/-a, s = sekunda/sekundy/sekund/sekundy f,
        l = litr/-y/-ów/-a, ml = mililitr/-y/-ów/-a, h godz. = godzina/godziny/godzin/godziny f,
        min min. = minuta/minuty/minut/minuty f, sek. = sekunda/sekundy/sekund/sekundy f,
        °C ℃ = stopień/stopnie/stopni/stopnia + Celsjusza, ° = stopień/stopnie/stopni/stopnia,
        kW = kilowat/-y/-ów/-a,
        kWh = kilowatogodzina/kilowatogodziny/kilowatogodzin/kilowatogodziny f,
        MB = megabajt/-y/-ów/-a, GB = gigabajt/-y/-ów/-a""")
    abbreviations = pairs("""np. = na przykład, itd. = i tak dalej, itp. = i tym podobne,
        m.in. = między innymi, tzn. = to znaczy, tj. = to jest, tzw. = tak zwany, ok. = około,
        dr = doktor, mgr = magister, inż. = inżynier, prof. = profesor, ul. = ulica,
        do ul. = do ulicy, na ul. = na ulicy,
        przy ul. = przy ulicy, z ul. = z ulicy, od ul. = od ulicy, z art.# = z artykułem,
        w art.# = w artykule, art.# = artykuł, ust.# = ustęp, nr = numer,
        al. = aleja, pl. = plac, św. = święty, str. = strona, tel. = telefon, wg = według,
        p.n.e. = przed naszą erą, n.e. = naszej ery, woj. = województwo, o godz. = o godzinie,
        od godz. = od godziny, do godz. = do godziny, godz.# = godzina, hab. = habilitowany,
        mies. = miesiąc, pkt = punkt, rys.# = rysunek, rozdz.# = rozdział, tab.# = tabela, t.# = tom""")
    fractions = {"½": "pół", "¼": "ćwierć", "¾": "trzy czwarte"}
    rulers = """Jan Paweł Pawł Zygmunt August Władysław Kazimierz Bolesław Mieszk Henryk Ludwik Karol
        Fryderyk Wilhelm Aleksander Aleksandr Mikołaj Piotr Iwan Stanisław Filip Edward Benedykt Pius
        Grzegorz Leon Napoleon Ramzes Otton | Elżbiet Katarzyn Mari Ann Krystyn Izabel Małgorzat"""
    ruler_endings = (
        pairs("o = m, a = m-gen, owi = m-dat, em = m-loc, u = m-loc"),
        pairs("a = f, y = f-gen, i = f-gen, ie = f-gen, ę = f-ins, ą = f-ins"),
    )
    century_cases = pairs("""wiek = m, wieku = m-gen, wiekowi = m-dat, wiekiem = m-loc, wieków = m-gen,
        wiekach = m-loc, stulecie = n, stulecia = m-gen, stuleciu = m-loc, stuleciem = m-loc""")
    short_centuries = {"w.": ("wieku", "wieku")}
    century_pattern = make_century_pattern(ROMAN, "|".join((*century_cases, r"w\.")))
    ordinals_below_20 = words("""zerowy pierwszy drugi trzeci czwarty piąty szósty siódmy ósmy
        dziewiąty dziesiąty jedenasty dwunasty trzynasty czternasty piętnasty szesnasty siedemnasty
        osiemnasty dziewiętnasty""")
    ordinals_of_tens = words("""dwudziesty trzydziesty czterdziesty pięćdziesiąty sześćdziesiąty
        siedemdziesiąty osiemdziesiąty dziewięćdziesiąty""")
    _HUNDREDS = words("""setny dwusetny trzechsetny czterechsetny pięćsetny sześćsetny siedemsetny
        osiemsetny dziewięćsetny""")
    ordinal_endings = {
        "m": ("y", "i"),
        "f": ("a", "a"),
        "n": ("e", "ie"),
        "m-gen": ("ego", "iego"),
        "f-gen": ("ej", "iej"),
        "m-dat": ("emu", "iemu"),
        "m-loc": ("ym", "im"),
        "f-ins": ("ą", "ą"),
    }

    def compound_stem(self, number: int) -> str:
        """Osiemnasto, dwudziestopięcio, stu."""
        hundreds, below_100 = divmod(number, 100)
        tens, units = (0, below_100) if below_100 < 20 else divmod(below_100, 10)
        return "".join(
            stems[place - 1]
            for stems, place in (
                (self._STEMS_OF_HUNDREDS, hundreds),
                (self._STEMS_OF_TENS, tens - 1),
                (self._STEMS_BELOW_20, units),
            )
            if place > 0
        )

    def read_roman(self, text: str) -> str:
        """Also world wars: II wojny światowej."""
        return super().read_roman(
            _WORLD_WAR.sub(lambda m: f"{self.ordinal(len(m[1]), _WAR_CASES[m[2].casefold()])} ", text)
        )

    def read(self, text: str) -> str:
        """Gr after złoty is grosz, not gram; p. before a name; lata 90."""
        text = _POLISH_TITLE.sub(lambda m: "pani" if m[1].endswith("a") else "pan", text)
        text = _POLISH_DECADE.sub(self._read_decade, text)
        return super().read(_GROSZ.sub(r"\1 grosz", text))

    def _read_decade(self, match: re.Match[str]) -> str:
        """Lata dziewięćdziesiąte, w latach osiemdziesiątych."""
        stem = self.ordinals_of_tens[int(match[2]) // 10 - 2][:-1]
        return (
            f"{match[1]} {stem}{'e' if match[1].casefold() == 'lata' else 'ych'}{self.sentence_stop(match)}"
        )

    def range_end_words(self, written: str) -> str:
        """Do piętnastu: the genitive."""
        if not written.isdecimal() or len(written) > 6:
            return super().range_end_words(written)
        return spell("pl", int(written), "cardinal-masculine-genitive")

    def _read_number(self, match: re.Match[str]) -> str:
        """Bez pięciu, od dwóch do trzech: the genitive."""
        governed = _GENITIVE_BEFORE.search(match.string[max(0, match.start() - 12) : match.start()])
        if not governed or not match[0].isdecimal() or match[0][0] == "0" or len(match[0]) > 6:
            return super()._read_number(match)
        if match[0] == "1" and self.gender_of_noun(match[0], match.string[match.end() :]):
            return "jednej"
        return spell("pl", int(match[0]), "cardinal-masculine-genitive")

    def ratio_words(self, first: str, second: str) -> str:
        """Dwa do jednego."""
        return f"{first} {self.to} {spell('pl', int(second), 'cardinal-masculine-genitive')}"

    def round_ordinal(self, number: int, gender: str) -> str:
        """Setny, dwutysięczny."""
        thousands, hundreds = divmod(number // 100, 10)
        if not hundreds:
            stem = "tysięczny" if number == 1000 else f"{self._joined_thousands(thousands)}tysięczny"
            return self.decline(stem, gender)
        before = f"{self.cardinal(thousands * 1000)} " if thousands else ""
        return before + self.decline(self._HUNDREDS[hundreds - 1], gender)

    def _joined_thousands(self, thousands: int) -> str:
        stems = {2: "dwu", 3: "trzy", 4: "cztero"}
        return stems.get(thousands) or spell("pl", thousands, "cardinal-masculine-genitive").replace(" ", "")

    def decline(self, word: str, gender: str) -> str:
        """A soft stem stays soft before a and ą: trzecia, but druga."""
        form = super().decline(word, gender)
        soft = word.endswith("i") and word != "drugi" and form.endswith(("a", "ą"))
        return f"{form[:-1]}i{form[-1]}" if soft else form

    def time(self, clock_time: ClockTime) -> str:
        """Czternasta trzydzieści; o dziewiątej."""
        word = re.search(r"(\w+)\s*$", clock_time.before)
        preposition = word[1].casefold() if word else ""
        case = "f-gen" if preposition in ("o", "od", "do", "po", "około", "godziny", "godzinie") else "f"
        case = "f-ins" if preposition in ("przed", "między") else case
        spoken = self.ordinal(clock_time.hour, case)
        if not clock_time.is_full_hour:
            spoken += f" {self.minutes(clock_time.minute or 0)}"
        if clock_time.second is None:
            return spoken
        return f"{spoken} i {self.cardinal(clock_time.second, 'f')} sekund"

    def _read_ordinal(self, match: re.Match[str]) -> str:
        noun = match[2]
        gender = "f" if noun.endswith("a") else "n" if noun.endswith(("o", "e", "ę", "um")) else "m"
        if noun in ("wieku", "roku"):
            gender = "m-loc" if _POLISH_LOCATIVE_BEFORE.search(match.string[: match.start()]) else "m-gen"
        return self.ordinal(int(match[1]), gender)


_POLISH_LOCATIVE_BEFORE = re.compile(r"(?<!\w)(?:w|we|po|na|o)\s$", re.I)
_GENITIVE_BEFORE = re.compile(r"(?<!\w)(?:bez|od|do|dla|około|oprócz|poniżej|powyżej|spośród|wśród)\s$", re.I)
_POLISH_TITLE = re.compile(r"(?<!\w)p\.(?=\s([A-ZĄĆĘŁŃÓŚŹŻ][a-ząćęłńóśźż]+))")
_POLISH_DECADE = re.compile(r"(?<!\w)(lata|latach|lat)\s([2-9]0)\.?(?!\w)", re.I)
_GROSZ = re.compile(r"((?<=zł )[0-9]{1,2}) gr\b\.?")


_WAR_CASES = pairs("wojna = f, wojny = f-gen, wojnie = f-gen, wojnę = f-ins, wojną = f-ins")
_WORLD_WAR = re.compile(rf"(?<![\w'’])(I{{1,3}})\s(?=({'|'.join(_WAR_CASES)})(?!\w))", re.I)


class CzechRules(SlavicRules):
    """Czech."""

    code = "cs"
    corrections = (("milión", "milion"),)
    point, minus, to = "celá", "minus", "až"
    zero_minute = "nula "
    # 2. before a word
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,4})\.\s(?=([a-záčďéěíňóřšťúůýž]{2,30}))")
    calling_words = "tel|telefon|volejte|zavolejte|volej|číslo|mobil|fax"
    months = words("""ledna února března dubna května června července srpna září října listopadu
        prosince""")
    short_months = "led* úno bře dub* kvě čvn čvc srp zář říj lis* pro*"
    hour_noun = Noun.of("hodina/hodiny/hodin", "f")
    percent = Noun.of("procento/procenta/procent/procenta", "n")
    scales = ("tisíc", "milion", "miliony", "milionů", "miliard", "miliardy")
    thousands = ("tisíc", "tisíce")
    scale_marks = marks("tis. tis = 3, mil. mil mio mio. = 6, mld. mld mrd. = 9, bil. bil = 12")
    scale_nouns = scale_words("""milion/-y/-ů/-u, miliarda/miliardy/miliard/miliardy f,
        bilion/-y/-ů/-u""")
    denominators = """třetina/třetiny/třetin pětina/pětiny/pětin šestina/šestiny/šestin
        sedmina/sedminy/sedmin osmina/osminy/osmin devítina/devítiny/devítin
        desetina/desetiny/desetin"""
    denominator_gender, slash = "f", "lomeno"
    mixed, mixed_half = "{} a {}", "{} a půl"
    number_sign = "číslo"
    powers = ("na druhou", "na třetí", "na {}")
    currencies = moneys("""Kč CZK = koruna/koruny/korun/koruny f; haléř/-e/-ů,
        € EUR = euro/eura/eur/eura n; cent/-y/-ů, $ US$ USD = dolar/-y/-ů/-u; cent/-y/-ů,
        £ = libra/libry/liber/libry f; pence""")
    units = science_units("cs") | nouns("""kg = kilogram/-y/-ů/-u, g = gram/-y/-ů/-u,
        dkg = dekagram/-y/-ů/-u,
        mg = miligram/-y/-ů/-u, t = tuna/tuny/tun/tuny f, km = kilometr/-y/-ů/-u, m = metr/-y/-ů/-u,
        cm = centimetr/-y/-ů/-u, mm = milimetr/-y/-ů/-u, km/h = kilometr/-y/-ů/-u + za hodinu,
        m² = metr čtvereční/metry čtvereční/metrů čtverečních/metru čtverečního, l = litr/-y/-ů/-u,
        m³ = metr krychlový/metry krychlové/metrů krychlových/metru krychlového,
        ha = hektar/-y/-ů/-u, dB = decibel/-y/-ů/-u, ml = mililitr/-y/-ů/-u,
        h hod. = hodina/hodiny/hodin/hodiny f,
        min min. = minuta/minuty/minut/minuty f, °C ℃ = stupeň/stupně/stupňů/stupně + Celsia,
        ° = stupeň/stupně/stupňů/stupně, kW = kilowatt/-y/-ů/-u,
        kWh = kilowatthodina/kilowatthodiny/kilowatthodin/kilowatthodiny f, MB = megabajt/-y/-ů/-u,
        GB = gigabajt/-y/-ů/-u""")
    abbreviations = pairs("""např. = například, atd. = a tak dále, apod. = a podobně, tj. = to jest,
        tzv. = takzvaný, č. = číslo, str. = strana, ul. = ulice, nám. = náměstí, cca = cirka,
        prof. = profesor, mj. = mimo jiné, popř. = popřípadě, tzn. = to znamená,
        př. n. l. = před naším letopočtem, n. l. = našeho letopočtu, tel. = telefon, sv. = svatý,
        Ing. = inženýr, Mgr. = magistr, MUDr. = doktor, obr.# = obrázek, kap.# = kapitola,
        tab.# = tabulka""")
    fractions = {"½": "půl", "¼": "čtvrt", "¾": "tři čtvrtě"}
    roman_ordinal = re.compile(rf"(?<!\w)({ROMAN})\.\s(?=století|tisíciletí|světov)")
    rulers = """Karel Karl Rudolf Václav Ferdinand Josef František Františk Leopold Vladislav Zikmund
        Matyáš Ludvík Jindřich Vilém Fridrich Napoleon Jan Pavel Pavl Petr Mikuláš Alexandr Eduard
        Filip Otakar Boleslav Břetislav Maxmilián Benedikt Ivan | Mari Alžbět Kateřin Ann"""
    ruler_endings = (
        pairs("a = m-gen, e = m-gen, ovi = m-dat, em = m-ins, u = m-dat"),
        pairs("a = f, e = f, y = f-gen, ě = f-loc, u = f-acc"),
    )
    around_ruler = ("", r"\.")
    ordinals_below_20 = words("""nultý první druhý třetí čtvrtý pátý šestý sedmý osmý devátý desátý
        jedenáctý dvanáctý třináctý čtrnáctý patnáctý šestnáctý sedmnáctý osmnáctý devatenáctý""")
    ordinals_of_tens = words("""dvacátý třicátý čtyřicátý padesátý šedesátý sedmdesátý osmdesátý
        devadesátý""")
    ordinal_endings = {
        "m": ("ý", "í"),
        "f": ("á", "í"),
        "n": ("é", "í"),
        "m-gen": ("ého", "ího"),
        "m-loc": ("ém", "ím"),
        "m-dat": ("ému", "ímu"),
        "m-ins": ("ým", "ím"),
        "f-gen": ("é", "í"),
        "f-loc": ("é", "í"),
        "f-acc": ("ou", "í"),
    }

    def decimal_words(self, number: WrittenNumber) -> str:
        """Tři celé čtrnáct: the word for "whole" is feminine."""
        value = number.value
        whole = "celá" if value in (0, 1) else "celé" if value in (2, 3, 4) else "celých"
        return f"{self.integer_words(number.whole, 'f')} {whole} {self.decimal_digits(number.fraction)}"

    def _read_ordinal(self, match: re.Match[str]) -> str:
        """In the case that the preposition before it requires."""
        word = re.search(r"(\w+)\s$", match.string[: match.start()])
        preposition = word[1].casefold() if word else ""
        noun, is_locative = match[2], preposition in ("ve", "v", "na", "o", "po", "při")
        if noun in ("století", "tisíciletí"):
            gender = "m-loc" if is_locative else "m-gen" if preposition else "n"
        elif noun.endswith(("a", "y", "ce")) and preposition not in ("ve", "v", "na", "o", "po", "do", "od"):
            gender = "f"
        elif is_locative:
            is_feminine = noun.endswith(("ě", "í", "ce")) and not noun.endswith("ství")
            gender = "f-loc" if is_feminine else "m-loc"
        elif preposition in ("do", "od", "z", "ze", "bez", "kolem", "u", "během"):
            gender = "f-gen" if noun.endswith(("y", "e")) else "m-gen"
        else:
            gender = "n" if noun.endswith("o") else "m"
        return f"{self.ordinal(int(match[1]), gender)} "
