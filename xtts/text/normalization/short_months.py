"""Short names of months beside a day or a year, in full."""

import re
from collections.abc import Callable, Sequence

# A month's short names are separated by `/`; `-` has none. With `*` they are also words or numbers
# ("set", "mar", "dez"), so that only a full stop, a year or a dash makes them months.
SHORT = {
    "en": "Jan Feb Mar Apr - Jun Jul Aug Sep/Sept Oct Nov Dec",
    "de": "Jan/Jän Feb/Febr Mär/Mrz Apr - Jun Jul Aug Sep/Sept Okt Nov Dez",
    "nl": "jan feb/febr mrt/maa* apr - jun jul aug sep/sept okt nov dec",
    "fr": "janv/jan fév/févr mars* avr - juin* juil/juill août* sept* oct nov déc",
    "es": "ene feb/febr mar* abr may jun jul ago*/agto sep/sept/set* oct nov dic",
    "pt": "jan fev mar* abr mai* jun jul ago* set* out* nov dez*",
    "it": "gen/genn feb/febbr mar* apr mag/magg giu lug/lugl ago* set*/sett ott nov dic",
    "pl": "sty/stycz lut mar* kwi/kwiec - cze/czerw lip sie*/sierp wrz/wrześ paź/paźdz lis*/listop "
    "gru/grudz",
    "cs": "led* úno bře dub* kvě čvn čvc srp zář říj lis* pro*",
    "ru": "янв фев/февр мар* апр - июн июл авг сен*/сент окт ноя/нояб дек",
    "hu": "jan feb/febr márc ápr máj jún júl aug szept/szep okt nov dec",
    "tr": "Oca* Şub Mar* Nis May* Haz Tem Ağu Eyl Eki Kas* Ara*",
    "hi": "जन फ़र/फर - अप्रै - - जुल अग* सित अक्टू नव* दिस",
}


def reader(language: str, months: Sequence[str]) -> Callable[[str], str]:
    """The step that writes short names of months in full."""
    names, unsure = dict[str, str](), set[str]()
    for month, forms in zip(months, SHORT.get(language, "").split(), strict=False):
        for form in forms.split("/"):
            short = form.rstrip("*").casefold()
            if short != "-" and short != month.casefold():
                names[short] = month
                unsure |= {short} if form.endswith("*") else set()
    if not names:
        return lambda text: text
    short = "|".join(sorted(names, key=len, reverse=True))
    first = "(?=[A-ZÀ-Þ])" if language in ("en", "de") else ""
    ordinal = r"(?:\.|º|°|er|st|nd|rd|th)?"
    # After the day, and after the month's name: a year, or the day of English and Hungarian.
    after_day = re.compile(
        rf"(?<![\w.,:/])([0-9]{{1,2}}{ordinal})(\s(?:de\s|of\s)?|-|/|\.)(?-i:{first})({short})"
        rf"(?![^\W\d_])(\.?)(?:(\s(?:de\s)?|-|/|,\s)(?=[12][0-9]{{3}}(?!\w)))?",
        re.IGNORECASE,
    )
    then = r"[12][0-9]{3}(?![\w.,]?\d)"
    if language in ("en", "hu"):
        then += r"|[0-9]{1,2}(?:st|nd|rd|th|\.|-)?(?![\w:%])"
    before = re.compile(rf"(?<!\w)(?-i:{first})({short})(\.?)(?=\s(?:{then}))", re.IGNORECASE)

    def with_day(match: re.Match[str]) -> str:
        day, joiner, name, dot, year = match.groups()
        found = name.casefold()
        if found in unsure and not (dot or year or joiner in "-/" or len(joiner) > 2):
            return match[0]
        joiner = joiner if joiner.startswith(" ") else " "
        return f"{day}{joiner}{names[found]}" + (
            (year if year.startswith(" ") or year == ", " else " ") if year
            else "." if _ends(match) else ""
        )  # fmt: skip

    def alone(match: re.Match[str]) -> str:
        return match[0] if match[1].casefold() in unsure and not match[2] else names[
            match[1].casefold()
        ]  # fmt: skip

    def step(text: str) -> str:
        return before.sub(alone, after_day.sub(with_day, text))

    return step


def _ends(match: re.Match[str]) -> bool:
    """Whether a sentence ends with the full stop of a month's name."""
    after = match.string[match.end() :].lstrip()
    return match[0].endswith(".") and (not after or after[0].isupper())
