"""Rules for German and Dutch."""

import re
from functools import cached_property

from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.numbers import (
    LONG_GROUPS,
    Noun,
    Step,
    marks,
    moneys,
    nouns,
    pairs,
    scale_words,
    spell,
    words,
)
from xtts.text.normalization.numerals import ROMAN
from xtts.text.normalization.scores import follows_label
from xtts.text.normalization.units import science_units

# Four digits are a number, not a year, if a unit follows or the thousands are separated.
_YEAR_AT_END = re.compile(r"(?<![\w.,-])()(1[1-9][0-9]{2})(?=[.!?;,)]*(?:\s*$|[.!?;,)]\s))")
_CLOCK_RANGE = re.compile(
    r"(?<![\w.,:])([0-9]{1,2})(?:[:.]([0-9]{2}))?\s?[–—-]\s?"
    r"(?=[0-9]{1,2}(?:[:.][0-9]{2})?\s(?:Uhr|uur)\b|[0-9]{1,2}:[0-5][0-9](?![\d:]))"
)


def _year_after_words(before: str) -> re.Pattern[str]:
    """The pattern of a year after one of these words."""
    return re.compile(
        rf"(\b(?:{before})\s)(1[1-9][0-9]{{2}}|20[0-9]{{2}})(?![\w%°€$£]|[.,:/-]\d|\s?[€%°])", re.IGNORECASE
    )


