r"""Formulas: LaTeX in signs, `$x^2 \leq \frac{7}{10}$` is x² ≤ 7/10, and the signs in words.

A formula stands between dollar signs, as in Markdown (Pandoc's rule: no space after the first and
before the last, and no digit after it), or in `\(…\)` and `\[…\]`. Text between dollar signs without a
mark of a formula is money.
"""

import re
from collections.abc import Callable

_FORMULA = re.compile(
    r"\$\$([^$]{1,400})\$\$|\\\(((?:(?!\\[()])[^\n]){1,400})\\\)|\\\[((?:(?!\\[\[\]]).){1,400})\\\]"
    r"|(?<![\w$\\])\$(?=[^\s$])([^$\n]{0,200}[^\s$\\])\$(?![\d\w$])",
    re.S,
)
_FORMULA_MARK = re.compile(r"\\[a-zA-Z]+|[\^_{}=<>]|^\s*[-+]?[a-zA-Z](?:['′]|\s*[-+*/,]\s*[\w]+)*\s*$")
_GROUP = r"\{((?:[^{}]|\{[^{}]{0,80}\}){0,120})\}"
_FRACTION = re.compile(rf"\\[dt]?frac\s*{_GROUP}\s*{_GROUP}")
_ROOT = re.compile(rf"\\sqrt\s*(?:\[[^\]]{{0,9}}\])?\s*{_GROUP}")
_TEXT = re.compile(rf"\\(?:text|mathrm|mathbf|mathit|mathbb|mathcal|operatorname|mbox)\s*{_GROUP}")
_SUBSCRIPT = re.compile(r"_(?:\{([^{}]{1,40})\}|(\w))")
_BOUNDS = re.compile(r"_(?:\{([^{}]{1,40})\}|(\w))\^(?:\{([^{}]{1,40})\}|(\\?\w+))")
_COMMAND = re.compile(r"\\([a-zA-Z]+)\s?|\\(.)", re.S)
_POWER = re.compile(r"\^\{([^{}]{1,40})\}")
# Braces and columns are layout; a sign that could begin a tag is of full width.
_LAYOUT = str.maketrans({"{": " ", "}": " ", "&": " ", "~": " ", "<": " ＜ ", ">": " ＞ "})
# Commands for signs that are read. Commands in neither this nor the next two tables are silent.
_COMMAND_SIGNS = {
    command: sign
    for sign, commands in {
        "≤": "leq le leqslant",
        "≥": "geq ge geqslant",
        "≠": "neq ne",
        "≈": "approx sim",
        "×": "times cdot ast",
        "÷": "div",
        "±": "pm mp",
        "<": "lt",
        ">": "gt",
        "=": "equiv",
        "°": "circ degree",
        "%": "percent",
        "…": "ldots dots cdots",
    }.items()
    for command in commands.split()
}
# Commands that are read as their names, and those with other names.
_SPOKEN_NAMES = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega sin cos tan cot log ln exp lim max min".split()
)
_FULL_NAMES = {
    "varepsilon": "epsilon",
    "vartheta": "theta",
    "varphi": "phi",
    "infty": "infinity",
    "int": "integral",
    "sum": "sum",
    "prod": "product",
}


def read_formulas(text: str) -> str:
    """A text whose formulas are signs and words."""
    if "$" not in text and "\\" not in text:
        return text
    return _FORMULA.sub(_read_match, text)


def _read_match(match: re.Match[str]) -> str:
    formula = next(filter(None, match.groups()))
    return _read_formula(formula) if _FORMULA_MARK.search(formula) else match[0]


def _read_formula(formula: str) -> str:
    formula = _TEXT.sub(r" \1 ", formula)
    for _ in range(3):  # fractions and roots inside each other
        formula = _ROOT.sub(lambda root: f" √{_in_brackets(root[1])} ", formula)
        formula = _FRACTION.sub(lambda fraction: f" {_divide(fraction[1], fraction[2])} ", formula)
    formula = _BOUNDS.sub(lambda bounds: f" {bounds[1] or bounds[2]}, {bounds[3] or bounds[4]} ", formula)
    formula = _SUBSCRIPT.sub(lambda index: f" {index[1] or index[2]} ", formula)
    formula = _COMMAND.sub(_read_command, _POWER.sub(_read_power, formula))
    return " ".join(formula.translate(_LAYOUT).split())


