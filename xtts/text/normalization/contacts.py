"""What is spelled out: telephone, card and service numbers (call 911), identifiers, web addresses."""

import re
from collections.abc import Callable
from functools import cached_property

from xtts.text.normalization.numbers import NumberRules, Step, pairs


class ContactRules(NumberRules):
    """How a language reads telephone numbers and identifiers."""

    # Words after which groups of digits are a telephone number.
    calling_words = "tel"

    @cached_property
    def read_services(self) -> Step:
        """Reads emergency and service numbers digit by digit."""
        words = f"{self.calling_words}|{_DIALLING_WORDS if self.code == 'en' else _EMERGENCY_WORDS}"
        after_word = re.compile(
            rf"((?<!\w)(?:{words})(?!\w)[^\d\n+(.!?]{{0,14}})(?<![\w.,-])({_SERVICE_NUMBER})"
            rf"(?![\w/%€$°-]|[.,:]\d|\s[0-9%€$£]{_COUNTED_NOUN})",
            re.IGNORECASE,
        )
        after_read_number = re.compile(
            rf"({_READ_MARK}(?:,|,?\s\w{{1,5}})\s(?:(?:the|il|lo|al|le|den)\s)?)({_SERVICE_NUMBER})"
            rf"(?![\w/%{_READ_MARK}-]|[.,:]\d{_COUNTED_NOUN})"
        )
        text_code = re.compile(r"(?<!\w)((?:text|sms)\s(?:\w+\s(?:to|at)\s)?)([0-9]{4,6})(?![\w.,]?\d)", re.I)
        emergency_number = re.compile(rf"(?<![\w.,$€£-])911{_CALLS_AFTER}")

        def read_and_mark(match: re.Match[str]) -> str:
            return f"{match[1]}{self.digits(match[2])}{_READ_MARK}"

        def step(text: str) -> str:
            text = _FREE_NUMBER.sub(lambda match: self.phone(match[0]), text)
            if self.code in _LANGUAGES_WITHOUT_SERVICES or not _ANY_SERVICE.search(text):
                return text
            text = after_word.sub(read_and_mark, text)
            previous = ""
            while previous != text and _READ_MARK in text:  # each round reads one more of a list
                previous, text = text, after_read_number.sub(read_and_mark, text)
            text = text.replace(_READ_MARK, "")
            if self.code == "en":
                text = text_code.sub(lambda m: m[1] + self.digits(m[2]), text)
                text = emergency_number.sub(lambda m: self.digits(m[0]), text)
            return text

        return step

    @cached_property
    def read_phones(self) -> Step:
        """Reads card numbers, and telephone numbers, which are recognised by their form or by the
        word before them."""
        after_word = re.compile(
            rf"((?<!\w)(?:{self.calling_words})\b[^\d\n+(]{{0,12}})({_DIGIT_GROUPS})(?![\d.,]\d)",
            re.IGNORECASE,
        )

        def phone_if_long(text: str, min_digits: int) -> str:
            return self.phone(text) if sum(map(str.isdigit, text)) >= min_digits else text

        def step(text: str) -> str:
            text = _CARD.sub(self._read_card, text)
            text = after_word.sub(lambda m: m[1] + phone_if_long(m[2], 6), text)
            return _PHONE.sub(lambda m: phone_if_long(m[0], 7), text)

        return step

    def phone(self, text: str) -> str:
        """A telephone number, group by group."""
        plus = f"{self.plus} " if text.startswith("+") else ""
        return plus + ", ".join(self.digits(part) for part in re.findall(r"\d+", text))

    def read_identifiers(self, text: str) -> str:
        """Reads chains of digits and dashes, and long numbers, digit by digit."""
        return _LONG_NUMBER.sub(lambda m: f" {self.digits(m[0])} ", _CHAIN.sub(self._read_identifier, text))

    def _read_card(self, match: re.Match[str]) -> str:
        return f"{match[1] or ''} {', '.join(map(self.digits, match[2].split()))}".strip()

    def _read_identifier(self, match: re.Match[str]) -> str:
        """Three or more groups, or two that cannot be a range, because they count down or grow a
        thousandfold."""
        groups = re.findall("[0-9]+", match[0])
        num_digits = sum(map(len, groups))
        if len(groups) == 2:
            first, second = groups
            falls = int(second) <= int(first) and min(map(len, groups)) >= 3
            leaps = len(second) >= len(first) + 3 and not second.endswith("000")
            return self.phone(match[0]) if num_digits >= 7 and (falls or leaps) else match[0]
        if num_digits < 7 and all(group == "0" or group[0] != "0" for group in groups):
            return self.space.join(self.cardinal(int(group)) for group in groups)
        return ", ".join(self.digits(group) for group in groups)


