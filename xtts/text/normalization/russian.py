"""Rules for Russian."""

import re

from xtts.text.normalization.numbers import (
    Noun,
    WrittenNumber,
    marks,
    moneys,
    nouns,
    pairs,
    scale_words,
    spell,
    words,
)
from xtts.text.normalization.slavic import SlavicRules, make_century_pattern
from xtts.text.normalization.units import science_units


class RussianRules(SlavicRules):
    """Russian."""

    code = "ru"
    # A thousand is тысяча, without "one"; восьмидесятого is misspelt in some cases.
    corrections = (("одна тысяча ", "тысяча "), ("восемьдесято", "восьмидесято"))
    point, minus, plus, to = "запятая", "минус", "плюс", "тире"
    uses_one_form_after_21 = True
    zero_minute = "ноль "
    day_mark = r"\s"
    year_mark = r"(?:\s([12][0-9]{3})(?:\s(?-i:г\.|года|году))?(?![\w.,]?\d)(?!\w))?"
    # Fewer figures are a year before "(до) нашей эры", and three in "в 988 году".
    year_pattern = re.compile(
        r"((?<!\w)(?:[вВоО]|[вВ]о|с|до|от|[кК]о?)\s)?(?<![\w.,])"
        r"([12][0-9]{3}|[1-9][0-9]{0,2}(?=\s(?:г\.|году|года)\s(?:до\s)?нашей\s)"
        r"|(?<=\b[вВ]\s)[1-9][0-9]{2}(?=\sгоду))\s(г\.|году|года|год)(?!\w)"
    )
    year_words, locative_prepositions = ("года", "году"), ("в", "во", "о")
    dative_prepositions = ("к", "ко")
    year_cases = {"году": "m-loc", "год": "m", "года": "m-gen"}
    # 2-й, 3-м, 5-го
    ordinal_mark = re.compile(
        r"(?<![\w.,])([0-9]{1,4})-(ый|ий|ой|й|ая|я|ое|ье|е|ого|его|го|ому|му|ом|ем|м|ую|ю|х)(?!\w)"
    )
    # 18-летний, 25-летие, 5-этажный
    compound = re.compile(
        r"(?<![\w.,/-])([1-9][0-9]{0,2}|1000)-(?=(?:лет(?:и|к|ок)[а-яё]{0,3}|[а-яё]{2,20}[нвтк]"
        r"(?:[ыиоуюая][йяюе]|[ое]е|[ыиое]м|[ое]му|[ое]го|[ыи]х|[ыи]ми|ей))(?!\w))"
    )
    calling_words = "тел|телефон|звоните|звони|позвоните|номер|факс"
    months = words("""января февраля марта апреля мая июня июля августа сентября октября ноября
        декабря""")
    short_months = "янв фев/февр мар* апр - июн июл авг сен*/сент окт ноя/нояб дек"
    hour_noun = Noun.of("час/часа/часов")
    percent = Noun.of("процент/процента/процентов/процента")
    scales = ("миллион", "миллиона", "миллионов", "миллиардов", "тысяч")
    thousands = ("тысяча", "тысячи", "тысяч")
    scale_marks = marks("тыс. тыс = 3, млн млн. = 6, млрд млрд. = 9, трлн трлн. = 12")
    money_marks = marks("к = 3, м = 6")
    scale_nouns = scale_words("миллион/-а/-ов/-а, миллиард/-а/-ов/-а, триллион/-а/-ов/-а")
    denominators = """треть/трети/третей пятая/пятых шестая/шестых седьмая/седьмых восьмая/восьмых
        девятая/девятых десятая/десятых"""
    denominator_gender, slash = "f", "дробь"
    mixed, mixed_half = "{} и {}", "{} с половиной"
    number_sign = "номер"
    powers = ("в квадрате", "в кубе", "в степени {}")
    currencies = moneys("""₽ руб. руб RUB = рубль/рубля/рублей/рубля; копейка/копейки/копеек f,
        коп. коп = копейка/копейки/копеек/копейки f,
        € EUR = евро/евро/евро/евро; цент/-а/-ов, $ US$ USD долл. = доллар/-а/-ов/-а; цент/-а/-ов,
        £ = фунт/-а/-ов/-а; пенс/-а/-ов""")
    units = science_units("ru") | nouns("""кг kg = килограмм/-а/-ов/-а, г g = грамм/-а/-ов/-а,
        мг = миллиграмм/-а/-ов/-а,
        т = тонна/тонны/тонн/тонны f, км km = километр/-а/-ов/-а, м m = метр/-а/-ов/-а,
        см cm = сантиметр/-а/-ов/-а, мм mm = миллиметр/-а/-ов/-а, км/ч = километр/-а/-ов/-а + в час,
        м² = квадратный метр/квадратных метра/квадратных метров/квадратного метра,
        м³ = кубический метр/кубических метра/кубических метров/кубического метра,
        га = гектар/-а/-ов/-а, дБ = децибел/-а/-ов/-а, сут. = сутки/суток/суток/суток,
        ст._л. ст.л. = столовая ложка/столовые ложки/столовых ложек/столовой ложки f,
        мм_рт._ст. = миллиметр/-а/-ов/-а + ртутного столба,
        ч._л. ч.л. = чайная ложка/чайные ложки/чайных ложек/чайной ложки f,
        шт. = штука/штуки/штук/штуки f, чел. = человек/человека/человек/человека,
        мес. = месяц/-а/месяцев/-а,
        л = литр/-а/-ов/-а, мл = миллилитр/-а/-ов/-а, ч = час/-а/-ов/-а,
        мин мин. = минута/минуты/минут/минуты f, сек сек. = секунда/секунды/секунд/секунды f,
        °C °С ℃ = градус/-а/-ов/-а + Цельсия, ° = градус/-а/-ов/-а, кВт = киловатт/-а/киловатт/-а,
        МБ = мегабайт/-а/мегабайт/-а, ГБ = гигабайт/-а/гигабайт/-а""")
    abbreviations = pairs("""и т. д. = и так далее, и т. п. = и тому подобное, т. е. = то есть,
        т. к. = так как, и др. = и другие, напр. = например, ул. = улица, д.# = дом,
        кв.# = квартира, стр. = страница, № = номер, проф. = профессор, им. = имени,
        до н. э. = до нашей эры, н. э. = нашей эры, см. = смотри, тел. = телефон,
        т. н. = так называемый, гг. = годы, вв. = века, обл. = область,
        г-н = господин, г-жа = госпожа, рис.# = рисунок, гл.# = глава, табл.# = таблица,
        т.# = том, п.# = пункт""")
    fractions = {"½": "половина", "¼": "четверть", "¾": "три четверти"}
    rulers = """Пётр Петр Иван Николай Никола Александр Павел Павл Карл Людовик Генрих Георг Вильгельм
        Фридрих Наполеон Иоанн Василий Васили Алексей Алексе Михаил Рамсес Филипп Бенедикт Григорий
        Григори Фёдор Федор Эдуард Яков Оттон Франц Фердинанд Леопольд Мехмед |
        Екатерин Елизавет Анн Мари Маргарит Изабелл"""
    ruler_endings = (
        pairs("а = m-gen, я = m-gen, у = m-dat, ю = m-dat, ом = m-abl, ем = m-abl, е = m-loc, и = m-loc"),
        pairs("а = f, я = f, ы = f-gen, и = f-gen, е = f-loc, у = f-acc, ю = f-acc, ой = f-gen, ей = f-gen"),
    )
    century_cases = pairs("""век = m, века = m-gen, веку = m-dat, веком = m-abl, веке = m-loc,
        веков = m-gen, веках = m-loc, столетие = n, столетия = n-gen, столетию = n-dat,
        столетием = n-abl, столетии = n-loc""")
    short_centuries = {"в.": ("века", "веке"), "вв.": ("веков", "веках")}
    century_pattern = make_century_pattern("[IVXХІ]{1,6}", "|".join((*century_cases, r"вв?\.")))
    _WHOLE = Noun.of("целая/целых")
    _PARTS = {1: Noun.of("десятая/десятых"), 2: Noun.of("сотая/сотых"), 3: Noun.of("тысячная/тысячных")}

    def read(self, text: str) -> str:
        """The case of years: в 1990-х гг.; a square and a cubic unit in words: кв. м."""
        text = _YEAR_RANGE.sub(self._read_year_range, text)
        text = _EARLY_YEAR.sub(lambda m: f"{m[1]} году{self.sentence_stop(m)}", text)
        text = _SQUARE_OR_CUBIC_UNIT.sub(lambda m: m[2] + ("²" if m[1] == "кв" else "³"), text)
        return super().read(_DECADE_OF_YEARS.sub(lambda m: m[1] + _decade_word(m), text))

    def _read_year_range(self, match: re.Match[str]) -> str:
        """В … четвёртом – … пятом годах."""
        case = "m-loc" if match[1] else "m"
        first, last = (self.ordinal(int(year), case) for year in match.group(2, 3))
        return (
            f"{match[1] or ''}{first} – {last} {'годах' if match[1] else 'годы'}{self.sentence_stop(match)}"
        )

    def gender_of_noun(self, amount: str, after: str) -> str:
        """Две книги, but два стола; одна книга, одно окно: the ending tells the gender together
        with the number."""
        match = _WORD_AFTER.match(after)
        word = match[1] if match else ""
        if not word or _NOT_COUNTED.fullmatch(word):
            return ""
        if amount.endswith("2"):
            return "f" if word.endswith(("ы", "и")) else ""
        if amount.endswith("1"):
            return "f" if word.endswith(("а", "я")) else "n" if word.endswith(("о", "е")) else ""
        return ""

    def _read_number(self, match: re.Match[str]) -> str:
        """До пяти человек, более двадцати лет: the genitive."""
        before, after = match.string[max(0, match.start() - 12) : match.start()], match.string[match.end() :]
        governed = _GENITIVE_BEFORE.search(before) or (
            _FROM_BEFORE.search(before) and after.startswith(" до ")
        )
        if not governed or not match[0].isdecimal() or match[0][0] == "0" or len(match[0]) > 4:
            return super()._read_number(match)
        return self._correct(spell("ru", int(match[0]), "cardinal-masculine-genitive"))

    def decimal_words(self, number: WrittenNumber) -> str:
        """Двенадцать целых пять десятых."""
        digits = number.fraction
        if len(digits) > 3 or not int(digits):
            return f"{self.integer_words(number.whole)} {self.point} {self.digits(digits)}"
        counted = ((number.value, self._WHOLE), (int(digits), self._PARTS[len(digits)]))
        return " ".join(
            f"{self.cardinal(value, 'f')} {self.noun_form(WrittenNumber(str(value)), noun)}"
            for value, noun in counted
        )

    def ordinal(self, number: int, gender: str = "m") -> str:
        """gender: m, f, n, or with a case: m-gen, m-dat, f-acc, m-abl (the instrumental), n-loc."""
        genders = {"m": "masculine", "f": "feminine", "n": "neuter"}
        cases = {
            "gen": "genitive",
            "loc": "locative",
            "dat": "dative",
            "abl": "ablative",
            "acc": "accusative",
        }
        kind, _, case = gender.partition("-")
        rules = "-".join(filter(None, ("ordinal", genders[kind], cases.get(case))))
        return self._correct(spell("ru", number, rules))

    def compound_stem(self, number: int) -> str:
        """Восемнадцати, двадцатипяти, сто."""
        genitive = spell("ru", number, "cardinal-masculine-genitive")
        return "".join(_STEMS.get(word, word) for word in genitive.split())

    def phone(self, text: str) -> str:
        """Reads the code and the first three digits as hundreds, the rest in pairs."""
        plus = "плюс " if text.startswith("+") else ""
        return plus + ", ".join(
            self.integer_words(part) if len(part) <= 3 else self.digits(part)
            for part in re.findall(r"\d+", text)
        )

    def _read_ordinal(self, match: re.Match[str]) -> str:
        number, ending, after = int(match[1]), match[2], match.string[match.end() :]
        before = match.string[max(0, match.start() - 4) : match.start()]
        if ending == "х" and number in _COUNTS_IN_GENITIVE and not _SECONDLY_BEFORE.search(before):
            return _COUNTS_IN_GENITIVE[number]
        rules = next(rules for ends, rules in _RULES_OF_ENDINGS.items() if ending in ends.split())
        if ending == "е" and re.match(r"\s\w+(?:ы|и)\b", after):
            rules = "plural"
        spoken = spell("ru", number, f"ordinal-{rules}")
        if re.search("plural|accusative", rules):
            return spoken.replace("восемьдесяты", "восьмидесяты")
        return self._correct(spoken)


