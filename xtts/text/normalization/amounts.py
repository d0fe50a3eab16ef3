"""Amounts in words: money, percentages and units, with their scales ($5m, 14 %, 5 kg, 3,5 Mio.)."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from xtts.text.normalization.fractions import FractionRules, is_numbered
from xtts.text.normalization.numbers import Money, Noun, Step, WrittenNumber, alternatives, folded_sign


class AmountRules(FractionRules):
    """How a language reads amounts."""

    # The words of scales, those that mean a thousand, and the nouns of the others by powers of ten.
    # A thousand, or a scale without a noun, is read as one number together with its amount.
    scales: ClassVar[tuple[str, ...]] = ()
    thousands: ClassVar[tuple[str, ...]] = ()
    scale_nouns: ClassVar[Mapping[int, Noun]] = {}
    # Abbreviations of scales with their powers of ten, and those that are valid only with a
    # currency, in any case: 5 m is five metres, $5m five million dollars.
    scale_marks: ClassVar[Mapping[str, int]] = {}
    money_marks: ClassVar[Mapping[str, int]] = {}
    # The word between a million, or more, and the noun: millions *of* euros.
    scale_joiner = money_joiner = " "
    # Whether nouns have capitals.
    capital_nouns = False

    @cached_property
    def read_spans(self) -> Step:
        """Writes the dash of a range as a word if both amounts have a unit: 9:00-17:30, 5%-10%,
        $5-$10. `signed` matches ranges with one unit."""
        number, sign = self.written, alternatives(self.currencies)
        marks, units = map(alternatives, (self._money_marks, (*self.units, *self.scale_marks)))
        end = "(?![^\\W_])" if self.spaced else "(?![0-9A-Za-z])"
        after = rf"(?:\s?(?:(?:{marks})?\s?(?:{sign})|%|(?:{units}))|[kM]){end}"
        ordinal = r"(?:\.?[ºª°ᵉ]|st|nd|rd|th|ste|de|e|er|re|ère|ème|-й|-я|-е)"
        pattern = re.compile(
            rf"{self.begin}(?:"
            rf"(?P<left>[0-9]{{1,2}}:[0-5][0-9](?:\s?[ap]\.?m\b\.?)?|[0-9]{{1,2}}\s?[ap]\.?m\b\.?"
            rf"|[0-9]{{1,2}}h(?:[0-5][0-9])?(?!\w)|{number}{after}|[0-9]{{1,6}}{ordinal}(?=[–—-][0-9]{{1,6}}{ordinal}))"
            rf"{_DASH}(?=-?(?:(?:{sign})\s?)?[0-9])"
            rf"|(?P<price>(?P<sign>{sign})\s?{number}\s?(?P<scale>(?:{marks}){end})?){_DASH}"
            rf"(?=(?P<again>{sign})?\s?{number}\s?(?:{marks})?{end}))",
            re.IGNORECASE,
        )
        to = f"{self.space}{self.to} "

        def spoken(match: re.Match[str]) -> str:
            if match["left"]:
                return match["left"] + to
            if match["again"]:
                return match["price"] + to
            return f"{match['price']}{to}{match['sign']}" if match["scale"] else match[0]

        return lambda text: pattern.sub(spoken, text) if _DASHES.search(text) else text

    @cached_property
    def read_money(self) -> Step:
        """Reads amounts of money, with the sign before or after them."""
        moneys = {folded_sign(sign): money for sign, money in self.currencies.items()}
        signs = alternatives(self.currencies)
        powers = {form: power for power, noun in self.scale_nouns.items() for form in noun.forms}
        powers |= dict.fromkeys(self.thousands, 3) | self._money_marks
        marks = {folded_sign(mark): power for mark, power in powers.items()}
        scales = alternatives((*self.scales, *self._money_marks))
        end = r"(?![^\W\d_])" if self.spaced else "(?![A-Za-z])"
        joiner = r"(?:\s(?:de(?!\w)|di(?!\w)|d'))?" if self.scale_joiner.strip() else ""
        scale = rf"(?:\s?({scales})(?:{end}|(?=(?:{signs}){self.end})){joiner})?"
        # A sign after its number, unless it touches the next number: 10 $20. A year takes none
        # before a number: "In 2020 USD 20 million".
        after = (
            rf"(?!(?<=\b[IiEe][nm] )[12][0-9]{{3}}\s(?:{signs})\s[0-9])"
            rf"({self.signed}){scale}\s?({signs}){self.end}{self.per}"
        )
        codes = alternatives(sign for sign in self.currencies if sign.isalpha())
        before = (
            rf"(?<![{self.joining}])(-?)((?=\W)(?P<symbol>))?({signs})\s?({self.signed}){scale}"
            rf"(?(symbol)(?:\s?({codes})(?!\w))?){self.per}"
        )
        # One pattern from left to right, so that no number takes the sign of the one before it.
        either = re.compile(f"{after}|{before}", re.IGNORECASE)
        cents = re.compile(rf"({self.begin}[0-9]{{1,6}})({signs})([0-9]{{2}})(?![\w]|[.,][0-9])")

        def spoken(sign: str, amount: str, scale_word: str | None) -> str:
            money, word = moneys[folded_sign(sign)], scale_word or ""
            if power := marks.get(folded_sign(word)):
                return self.scaled(amount, power, money)
            if word:
                return f"{self.amount_words(amount)} {word}{self.scale_joiner}{money.unit.many}"
            return self.money(amount, money)

        def signed(match: re.Match[str]) -> str:
            amount, scale, sign, unit, *others = match.groups()
            minus, _, _, first, after_sign, its_scale, code, its = others
            if sign:
                return spoken(sign, amount, scale) + self.rate(unit, of_money=True) + self.stop(match)
            words = spoken(code or first, minus + after_sign, its_scale)
            words += self.rate(its, of_money=True)
            after = match.string[match.end() : match.end() + 1]
            stop = self.stop(match)
            return words + stop + (" " if self.spaced and not stop and after.isalnum() else "")

        mark = "," if self.group != "," else "."
        return lambda text: either.sub(signed, cents.sub(rf"\1{mark}\3\2", text))

    @cached_property
    def _money_marks(self) -> dict[str, int]:
        return {**_MONEY_MARKS, **self.scale_marks, **self.money_marks}

    def scaled(self, amount: str, power: int, money: Money) -> str:
        """An amount of money with its scale: 3.5 billion dollars."""
        noun = self.scale_nouns.get(power)
        if noun is None:
            return self.counted(self.shifted(amount, power), money.unit)
        return f"{self.counted(amount, noun)}{self.scale_joiner}{money.unit.many}"

    def money(self, amount: str, money: Money) -> str:
        """An amount of money in words; a fraction of two digits is read as cents."""
        sign, first, second = self.amount(amount)
        number = self.parse(first)
        if second or money.cent is None or len(number.fraction) != 2:
            return self.counted(amount, money.unit)
        whole, cents = WrittenNumber(number.whole), WrittenNumber(str(int(number.fraction)))
        parts = [(whole, money.unit), (cents, money.cent)]
        parts = [part for part in parts if part[0].value] or parts[:1]
        words = (f"{self.words(n, noun.gender)} {self.form(n, noun)}" for n, noun in parts)
        return f"{sign} {self.money_joiner.join(words)}".strip()

    @cached_property
    def read_percents(self) -> Step:
        """Reads percentages: 14 %, also written %14."""
        after = re.compile(rf"({self.signed})(?:%|\s%(?![0-9])){self.per}")
        before = re.compile(rf"(?<![\w%])%({self.written}(?:\s?[–—-]\s?%?{self.written})?)")

        def spoken(match: re.Match[str]) -> str:
            return self.percentage(match[1].replace("%", ""))

        def rated(match: re.Match[str]) -> str:
            return spoken(match) + self.rate(match[2]) + self.stop(match)

        return lambda text: before.sub(spoken, after.sub(rated, text))

    def percentage(self, amount: str) -> str:
        """A percentage in words."""
        return self.counted(amount, self.percent)

    @cached_property
    def read_units(self) -> Step:
        """Reads amounts with units: 5 kg, 60 km/h, 20 °C, and those with a scale: 3,5 Mio."""
        end = self.unit_end
        units = re.compile(rf"({self.signed})\s?({alternatives(self.units)}){self.per}(?(3)|{end})")
        marks = re.compile(rf"({self.signed})(?:\s?({alternatives(self.scale_marks)})|([kKMBКМк])){end}")
        joiner = self.scale_joiner.strip()
        # Before a noun: a 100-g bar, ein 5-kg-Sack.
        names = alternatives(sign for sign in self.units if sign.isascii() and sign.strip(".").isalpha())
        hyphened = re.compile(
            rf"{self.begin}([0-9]{{1,4}}(?:[.,][0-9]{{1,3}})?(?:[-–][0-9]{{1,4}})?)-({names})(?![\w/.]|\s?\d)(?=-?\s?[^\W\d])"
        )

        def before_noun(match: re.Match[str]) -> str:
            noun = self.units[match[2]]
            return (
                match[0] if is_numbered(match) else f"{self.amount_words(match[1], noun.gender)} {noun.one}"
            )

        def scaled(match: re.Match[str]) -> str:
            amount, mark = match[1], match[2] or match[3]
            before, after = match.string[: match.start()], match.string[match.end() :]
            if match[3] and mark not in "kKк" and _SIZED.match(after):
                return match[0]
            # A name follows, as in 221B Baker Street.
            named = mark == "B" and not self.capital_nouns and re.match(r"\s[A-Z][a-z]", after)
            if match[3] and (named or _LABEL.search(before)):
                return match[0]
            if match[3] and len(amount) < 2 and not self._counts(before, amount, mark, after):
                return match[0]
            power = self.scale_marks.get(mark) or _MONEY_MARKS[_LATIN.get(mark, mark.lower())]
            dot = self.stop(match)
            noun = self.scale_nouns.get(power)
            if noun is None:
                return self.amount_words(self.shifted(amount, power)) + dot
            of = f" {joiner}" if joiner and _TAKES_JOINER.match(after) else ""
            return self.counted(amount, noun) + of + dot

        def counted(match: re.Match[str]) -> str:
            words = self.counted(match[1], self.units[match[2]])
            return words + self.rate(match[3]) + self.stop(match)

        return lambda text: marks.sub(
            scaled, units.sub(counted, hyphened.sub(before_noun, text) if "-" in text else text)
        )

    def _counts(self, before: str, digit: str, mark: str, after: str) -> bool:
        """Whether k, M or B after a digit is a scale: 5M users, over 2M in cash. 4K is a screen, 3M
        a company, 5B a room, a height of 2M metres."""
        if re.match(rf"\s?{re.escape(self.to)}\s?[0-9.,]+{mark}", after):
            return True
        is_company = (digit, mark) == ("3", "M")
        if mark in "MBМ" and _ABOUT.search(before) and not (is_company and _TOPIC.search(before)):
            return not _LENGTH.search(before)
        noun = _COUNTED.match(after) or (self.capital_nouns and _COUNTED_NOUN.match(after))
        if not noun or is_company:
            return False
        return (mark != "K" or digit not in "2468") and (mark not in "kKк" or not _SCREEN.match(after))


# A noun that 5M can count: four lower-case letters or more, or a word in a script without capitals.
# (German nouns have capitals: `_COUNTED_NOUN`.)
_COUNTED = re.compile(
    r"\s?(?:d[ei]\s|d['’])?(?:(?!(?:from|with|that|then|when|were|have|will|also|sind|oder|wird|dans|"
    r"pour|para|como|sono|della|niet|voor)\b)(?:(?![A-ZÀ-ÖØ-ÞА-ЯЁ])[a-zß-öø-ÿœŒĀ-ſа-яё]){4}"
    r"|(?![A-Za-zÀ-ſА-яЁё])[^\W\d_])"
)
# The noun after a scale takes a joiner, "millions de voix"; a preposition or a verb does not.
_TAKES_JOINER = re.compile(
    r"\s(?!(?:d[ei]|en|in|em|na|no|nel|nella|dans|sur|sous|por|para|pour|par|per|a|à|al|au|aux|con|"
    r"avec|com|sin|sans|y|e|et|o|ou|que|qui|che|ont|est|sont|son|sono|são|foi|è)\b|d['’])[^\W\d_]",
    re.I,
)
# An estimated number cannot be a name: over 2M, knapp 3M, cerca de 5M.
_ABOUT = re.compile(
    r"(?:(?<!\w)(?:over|about|around|nearly|almost|roughly|approximately|under|than|at least|up to|"
    r"über|rund|etwa|fast|knapp|circa|ca\.|mindestens|mehr als|weniger als|bis zu|environ|presque|"
    r"(?:près|plus|moins) de|au moins|casi|(?:más|menos|cerca|alrededor|mais) de|aproximadamente|"
    r"quasi|oltre|più di|meno di|quase|bijna|ongeveer|ruim|meer dan|ponad|około|prawie|niemal|přes|"
    r"asi|téměř|okolo|более|около|почти|свыше|yaklaşık|közel|mintegy|több mint)\s"
    r"|(?:超过|大约|约|約|약)\s?)$",
    re.I,
)
_TOPIC = re.compile(r"\b(?:about|than|under)\s$", re.I)
# 2M is not two million after a word for a length, or before one for a size or a part ("cable").
_LENGTH = re.compile(
    r"(?<!\w)(?:height|depth|length|width|distance|höhe|tiefe|länge|breite|hauteur|longueur|altura|"
    r"longitud|altezza|lunghezza|comprimento|hoogte|lengte)\b[^.!?]{0,30}$",
    re.I,
)
_SIZED = re.compile(
    r"[\s-](?:tall|long|wide|deep|high|away|apart|of (?:rope|cable|wire|tape|pipe)|hoch|"
    r"lang|breit|tief|hoog|diep|port|board|cable|connector|plug|socket|adapter|cord|wire|rope|hose|pole|"
    r"lens|kabel|stecker|anschluss|câble|cavo|cabo)\b",
    re.I,
)
_COUNTED_NOUN = re.compile(r"\s[^\W\d_]{2}")
_LABEL = re.compile(
    r"(?<!\w)(?:usb|pi|room|flat|apartment|apt\.?|unit|gate|seat|row|suite|platform|figure|fig\.?|"
    r"section|"
    r"exercise|question|building|block|type|class|grade|table|model|group|part|step|phase|level|"
    r"appendix|route|line|bus|highway|zimmer|wohnung|raum|gleis|klasse|abbildung|abb\.|aufgabe|typ|"
    r"linie|salle|porte|classe|tableau|exercice|sala|puerta|clase|aula|porta|figura|ejercicio|"
    r"classe|esercizio|kamer|lokaal|klas|sala|klasa|tabela|třída|кабинет|класс)\s$",
    re.I,
)
_SCREEN = re.compile(
    r"[\s-]?(?:vid|v[íi]d|scr|tv|display|monitor|resol|auflös|bild|film|cam|kam|foot|run|race|lauf|"
    r"gam|content|quali|ultra|uhd|hdr|imag|pict|photo|foto|live|panel|stream|support|output|[ée]cran|"
    r"pantall|tela|scherm|schermo|видео|экран)",
    re.I,
)
# Cyrillic letters of scales, with their Latin look-alikes.
_LATIN = {"К": "k", "к": "k", "М": "m"}
# The letters of scales with a currency.
_MONEY_MARKS = {"k": 3, "m": 6, "mm": 6, "mn": 6, "mln": 6, "b": 9, "bn": 9, "t": 12, "tn": 12}
_DASHES = re.compile("[–—-]")
_DASH = r"(?:\s?[–—]\s?|-|\s-\s)"