def _divide(top: str, bottom: str) -> str:
    top, bottom = top.strip(), bottom.strip()
    if re.fullmatch("[1-9]/[2-9]", f"{top}/{bottom}"):
        return f"{top}/{bottom}"
    return f"{top} ÷ {bottom}"


def _in_brackets(term: str) -> str:
    return term.strip() if term.strip().isalnum() else f"({term})"


def _read_power(match: re.Match[str]) -> str:
    exponent = match[1].strip()
    return f"^{exponent}" if re.fullmatch(r"[-+]?\w{1,4}", exponent) else f"^({exponent})"


def _read_command(match: re.Match[str]) -> str:
    name = match[1]
    if name is None:
        return match[2] if match[2] in "%$&#_" else " "
    if name in _COMMAND_SIGNS:
        return f" {_COMMAND_SIGNS[name]} "
    lower_name = name[0].lower() + name[1:]
    return f" {_FULL_NAMES.get(name) or (lower_name if lower_name in _SPOKEN_NAMES else '')} "


_SIGNS = "=×÷±≥≤≠≈<>√§"
# The words of these signs, in this order.
_SIGN_WORDS = {
    "en": """equals|times|divided by|plus or minus|greater than or equal to|less than or equal to|
        not equal to|approximately|less than|greater than|the square root of|section""",
    "de": """gleich|mal|geteilt durch|plus minus|größer gleich|kleiner gleich|ungleich|ungefähr|
        kleiner als|größer als|Wurzel aus|Paragraf""",
    "nl": """is|keer|gedeeld door|plus of min|groter dan of gelijk aan|kleiner dan of gelijk aan|
        niet gelijk aan|ongeveer|kleiner dan|groter dan|wortel|paragraaf""",
    "fr": """égale|fois|divisé par|plus ou moins|supérieur ou égal à|inférieur ou égal à|
        différent de|environ|inférieur à|supérieur à|racine de|paragraphe""",
    "es": """igual a|por|entre|más menos|mayor o igual que|menor o igual que|distinto de|
        aproximadamente|menor que|mayor que|raíz de|párrafo""",
    "pt": """igual a|vezes|dividido por|mais ou menos|maior ou igual a|menor ou igual a|
        diferente de|aproximadamente|menor que|maior que|raiz de|parágrafo""",
    "it": """uguale a|per|diviso|più o meno|maggiore o uguale a|minore o uguale a|diverso da|circa|
        minore di|maggiore di|radice di|paragrafo""",
    "pl": """równa się|razy|podzielić przez|plus minus|większe lub równe|mniejsze lub równe|
        nie równa się|około|mniejsze niż|większe niż|pierwiastek z|paragraf""",
    "cs": """rovná se|krát|děleno|plus minus|větší nebo rovno|menší nebo rovno|nerovná se|
        přibližně|menší než|větší než|odmocnina z|paragraf""",
    "ru": """равно|умножить на|разделить на|плюс минус|больше или равно|меньше или равно|не равно|
        примерно|меньше|больше|корень из|параграф""",
    "tr": """eşittir|çarpı|bölü|artı eksi|büyük eşit|küçük eşit|eşit değil|yaklaşık|küçüktür|
        büyüktür|karekök|paragraf""",
    "hu": """egyenlő|szor|osztva|plusz mínusz|nagyobb vagy egyenlő|kisebb vagy egyenlő|nem egyenlő|
        körülbelül|kisebb mint|nagyobb mint|gyök|paragrafus""",
    "ar": """يساوي|ضرب|قسمة|زائد أو ناقص|أكبر من أو يساوي|أصغر من أو يساوي|لا يساوي|حوالي|أصغر من|
        أكبر من|جذر|فقرة""",
    "hi": """बराबर|गुणा|भाग|प्लस माइनस|से बड़ा या बराबर|से छोटा या बराबर|बराबर नहीं|लगभग|से छोटा|
        से बड़ा|वर्गमूल|धारा""",
    "zh": "等于|乘以|除以|正负|大于等于|小于等于|不等于|约等于|小于|大于|根号|第",
    "ja": """イコール|かける|割る|プラスマイナス|大なりイコール|小なりイコール|ノットイコール|約|
        小なり|大なり|ルート|第""",
    "ko": "는|곱하기|나누기|플러스 마이너스|크거나 같다|작거나 같다|같지 않다|약|작다|크다|루트|제",
}
_TERM = r"[-+±√(−]?(?:[0-9.$€£(]|[A-Za-z](?![^\W\d_²³¹⁰⁴-⁹])|\|)"
# A sign between two terms.
_SIGN_BETWEEN = re.compile(
    rf"(?:(?<=[0-9)\]%|²³¹⁰⁴-⁹°′″])|(?<=(?<![^\W\d_])[A-Za-z]))(\s?)([=<>*+])\s?(?={_TERM})"
)
_MULTIPLICATION_DOT = re.compile(r"(?<=[0-9)])\s?[·⋅]\s?(?=[0-9(])")
# An equals sign with spaces: 1 km = 0.62 mi.
_SPACED_EQUALS = re.compile(r"(?<=\S) = (?=[0-9$€£−-])")
# The minus of an equation; elsewhere it may be a dash.
_MINUS = re.compile(r"(?<=[0-9)²³])\s[-–−]\s(?=[0-9(][^.;!?=\n]{0,20}=)")
# A comparison with one term: < 5.
_COMPARISON = re.compile(rf"(?<![\w<>=×÷-])([<>])\s?(?={_TERM})")
# Signs that are unambiguous.
_CLEAR_SIGN = re.compile(r"\s?([×÷±≥≤≠≈])\s?(?=[\w$€£(√+−-])")
_ROOT_SIGN = re.compile(rf"√\s?(?={_TERM})")
_PLURAL_SECTIONS = {"en": "sections", "de": "Paragrafen", "nl": "paragrafen"}
_SECTION_SIGN = re.compile(r"(?<!\w)§§?\s?(?=[0-9])")
_NUMBER_POWER = re.compile(r"(?<=[0-9A-Za-z)\]])\^(?:\{([-+]?[0-9]{1,4})\}|\(?([-+−]?[0-9]{1,4})\)?(?!\w))")
_LETTER_POWER = re.compile(r"(?<=[0-9A-Za-z)\]])\^\{?([a-zA-Z])\}?(?!\w)")
_POWER_OF_SUM = re.compile(r"(?<=[0-9A-Za-z)\]])\^\(([^()]{2,30})\)")
_SUPERSCRIPTS = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
SIGNS = re.compile(f"[{_SIGNS}*^+·⋅]")


