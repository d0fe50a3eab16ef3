"""Fractions (2/5, ½), and other pairs of numbers: scores (95/100), ratios (16:9), sizes, verses."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from xtts.text.normalization import numerals
from xtts.text.normalization.dates import DateRules
from xtts.text.normalization.numbers import APART, Noun, Step, WrittenNumber, alternatives, pairs
from xtts.text.normalization.units import UnitRules


class FractionRules(UnitRules, DateRules):
    """How a language says fractions and scores."""

    percent: ClassVar[Noun]
    fractions: ClassVar[Mapping[str, str]] = {}
    # The denominators with names, these names, and their gender; the word for the slash of other
    # fractions; the words for a number with a fraction, and with a half.
    DENOMINATORS = (3, 5, 6, 7, 8, 9, 10)
    denominators, denominator_gender, slash = "", "m", ""
    mixed, mixed_half, mixed_gender = "{} {}", "", ""
    # A half of a unit by its gender, if it agrees; the word between another part and its unit.
    halves: ClassVar[Mapping[str, str]] = {}
    part_joiner = " "

    @property
    def percents(self) -> Mapping[str, Noun]:
        """The percent sign and its noun."""
        return {"%": self.percent}

    # --- Fractions

    @cached_property
    def read_fractions(self) -> Step:
        """Reads fractions, alone and after a number, with the unit after them: ⅔, 2 1/2 kg."""
        hour = {"h": self.times["h"]} if "h" in self.times else {}
        nouns = {**hour, **self.units, **self.percents}
        unit = rf"(?:[\s-]?({alternatives(nouns)}){self.unit_end})?"
        mixed = re.compile(
            rf"{self.begin}(?<![$€£])(?!0[0-9])([0-9]{{1,6}})(?:\s?({_SIGNS})"
            rf"|[ -]([1-9]/(?:[2-9]|10|16))){self.end}(?!/|[.,-]\d){unit}"
        )
        alone = re.compile(rf"({_SIGNS}){unit}|{self.begin}({_PLAIN}){self.end}(?!/|[.,]\d){unit}")

        def with_whole(match: re.Match[str]) -> str:
            top, bottom = _fraction(match[2] or match[3])
            noun = nouns.get(match[4] or "")
            if top >= bottom or is_numbered(match):
                return match[0]
            if noun and "-" in match.string[match.start(4) - 1 : match.start(4)]:
                noun = Noun.of(noun.one, noun.gender)
            if noun:
                return f" {self.measured(int(match[1]), noun, top, bottom)}{self.stop(match)}"
            whole = self.whole(match[1], self.mixed_gender)
            return f" {self.mixed_words(int(match[1]), whole, top, bottom)} "

        def part(match: re.Match[str]) -> str:
            top, bottom = _fraction(match[1] or match[3])
            noun = nouns.get(match[2] or match[4] or "")
            if match[3] and not self.is_fraction(match, top, bottom, counted=noun is not None):
                return match[0]
            if noun is None:
                words = self.part_before(match, top, bottom)
                return f" {words} " if match[1] else words
            return f" {self.part_of(noun, top, bottom)}{self.stop(match)}"

        def step(text: str) -> str:
            if not text.isascii() or "/" in text:
                text = alone.sub(part, mixed.sub(with_whole, text))
            return re.sub(r"(?<=\w) \+ (?=\w)", f" {self.plus} ", text)

        return step

    def is_fraction(self, match: re.Match[str], top: int, bottom: int, *, counted: bool) -> bool:
        """Whether plain figures are a fraction, and no score, part of a series or date. counted:
        whether a unit follows."""
        if top >= bottom or is_numbered(match):
            return False
        if counted or _OF.match(match.string, match.end()):
            return True
        before = match.string[max(0, match.start() - 20) : match.start()]
        if re.search(rf"(?<!\w)(?:{self.date_words})\s$", before, re.IGNORECASE):
            return False
        if bottom == 10:
            return self.code not in OUT_OF
        return bottom < 10

    def measured(self, number: int, noun: Noun, top: int, bottom: int) -> str:
        """A number with a fraction and its unit."""
        whole = self.whole(str(number), noun.gender)
        form = self.form(WrittenNumber(str(number), "5"), noun)
        return f"{self.mixed_words(number, whole, top, bottom)}{self.space}{form}"

    def part_of(self, noun: Noun, top: int, bottom: int) -> str:
        """A fraction of a unit."""
        form = noun.part if noun.part != noun.many else noun.one
        if (top, bottom) == (1, 2) and noun.gender in self.halves:
            return f"{self.halves[noun.gender]} {form}"
        joiner = self.part_joiner if self.spaced else ""
        if self.code in ("fr", "it") and form[0] in "aeiouhéè":
            joiner = " d'"
        return f"{self.part_words(top, bottom)}{joiner}{form}"

    def part_before(self, match: re.Match[str], top: int, bottom: int) -> str:
        """A fraction without a unit, which agrees with the noun after it: media taza. An article
        before it takes the place of its one."""
        after = match.string[match.end() : match.end() + 40]
        half = self.halves.get(self.half_gender(after)) if (top, bottom) == (1, 2) else None
        words = half or self.part_words(top, bottom)
        before = match.string[max(0, match.start() - 8) : match.start()]
        if _ARTICLE.search(before) and self.code != "en":
            words = re.sub(r"^(?:eine?|une?|una|um|uma|een) ", "", words)
        return words

    def half_gender(self, after: str) -> str:
        """The gender of the noun after a half; "" if it is not known."""
        for gender, nouns in _HALVED.get(self.code, {}).items():
            if re.match(rf"\s(?:{nouns})\b", after):
                return gender
        return ""

    def part_words(self, top: int, bottom: int) -> str:
        """A fraction in words."""
        if words := self.fractions.get(_CHARACTERS.get((top, bottom), "")):
            return words
        names = dict(zip(self.DENOMINATORS, self.denominators.split(), strict=False))
        if bottom not in names:
            return f"{self.cardinal(top)} {self.slash} {self.cardinal(bottom)}"
        noun = Noun.of(names[bottom], self.denominator_gender)
        number = WrittenNumber(str(top))
        return f"{self.words(number, noun.gender)} {self.form(number, noun)}"

    def mixed_words(self, number: int, whole: str, top: int, bottom: int) -> str:
        """A number with a fraction. whole: the number in words."""
        if (top, bottom) == (1, 2) and self.mixed_half:
            return self.mixed_half.format(whole)
        return self.mixed.format(whole, self.part_words(top, bottom))

    # --- Scores and other pairs

    def read_pairs(self, text: str) -> str:
        """Reads verses, scores, sizes and other pairs, and keeps their two numbers apart."""
        if ":" in text:
            text = _VERSE.sub(rf"\1\2{APART}\3", text)
            if self.code in RATIO:
                text = _NAMED_RATIO.sub(lambda match: match[1] + self.ratio(*match.group(2, 3)), text)
        if self.code in BY:
            text = _SIZE.sub(f" {BY[self.code]} ", _PRODUCT.sub(" × ", text))
        if self.code in TIMES:
            text = (_TIMES_ENGLISH if self.code == "en" else _TIMES).sub(f" {TIMES[self.code]}", text)
        if "/" not in text:
            return text
        if self.spaced:
            if words := OUT_OF.get(self.code):
                text = _MARK.sub(lambda match: self._scored(match[1], match[2], words), text)
            text = _PAIR.sub(self._paired, _SEASON.sub(self._season, text))
        return _BAR.sub(APART, text)

    def read_ratios(self, text: str) -> str:
        """Reads ratios: 16:9."""
        if ":" not in text or not self.spaced:
            return text
        return _RATIO.sub(lambda match: self.ratio(*match.groups()), text)

    def ratio(self, first: str, second: str) -> str:
        """The two numbers of a ratio or a score with the word between them."""
        return f"{first} {RATIO[self.code]} {second}" if self.code in RATIO else first + APART + second

    def _season(self, match: re.Match[str]) -> str:
        """Twenty twenty-two twenty-three."""
        year, last = int(match[1]), int(match[2])
        return f"{self.year(year)}{APART}{last}" if (year + 1) % 100 == last else match[0]

    def _paired(self, match: re.Match[str]) -> str:
        first, second = match.groups()
        top, bottom = int(first), int(second)
        words = OUT_OF.get(self.code, "")
        if is_numbered(match):
            words = ""
        if top < bottom and _PAGES.search(match.string[max(0, match.start() - 20) : match.start()]):
            return f"{first} {self.to} {second}"
        pressure = _PRESSURE.search(match.string[max(0, match.start() - 40) : match.start()])
        if pressure and self.code in OVER:
            return f"{first} {OVER[self.code]} {second}"
        if words and (
            (1 < top < bottom and bottom in _TOPS.get(self.code, _FULL_MARKS))
            or top == bottom in (10, 20, 100)
        ):
            return self._scored(first, second, words)
        equation = re.match(r"\s?=", match.string[match.end() :])
        if self.slash and (equation or (top == 1 and bottom > 31)):
            return f"{first} {self.slash} {second}"
        # Three figures after others could be taken for the rest of one number.
        return f"{first}, {second}" if len(second) > 2 else f"{first}{APART}{second}"

    def _scored(self, first: str, second: str, words: str) -> str:
        forms = dict(form.split("=") for form in words.split("; ")[1:])
        return words.split("; ")[0].format(first, forms.get(second, second))


# "95 out of 100": the words, and forms that a number takes in them.
OUT_OF = pairs("""en = {} out of {}, de = {} von {}, fr = {} sur {}, es = {} sobre {},
    it = {} su {}, pt = {} de {}, nl = {} van de {}, pl = {} na {}, ar = {} من {},
    tr = {1} üzerinden {0}, hu = {1} {0}; 10=tízből; 20=húszból; 50=ötvenből; 100=százból,
    cs = {} {}; 10=z deseti; 20=z dvaceti; 50=z padesáti; 100=ze sta; 1000=z tisíce,
    ru = {} из {}; 10=десяти; 20=двадцати; 50=пятидесяти; 100=ста; 1000=тысячи""")
# The best marks that are possible; Italian schools and universities have three.
_FULL_MARKS = (10, 20, 50, 100, 1000)
_TOPS = {"it": (*_FULL_MARKS, 30, 110)}
# Between the two numbers of a ratio, and of a blood pressure.
RATIO = pairs("en = to, de = zu, nl = op, pl = do, es = a, it = a, pt = por, fr = sur")
# 3x a day.
TIMES = pairs("en = times, de = mal, nl = keer, fr = fois, es = veces, pt = vezes, it = volte")
# Between the two of a size.
BY = pairs("""en = by, de = mal, nl = bij, fr = sur, es = por, it = per, pt = por, pl = na, cs = krát,
    ru = на""")
OVER = pairs("en = over, de = zu, fr = sur, es = sobre, it = su, pt = por, nl = over, pl = na")
# Nouns of which one takes a half, by gender, in languages whose endings do not show it.
_HALVED = {
    "de": {
        "f": "Tasse|Stunde|Packung|Flasche|Dose|Zwiebel|Zitrone|Seite|Portion|Minute|Gurke|Scheibe",
        "n": "Glas|Jahr|Stück|Brot|Huhn|Ei|Bund|Päckchen",
        "m": "Becher|Tag|Apfel|Monat|Löffel|Teelöffel|Esslöffel|Würfel|Kopf",
    },
    "fr": {"f": "tasse|heure|journée|bouteille|douzaine|page|cuillère|cuillerée|pomme|année"},
}
_ARTICLE = re.compile(r"(?<!\w)(?:eine[rnms]?|ein|une?|una|um|uma|een)\s$", re.I)
# Fractions that are one character, and figures that may be a fraction.
_SIGNS = "[¼½¾⅐-⅟↉]"
_CHARACTERS = {(1, 2): "½", (1, 4): "¼", (3, 4): "¾"}
_PLAIN = r"[1-9]/(?:[2-9]|10)|(?:1[0-5]|[1-9])/16|[1-9][0-9]?/(?:12|32|64|100|1000)"
_OF = re.compile(r"\s(?:of|der|des|de|du|di|del|della|dei|degli|van|do|da|dos|das|inch(?:es)?|z)\b")
_BAR = re.compile(r"(?<=[0-9])/(?=[0-9])")
_MARK = re.compile(r"(?<![\w.,:/-])([0-9][.,][0-9])/(10|5)(?![\w/-]|[.,:]\d)")
_PAIR = re.compile(r"(?<![\w.,:/-])([1-9][0-9]{0,4})/([1-9][0-9]{0,4})(?![\w/-]|[.,:]\d)", re.ASCII)
_RATIO = re.compile(r"(?<![\d:.,])([0-9]{1,3}):([0-9]{1,3})(?![\d:]|[.,]\d)")
# A ratio after its noun, which is not a time: scale 1:10.
_NAMED_RATIO = re.compile(
    r"((?<!\w)(?:ratios?|scale|odds|maßstab|verhältnis|échelle|rapport|escala|proporción|razão|proporção|"
    r"scala|rapporto|schaal|verhouding|skal[aię]|proporcj[aię])\s(?:(?:of|is|von|de|di|van)\s)?)"
    r"([0-9]{1,4}):([0-9]{1,4})(?![\d:]|[.,]\d)",
    re.I,
)
# The x of 2x4 and 3 x 5 cm, but not of 6 x 7 = 42.
_SIZE = re.compile(
    r"(?<=[0-9])(?<!(?<!\w)0)(?:x|\sx\s)(?=[0-9]+(?:[.,][0-9]+)?(?![\d.,]*\s?=)(?:\s?x|\W|$|[cm]?m(?!\w)))"
)
_TIMES = re.compile(r"(?<=[0-9])x(?=\s[^\W\d_A-Z]{2})")
_TIMES_ENGLISH = re.compile(
    r"(?<=[0-9])x(?=\s(?:a|an|as|per|daily|weekly|more|less|faster|slower|larger|bigger|smaller|higher|lower|"
    r"better|worse|longer|shorter|cheaper|the)(?!\w))"
)
# A season, a school year, a fiscal year.
_SEASON = re.compile(r"(?<![\d.,/–-])(1[5-9][0-9]{2}|20[0-9]{2})/([0-9]{2})(?![\w/-]|[.,]\d)")
_PRODUCT = re.compile(r"(?<=[0-9])(?:x|\sx\s)(?=[0-9]+(?:[.,][0-9]+)?\s?=)")
_PRESSURE = re.compile(
    r"(?:pressure|\bbp|blutdruck|tension|presión|pressione|pressão|bloeddruk|ciśnienie)\b[^.!?\d]*$", re.I
)
# Words that number what follows: "page 1/5" is the first of five.
_NUMBERED = (
    "№|no|nr|nº|n°|núm|номер|numer|číslo|numéro|número|numero|nummer|chapter|chapters|part|page|pages|verse|psalm|track|episode|lesson|volume|season|step|section|scene|act|size|room|"
    "level|grade|question|exercise|figure|table|slide|disc|day|number|kapitel|teil|folge|seite|"
    "größe|zimmer|raum|stufe|aufgabe|frage|abbildung|tabelle|tag|band|chapitre|partie|épisode|"
    "taille|salle|niveau|exercice|tableau|tome|jour|capítulo|parte|episodio|página|talla|sala|"
    "nivel|pregunta|ejercicio|tabla|episódio|tamanho|nível|questão|exercício|capitolo|pagina|"
    "taglia|livello|domanda|esercizio|tabella|hoofdstuk|deel|aflevering|maat|kamer|vraag|rozdział|"
    "część|odcinek|strona|stronie|rozmiar|pokój|poziom|pytanie|zadanie|kapitola|část|díl|strana|"
    "velikost|pokoj|fejezet|rész|oldal|méret|szoba|bölüm|sayfa|oda|глава|часть|серия|страница|"
    "странице|размер|комната|уровень|вопрос"
)
# A verse of a chapter: chapter 12:3, John 3:16.
_VERSE = re.compile(
    r"((?<!\w)(?:chapters?|kapitel|chapitre|capítulo|capitolo|hoofdstuk|rozdział|psalms?|psaume|salmo|"
    r"genesis|exodus|leviticus|numbers|deuteronomy|joshua|proverbs|ecclesiastes|isaiah|jeremiah|"
    r"matthew|mark|luke|john|acts|romans|corinthians|galatians|ephesians|hebrews|revelation|"
    r"matthäus|markus|lukas|johannes|mateo|marcos|lucas|juan|matteo|marco|luca|giovanni|matthieu|"
    r"marc|luc|jean|mateus|joão)\s)([0-9]{1,3}):([0-9]{1,3})(?!\d|:|\s?[ap]\.?m\b)",
    re.I,
)
# Words in the plural, which number from one to another.
_PAGES = re.compile(
    r"(?<!\w)(?:pages|seiten|páginas|pagine|bladzijden|pagina's|strony|stronach|strany|страницы|"
    r"chapters|kapitel|chapitres|capítulos|capitoli)\s$",
    re.I,
)
_NUMBERED_BEFORE = re.compile(rf"(?<!\w)(?:{_NUMBERED})\.?\s$", re.I)


def is_numbered(match: re.Match[str]) -> bool:
    """Whether the number of a match belongs to the word before it, as in "page 5"."""
    return bool(_NUMBERED_BEFORE.search(match.string[max(0, match.start() - 20) : match.start()]))


def _fraction(written: str) -> tuple[int, int]:
    top, slash, bottom = written.partition("/")
    return (int(top), int(bottom)) if slash else numerals.fraction_of(written)
