"""Units with their prefixes (kW, GHz, Mbit), and rates: the unit after a slash (m³/s, €/kg)."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from xtts.text.normalization.numbers import Money, Noun, NumberRules, Step, alternatives, nouns, pairs

# "Per" before a time, after an amount of money, and in other rates; one if they are the same.
PER = {
    language: tuple(words.split("; "))
    for language, words in pairs("""en = per {}, de = pro {}, fr = par {}, es = por {}, it = al {},
    pt = por {}, nl = per {}, pl = na {}; za {}; na {}, cs = za {}; za {}; na {},
    ru = в {}; за {}; на {}, hu = per {}, tr = bölü {}, hi = प्रति {}, ar = لكل {},
    zh = 每{}, ja = 毎{}, ko = 매 {}""").items()
}
# Short names that are units after a slash only, because they are words elsewhere: Russian с is
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
# The accusative of the feminine nouns.
_ACCUSATIVE = {"pl": ("a", "ę"), "ru": ("а", "у"), "cs": ("a", "u")}
_KINDS = (
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
        return r"(?![\w'’²³/])" if self.spaced else r"(?![0-9A-Za-z²³/])"

    @cached_property
    def times(self) -> Mapping[str, Noun]:
        """Times after a slash."""
        return nouns(_TIMES.get(self.code, ""))

    @cached_property
    def after_slash(self) -> Mapping[str, Noun]:
        """All units after a slash."""
        return {**self.units, **nouns(_COUNTED.get(self.code, "")), **self.times}

    @cached_property
    def per(self) -> str:
        """The pattern of the second part of a rate, a unit or a word, as one group."""
        if self.code not in PER:
            return "((?!))?"
        units = alternatives(self.after_slash)
        if not self.spaced:
            return rf"(?:\s?/\s?({units}){self.unit_end})?"
        return rf"(?:\s?/\s?({units}|[^\W\d_]{{3,14}})(?![\w/'’²³]|-\w))?"

    def rate(self, unit: str | None, *, of_money: bool = False) -> str:
        """The second part of a rate in words, with a space before it; "" without one. of_money:
        whether its first part is an amount of money."""
        if not unit:
            return ""
        noun = self.after_slash.get(unit)
        word = noun.one if noun else unit
        old, new = _ACCUSATIVE.get(self.code, ("", ""))
        if noun and noun.gender == "f" and old and word.endswith(old):
            word = word[:-1] + new
        forms = PER[self.code]
        is_time = unit in self.times or (noun is not None and noun in self.times.values())
        form = forms[0] if is_time else forms[len(forms) > 1] if of_money else forms[-1]
        return self.space + self.per_unit(form, word, noun.gender if noun else "")

    def per_unit(self, form: str, word: str, gender: str) -> str:
        """The words for "per" and the unit. form: those before it, with `{}`; gender: "" if it is
        not known."""
        return form.format(word)

    @cached_property
    def read_rate_of_amounts(self) -> Step:
        """Writes the slash between two amounts as a word or a comma: 10 l/100 km, 20 °C/68 °F."""
        units, signs = alternatives(self.units), alternatives(self.currencies)
        pattern = re.compile(
            rf"(?<=[0-9])(\s?)({units}|{signs})/(?=[0-9][0-9.,]{{0,9}}\s?({units}){self.unit_end})"
        )
        per = "ogni" if self.code == "it" else PER.get(self.code, ("{}",))[-1].format("").strip()

        def spoken(match: re.Match[str]) -> str:
            kinds = [kind for kind in _KINDS if match[2] in kind and match[3] in kind]
            between = f" {per} " if not kinds and per and self.spaced else ", "
            return f"{match[1]}{match[2]}{between}"

        return lambda text: pattern.sub(spoken, text) if "/" in text else text


# The signs by language: Latin, or Cyrillic.
_LATIN = {
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
_CYRILLIC = {
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
# The nouns of the signs above, in their order, and the words of k M G T m h.
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
_PREFIXES = {"Latin": ("k", "M", "G", "T", "m", "h"), "Cyrillic": ("к", "М", "Г", "Т", "м", "г")}


def science_units(language: str) -> dict[str, Noun]:
    """The units of a language by sign."""
    signs = _CYRILLIC if language == "ru" else _LATIN
    names, _, prefixes = _UNIT_NAMES[language].partition(";")
    rows = zip(signs, re.split(r",\s+", names), strict=True)
    bases = nouns(", ".join(f"{sign} = {name}" for sign, name in rows))
    letters = _PREFIXES["Cyrillic" if language == "ru" else "Latin"]
    spoken = dict(zip(letters, prefixes.split(), strict=True))
    if language == "ru":
        spoken["К"] = "кило"
    units = dict[str, Noun]()
    for sign, sign_prefixes in signs.items():
        for prefix in sign_prefixes.split():
            if prefix != "-":
                units[prefix + sign] = _with_prefix(spoken[prefix], bases[sign])
            else:
                units[sign] = bases[sign]
    return units


def _with_prefix(prefix: str, noun: Noun) -> Noun:
    """A noun with a prefix before each form: kilo, watts."""
    one, few, many, part = (prefix + form[0].lower() + form[1:] for form in noun.forms)
    return Noun(one, few, many, part, noun.gender)