class GermanRules(LanguageRules):
    """German."""

    capital_nouns = capital_short_months = True
    code = "de"
    spaced_groups = LONG_GROUPS
    # Eins, if nothing is counted.
    cardinals = {"": "numbering", "m": "cardinal-masculine", "f": "cardinal-feminine", "n": "cardinal-neuter"}
    point, minus, to = "Komma", "minus", "bis"
    score_joiner = "zu"
    year_marks = (
        _year_after_words(
            "jahr|jahre|jahren|jahres|zwischen|seit|bis|von|ab|im|in|um|anno|nach|vor|und|sommer|winter|"
            "frühling|herbst|januar|februar|märz|april|mai|juni|juli|august|september|oktober|november|"
            "dezember"
        ),
        _YEAR_AT_END,
    )
    spells_decimals = True
    # 14:30 Uhr, 14.30 Uhr, 9 Uhr
    clock = re.compile(r"(?<![\w.,:])([0-9]{1,2})(?:[:.]([0-9]{2}))?\sUhr\b")
    clock_range = _CLOCK_RANGE
    hour_form, hour_gender, second_form = "{} Uhr", "m", " und {} Sekunden"
    calling_words = (
        "tel|telefon|telefonnummer|ruf|rufe|ruft|rufen|notruf|wähle|wählen|rufnummer|"
        "fax|handy|nummer|anrufen|unter"
    )
    months = words("""Januar Februar März April Mai Juni Juli August September Oktober November
        Dezember""")
    short_months = "Jan/Jän Feb/Febr Mär/Mrz Apr - Jun Jul Aug Sep/Sept Okt Nov Dez"
    percent = Noun.of("Prozent")
    scales = ("Tausend", "Million", "Millionen", "Milliarde", "Milliarden")
    thousands = ("tausend",)
    scale_marks = marks("Tsd. Tsd tsd. = 3, Mio. Mio mio. Mill. = 6, Mrd. Mrd mrd. Mia. = 9, Bio. Bio = 12")
    money_marks = marks("T = 3")
    scale_nouns = scale_words("Million/-en f, Milliarde/-n f, Billion/-en f")
    denominators = "Drittel Fünftel Sechstel Siebtel Achtel Neuntel Zehntel"
    denominator_gender, slash = "n", "durch"
    mixed, mixed_half, mixed_gender = "{} {}", "{}einhalb", "m"
    powers = ("Quadrat", "hoch drei", "hoch {}")
    number_sign = "Nummer"
    money_joiner = " und "
    currencies = moneys("""€ EUR = Euro; Cent, $ = Dollar; Cent, US$ USD = US-Dollar; Cent,
        £ = Pfund n; Penny/Pence, CHF = Franken; Rappen, ¥ = Yen""")
    units = science_units("de") | nouns("""kg = Kilogramm n, g = Gramm n, mg = Milligramm n,
        t = Tonne/-n f,
        km = Kilometer, m = Meter, cm = Zentimeter, mm = Millimeter, km/h = Kilometer pro Stunde,
        m/s = Meter pro Sekunde, km² qkm = Quadratkilometer, m² qm = Quadratmeter,
        m³ cbm = Kubikmeter,
        ha = Hektar, dB = Dezibel, EL = Esslöffel, TL = Teelöffel, l = Liter, ml = Milliliter,
        h Std. = Stunde/-n f, J. = Jahr/-e n, min Min. min. = Minute/-n f,
        s Sek. sek. = Sekunde/-n f, ms = Millisekunde/-n f, °C ℃ = Grad Celsius,
        °F = Grad Fahrenheit, ° = Grad, W = Watt n, kW = Kilowatt n, kWh = Kilowattstunde/-n f,
        V = Volt n, Hz = Hertz n, MHz = Megahertz n, GHz = Gigahertz n, MB = Megabyte n,
        GB = Gigabyte n, TB = Terabyte n, KiB = Kibibyte n, MiB = Mebibyte n, GiB = Gibibyte n""")
    abbreviations = pairs("""z. B. = zum Beispiel, d. h. = das heißt, u. a. = unter anderem,
        usw. = und so weiter, bzw. = beziehungsweise, ca. = circa, Nr. = Nummer, Prof. = Professor,
        Hr. = Herr, Fr. = Frau, etc. = et cetera, vgl. = vergleiche, z. T. = zum Teil,
        o. Ä. = oder Ähnliches, u. Ä. = und Ähnliches, i. d. R. = in der Regel, Str. = Straße,
        Mio. = Millionen, Mrd. = Milliarden, Tsd. = Tausend, S.# = Seite, Abb. = Abbildung,
        inkl. = inklusive, evtl. = eventuell, ggf. = gegebenenfalls, max. = maximal, min. = minimal,
        v. Chr. = vor Christus, n. Chr. = nach Christus, Jh. = Jahrhundert, Tel. = Telefon,
        MwSt. = Mehrwertsteuer,
        MwSt = Mehrwertsteuer, zzgl. = zuzüglich, exkl. = exklusive, mind. = mindestens,
        Tab.# = Tabelle, Kap.# = Kapitel, Abs.# = Absatz, Art.# = Artikel, Ziff.# = Ziffer,
        Bd.# = Band, ff. = folgende, Co. = Co, lt. = laut, Dipl.-Ing. = Diplomingenieur""")
    fractions = {"½": "ein halb", "¼": "ein Viertel", "¾": "drei Viertel"}
    halves = {"m": "ein halber", "f": "eine halbe", "n": "ein halbes"}
    roman_ordinal = re.compile(rf"(?<!\w)({ROMAN})\.\s(?=Jahrhundert|Jahrtausend|Weltkrieg|Jh\.)")
    rulers = """Ludwig Wilhelm Friedrich Heinrich Karl Otto Franz Josef Joseph Leopold Maximilian Rudolf
        Ferdinand Johannes Paul Pius Benedikt Leo Gregor Georg Eduard Jakob Richard Philipp Albrecht
        Konrad Ramses Napoleon Alexander Nikolaus Peter Iwan Gustav Adolf Christian Albert August
        Innozenz Clemens Urban Sigismund |
        Elisabeth Katharina Maria Margarethe Isabella Beatrix Kleopatra Christina"""
    ruler_endings = ({"s": "m-gen"}, {})
    around_ruler = ("", r"\.")

    def year(self, number: int) -> str:
        """Neunzehnhundertneunundneunzig."""
        return spell("de", number, "numbering-year")

    def day(self, number: int, before: str = "") -> str:
        """An ordinal with the ending that the word before it requires."""
        match = _GERMAN_ARTICLE_BEFORE.search(before)
        if match is None:
            return spell("de", number, "ordinal") + "r"
        nominative = match[1].casefold() in ("der", "die", "das", "jede", "diese")
        nominative = nominative and not _GERMAN_DATIVE_DER_BEFORE.search(before[-20:])
        return spell("de", number, "ordinal" if nominative else "ordinal-n")

    def read_dates(self, text: str) -> str:
        """Reads dates, also without a year: 24.12., 3.–5. Mai."""
        text = _GERMAN_ORDINAL_RANGE.sub(self._read_day_range, text)
        text = _GERMAN_TWO_ORDINALS.sub(self._read_two_days, text)
        return _GERMAN_DATE_WITHOUT_YEAR.sub(self._read_date_without_year, super().read_dates(text))

    def _read_day_range(self, match: re.Match[str]) -> str:
        """Both numbers of a range, as ordinals: days, classes, chapters."""
        if not 1 <= int(match[1]) <= 31:
            return match[0]
        # The ending follows the article before the first day.
        first, last = (self.day(int(figures), match.string[: match.start()]) for figures in match.groups())
        return f"{first} {self.to} {last}"

    def _read_two_days(self, match: re.Match[str]) -> str:
        """Two ordinals after one article."""
        before = match.string[: match.start()]
        first, last = (self.day(int(figures), before) for figures in match.group(1, 3))
        return f"{first} {match[2]} {last}"

    def _read_date_without_year(self, match: re.Match[str]) -> str:
        paired = len(match[1]) == len(match[2]) == 2
        sure = paired or _GERMAN_ARTICLE_BEFORE.search(match.string[: match.start()])
        spoken = self.date_words_of(match, match[1], match[2]) if sure else ""
        return spoken + self.sentence_stop(match) if spoken else match[0]

    @cached_property
    def read_abbreviations(self) -> Step:
        """Also a street at the end of its name, following pages, and weekdays: Hauptstr. 5, S. 12 f.,
        Mo.–Fr."""
        read_others = super().read_abbreviations

        def step(text: str) -> str:
            text = _STREET.sub(lambda m: f"straße{self.sentence_stop(m)}", text)
            text = _SENTENCE_OF_PARAGRAPH.sub(r"\1Satz", text)
            text = _PAGE_AND_FOLLOWING.sub(lambda m: f"{m[1]} folgende{self.sentence_stop(m)}", text)
            text = _WEEKDAY_RANGE.sub(
                lambda m: f"{_WEEKDAY_NAMES[m[1]]} {self.to} {_WEEKDAY_NAMES[m[2]]}", text
            )
            return read_others(_WEEKDAY_AFTER_WORD.sub(lambda m: m[1] + _WEEKDAY_NAMES[m[2]], text))

        return step

    def ruler_number_words(self, match: re.Match[str], number: int, gender: str, ending: str) -> str:
        """Der Zweite, des Zweiten, dem Zweiten."""
        before = match.string[max(0, match.start() - 60) : match.start()]
        if ending:
            article = "der" if gender == "f" else "des"
        elif _DATIVE_BEFORE.search(before):
            article = "der" if gender == "f" else "dem"
        elif gender == "m" and _ACCUSATIVE_BEFORE.search(before):
            article = "den"
        else:
            return f"{'die' if gender == 'f' else 'der'} {spell('de', number, 'ordinal')}"
        return f"{article} {spell('de', number, 'ordinal')}n"

    def read_ordinals(self, text: str) -> str:
        """Reads ordinals: 2. after an article."""
        text = _GERMAN_DECADE.sub(lambda m: f"{self.year(int(m[1]))}{m[2]}", text)
        text = _GERMAN_ORDINAL.sub(lambda m: self.day(int(m[1]), m.string[: m.start()]), text)
        text = _GERMAN_RANK.sub(lambda m: f"{spell('de', int(m[1]), 'ordinal').capitalize()}r", text)
        return _GERMAN_ORDINAL_WITHOUT_ARTICLE.sub(self._read_bare_ordinal, text)

    def _read_number(self, match: re.Match[str]) -> str:
        """Ein Jahr, eine Katze, vor einer Stunde; but Kapitel eins."""
        before = match.string[max(0, match.start() - 40) : match.start()]
        noun = _GERMAN_NOUN_AFTER.match(match.string, match.end())
        if match[0].lstrip("+-") != "1" or noun is None or _NO_COUNT_BEFORE.search(before):
            return super()._read_number(match)
        is_heading = not before.strip() and noun[1] in _HEADINGS
        if is_heading or follows_label(match):
            return super()._read_number(match)
        gender = "f" if _is_feminine(noun[1]) else "m"
        dative = {"f": "r", "m": "em"}[gender] if _COUNT_IN_DATIVE_BEFORE.search(before) else ""
        return self.amount_words(match[0], gender) + dative

    def _read_bare_ordinal(self, match: re.Match[str]) -> str:
        """Zweiter Weltkrieg, dritte Klasse: the ending shows the gender if no article does."""
        ending = next(end for end, nouns in _STRONG_ENDINGS.items() if match[3] in nouns.split("|"))
        return f"{match[1]}{spell('de', int(match[2]), 'ordinal')}{ending} {match[3]}"


