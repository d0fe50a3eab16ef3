"""Units of physics and computing with their prefixes (kW, GHz, hPa, Mbit), in ten languages."""

from xtts.text.normalization.nouns import Noun, nouns

# The signs by language: Latin, or Cyrillic.
_LATIN = {
    "W": "- k M G T", "Wh": "- k M G T", "V": "- k m", "Hz": "- k M G", "B": "k M G T", "A": "m",
    "Ah": "m", "Pa": "k M h", "J": "k M", "cal": "k", "bit": "k M G",
}  # fmt: skip
_CYRILLIC = {
    "Вт": "- к М Г Т", "Вт·ч": "- к М Г Т", "В": "к", "Гц": "- к М Г", "Б": "К М Г Т", "А": "м",
    "А·ч": "м", "Па": "к М г", "Дж": "к М", "кал": "к", "бит": "к М Г",
}  # fmt: skip
# The nouns of the signs above, in their order, and the words of k M G T m h.
_NAMES = {
    "en": "watt/-s, watt hour/-s, volt/-s, hertz, byte/-s, ampere/-s, ampere hour/-s, pascal/-s, "
          "joule/-s, calorie/-s, bit/-s; kilo mega giga tera milli hecto",
    "de": "Watt n, Wattstunde/-n f, Volt n, Hertz n, Byte n, Ampere n, Amperestunde/-n f, "
          "Pascal n, Joule n, Kalorie/-n f, Bit n; Kilo Mega Giga Tera Milli Hekto",
    "fr": "watt/-s, wattheure/-s, volt/-s, hertz, octet/-s, ampère/-s, ampèreheure/-s, pascal/-s, "
          "joule/-s, calorie/-s, bit/-s; kilo méga giga téra milli hecto",
    "es": "vatio/-s, vatio hora/vatios hora, voltio/-s, hercio/-s, byte/-s, amperio/-s, "
          "amperio hora/amperios hora, pascal/-es, julio/-s, caloría/-s f, bit/-s; "
          "kilo mega giga tera mili hecto",
    "it": "watt, wattora, volt, hertz, byte, ampere, ampereora, pascal, joule, caloria/calorie f, "
          "bit; kilo mega giga tera milli etto",
    "pt": "watt/-s, watt-hora/watts-hora, volt/-s, hertz, byte/-s, ampere/-s, "
          "ampere-hora/amperes-hora, pascal/pascals, joule/-s, caloria/-s f, bit/-s; "
          "quilo mega giga tera mili hecto",
    "nl": "watt, wattuur, volt, hertz, byte, ampère, ampère-uur, pascal, joule, calorie/-ën, bit; "
          "kilo mega giga tera milli hecto",
    "pl": "wat/-y/-ów/-a, watogodzina/watogodziny/watogodzin/watogodziny f, wolt/-y/-ów/-a, "
          "herc/-e/-ów/-a, bajt/-y/-ów/-a, amper/-y/-ów/-a, "
          "amperogodzina/amperogodziny/amperogodzin/amperogodziny f, paskal/-e/-i/-a, "
          "dżul/-e/-i/-a, kaloria/kalorie/kalorii/kalorii f, bit/-y/-ów/-a; "
          "kilo mega giga tera mili hekto",
    "cs": "watt/-y/-ů/-u, watthodina/watthodiny/watthodin/watthodiny f, volt/-y/-ů/-u, "
          "hertz/-e/-ů/-u, bajt/-y/-ů/-u, ampér/-y/-ů/-u, "
          "ampérhodina/ampérhodiny/ampérhodin/ampérhodiny f, pascal/-y/-ů/-u, "
          "joule/jouly/joulů/joulu, kalorie/kalorie/kalorií/kalorie f, bit/-y/-ů/-u; "
          "kilo mega giga tera mili hekto",
    "ru": "ватт/-а/ватт/-а, ватт-час/ватт-часа/ватт-часов/ватт-часа, вольт/-а/вольт/-а, "
          "герц/-а/герц/-а, байт/-а/байт/-а, ампер/-а/ампер/-а, "
          "ампер-час/ампер-часа/ампер-часов/ампер-часа, паскаль/паскаля/паскалей/паскаля, "
          "джоуль/джоуля/джоулей/джоуля, калория/калории/калорий/калории f, бит/-а/бит/-а; "
          "кило мега гига тера милли гекто",
}  # fmt: skip
_PREFIXES = {"Latin": ("k", "M", "G", "T", "m", "h"), "Cyrillic": ("к", "М", "Г", "Т", "м", "г")}


def science_units(language: str) -> dict[str, Noun]:
    """The units of a language by sign."""
    signs = _CYRILLIC if language == "ru" else _LATIN
    names, _, prefixes = _NAMES[language].partition("; ")
    bases = nouns(", ".join(f"{sign} = {name}" for sign, name in
                            zip(signs, names.split(", "), strict=True)))  # fmt: skip
    spoken = dict(zip(_PREFIXES["Cyrillic" if language == "ru" else "Latin"], prefixes.split(),
                      strict=True)) | ({"К": "кило"} if language == "ru" else {})  # fmt: skip
    found = dict[str, Noun]()
    for sign, known in signs.items():
        for prefix in known.split():
            if prefix != "-":
                found[prefix + sign] = _prefixed(spoken[prefix], bases[sign])
            else:
                found[sign] = bases[sign]
    return found


def _prefixed(prefix: str, noun: Noun) -> Noun:
    """A noun with a prefix before each form: kilo, watts."""
    one, few, many, part = (prefix + form[0].lower() + form[1:] for form in noun.forms)
    return Noun(one, few, many, part, noun.gender)
