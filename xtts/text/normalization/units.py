"""Units with their prefixes (kW, GHz, Mbit), and rates: the unit after a slash (m³/s, €/kg)."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from xtts.text.normalization.numbers import Money, Noun, NumberRules, Step, alternatives, nouns, pairs

# "Per" before a time, after an amount of money, and in other rates; a single form if they are the same.
PER_FORMS = {
    language: tuple(forms.split("; "))
    for language, forms in pairs("""en = per {}, de = pro {}, fr = par {}, es = por {}, it = al {},
    pt = por {}, nl = per {}, pl = na {}; za {}; na {}, cs = za {}; za {}; na {},
    ru = в {}; за {}; на {}, hu = per {}, tr = bölü {}, hi = प्रति {}, ar = لكل {},
    zh = 每{}, ja = 毎{}, ko = 매 {}""").items()
}
# Short names that are units only after a slash, because they are words elsewhere: Russian с is
# "with". The first table has times, the second what is counted.
_TIMES = {
    "en": "s = second, h hr = hour, d = day, wk = week, mo mo. = month, yr yr. y = year",
    "de": """s Sek. = Sekunde f, h Std. = Stunde f, d = Tag, Wo. = Woche f, Mon. Mt. = Monat,
        a J. = Jahr n""",
    "fr": "s = seconde f, h = heure/-s f, j = jour, sem. = semaine f, an = an",
    "es": "s = segundo, h = hora f, d = día, sem. = semana f",
    "it": "s = secondo, h = ora f, g = giorno, sett. = settimana f",
    "pt": "s = segundo, h = hora/-s f, d = dia, sem. = semana f",
    "nl": "s sec. = seconde, u h = uur, d = dag, wk = week, mnd mnd. = maand, jr jr. = jaar",
    "pl": """s sek. sekunda = sekunda f, h godz. godzina = godzina f, d dzień = dzień,
        doba = doba f, mies. miesiąc = miesiąc, tydz. tydzień = tydzień, r. rok = rok,
        min = minuta f""",
    "cs": """s sek. sekunda = sekunda f, h hod. hodina = hodina f, d den = den, týd. týden = týden,
        měs. měsíc = měsíc, r. rok = rok, min = minuta f""",
    "ru": """с сек сек. секунда = секунда f, ч час = час, сут сут. сутки = сутки, д. день = день,
        мин мин. минута = минута f, нед. неделя = неделю, мес мес. месяц = месяц, г. год = год""",
    "tr": "s sn = saniye, h sa saat = saat, dk min dakika = dakika",
    "hu": "s mp = másodperc, h ó óra = óra, min p perc = perc",
    "ko": "s = 초, min = 분, h = 시",
    "hi": "s = सेकंड, h = घंटा, min = मिनट",
}
_COUNTED = {
    "en": "pc pc. = piece, pp = person",
    "de": "Pers. = Person f, Stk. Stk St. = Stück n",
    "fr": "pers. = personne f",
    "es": "pers. = persona f, ud. = unidad f",
    "it": "pers. = persona f, pz. pz = pezzo",
    "pt": "pess. = pessoa f, un. = unidade f",
    "nl": "p.p. pp = persoon, st. = stuk",
    "pl": "os. osoba = osoba f, szt. sztuka = sztuka f",
    "cs": "os. osoba = osoba f, ks = kus",
    "ru": "шт шт. = штуку, чел чел. = человека",
    "hu": "fő = fő, db = darab",
}
# The endings of the feminine nouns in the nominative and the accusative.
_ACCUSATIVE_ENDINGS = {"pl": ("a", "ę"), "ru": ("а", "у"), "cs": ("a", "u")}
# Signs of the same quantity: between two of them, a slash is not "per".
_SIGNS_OF_A_QUANTITY = (
    {"kg", "g", "mg", "t", "lb", "lbs", "lb.", "lbs.", "oz", "oz.", "dag", "кг", "г"},
    {"km", "m", "cm", "mm", "mi", "mi.", "ft", "ft.", "in.", "км", "м", "см", "мм"},
    {"°C", "℃", "°F", "℉", "°", "ºC", "°С"},
    {"l", "L", "ml", "mL", "л", "мл"},
    {"$", "€", "£", "USD", "EUR", "GBP", "CHF", "zł", "PLN", "₽", "R$", "US$"},
)


class UnitRules(NumberRules):
    """How a language says units and rates."""

    currencies: ClassVar[Mapping[str, Money]] = {}
    units: ClassVar[Mapping[str, Noun]] = {}

    @property
    def unit_end(self) -> str:
        """The pattern of the end of a unit."""
        return r"(?![\w'’²³/])" if self.has_spaces else r"(?![0-9A-Za-z²³/])"

    @cached_property
    def times_after_slash(self) -> Mapping[str, Noun]:
        """Times after a slash."""
        return nouns(_TIMES.get(self.code, ""))

    @cached_property
    def units_after_slash(self) -> Mapping[str, Noun]:
        """All units after a slash."""
        return {**self.units, **nouns(_COUNTED.get(self.code, "")), **self.times_after_slash}

    @cached_property
    def per_pattern(self) -> str:
        """The pattern of the unit or the word after the slash of a rate, which is its only group."""
        if self.code not in PER_FORMS:
            return "((?!))?"
        units = alternatives(self.units_after_slash)
        if not self.has_spaces:
            return rf"(?:\s?/\s?({units}){self.unit_end})?"
        return rf"(?:\s?/\s?({units}|[^\W\d_]{{3,14}})(?![\w/'’²³]|-\w))?"

    def rate_words(self, unit: str | None, *, of_money: bool = False) -> str:
        """The unit after the slash of a rate in words, with "per" and a space before it; "" without one.
        of_money: whether an amount of money precedes the slash."""
        if not unit:
            return ""
        noun = self.units_after_slash.get(unit)
        word = noun.one if noun else unit
        nominative, accusative = _ACCUSATIVE_ENDINGS.get(self.code, ("", ""))
        if noun and noun.gender == "f" and nominative and word.endswith(nominative):
            word = word[:-1] + accusative
        forms = PER_FORMS[self.code]
        is_time = unit in self.times_after_slash or (
            noun is not None and noun in self.times_after_slash.values()
        )
        form = forms[0] if is_time else forms[len(forms) > 1] if of_money else forms[-1]
        return self.space + self.per_unit_words(form, word, noun.gender if noun else "")

    def per_unit_words(self, form: str, word: str, gender: str) -> str:
        """The words for "per" and the unit. form: "per" with `{}` for the unit; gender: that of the unit, ""
        if it is not known."""
        return form.format(word)

    @cached_property
    def read_rate_of_amounts(self) -> Step:
        """Writes the slash between two amounts as a word or a comma: 10 l/100 km, 20 °C/68 °F."""
        units, signs = alternatives(self.units), alternatives(self.currencies)
        pattern = re.compile(
            rf"(?<=[0-9])(\s?)({units}|{signs})/(?=[0-9][0-9.,]{{0,9}}\s?({units}){self.unit_end})"
        )
        per = "ogni" if self.code == "it" else PER_FORMS.get(self.code, ("{}",))[-1].format("").strip()

        def replace_slash(match: re.Match[str]) -> str:
            space, first, second = match.groups()
            is_conversion = any({first, second} <= quantity for quantity in _SIGNS_OF_A_QUANTITY)
            word = f" {per} " if not is_conversion and per and self.has_spaces else ", "
            return f"{space}{first}{word}"

        return lambda text: pattern.sub(replace_slash, text) if "/" in text else text


# The prefixes of each sign, in Latin and in Cyrillic letters; `-` is the sign without a prefix.
_LATIN_SIGNS = {
    "W": "- k M G T",
    "Wh": "- k M G T",
    "V": "- k m",
    "Hz": "- k M G",
    "B": "k M G T",
    "A": "m",
    "Ah": "m",
    "Pa": "k M h",
    "J": "k M",
    "cal": "k",
    "bit": "k M G",
}
_CYRILLIC_SIGNS = {
    "Вт": "- к М Г Т",
    "Вт·ч": "- к М Г Т",
    "В": "к",
    "Гц": "- к М Г",
    "Б": "К М Г Т",
    "А": "м",
    "А·ч": "м",
    "Па": "к М г",
    "Дж": "к М",
    "кал": "к",
    "бит": "к М Г",
}
# The nouns of the signs above, in their order, and the words of the prefixes k M G T m h.
_UNIT_NAMES = {
    "en": """watt/-s, watt hour/-s, volt/-s, hertz, byte/-s, ampere/-s, ampere hour/-s, pascal/-s,
        joule/-s, calorie/-s, bit/-s; kilo mega giga tera milli hecto""",
    "de": """Watt n, Wattstunde/-n f, Volt n, Hertz n, Byte n, Ampere n, Amperestunde/-n f,
        Pascal n, Joule n, Kalorie/-n f, Bit n; Kilo Mega Giga Tera Milli Hekto""",
    "fr": """watt/-s, wattheure/-s, volt/-s, hertz, octet/-s, ampère/-s, ampèreheure/-s, pascal/-s,
        joule/-s, calorie/-s, bit/-s; kilo méga giga téra milli hecto""",
    "es": """vatio/-s, vatio hora/vatios hora, voltio/-s, hercio/-s, byte/-s, amperio/-s,
        amperio hora/amperios hora, pascal/-es, julio/-s, caloría/-s f, bit/-s;
        kilo mega giga tera mili hecto""",
    "it": """watt, wattora, volt, hertz, byte, ampere, ampereora, pascal, joule, caloria/calorie f,
        bit; kilo mega giga tera milli etto""",
    "pt": """watt/-s, watt-hora/watts-hora, volt/-s, hertz, byte/-s, ampere/-s,
        ampere-hora/amperes-hora, pascal/pascals, joule/-s, caloria/-s f, bit/-s;
        quilo mega giga tera mili hecto""",
    "nl": """watt, wattuur, volt, hertz, byte, ampère, ampère-uur, pascal, joule, calorie/-ën, bit;
        kilo mega giga tera milli hecto""",
    "pl": """wat/-y/-ów/-a, watogodzina/watogodziny/watogodzin/watogodziny f, wolt/-y/-ów/-a,
        herc/-e/-ów/-a, bajt/-y/-ów/-a, amper/-y/-ów/-a,
        amperogodzina/amperogodziny/amperogodzin/amperogodziny f, paskal/-e/-i/-a, dżul/-e/-i/-a,
        kaloria/kalorie/kalorii/kalorii f, bit/-y/-ów/-a; kilo mega giga tera mili hekto""",
    "cs": """watt/-y/-ů/-u, watthodina/watthodiny/watthodin/watthodiny f, volt/-y/-ů/-u,
        hertz/-e/-ů/-u, bajt/-y/-ů/-u, ampér/-y/-ů/-u,
        ampérhodina/ampérhodiny/ampérhodin/ampérhodiny f, pascal/-y/-ů/-u, joule/jouly/joulů/joulu,
        kalorie/kalorie/kalorií/kalorie f, bit/-y/-ů/-u; kilo mega giga tera mili hekto""",
    "ru": """ватт/-а/ватт/-а, ватт-час/ватт-часа/ватт-часов/ватт-часа, вольт/-а/вольт/-а,
        герц/-а/герц/-а, байт/-а/байт/-а, ампер/-а/ампер/-а,
        ампер-час/ампер-часа/ампер-часов/ампер-часа, паскаль/паскаля/паскалей/паскаля,
        джоуль/джоуля/джоулей/джоуля, калория/калории/калорий/калории f, бит/-а/бит/-а;
        кило мега гига тера милли гекто""",
}
_LATIN_PREFIXES, _CYRILLIC_PREFIXES = "kMGTmh", "кМГТмг"


def science_units(language: str) -> dict[str, Noun]:
    """The scientific units of a language by sign, with their prefixes."""
    signs, prefixes = _LATIN_SIGNS, _LATIN_PREFIXES
    if language == "ru":
        signs, prefixes = _CYRILLIC_SIGNS, _CYRILLIC_PREFIXES
    names, _, prefix_words = _UNIT_NAMES[language].partition(";")
    rows = zip(signs, re.split(r",\s+", names), strict=True)
    nouns_without_prefix = nouns(", ".join(f"{sign} = {name}" for sign, name in rows))
    words = dict(zip(prefixes, prefix_words.split(), strict=True))
    if language == "ru":
        words["К"] = "кило"
    units = dict[str, Noun]()
    for sign, sign_prefixes in signs.items():
        noun = nouns_without_prefix[sign]
        for prefix in sign_prefixes.split():
            if prefix == "-":
                units[sign] = noun
            else:
                units[prefix + sign] = _with_prefix(words[prefix], noun)
    return units


def _with_prefix(prefix: str, noun: Noun) -> Noun:
    """A noun with a prefix before each form: kilo and watts make kilowatts."""
    one, few, many, part = (prefix + form[0].lower() + form[1:] for form in noun.forms)
    return Noun(one, few, many, part, noun.gender)