def signs_reader(language: str, power: str, plus: str, minus: str) -> Callable[[str], str]:
    """The step that writes signs as words. power: the words of a power, with `{}` for the exponent;
    plus, minus: the words of these signs."""
    sign_words = map(str.strip, _SIGN_WORDS.get(language, "").split("|"))
    words = dict(zip(_SIGNS, sign_words, strict=False))
    if len(words) < len(_SIGNS):
        return lambda text: text
    words |= {"*": words["×"], "+": plus}

    def read_sign_between(match: re.Match[str]) -> str:
        sign = match[2]
        neighbours = match.string[match.start() - 1] + match.string[match.end() : match.end() + 1]
        if sign == "*" and not neighbours.isdigit():
            return match[0]
        return f" {words[sign]} "

    def read_section(match: re.Match[str]) -> str:
        plural = _PLURAL_SECTIONS.get(language, words["§"])
        return f"{plural if '§§' in match[0] else words['§']} "

    def step(text: str) -> str:
        if not SIGNS.search(text):
            return text
        text = _NUMBER_POWER.sub(lambda match: (match[1] or match[2]).translate(_SUPERSCRIPTS), text)
        if power:
            text = _POWER_OF_SUM.sub(lambda match: f" {power.format(match[1])} ", text)
            text = _LETTER_POWER.sub(lambda match: f" {power.format(match[1])} ", text)
        text = _SECTION_SIGN.sub(read_section, text)
        text = text.replace(f"{words['§'].capitalize()} {words['§']} ", f"{words['§']} ")
        text = _MINUS.sub(f" {minus} ", _MULTIPLICATION_DOT.sub(" × ", text))
        text = _SPACED_EQUALS.sub(f" {words['=']} ", text)
        text = _SIGN_BETWEEN.sub(read_sign_between, text)
        text = _COMPARISON.sub(lambda match: f"{words[match[1]]} ", text)
        text = _CLEAR_SIGN.sub(lambda match: f" {words[match[1]]} ", text)
        return _ROOT_SIGN.sub(f" {words['√']} ", text)

    return step
