"""Signs of formulas in words: 5 × 3 = 15, x ≥ 5, 10^6, § 5."""

import re
from collections.abc import Callable

_ORDER = "=×÷±≥≤≠≈<>√§"
# The words of these signs, in this order.
WORDS = {
    "en": "equals|times|divided by|plus or minus|greater than or equal to|less than or equal to|"
          "not equal to|approximately|less than|greater than|the square root of|section",
    "de": "gleich|mal|geteilt durch|plus minus|größer gleich|kleiner gleich|ungleich|ungefähr|"
          "kleiner als|größer als|Wurzel aus|Paragraf",
    "nl": "is|keer|gedeeld door|plus of min|groter dan of gelijk aan|kleiner dan of gelijk aan|"
          "niet gelijk aan|ongeveer|kleiner dan|groter dan|wortel|paragraaf",
    "fr": "égale|fois|divisé par|plus ou moins|supérieur ou égal à|inférieur ou égal à|"
          "différent de|environ|inférieur à|supérieur à|racine de|paragraphe",
    "es": "igual a|por|entre|más menos|mayor o igual que|menor o igual que|distinto de|"
          "aproximadamente|menor que|mayor que|raíz de|párrafo",
    "pt": "igual a|vezes|dividido por|mais ou menos|maior ou igual a|menor ou igual a|diferente de|"
          "aproximadamente|menor que|maior que|raiz de|parágrafo",
    "it": "uguale a|per|diviso|più o meno|maggiore o uguale a|minore o uguale a|diverso da|circa|"
          "minore di|maggiore di|radice di|paragrafo",
    "pl": "równa się|razy|podzielić przez|plus minus|większe lub równe|mniejsze lub równe|"
          "nie równa się|około|mniejsze niż|większe niż|pierwiastek z|paragraf",
    "cs": "rovná se|krát|děleno|plus minus|větší nebo rovno|menší nebo rovno|nerovná se|přibližně|"
          "menší než|větší než|odmocnina z|paragraf",
    "ru": "равно|умножить на|разделить на|плюс минус|больше или равно|меньше или равно|не равно|"
          "примерно|меньше|больше|корень из|параграф",
    "tr": "eşittir|çarpı|bölü|artı eksi|büyük eşit|küçük eşit|eşit değil|yaklaşık|küçüktür|"
          "büyüktür|karekök|paragraf",
    "hu": "egyenlő|szor|osztva|plusz mínusz|nagyobb vagy egyenlő|kisebb vagy egyenlő|nem egyenlő|"
          "körülbelül|kisebb mint|nagyobb mint|gyök|paragrafus",
    "ar": "يساوي|ضرب|قسمة|زائد أو ناقص|أكبر من أو يساوي|أصغر من أو يساوي|لا يساوي|حوالي|أصغر من|"
          "أكبر من|جذر|فقرة",
    "hi": "बराबर|गुणा|भाग|प्लस माइनस|से बड़ा या बराबर|से छोटा या बराबर|बराबर नहीं|लगभग|से छोटा|से बड़ा|"
          "वर्गमूल|धारा",
    "zh": "等于|乘以|除以|正负|大于等于|小于等于|不等于|约等于|小于|大于|根号|第",
    "ja": "イコール|かける|割る|プラスマイナス|大なりイコール|小なりイコール|ノットイコール|約|"
          "小なり|大なり|ルート|第",
    "ko": "는|곱하기|나누기|플러스 마이너스|크거나 같다|작거나 같다|같지 않다|약|작다|크다|루트|제",
}  # fmt: skip
_TERM = r"[-+±√(−]?(?:[0-9.$€£(]|[A-Za-z](?![^\W\d_²³¹⁰⁴-⁹])|\|)"
# Between two terms; before one; and a power.
_BETWEEN = re.compile(
    rf"(?:(?<=[0-9)\]%|²³¹⁰⁴-⁹°′″])|(?<=(?<![^\W\d_])[A-Za-z]))(\s?)([=<>*+])\s?(?={_TERM})"
)
_BEFORE = re.compile(rf"(?<![\w<>=×÷-])([<>])\s?(?={_TERM})")
_ANY = re.compile(r"\s?([×÷±≥≤≠≈])\s?(?=[\w$€£(√+−-])")
_ROOT = re.compile(rf"√\s?(?={_TERM})")
_SECTIONS = {"en": "sections", "de": "Paragrafen", "nl": "paragrafen"}
_SECTION = re.compile(r"(?<!\w)§§?\s?(?=[0-9])")
_POWER = re.compile(
    r"(?<=[0-9A-Za-z)\]])\^(?:\{([-+]?[0-9]{1,4})\}|\(?([-+−]?[0-9]{1,4})\)?(?!\w))"
)
_NAMED_POWER = re.compile(r"(?<=[0-9A-Za-z)\]])\^\{?([a-zA-Z])\}?(?!\w)")
_POWER_OF_SUM = re.compile(r"(?<=[0-9A-Za-z)\]])\^\(([^()]{2,30})\)")
_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_SIGNS = re.compile(f"[{_ORDER}*^+]")


def reader(language: str, power: str, plus: str) -> Callable[[str], str]:
    """The step that writes signs as words. power: the words of a power, with `{}` for it;
    plus: the word of its sign."""
    words = dict(zip(_ORDER, WORDS.get(language, "").split("|"), strict=False))
    if len(words) < len(_ORDER):
        return lambda text: text
    words |= {"*": words["×"], "+": plus}

    def between(match: re.Match[str]) -> str:
        sign = match[2]
        around = match.string[match.start() - 1] + match.string[match.end() : match.end() + 1]
        if sign == "*" and not around.isdigit():
            return match[0]
        return f" {words[sign]} "

    def step(text: str) -> str:
        if not _SIGNS.search(text):
            return text
        text = _POWER.sub(lambda match: (match[1] or match[2]).translate(_RAISED), text)
        if power:
            text = _POWER_OF_SUM.sub(lambda match: f" {power.format(match[1])} ", text)
            text = _NAMED_POWER.sub(lambda match: f" {power.format(match[1])} ", text)
        text = _SECTION.sub(
            lambda m: f"{_SECTIONS.get(language, words['§']) if '§§' in m[0] else words['§']} ",
            text,
        )
        text = text.replace(f"{words['§'].capitalize()} {words['§']} ", f"{words['§']} ")
        text = _BEFORE.sub(lambda match: f"{words[match[1]]} ", _BETWEEN.sub(between, text))
        text = _ANY.sub(lambda match: f" {words[match[1]]} ", text)
        return _ROOT.sub(f" {words['√']} ", text)

    return step