_STREET = re.compile(r"(?<=[a-zäöüß])str\.(?!\w)")
_PAGE_AND_FOLLOWING = re.compile(r"((?:S\.|Seite)\s?[0-9]{1,4})\sff?\.")
_SENTENCE_OF_PARAGRAPH = re.compile(r"((?:Abs\.|Absatz)\s[0-9]{1,2}\s)S\.(?=\s?[0-9])")
_WEEKDAY_NAMES = pairs("""Mo = Montag, Di = Dienstag, Mi = Mittwoch, Do = Donnerstag, Fr = Freitag,
    Sa = Samstag, So = Sonntag""")
_WEEKDAY_RANGE = re.compile(
    rf"(?<!\w)({'|'.join(_WEEKDAY_NAMES)})\.?\s?[–—-]\s?({'|'.join(_WEEKDAY_NAMES)})(?!\w)\.?"
)
_WEEKDAY_AFTER_WORD = re.compile(
    rf"(?<!\w)((?:[Aa]m|[Mm]ontag und|\w+tag und|und)\s)({'|'.join(_WEEKDAY_NAMES)})\.(?!\w)"
)
_GERMAN_ARTICLE_BEFORE = re.compile(
    r"\b(der|die|das|jede|diese|den|dem|des|am|im|vom|zum|zur|beim|ab|bis|seit|jeden|jedem|"
    r"diesen|diesem|dieser|unserem|seinem|ihrem|seinen|ihren|dessen|montag|dienstag|mittwoch|"
    r"donnerstag|freitag|samstag|sonntag),?\s*$",
    re.IGNORECASE,
)
# A preposition that makes the feminine article after it a dative: in der 5. Klasse.
_GERMAN_DATIVE_DER_BEFORE = re.compile(
    r"(?<!\w)(?:in|an|auf|aus|bei|mit|nach|seit|von|zu|vor|unter|über|hinter|neben|zwischen|während|wegen|"
    r"trotz|gegenüber)\sder\s$",
    re.IGNORECASE,
)
_GERMAN_ORDINAL = re.compile(
    r"(?i:(?<=der )|(?<=die )|(?<=das )|(?<=den )|(?<=dem )|(?<=des )|(?<=am )|(?<=im )|(?<=vom )|"
    r"(?<=zum )|(?<=zur )|(?<=beim )|(?<=jede )|(?<=jeden )|(?<=jedem ))([0-9]{1,3})\.(?=\s\w)"
)
# Ordinals without an article: 2. Weltkrieg.
_STRONG_ENDINGS = {
    "r": "Weltkrieg|Stock|Platz|Teil|Akt|Band|Tag|Preis|Rang|Schritt|Versuch|Abschnitt|Advent|Satz",
    "": "Klasse|Auflage|Etage|Liga|Halbzeit|Runde|Stufe|Staffel|Folge|Sinfonie|Reihe|Szene|Woche|Stunde",
    "s": "Kapitel|Jahrhundert|Buch|Semester|Quartal|Geschoss|Obergeschoss|Gebot|Jahr",
}
_GERMAN_ORDINAL_WITHOUT_ARTICLE = re.compile(
    rf"((?:^|[,;:(.!?])\s?)([0-9]{{1,3}})\.\s({'|'.join(_STRONG_ENDINGS.values())})(?!\w)"
)
# als 3. ins Ziel
_GERMAN_RANK = re.compile(r"(?:(?<=\bals )|(?<=\bwurde ))([0-9]{1,3})\.(?=\s[a-zäöü])")
# am 3. und 4. Mai, der 1., 2. und 3. Platz
_GERMAN_TWO_ORDINALS = re.compile(r"(?<![\w.,])([0-9]{1,3})\.\s(und|oder|bis)\s([0-9]{1,3})\.(?=\s[A-ZÄÖÜ])")
_GERMAN_DATE_WITHOUT_YEAR = re.compile(
    r"(?<![\w.,-])([0-9]{1,2})\.\s?([0-9]{1,2})\.(?!\s?[0-9]{4}|[0-9])(?![^\W\d_])", re.ASCII
)
_GERMAN_ORDINAL_RANGE = re.compile(
    r"(?<![\w.,-])([0-9]{1,2})\.\s?[–—-]\s?([0-9]{1,2})\.(?=\s?(?:Januar|Februar|März|April|Mai|Juni|"
    r"Juli|August|September|Oktober|November|Dezember|Klasse|Jahrhundert|Platz|Kapitel|Stock)\b)"
)
_GERMAN_DECADE = re.compile(r"(?<![\w.,])([0-9]{2,4})(ern?)(?!\w)")
# A word with a capital that does not begin a sentence: "Nummer 1 Dann".
_GERMAN_NOUN_AFTER = re.compile(
    r"\s(?!(?:Der|Die|Das|Dann|Danach|Dies\w*|Ein\w{0,2}|Und|Oder|Aber|Nach|Vor|Mit|Von|Bei|Für|Aus|Auf|Sie|Ich|"
    r"Wir|Ihr|Wenn|Wie|Was|Wer|Als|Alle|Beim|Zum|Zur|Nun|Jetzt|Hier|Über|Unter|Kein\w{0,2})\s)"
    r"([A-ZÄÖÜ][a-zäöüß]{1,30})(?!\w)"
)
# What 1 belongs to: a score, a noun, or what touches it. The listed words may have a capital, too.
_NO_COUNT_BEFORE = re.compile(
    r"(?:[^\s(\[„“\"»«‚']|(?<!\w)zu\s|(?<!\w)(?!(?:Nur|Seit|Mit|Für|Noch|Etwa|Vor|Nach|Ab|Bis|In|Und|Über|Um|"
    r"Auch|Schon|Fast|Mindestens|Maximal|Genau|Circa|Rund|Pro|Ohne|Ich|Sie|Wir)\s)[A-ZÄÖÜ][\w-]*\.?\s)$"
)
_COUNT_IN_DATIVE_BEFORE = re.compile(r"(?<!\w)(?:seit|vor|nach|mit|bei|von|aus|in|ab)\s$", re.IGNORECASE)
# Titles of first chapters.
_HEADINGS = frozenset("Einleitung Einführung Überblick Allgemeines Grundlagen Vorwort Ziel".split())
# Feminine nouns that are counted often, at the end of a compound, too, and endings of others.
_FEMININE_NOUN = re.compile(
    "(?:e|ung|heit|keit|schaft|[^d]ion|tät|ei|[zb]eit|frau|person|stadt|nacht|uhr|bahn|fahrt|hand|tochter|"
    "mutter|schwester|antwort|nummer|tür|bank|zahl|wahl|kuh|maus|insel|regel|gabel|kugel|kartoffel|zwiebel|firma|"
    "pizza|kamera|villa|mail|tafel|kraft|wand|frucht|nuss|wurst|schicht|gegend|figur|feder|prise|dosis)$",
    re.IGNORECASE,
)
# Nouns with such an ending that are not feminine.
_OTHER_NOUN = re.compile(
    "(?:name|junge|kunde|kollege|löwe|hase|affe|käse|gedanke|glaube|buchstabe|wille|experte|zeuge|bote|neffe|"
    "franzose|türke|chinese|däne|schwede|brite|russe|auge|ende|interesse|finale|knie|genie|erbe|gewerbe|riese|"
    "matrose|kaffee|klee|schnee|tee|see|komitee|spion|skorpion|champion)$|^ei$"
    "|^ge(?!schicht|meind|bärd|ig|st|fahr)[a-zäöüß]+e$",
    re.IGNORECASE,
)


