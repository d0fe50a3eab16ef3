"""Two numbers that belong together: scores (95/100), ratios (16:9), sizes, verses."""

import re

from xtts.text.normalization.numbers import APART, NumberRules, pairs


class ScoreRules(NumberRules):
    """How a language reads scores and other pairs of numbers."""

    # The word for the slash of fractions.
    slash = ""

    def read_pairs(self, text: str) -> str:
        """Reads verses, scores, sizes and other pairs, and keeps their two numbers apart."""
        if ":" in text:
            text = _VERSE.sub(rf"\1\2{APART}\3", text)
            if self.code in RATIO:
                text = _NAMED_RATIO.sub(lambda m: m[1] + self.ratio_words(m[2], m[3]), text)
        if self.code in BY:
            text = _SIZE.sub(f" {BY[self.code]} ", _PRODUCT.sub(" × ", text))
        if self.code in TIMES:
            text = (_TIMES_ENGLISH if self.code == "en" else _TIMES).sub(f" {TIMES[self.code]}", text)
        if "/" not in text:
            return text
        if self.has_spaces:
            if self.code in OUT_OF:
                text = _DECIMAL_MARK.sub(lambda m: self._score_words(m[1], m[2]), text)
            text = _PAIR.sub(self._read_pair, _SEASON.sub(self._read_season, text))
        return _SLASH.sub(APART, text)

    def read_ratios(self, text: str) -> str:
        """Reads ratios: 16:9."""
        if ":" not in text or not self.has_spaces:
            return text
        return _RATIO.sub(lambda match: self.ratio_words(*match.groups()), text)

    def ratio_words(self, first: str, second: str) -> str:
        """The two numbers of a ratio or a score with the word between them."""
        return f"{first} {RATIO[self.code]} {second}" if self.code in RATIO else first + APART + second

    def _read_season(self, match: re.Match[str]) -> str:
        """Twenty twenty-two twenty-three."""
        first_year, last_digits = int(match[1]), int(match[2])
        if (first_year + 1) % 100 != last_digits:
            return match[0]
        return f"{self.year(first_year)}{APART}{last_digits}"

    def _read_pair(self, match: re.Match[str]) -> str:
        first, second = match.groups()
        top, bottom = int(first), int(second)
        before = match.string[max(0, match.start() - 40) : match.start()]
        if top < bottom and _PAGES_BEFORE.search(before[-20:]):
            return f"{first} {self.to} {second}"
        if self.code in OVER and _PRESSURE_BEFORE.search(before):
            return f"{first} {OVER[self.code]} {second}"
        is_score = (1 < top < bottom and bottom in _MAX_MARKS.get(self.code, _USUAL_MAX_MARKS)) or (
            top == bottom in (10, 20, 100)
        )
        if is_score and self.code in OUT_OF and not follows_label(match):
            return self._score_words(first, second)
        is_equation = re.match(r"\s?=", match.string[match.end() :])
        if self.slash and (is_equation or (top == 1 and bottom > 31)):
            return f"{first} {self.slash} {second}"
        # Three figures after others could be taken for the end of one number.
        return f"{first}, {second}" if len(second) > 2 else f"{first}{APART}{second}"

    def _score_words(self, points: str, max_points: str) -> str:
        form, *number_forms = OUT_OF[self.code].split("; ")
        inflected = dict(number_form.split("=") for number_form in number_forms)
        return form.format(points, inflected.get(max_points, max_points))


# "95 out of 100": the words, and forms that a number takes in them.
OUT_OF = pairs("""en = {} out of {}, de = {} von {}, fr = {} sur {}, es = {} sobre {},
    it = {} su {}, pt = {} de {}, nl = {} van de {}, pl = {} na {}, ar = {} من {},
    tr = {1} üzerinden {0}, hu = {1} {0}; 10=tízből; 20=húszból; 50=ötvenből; 100=százból,
    cs = {} {}; 10=z deseti; 20=z dvaceti; 50=z padesáti; 100=ze sta; 1000=z tisíce,
    ru = {} из {}; 10=десяти; 20=двадцати; 50=пятидесяти; 100=ста; 1000=тысячи""")
# The best marks of schools; Italian schools and universities have three.
_USUAL_MAX_MARKS = (10, 20, 50, 100, 1000)
_MAX_MARKS = {"it": (*_USUAL_MAX_MARKS, 30, 110)}
# Between the two numbers of a ratio.
RATIO = pairs("en = to, de = zu, nl = op, pl = do, es = a, it = a, pt = por, fr = sur")
# 3x a day.
TIMES = pairs("en = times, de = mal, nl = keer, fr = fois, es = veces, pt = vezes, it = volte")
# Between the two numbers of a size.
BY = pairs("""en = by, de = mal, nl = bij, fr = sur, es = por, it = per, pt = por, pl = na, cs = krát,
    ru = на""")
# Between the two numbers of a blood pressure.
OVER = pairs("en = over, de = zu, fr = sur, es = sobre, it = su, pt = por, nl = over, pl = na")
_SLASH = re.compile(r"(?<=[0-9])/(?=[0-9])")
_DECIMAL_MARK = re.compile(r"(?<![\w.,:/-])([0-9][.,][0-9])/(10|5)(?![\w/-]|[.,:]\d)")
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
_PRESSURE_BEFORE = re.compile(
    r"(?:pressure|\bbp|blutdruck|tension|presión|pressione|pressão|bloeddruk|ciśnienie)\b[^.!?\d]*$", re.I
)
# Words that number what follows: "page 1/5" is the first of five.
_LABELS = (
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
_PAGES_BEFORE = re.compile(
    r"(?<!\w)(?:pages|seiten|páginas|pagine|bladzijden|pagina's|strony|stronach|strany|страницы|"
    r"chapters|kapitel|chapitres|capítulos|capitoli)\s$",
    re.I,
)
_LABEL_BEFORE = re.compile(rf"(?<!\w)(?:{_LABELS})\.?\s$", re.I)


def follows_label(match: re.Match[str]) -> bool:
    """Whether the number of a match belongs to the word before it, as in "page 5"."""
    return bool(_LABEL_BEFORE.search(match.string[max(0, match.start() - 20) : match.start()]))
