"""Roman numerals in letters: Chapter IV, the XXI century, Louis XIV, World War II, Apollo XIII.

I, V and X are letters, too. A numeral is therefore read only next to a noun that takes a number: a
part of a book, a century, a war, a ruler. A numeral of two letters or more is also read after any
other capitalised word, as a cardinal.
"""

import re
from functools import cached_property

from xtts.text.normalization.nouns import pairs
from xtts.text.normalization.numbers import NEVER, NumberRules, Pattern, spell

# What a text with a numeral has; the last is Cyrillic.
ANY = re.compile("[IVXХ]")
_DIGITS = r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})"
_ROMAN = rf"{_DIGITS}(?![\w'’])"
_VALUES = {"I": 1, "V": 5, "X": 10}

# A part of a book, a world war, a century: the word before its number, in any language.
_NUMBERED = re.compile(
    r"((?<!\w)(?:chapter|part|volume|vol\.|ch\.|cap\.|chap\.|kap\.|bd\.|"
    r"book|act|scene|section|article|appendix|phase|class|episode|stage|world war|"
    r"kapitel|teil|band|buch|akt|szene|abschnitt|chapitre|partie|tome|livre|acte|scène|titre|"
    r"capítulo|parte|tomo|libro|acto|escena|título|siglos?|séc\.|sec\.|s\.|inc\.|capitolo|atto|scena|volumen|livro|ato|"
    r"cena|séculos?|hoofdstuk|deel|boek|rozdział|część|tom|księga|akt)\s)"
    # "Part I played" does not number a part.
    rf"(?-i:(?!I\s[\w])({_ROMAN}))",
    re.I,
)
# Rocky II, but not "Give IV fluids".
_TITLED = re.compile(
    r"(?<!\w)((?!The\s|And\s)[^\W\d_a-zà-ÿ][\w’'-]{2,}\s)(?!(?:IV|VI|XX|XXX)(?!\w))(?=[IVX]{2})"
    rf"({_ROMAN})"
)
_WORLD_WAR = re.compile(r"(?<!\w)WW(I{1,2})(?!\w)")
# French and Dutch: XIXe siècle, IIe eeuw.
_MARKED = re.compile(rf"(?<![\w'’])({_DIGITS})(e|ème|er|re|ère|ᵉ)(?![\w'’])")
_MARKING = ("fr", "nl")
# What follows an ordinal, and its form in figures, which a later step reads.
_BEFORE_NOUN = {
    "en": (r"(?:th|st|nd|rd)?\s(?=[Cc]entur(?:y|ies)\b)", "{}th "),
    "it": (r"°?\s(?=secol[oi]\b)", "{}º "),
    "de": (r"\.\s(?=Jahrhundert|Jahrtausend|Weltkrieg|Jh\.)", "{}. "),
    "cs": (r"\.\s(?=století|tisíciletí|světov)", "{}. "),
    "hu": (r"\.\s(?=[a-záéíóöőúüű])", "{}. "),
    "tr": (r"\.\s(?=yüzyıl|yy\.|binyıl)", "{}. "),
}
# Before the name of a ruler or of a war.
_BEFORE_NAME = {"hu": r"\.\s(?=[A-ZÁÉÍÓÖŐÚÜŰ][a-záéíóöőúüű])", "tr": r"\.\s(?=[A-ZÇİÖŞÜ][a-zçğıöşü])"}
_WARS = {
    "es": "guerra mundial",
    "it": "guerra mondiale",
    "pt": "guerra mundial",
    "pl": "wojna|wojny|wojnie|wojnę|wojną",
}
# Centuries and wars by their endings: the gender and case of the ordinal.
_CENTURIES = {
    "pl": "wiek|wieku|wiekowi|wiekiem|wieków|wiekach|stulecie|stulecia|stuleciu|stuleciem|w\\.",
    "ru": "век|века|веку|веком|веке|веков|веках|столетие|столетия|столетию|столетием|столетии|вв?\\.",
}
_CASES = pairs("""wiek = m, wieku = m-gen, wiekowi = m-dat, wiekiem = m-loc, wieków = m-gen,
    wiekach = m-loc, stulecie = n, stulecia = m-gen, stuleciu = m-loc, stuleciem = m-loc,
    wojna = f, wojny = f-gen, wojnie = f-gen, wojnę = f-ins, wojną = f-ins,
    век = m, века = m-gen, веку = m-dat, веком = m-abl, веке = m-loc, веков = m-gen, веках = m-loc,
    столетие = n, столетия = n-gen, столетию = n-dat, столетием = n-abl, столетии = n-loc""")
