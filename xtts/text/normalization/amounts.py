"""Amounts in words: money, percentages and units, with their scales ($5m, 14 %, 5 kg, 3,5 Mio.)."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from xtts.text.normalization.fractions import FractionRules
from xtts.text.normalization.numbers import (
    Money,
    Noun,
    Pattern,
    Step,
    WrittenNumber,
    alternatives,
    folded_sign,
)
from xtts.text.normalization.scores import follows_label


class AmountRules(FractionRules):
    """How a language reads amounts.

    A thousand, and a scale without a noun, is read as one number together with its amount.
    """

    # The words of scales.
    scales: ClassVar[tuple[str, ...]] = ()
    # Those that mean a thousand.
    thousands: ClassVar[tuple[str, ...]] = ()
    # The nouns of larger scales by their powers of ten.
    scale_nouns: ClassVar[Mapping[int, Noun]] = {}
    # Abbreviations of scales with their powers of ten.
    scale_marks: ClassVar[Mapping[str, int]] = {}
    # Those that are valid only with a currency, in any case: 5 m is five metres, $5m five million dollars.
    money_marks: ClassVar[Mapping[str, int]] = {}
    # The word between a scale and its noun: millions *of* euros.
    scale_joiner = " "
    # The word between the unit of a currency and its hundredths.
    money_joiner = " "
    # Whether nouns have capitals.
    capital_nouns = False

    @cached_property
    def read_spans(self) -> Step:
        """Writes the dash of a range as a word if both amounts have a unit: 9:00-17:30, 5%-10%,
        $5-$10. `amount_pattern` matches ranges with one unit."""
        number, sign = self.number_pattern, alternatives(self.currencies)
        marks, units = map(alternatives, (self._money_marks, (*self.units, *self.scale_marks)))
        end = "(?![^\\W_])" if self.has_spaces else "(?![0-9A-Za-z])"
        unit = rf"(?:\s?(?:(?:{marks})?\s?(?:{sign})|%|(?:{units}))|[kM]){end}"
        ordinal = r"(?:\.?[ºª°ᵉ]|st|nd|rd|th|ste|de|e|er|re|ère|ème|-й|-я|-е)"
        pattern = re.compile(
            rf"{self.number_start}(?:"
            rf"(?P<left>[0-9]{{1,2}}:[0-5][0-9](?:\s?[ap]\.?m\b\.?)?|[0-9]{{1,2}}\s?[ap]\.?m\b\.?"
            rf"|[0-9]{{1,2}}h(?:[0-5][0-9])?(?!\w)|{number}{unit}|[0-9]{{1,6}}{ordinal}(?=[–—-][0-9]{{1,6}}{ordinal}))"
            rf"{_RANGE_DASH}(?=-?(?:(?:{sign})\s?)?[0-9])"
            rf"|(?P<price>(?P<sign>{sign})\s?{number}\s?(?P<scale>(?:{marks}){end})?){_RANGE_DASH}"
            rf"(?=(?P<second_sign>{sign})?\s?{number}\s?(?:{marks})?{end}))",
            re.IGNORECASE,
        )
        to = f"{self.space}{self.to} "

        def replace_dash(match: re.Match[str]) -> str:
            if match["left"]:
                return match["left"] + to
            if match["second_sign"]:
                return match["price"] + to
            return f"{match['price']}{to}{match['sign']}" if match["scale"] else match[0]

        return lambda text: pattern.sub(replace_dash, text) if _ANY_DASH.search(text) else text

    # --- Money

    @cached_property
    def read_money(self) -> Step:
        """Reads amounts of money, with the sign before or after them."""
        moneys = {folded_sign(sign): money for sign, money in self.currencies.items()}
        powers = {form: power for power, noun in self.scale_nouns.items() for form in noun.forms}
        powers |= dict.fromkeys(self.thousands, 3) | self._money_marks
        powers = {folded_sign(scale): power for scale, power in powers.items()}
        signs = alternatives(self.currencies)
        money_pattern = self._money_pattern(signs)
        sign_for_point = re.compile(
            rf"({self.number_start}[0-9]{{1,6}})({signs})([0-9]{{2}})(?![\w]|[.,][0-9])"
        )

        def scaled_words(sign: str, amount: str, scale: str | None) -> str:
            money, scale = moneys[folded_sign(sign)], scale or ""
            if power := powers.get(folded_sign(scale)):
                return self.scaled_money_words(amount, power, money)
            if scale:
                return f"{self.amount_words(amount)} {scale}{self.scale_joiner}{money.unit.many}"
            return self.money_words(amount, money)

        def read_sign_after(match: re.Match[str]) -> str:
            amount, scale, sign, unit = match.groups()[:4]
            words = scaled_words(sign, amount, scale) + self.rate_words(unit, of_money=True)
            return words + self.sentence_stop(match)

        def read_sign_before(match: re.Match[str]) -> str:
            minus, _, sign, amount, scale, code, unit = match.groups()[4:]
            words = scaled_words(code or sign, minus + amount, scale) + self.rate_words(unit, of_money=True)
            stop = self.sentence_stop(match)
            follower = match.string[match.end() : match.end() + 1]
            return words + stop + (" " if self.has_spaces and not stop and follower.isalnum() else "")

        point = "," if self.thousands_separator != "," else "."
        return lambda text: money_pattern.sub(
            lambda match: read_sign_after(match) if match[3] else read_sign_before(match),
            sign_for_point.sub(rf"\1{point}\3\2", text),
        )

    def _money_pattern(self, signs: str) -> Pattern:
        """The pattern of an amount of money. Groups 1 to 4 are amount, scale, sign and the unit of a rate, if
        the sign follows the amount; groups 5 to 11 minus, symbol, sign, amount, scale, code and unit, if it
        precedes the amount."""
        scales = alternatives((*self.scales, *self._money_marks))
        end = r"(?![^\W\d_])" if self.has_spaces else "(?![A-Za-z])"
        joiner = r"(?:\s(?:de(?!\w)|di(?!\w)|d'))?" if self.scale_joiner.strip() else ""
        scale = rf"(?:\s?({scales})(?:{end}|(?=(?:{signs}){self.word_end})){joiner})?"
        # A sign after its number, unless it touches the next number: 10 $20. A year takes none
        # before a number: "In 2020 USD 20 million".
        after = (
            rf"(?!(?<=\b[IiEe][nm] )[12][0-9]{{3}}\s(?:{signs})\s[0-9])"
            rf"({self.amount_pattern}){scale}\s?({signs}){self.word_end}{self.per_pattern}"
        )
        codes = alternatives(sign for sign in self.currencies if sign.isalpha())
        before = (
            rf"(?<![{self.joining_characters}])(-?)(?:(?=\W)(?P<symbol>))?({signs})\s?({self.amount_pattern})"
            rf"{scale}(?(symbol)(?:\s?({codes})(?!\w))?){self.per_pattern}"
        )
        # One pattern from left to right, so that no number takes the sign of the one before it.
        return re.compile(f"{after}|{before}", re.IGNORECASE)

    @cached_property
    def _money_marks(self) -> dict[str, int]:
        return {**_SCALE_LETTERS, **self.scale_marks, **self.money_marks}

    def scaled_money_words(self, amount: str, power: int, money: Money) -> str:
        """An amount of money with its scale: 3.5 billion dollars."""
        noun = self.scale_nouns.get(power)
        if noun is None:
            return self.counted_words(self.times_power_of_ten(amount, power), money.unit)
        return f"{self.counted_words(amount, noun)}{self.scale_joiner}{money.unit.many}"

    def money_words(self, amount: str, money: Money) -> str:
        """An amount of money in words; a fraction of two digits is read as cents."""
        sign, first, last = self.parse_amount(amount)
        number = self.parse_number(first)
        if last or money.cent is None or len(number.fraction) != 2:
            return self.counted_words(amount, money.unit)
        whole, cents = WrittenNumber(number.whole), WrittenNumber(str(int(number.fraction)))
        parts = [(whole, money.unit), (cents, money.cent)]
        parts = [part for part in parts if part[0].value] or parts[:1]
        words = (f"{self.parsed_number_words(n, noun.gender)} {self.noun_form(n, noun)}" for n, noun in parts)
        return f"{sign} {self.money_joiner.join(words)}".strip()

    # --- Percentages, units and scales

    @cached_property
    def read_percents(self) -> Step:
        """Reads percentages: 14 %, also written %14."""
        sign_after = re.compile(rf"({self.amount_pattern})(?:%|\s%(?![0-9])){self.per_pattern}")
        sign_before = re.compile(
            rf"(?<![\w%])%({self.number_pattern}(?:\s?[–—-]\s?%?{self.number_pattern})?)"
        )

        def read_sign_before(match: re.Match[str]) -> str:
            return self.percentage_words(match[1].replace("%", ""))

        def read_sign_after(match: re.Match[str]) -> str:
            return self.percentage_words(match[1]) + self.rate_words(match[2]) + self.sentence_stop(match)

        return lambda text: sign_before.sub(read_sign_before, sign_after.sub(read_sign_after, text))

    def percentage_words(self, amount: str) -> str:
        """A percentage in words."""
        return self.counted_words(amount, self.percent)

    @cached_property
    def read_units(self) -> Step:
        """Reads amounts with units: 5 kg, 60 km/h, 20 °C, and those with a scale: 3,5 Mio."""
        end = self.unit_end
        # The number of a name has no unit: V8s, i7-9700K. But 1h30min has two.
        start = "(?:(?<![A-Za-z])(?<![A-Za-z][0-9]-)|(?<=[0-9][A-Za-z]))" if self.has_spaces else ""
        with_unit = re.compile(
            rf"{start}({self.amount_pattern})\s?({alternatives(self.units)}){self.per_pattern}(?(3)|{end})"
        )
        with_scale = re.compile(
            rf"{start}({self.amount_pattern})(?:\s?({alternatives(self.scale_marks)})|([kKMBКМк])){end}"
        )
        names = alternatives(sign for sign in self.units if sign.isascii() and sign.strip(".").isalpha())
        hyphened = re.compile(
            rf"{self.number_start}([0-9]{{1,4}}(?:[.,][0-9]{{1,3}})?(?:[-–][0-9]{{1,4}})?)-({names})(?![\w/.]|\s?\d)(?=-?\s?[^\W\d])"
        )

        def step(text: str) -> str:
            if "-" in text:
                text = hyphened.sub(self._read_hyphened_unit, text)
            return with_scale.sub(self._read_scale, with_unit.sub(self._read_unit, text))

        return step

    def _read_hyphened_unit(self, match: re.Match[str]) -> str:
        """An amount before the noun that it describes: a 100-g bar, ein 5-kg-Sack."""
        noun = self.units[match[2]]
        return match[0] if follows_label(match) else f"{self.amount_words(match[1], noun.gender)} {noun.one}"

    def _read_unit(self, match: re.Match[str]) -> str:
        words = self.counted_words(match[1], self.units[match[2]])
        return words + self.rate_words(match[3]) + self.sentence_stop(match)

    def _read_scale(self, match: re.Match[str]) -> str:
        amount, mark, letter = match.groups()
        if letter and not self._is_scale(match):
            return match[0]
        power = self.scale_marks.get(mark or letter)
        power = power or _SCALE_LETTERS[_LATIN_LOOKALIKES.get(letter, letter.lower())]
        stop = self.sentence_stop(match)
        noun = self.scale_nouns.get(power)
        if noun is None:
            return self.amount_words(self.times_power_of_ten(amount, power)) + stop
        joiner = self.scale_joiner.strip()
        has_joiner = joiner and _TAKES_JOINER.match(match.string[match.end() :])
        return self.counted_words(amount, noun) + (f" {joiner}" if has_joiner else "") + stop

    def _is_scale(self, match: re.Match[str]) -> bool:
        """Whether k, M or B (group 3) after a number (group 1) is a scale."""
        amount, letter = match[1], match[3]
        before, after = match.string[: match.start()], match.string[match.end() :]
        if letter not in "kKк" and _SIZE_AFTER.match(after):
            return False
        # A name follows, as in 221B Baker Street.
        is_address = letter == "B" and not self.capital_nouns and re.match(r"\s[A-Z][a-z]", after)
        if is_address or _LABEL_BEFORE.search(before):
            return False
        return len(amount) > 1 or self._is_scale_of_digit(before, amount, letter, after)

    def _is_scale_of_digit(self, before: str, digit: str, letter: str, after: str) -> bool:
        """Whether k, M or B after a digit is a scale: 5M users, over 2M in cash. 4K is a screen, 3M
        a company, 5B a room, a height of 2M metres."""
        if re.match(rf"\s?{re.escape(self.to)}\s?[0-9.,]+{letter}", after):
            return True
        is_company = (digit, letter) == ("3", "M")
        is_topic = is_company and _TOPIC_BEFORE.search(before)
        if letter in "MBМ" and _ESTIMATE_BEFORE.search(before) and not is_topic:
            return not _LENGTH_BEFORE.search(before)
        counts_noun = _COUNTED_AFTER.match(after) or (self.capital_nouns and _CAPITAL_NOUN_AFTER.match(after))
        if not counts_noun or is_company:
            return False
        is_screen = letter == "K" and digit in "2468"
        return not is_screen and (letter not in "kKк" or not _VIDEO_AFTER.match(after))


# A noun that 5M can count: four lower-case letters or more, or a word in a script without capitals.
# (German nouns have capitals: `_CAPITAL_NOUN_AFTER`.)
_COUNTED_AFTER = re.compile(
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
_ESTIMATE_BEFORE = re.compile(
    r"(?:(?<!\w)(?:over|about|around|nearly|almost|roughly|approximately|under|than|at least|up to|"
    r"über|rund|etwa|fast|knapp|circa|ca\.|mindestens|mehr als|weniger als|bis zu|environ|presque|"
    r"(?:près|plus|moins) de|au moins|casi|(?:más|menos|cerca|alrededor|mais) de|aproximadamente|"
    r"quasi|oltre|più di|meno di|quase|bijna|ongeveer|ruim|meer dan|ponad|około|prawie|niemal|přes|"
    r"asi|téměř|okolo|более|около|почти|свыше|yaklaşık|közel|mintegy|több mint)\s"
    r"|(?:超过|大约|约|約|약)\s?)$",
    re.I,
)
_TOPIC_BEFORE = re.compile(r"\b(?:about|than|under)\s$", re.I)
# 2M is not two million after a word for a length, or before one for a size or a part ("cable").
_LENGTH_BEFORE = re.compile(
    r"(?<!\w)(?:height|depth|length|width|distance|höhe|tiefe|länge|breite|hauteur|longueur|altura|"
    r"longitud|altezza|lunghezza|comprimento|hoogte|lengte)\b[^.!?]{0,30}$",
    re.I,
)
_SIZE_AFTER = re.compile(
    r"[\s-](?:tall|long|wide|deep|high|away|apart|of (?:rope|cable|wire|tape|pipe)|hoch|"
    r"lang|breit|tief|hoog|diep|port|board|cable|connector|plug|socket|adapter|cord|wire|rope|hose|pole|"
    r"lens|kabel|stecker|anschluss|câble|cavo|cabo)\b",
    re.I,
)
_CAPITAL_NOUN_AFTER = re.compile(r"\s[^\W\d_]{2}")
_LABEL_BEFORE = re.compile(
    r"(?<!\w)(?:usb|pi|room|flat|apartment|apt\.?|unit|gate|seat|row|suite|platform|figure|fig\.?|"
    r"section|"
    r"exercise|question|building|block|type|class|grade|table|model|group|part|step|phase|level|"
    r"appendix|route|line|bus|highway|zimmer|wohnung|raum|gleis|klasse|abbildung|abb\.|aufgabe|typ|"
    r"linie|salle|porte|classe|tableau|exercice|sala|puerta|clase|aula|porta|figura|ejercicio|"
    r"classe|esercizio|kamer|lokaal|klas|sala|klasa|tabela|třída|кабинет|класс)\s$",
    re.I,
)
_VIDEO_AFTER = re.compile(
    r"[\s-]?(?:vid|v[íi]d|scr|tv|display|monitor|resol|auflös|bild|film|cam|kam|foot|run|race|lauf|"
    r"gam|content|quali|ultra|uhd|hdr|imag|pict|photo|foto|live|panel|stream|support|output|[ée]cran|"
    r"pantall|tela|scherm|schermo|видео|экран)",
    re.I,
)
# Cyrillic letters of scales, with their Latin look-alikes.
_LATIN_LOOKALIKES = {"К": "k", "к": "k", "М": "m"}
# The letters of scales with a currency.
_SCALE_LETTERS = {"k": 3, "m": 6, "mm": 6, "mn": 6, "mln": 6, "b": 9, "bn": 9, "t": 12, "tn": 12}
_ANY_DASH = re.compile("[–—-]")
_RANGE_DASH = r"(?:\s?[–—]\s?|-|\s-\s)"