# A card or an IBAN in groups of four digits.
_CARD = re.compile(
    r"(?<![\w.,-])(?:([A-Z]{2})(?=[0-9]{2} [0-9]{4} ))?((?:[0-9]{2} )?[0-9]{4}(?: [0-9]{4}){2,7}"
    r"(?: [0-9]{1,4})?)(?![\w-])(?![.,]\d)",
    re.ASCII,
)
# Digits with dashes or slashes.
_CHAIN = re.compile(
    r"(?<![\d.,+/])(?<!\d[-–])(?:[0-9]{1,3}(?:\.[0-9]{3}){2,3}[-/][0-9]{1,4}(?:-[0-9]{1,2})?"
    r"|[0-9]{1,12}(?:[-/][0-9]{1,12}){1,6})(?![\w/-])(?![.,]\d)",
    re.ASCII,
)
# Ten or more digits without separators, unless they are a round number; fewer if a letter touches them.
_LONG_NUMBER = re.compile(
    r"(?<![\w.,$€£¥₹₩-])[0-9]{10,24}(?<!000)(?![\w.,]?\d|\s?[%°$€£¥₹₩])"
    r"|(?<=[A-Z])[0-9]{5,24}(?![.,]?\d)|(?<![\w.,])[0-9]{7,24}(?=-?[A-Z](?!\w))",
    re.ASCII,
)
# A number in the American form is complete: a number after it counts something.
_DIGIT_GROUPS = (
    r"(?:(?:1-)?[0-9]{3}-)?[0-9]{3}-[0-9]{4}(?![-./0-9])"
    r"|[+(]?[0-9]{1,8}\)?(?:(?:[ ./-]| [/–-] )\(?[0-9]{1,8}\)?){0,7}"
)
# Forms: international, area code in brackets, leading zero, groups with dashes, two groups of five.
_PHONE = re.compile(
    r"(?<![\w.,+-])(?:"
    r"\+[0-9]{1,3}(?:[ -]?\(?[0-9]{1,5}\)?){1,7}"
    r"|(?:[0-9]{1,2}[ -]?)?\([0-9]{2,5}\)\s?[0-9]{2,5}(?:[ -][0-9]{2,5}){1,3}"
    r"|0[0-9]{0,4}(?:[ -][0-9]{1,8}){1,5}"
    r"|0[0-9]{2,5}\s?/\s?[0-9]{2,8}(?:(?:[ -]| [–-] )[0-9]{1,6}){0,4}"
    r"|0[0-9](?:\.[0-9]{2}){4}"
    r"|[0-9]{3} [0-9]{3} [0-9]{4}|[0-9]{3}\.[0-9]{3}\.[0-9]{4}"
    r"|[0-9]{3}-[0-9]{4}|[0-9]{2,4}-[0-9]{3,4}-[0-9]{4}"
    r"|[0-9]{5} [0-9]{5}"
    r")(?![\d-])(?![.,]\d)",
    re.ASCII,
)
# Emergency and service numbers.
_SERVICE_NUMBER = (
    "000|061|062|080|091|10[1-4]|11[0-9]|144|15[0568]|19[0-3]|211|311|411|511|811|911|988|99[789]|"
    "116 ?1[0-9]{2}"
)
# 1300 555 019, 1800 123 456: numbers that are free to call.
_FREE_NUMBER = re.compile(r"(?<![\w.,+-])1[38]00 [0-9]{3} [0-9]{3}(?![\d-])(?![.,]\d)")
_ANY_SERVICE = re.compile(rf"(?<![\w.,-])(?:{_SERVICE_NUMBER})(?![\w/%])|(?:[Tt]ext|SMS|sms)\s")
# English words after which a service number is dialled; and those of other languages.
_DIALLING_WORDS = "call|dial|text|sms|ring|phone|telephone|emergency|emergencies|hotline|helpline"
_EMERGENCY_WORDS = (
    "notfall|emergencias?|emergências?|emergenz[ae]|alarmnummer|noodnummer|alarmowy|ratunkowy|"
    "nouzi|экстренных случаях|acil"
)
# Nouns before which 911 is a service number.
_CALLS_AFTER = r"(?=\s(?:calls?|operators?|dispatch(?:er|ers)?|emergency)\b)"
# Nouns that a number counts.
_COUNTED_NOUN = r"|\s(?:people|times|users|years|days|minutes|seconds|hours)\b"
# Languages that read service numbers as they read others.
_LANGUAGES_WITHOUT_SERVICES = ("fr",)
# Follows a number that was read, so that "or 112" after it is read, too.
_READ_MARK = "\ue8fc"
# The words for the dot, the at sign and the slash.
_ADDRESS_WORDS = pairs("""en = dot at slash, de = Punkt ät Schrägstrich, nl = punt apenstaartje slash,
    fr = point arobase slash, es = punto arroba barra, pt = ponto arroba barra,
    it = punto chiocciola barra, pl = kropka małpa ukośnik, cs = tečka zavináč lomítko,
    ru = точка собака слэш, tr = nokta et eğik_çizgi, hu = pont kukac perjel""")