def _is_feminine(noun: str) -> bool:
    """Whether the ending of a noun shows that it is feminine."""
    return bool(_FEMININE_NOUN.search(noun)) and not _OTHER_NOUN.search(noun)


# The words before a ruler's name that put it into a case.
_DATIVE_BEFORE = re.compile(
    r"(?<!\w)(?:unter|von|mit|bei|zu|nach|seit|aus|dem|vom|zum)\s(?:[A-ZÄÖÜ]\w+\s){0,3}$", re.I
)
_ACCUSATIVE_BEFORE = re.compile(r"(?<!\w)(?:für|gegen|durch|ohne|um|den)\s(?:[A-ZÄÖÜ]\w+\s){0,3}$", re.I)


class DutchRules(LanguageRules):
    """Dutch."""

    code = "nl"
    spaced_groups = LONG_GROUPS
    cardinals = {"m": "cardinal"}
    point, minus, to, hundreds_form = "komma", "min", "tot", "{}honderd{}"
    year_marks = (
        _year_after_words(
            "jaar|jaren|sinds|tot|van|vanaf|in|na|voor|rond|en|zomer|winter|lente|herfst|januari|"
            "februari|maart|april|mei|juni|juli|augustus|september|oktober|november|december"
        ),
        _YEAR_AT_END,
    )
    # 14.30 uur, 9:00
    clock = re.compile(r"(?<![\w.,:])([0-9]{1,2})(?:[:.]([0-9]{2}))?\suur\b")
    clock_range = _CLOCK_RANGE
    hour_form, second_form = "{} uur", " en {} seconden"
    # 2e, 8ste, 3de
    ordinal_mark = re.compile(r"(?<![\w.,])([0-9]{1,6})(?:e|de|ste)\b")
    calling_words = "bel|tel|telefoon|telefoonnummer|nummer|mobiel"
    months = words("""januari februari maart april mei juni juli augustus september oktober november
        december""")
    short_months = "jan feb/febr mrt/maa* apr - jun jul aug sep/sept okt nov dec"
    percent = Noun.of("procent")
    scales = ("duizend", "miljoen", "miljard")
    thousands = ("duizend",)
    scale_marks = marks("dzd. = 3, mln mln. mio = 6, mld mld. mrd mrd. = 9, bln bln. = 12")
    scale_nouns = scale_words("miljoen, miljard, biljoen")
    denominators = "derde vijfde zesde zevende achtste negende tiende"
    slash, mixed, mixed_half = "gedeeld door", "{} en {}", "{} en een half"
    number_sign = "nummer"
    powers = ("kwadraat", "tot de derde", "tot de macht {}")
    money_joiner = " en "
    currencies = moneys("""€ EUR = euro; cent, $ = dollar; cent, US$ USD = Amerikaanse dollar; cent,
        £ = pond; penny/pence, ¥ = yen""")
    units = science_units("nl") | nouns("""kg = kilogram, g = gram, mg = milligram, t = ton,
        km = kilometer, m = meter,
        cm = centimeter, mm = millimeter, km/u km/h = kilometer per uur, m/s = meter per seconde,
        km² = vierkante kilometer, m² = vierkante meter, m³ = kubieke meter,
        ha = hectare/-n, dB = decibel/-s, l = liter,
        ml = milliliter, u = uur, min = minuut/minuten, sec = seconde/-n,
        °C ℃ = graad/graden + celsius, °F = graad/graden + fahrenheit, ° = graad/graden,
        kW = kilowatt, kWh = kilowattuur, MB = megabyte, GB = gigabyte,
        MiB = mebibyte, GiB = gibibyte""")
    abbreviations = pairs("""bijv. = bijvoorbeeld, bv. = bijvoorbeeld, enz. = enzovoort,
        o.a. = onder andere, d.w.z. = dat wil zeggen, m.b.t. = met betrekking tot, ca. = circa,
        nr. = nummer, prof. = professor, i.p.v. = in plaats van, t.a.v. = ter attentie van,
        a.u.b. = alstublieft, etc. = et cetera, mln. = miljoen, blz. = bladzijde,
        drs. = doctorandus, ir. = ingenieur, mr. = meester, p.# = pagina, tel. = telefoon,
        p.p. = per persoon, fig.# = figuur, art.# = artikel, hfdst.# = hoofdstuk""")
    fractions = {"½": "een half", "¼": "een kwart", "¾": "drie kwart"}
    # IIe eeuw
    roman_ordinal, roman_form = re.compile(rf"(?<![\w'’])({ROMAN})(?=(?:e|ème|er|re|ère|ᵉ)(?![\w'’]))"), "{}"
    rulers = """Willem Lodewijk Hendrik Karel Filips Jan Johannes Paulus Pius Benedictus Leo Gregorius
        George Eduard Jacobus Richard Frederik Napoleon Alexander Nicolaas Peter Ivan Albert Leopold
        Maurits Floris Dirk Otto Ferdinand Frans Jozef Maximiliaan Rudolf Clemens Urbanus Ramses |
        Elizabeth Maria Catharina Margaretha Isabella Anna"""

    def read(self, text: str) -> str:
        """T/m is not a rate: 1 t/m 5 mei."""
        return super().read(_UP_TO_AND_INCLUDING.sub("tot en met", text))

    def ruler_number_words(self, match: re.Match[str], number: int, gender: str, ending: str) -> str:
        """De veertiende."""
        return f"de {self.ordinal(number)}"

    @cached_property
    def read_abbreviations(self) -> Step:
        """Also the street at the end of its name: Kerkstr. 5."""
        read_others = super().read_abbreviations
        return lambda text: read_others(_STREET.sub(lambda m: f"straat{self.sentence_stop(m)}", text))


_UP_TO_AND_INCLUDING = re.compile(r"(?<![\w/])t/m(?![\w/])")