_LOCATING = re.compile(r"(?<!\w)(?:w|we|po|na|o|в|во|на|о)\s$", re.I)
_SHORT_CENTURIES = {"w.": ("wieku", "wieku"), "в.": ("века", "веке"), "вв.": ("веков", "веках")}

# The names of rulers and popes: men's, and after the bar women's. Slavic names are stems.
_RULERS = {
    "en": """Henry Louis George Edward Charles James William Richard John Paul Pius Benedict Philip
        Frederick Alexander Napoleon Nicholas Peter Francis Leo Gregory Clement Innocent Ramses
        Emmanuel Alfonso Ferdinand Leopold Albert Christian Gustav Carl Harald Haakon Otto Ivan
        Xerxes Darius Ptolemy Constantine Theodosius Baldwin Robert Umberto Pedro Carlos Sixtus Urban
        Boniface Julius Adrian Stephen Wilhelm Ludwig Friedrich Karl Franz Maximilian Rudolf Joseph
        Thutmose Amenhotep Mehmed Murad Selim Suleiman Justinian Basil Michael |
        Elizabeth Mary Catherine Isabella Margaret Beatrix Anne Cleopatra Maria Christina Margrethe""",
    "de": """Ludwig Wilhelm Friedrich Heinrich Karl Otto Franz Josef Joseph Leopold Maximilian Rudolf
        Ferdinand Johannes Paul Pius Benedikt Leo Gregor Georg Eduard Jakob Richard Philipp Albrecht
        Konrad Ramses Napoleon Alexander Nikolaus Peter Iwan Gustav Adolf Christian Albert August
        Innozenz Clemens Urban Sigismund |
        Elisabeth Katharina Maria Margarethe Isabella Beatrix Kleopatra Christina""",
    "nl": """Willem Lodewijk Hendrik Karel Filips Jan Johannes Paulus Pius Benedictus Leo Gregorius
        George Eduard Jacobus Richard Frederik Napoleon Alexander Nicolaas Peter Ivan Albert Leopold
        Maurits Floris Dirk Otto Ferdinand Frans Jozef Maximiliaan Rudolf Clemens Urbanus Ramses |
        Elizabeth Maria Catharina Margaretha Isabella Anna""",
    "fr": """Louis Henri Charles François Philippe Napoléon Jean Paul Pie Benoît Léon Grégoire Édouard
        Georges Jacques Richard Guillaume Frédéric Nicolas Pierre Ivan Alphonse Ferdinand Léopold
        Albert Clovis Robert Clément Innocent Urbain Sixte Jules Adrien Ramsès |
        Élisabeth Elisabeth Marie Catherine Isabelle Marguerite Anne Christine""",
    "es": """Felipe Carlos Fernando Alfonso Juan Pablo Pío Benedicto León Gregorio Luis Enrique
        Eduardo Jorge Jacobo Ricardo Guillermo Federico Napoleón Alejandro Nicolás Pedro Iván Sancho
        Ramiro Jaime Amadeo Francisco Leopoldo Alberto Clemente Inocencio Urbano Sixto Julio Adriano
        Otón Rodolfo Maximiliano José Ramsés |
        Isabel María Catalina Juana Margarita Cristina Beatriz Urraca Ana""",
    "pt": """Pedro João Paulo Afonso Sancho Fernando Duarte Manuel Filipe José Luís Carlos Miguel
        Henrique Jorge Eduardo Pio Bento Leão Gregório Napoleão Alexandre Nicolau Guilherme Frederico
        Ricardo Clemente Inocêncio Urbano Júlio Ramsés Francisco Leopoldo Alberto |
        Isabel Elizabeth Maria Catarina Joana Margarida Beatriz Ana""",
    "it": """Luigi Carlo Emanuele Umberto Amedeo Enrico Giorgio Edoardo Giacomo Guglielmo Federico
        Napoleone Alessandro Nicola Pietro Ivan Filippo Ferdinando Francesco Giuseppe Leopoldo
        Massimiliano Rodolfo Ottone Giovanni Paolo Pio Benedetto Leone Gregorio Clemente Innocenzo
        Urbano Sisto Giulio Adriano Alfonso Ramses Corrado Roberto |
        Elisabetta Maria Caterina Giovanna Margherita Isabella Anna Cristina""",
    "pl": """Jan Paweł Pawł Zygmunt August Władysław Kazimierz Bolesław Mieszk Henryk Ludwik Karol
        Fryderyk Wilhelm Aleksander Aleksandr Mikołaj Piotr Iwan Stanisław Filip Edward Benedykt Pius
        Grzegorz Leon Napoleon Ramzes Otton | Elżbiet Katarzyn Mari Ann Krystyn Izabel Małgorzat""",
    "cs": """Karel Karl Rudolf Václav Ferdinand Josef František Františk Leopold Vladislav Zikmund
        Matyáš Ludvík Jindřich Vilém Fridrich Napoleon Jan Pavel Pavl Petr Mikuláš Alexandr Eduard
        Filip Otakar Boleslav Břetislav Maxmilián Benedikt Ivan | Mari Alžbět Kateřin Ann""",
    "ru": """Пётр Петр Иван Николай Никола Александр Павел Павл Карл Людовик Генрих Георг Вильгельм
        Фридрих Наполеон Иоанн Василий Васили Алексей Алексе Михаил Рамсес Филипп Бенедикт Григорий
        Григори Фёдор Федор Эдуард Яков Оттон Франц Фердинанд Леопольд Мехмед |
        Екатерин Елизавет Анн Мари Маргарит Изабелл""",
}
# The case endings of names, with the gender and case of the ordinal.
_ENDINGS = {
    "pl": (
        pairs("\n = m, o = m, a = m-gen, owi = m-dat, em = m-loc, u = m-loc"),
        pairs("a = f, y = f-gen, i = f-gen, ie = f-gen, ę = f-ins, ą = f-ins"),
    ),
    "cs": (
        pairs("a = m-gen, e = m-gen, ovi = m-dat, em = m-ins, u = m-dat"),
        pairs("a = f, e = f, y = f-gen, ě = f-loc, u = f-acc"),
    ),
    "ru": (
        pairs("а = m-gen, я = m-gen, у = m-dat, ю = m-dat, ом = m-abl, ем = m-abl, е = m-loc, и = m-loc"),
        pairs("а = f, я = f, ы = f-gen, и = f-gen, е = f-loc, у = f-acc, ю = f-acc, ой = f-gen, ей = f-gen"),
    ),
}
# In English, I is a word, too.
_NO_PRONOUN = (
    r"(?!I(?![IVX,;:.)]|['’]s\b|\s(?:of|was|had|and|who|came|died|ruled|reigned|became|in|from)\b|$))"
)
# German: the words before a name that put it into a case.
_DATIVE = re.compile(
    r"(?<!\w)(?:unter|von|mit|bei|zu|nach|seit|aus|dem|vom|zum)\s(?:[A-ZÄÖÜ]\w+\s){0,3}$", re.I
)
_ACCUSATIVE = re.compile(r"(?<!\w)(?:für|gegen|durch|ohne|um|den)\s(?:[A-ZÄÖÜ]\w+\s){0,3}$", re.I)