_GENITIVE_BEFORE = re.compile(r"(?<!\w)(?:до|от|около|более|менее|свыше|без|для)\s$", re.I)
_FROM_BEFORE = re.compile(r"(?<!\w)с\s$", re.I)
_WORD_AFTER = re.compile(r"\s([а-яё]{3,30})(?!\w)")
# Words after a number that it does not count, verbs in the past, and nouns whose gender their
# ending hides.
_NOT_COUNTED = re.compile(
    r"или|если|почти|при|это|что|как|где|ещё|еще|уже|тоже|также|только|около|более|менее|после|"
    r"для|его|она|оно|они|мы|года|часа|дня|месяца|рубля|метра|раза|января|февраля|марта|апреля|мая|"
    r"июня|июля|августа|сентября|октября|ноября|декабря|пути|имени|времени|мужчина|папа|дедушка|"
    r"дядя|судья|(?!недели|мили|капли|земли|доли|роли|цели|модели|школа|сила|скала|акула|игла)"
    r"\w+(?:ла|ло|ли|лся|лась|лись)"
)
_YEAR_RANGE = re.compile(
    r"((?<!\w)[Вв]\s)?(?<![\w.,-])([12][0-9]{3})\s?[–—-]\s?([12][0-9]{3})\s(?:гг?\.|годах|годы)(?!\w)"
)
# Three figures that could not be grams: at the start of a sentence or after such a verb, and before no noun.
_EARLY_YEAR = re.compile(
    r"((?:^|[.!?,;(]\s|(?<!\w)(?:родил(?:ся|ась)|умер(?:ла)?|погиб(?:ла)?|скончал(?:ся|ась)|произош(?:ёл|ел|л[аои])|"
    r"был[аои]?|начал(?:ся|ась|ось)|основан[аоы]?|построен[аоы]?|крещен[аоы]?)\s)в\s[1-9][0-9][1-9])\sг\."
    r"(?=\s?$|\s?[,;)]|\s(?:(?-i:[А-ЯЁ])|(?:и|а|он|она|они|князь|король|император)(?![\w.])))",
    re.I,
)
_SQUARE_OR_CUBIC_UNIT = re.compile(r"(?<![^\W\d_])(кв|куб)\.?\s?([кдсм]?м)(?![\w.])")
_DECADE_OF_YEARS = re.compile(r"((?:(?<!\w)([Вв]) )?(?<!\w)[0-9]{4}-х )гг\.")


def _decade_word(match: re.Match[str]) -> str:
    dot = "." if match.end() == len(match.string) else ""
    return ("годах" if match[2] else "годов") + dot


_RULES_OF_ENDINGS = {
    "й ый ий ой": "masculine",
    "я ая": "feminine",
    "е ое ье": "neuter",
    "го ого его": "masculine-genitive",
    "му ому": "masculine-dative",
    "м ом ем": "masculine-locative",
    "ю ую": "feminine-accusative",
    "х": "plural-genitive",
}
# Из 3-х человек. Во 2-х is во-вторых.
_SECONDLY_BEFORE = re.compile(r"(?<!\w)во\s$", re.I)
_COUNTS_IN_GENITIVE = {2: "двух", 3: "трёх", 4: "четырёх"}
# Words that are not in the genitive in a compound: одноэтажный, столетие, тысячелетие.
_STEMS = {"одного": "одно", "девяноста": "девяносто", "ста": "сто", "одной": "", "тысячи": "тысяче"}