_DOMAIN = r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,6}"
# Top-level domains that need neither https:// nor www: "end.It" is a missing space.
_SURE_DOMAINS = "com|org|net|edu|gov|io|dev|app|info|co\\.uk|com\\.br"
_MAIL = re.compile(
    rf"(?<![\w.+@-])([a-z0-9_](?:[a-z0-9_.+-]{{0,62}}[a-z0-9_])?)@({_DOMAIN}[a-z]{{2,24}})(?![\w@])", re.I
)
_WEB = re.compile(
    rf"(?<![\w.@/-])(?:https?://({_DOMAIN}[a-z]{{2,24}}|localhost)|(www\.{_DOMAIN}[a-z]{{2,24}})|({_DOMAIN}(?:{_SURE_DOMAINS})))"
    r"(?![\w@])(?::[0-9]{1,5})?((?:/[^\s<>\"'()\[\]/?#]{0,80}){0,8})(?:[?#][^\s<>\"'()\[\]]{0,400})?",
    re.I,
)
ADDRESS_MARK = re.compile(r"\.[a-zA-Z]{2}|@|://")


def address_reader(language: str) -> Callable[[str], str]:
    """A function that spells out the addresses in a text, without scheme, port, query and fragment."""
    if language not in _ADDRESS_WORDS:
        return lambda text: text
    dot, at, slash = (f" {word.replace('_', ' ')} " for word in _ADDRESS_WORDS[language].split())

    def mail(match: re.Match[str]) -> str:
        return f"{match[1].replace('.', dot)}{at}{match[2].replace('.', dot)}"

    def web(match: re.Match[str]) -> str:
        host, path = match[1] or match[2] or match[3], match[4]
        end = re.search(r"[.,;:!?]*$", match[0])
        assert end is not None
        parts = [part for part in path.rstrip(".,;:!?").split("/") if part]
        spoken = [re.sub(r"[_+%~=-]+", " ", part).replace(".", dot) for part in parts]
        return slash.join([host.replace(".", dot), *spoken]) + end[0]

    return lambda text: _WEB.sub(web, _MAIL.sub(mail, text))