class RomanRules(NumberRules):
    """How a language reads Roman numerals."""

    def read_roman(self, text: str) -> str:
        """A text whose Roman numerals are figures or words."""
        if self.code in _CENTURIES or self.code in _WARS:
            text = self._read_cases(text)
        if self.code in _MARKING:
            text = _MARKED.sub(lambda m: f"{roman_value(m[1])}{m[2]}", text)
        if self.code in _BEFORE_NOUN:
            after, form = _BEFORE_NOUN[self.code]
            noun = re.compile(rf"(?<!\w)({_DIGITS}){after}")
            text = noun.sub(lambda m: form.format(roman_value(m[1])), text)
        if self.code in _BEFORE_NAME:
            name = re.compile(rf"(?<![\w.])({_DIGITS}){_BEFORE_NAME[self.code]}")
            text = name.sub(lambda m: f"{self.ordinal(roman_value(m[1]))} ", text)
        text = _NUMBERED.sub(lambda m: f"{m[1]}{roman_value(m[2])}", text)
        if self.code == "en":
            text = _WORLD_WAR.sub(lambda m: f"World War {len(m[1])}", text)
        text = self._rulers.sub(self._ruler, text)
        return _TITLED.sub(lambda m: f"{m[1]}{roman_value(m[2])}", text) if self.spaced else text

    def _read_cases(self, text: str) -> str:
        """Ordinals that agree with the noun after them: w XX wieku, la II Guerra Mundial."""
        if nouns := _CENTURIES.get(self.code):
            digits = "[IVXХІ]{1,6}" if self.code == "ru" else _DIGITS
            century = re.compile(
                rf"(?<![\w'’])({digits})(?:(\s?[–—-]\s?|\s[iи]\s)({digits}))?\s({nouns})(?!\w)"
            )
            text = century.sub(self._century, text)
        if nouns := _WARS.get(self.code):
            war = re.compile(rf"(?<![\w'’])(I{{1,3}})\s(?=({nouns})(?!\w))", re.I)
            text = war.sub(lambda m: f"{self.ordinal(len(m[1]), _CASES.get(m[2].casefold(), 'f'))} ", text)
        return text

    def _century(self, match: re.Match[str]) -> str:
        numerals = [numeral.replace("Х", "X").replace("І", "I") for numeral in match.group(1, 3) if numeral]
        if not all(re.fullmatch(_DIGITS, numeral) for numeral in numerals):
            return match[0]
        noun = match[4]
        if noun in _SHORT_CENTURIES:
            located = bool(_LOCATING.search(match.string[max(0, match.start() - 4) : match.start()]))
            noun, case = _SHORT_CENTURIES[noun][located], "m-loc" if located else "m-gen"
        else:
            case = _CASES[noun]
            if noun == "wieku" and _LOCATING.search(match.string[max(0, match.start() - 4) : match.start()]):
                case = "m-loc"
        spoken = (match[2] or "").join(self.ordinal(roman_value(numeral), case) for numeral in numerals)
        return f"{spoken} {noun}{self.stop(match)}"

    @cached_property
    def _rulers(self) -> Pattern:
        """A name (group 1 a man's, 2 a woman's), its ending (3) and its numeral (4)."""
        if self.code not in _RULERS:
            return NEVER
        men, women = ("|".join(names.split()) for names in _RULERS[self.code].split("|"))
        ending, dot, letter = "()", "", ""
        if self.code in _ENDINGS:
            endings = sorted({*_ENDINGS[self.code][0], *_ENDINGS[self.code][1]}, key=len, reverse=True)
            ending = f"({'|'.join(endings)})?"
        if self.code == "de":
            ending = "(s)?"
        if self.code in ("de", "cs"):
            dot = r"\."
        if self.code == "en":
            letter = _NO_PRONOUN
        return re.compile(
            rf"(?<!\w)(?:({men})|({women})){ending}\s{letter}({_DIGITS})(?!\w|['’](?!s\b)){dot}"
        )

    def _ruler(self, match: re.Match[str]) -> str:
        woman, number = bool(match[2]), roman_value(match[4])
        name, gender = match[0][: match.start(4) - match.start() - 1], "f" if woman else "m"
        return f"{name} {self.ruler(match, number, gender, match[3] or '')}{self.stop(match)}"

    def ruler(self, match: re.Match[str], number: int, gender: str, ending: str) -> str:
        """The words after a ruler's name. ending: that of the name, which tells its case."""
        if self.code == "en":
            return f"the {self.ordinal(number)}"
        if self.code == "nl":
            return f"de {self.ordinal(number)}"
        if self.code == "de":
            return self._german_ruler(match, number, gender, ending)
        if self.code in _ENDINGS:
            return self.ordinal(number, _ENDINGS[self.code][gender == "f"].get(ending, gender))
        most = {"fr": 1, "es": 10, "pt": 10}.get(self.code, 39)
        return self.ordinal(number, gender) if number <= most else self.cardinal(number)

    def _german_ruler(self, match: re.Match[str], number: int, gender: str, ending: str) -> str:
        """Der Zweite, des Zweiten, dem Zweiten."""
        before = match.string[max(0, match.start() - 60) : match.start()]
        if ending:
            article = "der" if gender == "f" else "des"
        elif _DATIVE.search(before):
            article = "der" if gender == "f" else "dem"
        elif gender == "m" and _ACCUSATIVE.search(before):
            article = "den"
        else:
            return f"{'die' if gender == 'f' else 'der'} {spell('de', number, 'ordinal')}"
        return f"{article} {spell('de', number, 'ordinal')}n"


def roman_value(numeral: str) -> int:
    """The value of a Roman numeral below 40."""
    values = [_VALUES[digit] for digit in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
