"""Rules for English."""

import re
from functools import cached_property

from xtts.text.normalization.clock import ClockTime
from xtts.text.normalization.language_rules import LanguageRules
from xtts.text.normalization.numbers import (
    CLEAR_GROUPS,
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
from xtts.text.normalization.units import science_units


class EnglishRules(LanguageRules):
    """English: American dates, and both ways to write thousands."""

    code = "en"
    spaced_groups = CLEAR_GROUPS
    cardinals = {"m": "cardinal-verbose"}
    ordinals = {"m": "ordinal-verbose"}
    thousands_separator = ","
    point, minus, to = "point", "minus", "to"
    date_words = "on|mon|tues|wednes|thurs|fri|satur|sunday|monday|tuesday|wednesday|thursday|friday"
    month_first = day_may_follow_month = capital_short_months = True
    date_form, full_date_form = "{month} {day}", "{month} {day}, {year}"
    spells_decimals = True
    zero_minute, second_form = "oh ", " and {} seconds"
    # 21st
    ordinal_mark = re.compile(r"(?<![\w.])([0-9]{1,3}(?:,[0-9]{3})*|[0-9]{1,9})(?:st|nd|rd|th)\b", re.I)
    calling_words = "call|phone|tel|telephone|fax|dial|ring|mobile|cell"
    months = words("""January February March April May June July August September October November
        December""")
    short_months = "Jan Feb Mar Apr - Jun Jul Aug Sep/Sept Oct Nov Dec"
    percent = Noun.of("percent")
    scales = ("thousand", "million", "billion", "trillion", "lakh", "crore")
    thousands = ("thousand",)
    scale_marks = marks("bn bn. Bn = 9, mn mln = 6, trn tn = 12")
    scale_nouns = scale_words("million, billion, trillion")
    denominators = "third/-s fifth/-s sixth/-s seventh/-s eighth/-s ninth/-s tenth/-s"
    slash, mixed, mixed_half = "over", "{} and {}", "{} and a half"
    powers = ("squared", "cubed", "to the power of {}")
    number_sign = "number"
    clock_range = re.compile(
        r"(?<![\w.,:/-])([0-9]{1,2})(?:[:.]([0-9]{2}))?\s?[–—-]\s?"
        r"(?=[0-9]{1,2}(?:[:.][0-9]{2})?\s?[ap]\.?m\b|[0-9]{1,2}:[0-5][0-9](?![\d:]))",
        re.I,
    )
    money_joiner = " and "
    currencies = moneys("""$ = dollar/-s; cent/-s, US$ USD = US dollar/-s; cent/-s,
        A$ AUD = Australian dollar/-s; cent/-s, C$ CA$ CAD = Canadian dollar/-s; cent/-s,
        CHF = Swiss franc/-s, ¢ = cent/-s, € EUR = euro/-s; cent/-s, £ GBP = pound/-s; penny/pence,
        ¥ = yen, ₹ Rs. INR = rupee/-s; paisa/paise, ₩ = won""")
    units = science_units("en") | nouns("""kg = kilogram/-s, g = gram/-s, mg = milligram/-s,
        t = tonne/-s,
        lb lbs lb. lbs. = pound/-s, oz oz. = ounce/-s, km = kilometer/-s, m = meter/-s,
        cm = centimeter/-s, mm = millimeter/-s, mi mi. = mile/-s, ft ft. = foot/feet,
        in. = inch/-es, km/h kph = kilometer/-s + per hour, mph = mile/-s + per hour,
        m/s = meter/-s + per second, km² sq_km = square kilometer/-s, m² sq_m = square meter/-s,
        m³ = cubic meter/-s, sq_ft sq._ft. sq._ft ft² = square foot/square feet,
        sq_mi = square mile/-s,
        cu_ft cu._ft. ft³ = cubic foot/cubic feet,
        in² = square inch/-es, in³ = cubic inch/-es, psi = pound/-s + per square inch,
        yd yd. = yard/-s, ha = hectare/-s, dB = decibel/-s,
        tsp tsp. = teaspoon/-s, tbsp tbsp. Tbsp Tbsp. = tablespoon/-s, qt qt. = quart/-s,
        l L = liter/-s, ml mL = milliliter/-s,
        h hr hrs hr. hrs. = hour/-s, min min. mins mins. = minute/-s,
        s sec sec. secs secs. = second/-s, ms = millisecond/-s,
        wk wks wk. wks. = week/-s, mo mos mo. mos. = month/-s,
        yr yrs yr. yrs. = year/-s, in/h in/hr = inch/-es + per hour, in/s = inch/-es + per second,
        in/min = inch/-es + per minute, m/s² = meter/-s + per second squared,
        mmHg = millimeter/-s + of mercury, rpm = revolution/-s + per minute, mpg = mile/-s + per gallon,
        gal gal. = gallon/-s,
        °C ℃ = degree/-s + celsius, °F ℉ = degree/-s + fahrenheit, ° = degree/-s, W = watt/-s,
        kW = kilowatt/-s, kWh = kilowatt hour/-s, V = volt/-s, Hz = hertz, kHz = kilohertz,
        MHz = megahertz, GHz = gigahertz, KB kB = kilobyte/-s, MB = megabyte/-s, GB = gigabyte/-s,
        TB = terabyte/-s, KiB = kibibyte/-s, MiB = mebibyte/-s, GiB = gibibyte/-s, TiB = tebibyte/-s""")
    abbreviations = pairs("""e.g. = for example, i.e. = that is, etc. = et cetera, vs. = versus,
        approx. = approximately, No.# = number, Prof. = professor, Ave. = avenue, Blvd. = boulevard,
        Rd. = road, Sept. = September, Mrs. = misess, Ms. = miss, Mt. = mount, dept. = department,
        Jan. = January, Feb. = February, Aug. = August, Oct. = October, Nov. = November,
        Dec. = December, St. = saint, Sr. = senior, Tel. = telephone, fig.# = figure,
        figs.# = figures, p.# = page, pp.# = pages, vol.# = volume, vols.# = volumes,
        ch.# = chapter, chs.# = chapters, chap.# = chapter, eq.# = equation, apt.# = apartment,
        Gen.# = Genesis, Matt.# = Matthew,
        Ps.# = Psalm, Rom.# = Romans, Cor.# = Corinthians, Rev.# = Revelation, Sec.# = section,
        Art.# = article, para.# = paragraph, paras.# = paragraphs, Mon. = Monday,
        Tue. = Tuesday, Tues. = Tuesday, Wed. = Wednesday, Thu. = Thursday, Thur. = Thursday,
        Thurs. = Thursday, Fri. = Friday, Sat.# = Saturday, Sun.# = Sunday, ext.# = extension, pg.# = page,
        est.# = established, c.# = circa, ca.# = circa, Hwy.# = highway, Sen. = senator, Gov. = governor,
        Ph.D. = P H D, PhD = P H D""")
    fractions = {"½": "one half", "¼": "one quarter", "¾": "three quarters"}
    roman_ordinal = re.compile(rf"(?<!\w)({ROMAN})(?:th|st|nd|rd)?\s(?=[Cc]entur(?:y|ies)\b)")
    roman_form = "{}th "
    rulers = """Henry Louis George Edward Charles James William Richard John Paul Pius Benedict Philip
        Frederick Alexander Napoleon Nicholas Peter Francis Leo Gregory Clement Innocent Ramses
        Emmanuel Alfonso Ferdinand Leopold Albert Christian Gustav Carl Harald Haakon Otto Ivan
        Xerxes Darius Ptolemy Constantine Theodosius Baldwin Robert Umberto Pedro Carlos Sixtus Urban
        Boniface Julius Adrian Stephen Wilhelm Ludwig Friedrich Karl Franz Maximilian Rudolf Joseph
        Thutmose Amenhotep Mehmed Murad Selim Suleiman Justinian Basil Michael |
        Elizabeth Mary Catherine Isabella Margaret Beatrix Anne Cleopatra Maria Christina Margrethe"""
    # I is a word, too.
    around_ruler = (
        r"(?!I(?![IVX,;:.)]|['’]s\b|\s(?:of|was|had|and|who|came|died|ruled|reigned|became|in|from)\b|$))",
        "",
    )
    names = dict(
        zip(
            "abcdefghijklmnopqrstuvwxyz",
            words("""ay bee see dee ee eff gee aitch eye jay
        kay ell em en oh pee cue are ess tee you vee double-you ex why zee"""),
            strict=True,
        )
    )

    def read(self, text: str) -> str:
        """Reads English short forms before the numbers in them: options 1,2 and 3; Mon-Fri; 24-hr; 6'2"."""
        if _COMMA_BEFORE_NUMBER.search(text):
            text = _LIST_ITEM.sub(lambda m: f"{m[1] or m[2]}, ", text)
        text = _MONTH_RANGE.sub(lambda m: f"{self._full_month(m[1])} to {self._full_month(m[2])}", text)
        text = _DOLLARS_A_DAY.sub(lambda m: f"{self.cardinal(int(m[1]))}-dollar-a-", text)
        text = _GENERATION.sub("generation", _HYPHENED_HOUR.sub("hour", _PER_TIME.sub(r"\1 per ", text)))
        text = _PLURAL_SIZE.sub(lambda m: f"{self.cardinal(int(m[1]))} by {self.cardinal(int(m[2]))}s", text)
        text = _NUMBERED_NAMES.sub(self._read_numbered_names, text)
        text = _SHARP.sub(r"\1 sharp", _FREE_CALL.sub("one eight hundred ", text))
        text = _WITH.sub(lambda m: "without" if m[1] else "with", text)
        text = _WEEKDAY_RANGE.sub(lambda m: f"{_WEEKDAYS[m[1]]} to {_WEEKDAYS[m[2]]}", text)
        text = _NUMBER_AFTER_VOLUME.sub("number", _TENS_OF.sub(lambda m: f"{_TENS[len(m[1])]} of", text))
        return super().read(_HEIGHT.sub(self._read_height, text))

    def _read_numbered_names(self, match: re.Match[str]) -> str:
        """F-sixteens."""
        joint = " " if match.string[match.start() - 1 : match.start()].isalpha() else ""
        return joint + _plural(self.cardinal(int(match[1])))

    def _full_month(self, short: str) -> str:
        return next(month for month in self.months if month.startswith(short[:3]))

    def _read_height(self, match: re.Match[str]) -> str:
        """Six foot two."""
        feet, inches = match[1] or match[3], int(match[2] or match[4])
        return f"{feet} foot {inches}" if inches else f"{feet} feet"

    @cached_property
    def read_money(self) -> Step:
        """Also a price before its noun: a twenty-dollar bill."""
        nouns = {"$": "dollar", "£": "pound", "€": "euro"}
        read_other_money = super().read_money

        def read_price(match: re.Match[str]) -> str:
            scale = _SCALE_WORDS.get(match[4], match[4]) if match[4] else ""
            amount = f"{self.amount_words(match[3])} {scale}".rstrip()
            return f"{match[1]}{amount}-{nouns[match[2]]}"

        return lambda text: read_other_money(_PRICE_BEFORE_NOUN.sub(read_price, text))

    def is_fraction(self, match: re.Match[str], top: int, bottom: int, *, has_unit: bool) -> bool:
        """Also those of inches, hundredths and thousandths."""
        if bottom in (16, 32, 64) and top > 12 and not match.string[match.end() :].startswith("%"):
            return True
        if top == 1 and bottom in (100, 1000):
            return True
        if bottom == 5 and re.match(r"\s(?:stars?|points?)\b", match.string[match.end() :]):
            return False
        return super().is_fraction(match, top, bottom, has_unit=has_unit)

    def part_words(self, top: int, bottom: int) -> str:
        """Fifteen sixteenths, one hundredth."""
        if bottom not in (12, 16, 20, 32, 64, 100, 1000):
            return super().part_words(top, bottom)
        name = self.ordinal(bottom).removeprefix("one ")
        return f"{self.cardinal(top)} {name}" + ("s" if top > 1 else "")

    def year(self, number: int) -> str:
        """Nineteen ninety-nine, two thousand and seven."""
        if 2000 <= number <= 2009 or number % 1000 == 0:
            return self.cardinal(number)
        return spell("en", number, "numbering-year")

    def day(self, number: int, before: str = "") -> str:
        """The fifth."""
        return self.ordinal(number)

    @cached_property
    def read_named_dates(self) -> Step:
        """March 5th, 2024; 5 March 2024; March 3-5."""
        names, year = "|".join(self.months), r"(?:,?\s([0-9]{4})(?![\w.,]?\d))?"
        mark = "(?:st|nd|rd|th)?"
        day = rf"([0-9]{{1,2}}){mark}"
        day_range = re.compile(
            rf"(\b(?:{names})\s[0-9]{{1,2}}){mark}\s?[–—-]\s?([0-9]{{1,2}}){mark}(?![\w:/-]){year}"
        )
        american = re.compile(rf"\b({names})\s{day}(?![\w.,:]?\d){year}")
        british = re.compile(rf"(?<![\w.,])(?:the\s)?{day}\s(?:of\s)?({names})\b{year}", re.IGNORECASE)

        def date_words(form: str, day: str, year: str | None) -> str:
            words = form.format(self.day(int(day)))
            return f"{words}, {self.year(int(year))}" if year else words

        def read_american(match: re.Match[str]) -> str:
            month, day, year = match.groups()
            return date_words(f"{month} {{}}", day, year) if 1 <= int(day) <= 31 else match[0]

        def read_british(match: re.Match[str]) -> str:
            day, month, year = match.groups()
            return date_words(f"the {{}} of {month}", day, year) if 1 <= int(day) <= 31 else match[0]

        def step(text: str) -> str:
            text = day_range.sub(lambda m: date_words(f"{m[1]} to {{}}", m[2], m[3]), text)
            return british.sub(read_british, american.sub(read_american, text))

        return step

    @cached_property
    def read_abbreviations(self) -> Step:
        """Reads abbreviations; `St.` after a name is a street."""
        street = re.compile(r"(?<=[a-z] )St\.(?=\s*$|[\s,;!?]+(?![A-Z][a-z]))|(?<=[a-z] )St\.(?=,)")
        read_others = super().read_abbreviations
        return lambda text: read_others(street.sub(lambda m: f"street{self.sentence_stop(m)}", text))

    @cached_property
    def read_times(self) -> Step:
        """3:05 pm, 7 a.m., 14:30."""
        with_half = re.compile(
            r"(?<![\w.,:])([0-9]{1,2})(?:[:.]([0-9]{2}))?\s?([ap])\.?m\b(\.?)", re.IGNORECASE
        )
        read_other_times = super().read_times

        def read_with_half(match: re.Match[str]) -> str:
            hour, minute = int(match[1]), int(match[2] or 0)
            if not 1 <= hour <= 12 or minute > 59:
                return match[0]
            dot = self.sentence_stop(match)
            minutes = f" {self.minutes(minute)}" if minute else ""
            return f"{self.cardinal(hour)}{minutes} {match[3].lower()} m{dot}"

        return lambda text: read_other_times(
            with_half.sub(read_with_half, _TIME_WITH_POINT.sub(r"\1:\2", text))
        )

    def time(self, clock_time: ClockTime) -> str:
        """Three oh five; a full hour without a.m. and p.m. is o'clock."""
        if not clock_time.is_full_hour or "clock" in clock_time.after[:9]:
            return super().time(clock_time)
        word = "o'clock" if 1 <= clock_time.hour <= 12 else "hundred"
        return f"{self.cardinal(clock_time.hour)} {word}"

    def minutes(self, minute: int) -> str:
        """Oh five."""
        return super().minutes(minute) if minute else "zero"

    def _read_decade(self, match: re.Match[str]) -> str:
        number = int(match[1])
        if number == 2000 or number < 1000:
            words = self.cardinal(number)
        elif number % 100 == 0:
            words = f"{self.cardinal(number // 100)} hundred"
        else:
            words = self.year(number)
        return _plural(words)

    def _read_listed_years(self, match: re.Match[str]) -> str:
        return match[1] + re.sub("[0-9]{4}", lambda year: self.year(int(year[0])), match[2])

    def read_years(self, text: str) -> str:
        """Reads four digits that the words around them make a year, and decades."""
        text = _POSSESSIVE_YEAR.sub(lambda m: f"{self.year(int(m[1]))}'s", text)
        text = _DECADE.sub(self._read_decade, text)
        text = _YEAR_TO_PRESENT.sub(lambda m: f"{self.year(int(m[1]))} to ", text)
        text = _LISTED_YEARS.sub(self._read_listed_years, text)
        text = _FISCAL_YEAR.sub(lambda m: f"FY {self.year(int(m[1]))}", text)
        text = _SUBJECT_YEAR.sub(lambda m: self.year(int(m[0])), text)
        text = _YEAR_RANGE.sub(lambda m: f"{m[1]}{self.year(int(m[2]))} to {self.year(int(m[3]))}", text)
        return _YEAR_AFTER_WORD.sub(lambda m: m[1] + self.year(int(m[2])), text)

    def read_roman(self, text: str) -> str:
        """Also WWII."""
        return super().read_roman(_WORLD_WAR.sub(lambda m: f"World War {len(m[1])}", text))

    def ruler_number_words(self, match: re.Match[str], number: int, gender: str, ending: str) -> str:
        """The fourteenth."""
        return f"the {self.ordinal(number)}"

    def letter(self, character: str) -> str:
        """The name of a letter: a is ay."""
        return self.names.get(character.lower(), super().letter(character))


def _plural(words: str) -> str:
    """Twenties, fives, sixes."""
    return words[:-1] + "ies" if words.endswith("y") else words + ("es" if words.endswith("x") else "s")


_MONTH_NAMES = "Jan|Feb|Mar|Apr|May|Jun|June|Jul|July|Aug|Sep|Sept|Oct|Nov|Dec"
_MONTH_RANGE = re.compile(rf"(?<!\w)({_MONTH_NAMES})\.?\s?[–—-]\s?({_MONTH_NAMES})(?![\w-])\.?(?=\W|$)")
_WORLD_WAR = re.compile(r"(?<!\w)WW(I{1,2})(?!\w)")
# 1st Gen., 24-hr, 3 days/week, 4x4s
_GENERATION = re.compile(r"(?<=[0-9](?:st|nd|rd|th)\s)[Gg]en\.?(?!\w)")
_HYPHENED_HOUR = re.compile(r"(?<=[0-9]-)(?<![/.][0-9]-)hr(?!\w)")
_PER_TIME = re.compile(
    r"(?<=[0-9] )([a-z]{3,20})/(?=(?:day|week|month|year|hour|minute|second|person|night)(?!\w))"
)
_PLURAL_SIZE = re.compile(r"(?<![\w.,])([0-9]{1,2})x([0-9]{1,2})s(?!\w)")
# The number of several things of one name: F-16s, A320s, 747s. Not 2m30s, a sub-5s sprint, the mid-1980s.
_NUMBERED_NAMES = re.compile(
    r"(?:(?<=[A-Za-z])(?<![0-9][A-Za-z])|(?<=[A-Za-z]-)(?<!\bsub-)(?![12][0-9]{2}0)|(?<![\w.,:/-])(?=7[0-9]7))"
    r"([0-9]{1,4})s(?!\w)"
)
# C#, F# minor.
_SHARP = re.compile(r"(?<![\w#])([A-G])#(?![\w#])")
# 1-800-FLOWERS
_FREE_CALL = re.compile(r"(?<![\w-])1-800-(?=[A-Z])")
# w/o, w/: without, with.
_WITH = re.compile(r"(?<![\w/])w/(?:(o)(?![\w/])|(?=\s))")
_WEEKDAYS = pairs("""Mon = Monday, Tue = Tuesday, Tues = Tuesday, Wed = Wednesday, Thu = Thursday,
    Thur = Thursday, Thurs = Thursday, Fri = Friday, Sat = Saturday, Sun = Sunday""")
_WEEKDAY_RANGE = re.compile(rf"(?<!\w)({'|'.join(_WEEKDAYS)})\.?\s?[–—-]\s?({'|'.join(_WEEKDAYS)})(?!\w)\.?")
# Tens, hundreds and thousands by their number of digits: 10s of people.
_TENS = dict(enumerate(("tens", "hundreds", "thousands"), start=2))
_TENS_OF = re.compile(r"(?<![\w.,$£€])(10{1,3})['’]?s of(?!\w)")
_NUMBER_AFTER_VOLUME = re.compile(r"(?<=[0-9], )no\.(?=\s?[0-9])")
# Feet and inches: 6'2", 5′11″, and 6'2 of a person.
_HEIGHT = re.compile(
    r"(?<![\w.,°'’′])(?:([1-9][0-9]?)\s?['’′]\s?([0-9]|1[01])(?:\s?[\"”″]|''|’’)"
    r"|([3-7])['’′]([0-9]|1[01])(?![\w'’′]|[.,]\d))",
    re.ASCII,
)
# A price after an article or a number, and before a noun.
_NOT_PRICED = (
    "and|but|for|from|was|were|has|had|will|would|can|could|each|more|less|off|than|that|which|when|"
    "then|with|per|into|extra|plus|thousand|million|billion|trillion"
)
_PRICE_BEFORE_NOUN = re.compile(
    r"((?:\b[Aa]n?|(?<![\w.,$£€])[1-9][0-9]{0,2}) )([$£€])"
    r"([1-9][0-9]{0,2}(?:,[0-9]{3})*(?:\.[0-9]{1,2}(?=\s?[mbkMBK]))?|[1-9][0-9]{3,5})"
    r"(?:\s?(thousand|million|billion|bn|[kmbKMB])(?!\w))?"
    rf"(?= (?!(?:{_NOT_PRICED})\b)[a-z]{{3}})"
)
_SCALE_WORDS = pairs(
    "k = thousand, K = thousand, m = million, M = million, b = billion, B = billion, bn = billion"
)
# $5-a-day
_DOLLARS_A_DAY = re.compile(r"(?<![\w$])\$([1-9][0-9]{0,3})-an?-(?=[a-z])")
_COMMA_BEFORE_NUMBER = re.compile(r",[0-9]{1,2}(?![0-9])")
_LIST_ITEM = re.compile(
    r"(?<![\w.,])([0-9]{1,2}),(?=[0-9]{1,2}(?:,?\s(?:and|or)|\s&)\s[0-9])"
    r"|(?i:(?<=options )|(?<=pages )|(?<=steps )|(?<=items )|(?<=questions )|(?<=chapters )"
    r"|(?<=numbers ))"
    r"([0-9]{1,2}),(?=[0-9]{1,2}(?!\d|[.,]\d))"
)
# A time with a point, if no noun follows that could be counted.
_TIME_WITH_POINT = re.compile(
    r"(?<=\bat )([0-9]{1,2})\.([0-5][0-9])(?=\s*(?:[.,;!?)]|$)|\s(?:on|and|to|until|till|in the|"
    r"this|today|tomorrow|tonight|every|for|sharp)\b)",
    re.I,
)
# 2020's best, but the 1980's.
_POSSESSIVE_YEAR = re.compile(
    r"(?<![\w.,])(?<!the )(?<!early )(?<!late )(?<!mid-)((?:1[5-9]|20)[0-9]{2})['’]s(?!\w)"
)
_YEAR_TO_PRESENT = re.compile(
    r"(?<![\w.,-])((?:1[5-9]|20)[0-9]{2})\s?[–—-]\s?(?=(?:present|today|now)(?!\w))"
)
# In 1066, 1492 and 1805.
_LISTED_YEARS = re.compile(
    r"((?<!\w)(?:in|since|of|between)\s)((?:1[0-9]|20)[0-9]{2}"
    r"(?:(?:,|,?\s(?:and|or))\s(?:1[0-9]|20)[0-9]{2}){1,30})(?=[,.;:!?)](?!\d)|$)",
    re.I,
)
_DECADE = re.compile(r"(?<![\w.,])['’]?([12][0-9]{2}0|[2-9]0)['’]?s\b")
_FISCAL_YEAR = re.compile(r"(?<!\w)FY\s?(20[0-9]{2})(?![\w/–-])")
# A year before a noun (the 2020 election), as the subject of a sentence, or alone in brackets.
_SUBJECT_YEAR = re.compile(
    r"(?:(?<=\bthe )(?:19|20)[0-9]{2}(?= [A-Za-z])"
    r"|(?:(?<=[.!?] )|^)(?:19|20)[0-9]{2}"
    r"(?= (?:was|will|is|has|had|saw|brought|began|ended|would)\b)"
    r"|(?<=\()(?:1[5-9]|20)[0-9]{2}(?=\)))"
)
_WORDS_BEFORE_YEAR = (
    r"in|[qh][1-4]|est\.|established|since|until|till|by|from|before|after|around|circa|of|year|years|during|late|early|"
    r"summer|winter|spring|autumn|fall|class|born|and|to|between|january|february|march|april|may|"
    r"june|july|august|september|october|november|december"
)
# Four digits that count a noun: a list of 1234 items, to 1850 employees; not from 1700 to 1850 ships sailed.
_COUNTED = "total list number group crowd sample set series fleet army force staff average maximum".split()
_COUNT_AFTER_WORD = (
    rf"\b(?:(?:{'|'.join(f'(?<={noun} )' for noun in _COUNTED)})of|"
    r"(?<![0-9]{4} )(?<!back )(?<!prior )(?<!compared )(?<!dating )(?<!in )(?:to|and|(?-i:by)|around))\s"
    r"1[0-8][0-9]{2}\s(?:people|men|women|children|(?!(?:as|is|was|has|does|its|his|this|us|plus|across|"
    r"always|perhaps|shows|marks|sees|brings|comes|ends|remains|becomes|begins|starts|makes|gives|leaves|"
    r"hours|census|levels|prices|standards|values|terms|times|styles)\b)[a-z]+s\b)"
)
_YEAR_AFTER_WORD = re.compile(
    rf"(?!{_COUNT_AFTER_WORD})(\b(?:{_WORDS_BEFORE_YEAR}),?\s\(?)"
    r"((?:1[0-9]|20)[0-9]{2})(?![\w%°$€£]|[.,:/-]\d|\s?[–-]\s?\d)",
    re.I,
)
_YEAR_RANGE = re.compile(
    r"(\b(?:from|years?|between)\s)((?:1[1-9]|20)[0-9]{2})\s?[–-]\s?((?:1[1-9]|20)[0-9]{2})(?!\w)", re.I
)
