r"""Formulas of LaTeX as signs that normalisation reads: `$x^2 \leq \frac{7}{10}$` is x² ≤ 7/10.

A formula stands between dollar signs, as in Markdown (Pandoc's rule: no space after the first and
before the last, and no digit after it), or in `\(…\)` and `\[…\]`. What has no mark of a formula is
money.
"""

import re

_FORMULA = re.compile(
    r"\$\$([^$]{1,400})\$\$|\\\(((?:(?!\\[()])[^\n]){1,400})\\\)|\\\[((?:(?!\\[\[\]]).){1,400})\\\]"
    r"|(?<![\w$\\])\$(?=[^\s$])([^$\n]{0,200}[^\s$\\])\$(?![\d\w$])",
    re.S,
)
_MARKS = re.compile(r"\\[a-zA-Z]+|[\^_{}=<>]|^\s*[-+]?[a-zA-Z](?:['′]|\s*[-+*/,]\s*[\w]+)*\s*$")
_GROUP = r"\{((?:[^{}]|\{[^{}]{0,80}\}){0,120})\}"
_FRACTION = re.compile(rf"\\[dt]?frac\s*{_GROUP}\s*{_GROUP}")
_ROOT = re.compile(rf"\\sqrt\s*(?:\[[^\]]{{0,9}}\])?\s*{_GROUP}")
_TEXT = re.compile(rf"\\(?:text|mathrm|mathbf|mathit|mathbb|mathcal|operatorname|mbox)\s*{_GROUP}")
_LOWERED = re.compile(r"_(?:\{([^{}]{1,40})\}|(\w))")
_BOUNDS = re.compile(r"_(?:\{([^{}]{1,40})\}|(\w))\^(?:\{([^{}]{1,40})\}|(\\?\w+))")
_COMMAND = re.compile(r"\\([a-zA-Z]+)\s?|\\(.)", re.S)
_POWER = re.compile(r"\^\{([^{}]{1,40})\}")
# Braces and columns are layout; a sign that could begin a tag is of full width.
_LAYOUT = str.maketrans({"{": " ", "}": " ", "&": " ", "~": " ", "<": " ＜ ", ">": " ＞ "})
# Signs that are read, and names that are; other commands of layout are silent.
_SIGNS = {
    "leq": "≤", "le": "≤", "leqslant": "≤", "geq": "≥", "ge": "≥", "geqslant": "≥", "neq": "≠",
    "ne": "≠", "approx": "≈", "sim": "≈", "times": "×", "cdot": "×", "ast": "×", "div": "÷",
    "pm": "±", "mp": "±", "lt": "<", "gt": ">", "equiv": "=", "circ": "°", "degree": "°",
    "percent": "%", "ldots": "…", "dots": "…", "cdots": "…",
}  # fmt: skip
_NAMES = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega sin cos tan cot log ln exp lim max min".split()
)
_FULL_NAMES = {"varepsilon": "epsilon", "vartheta": "theta", "varphi": "phi", "infty": "infinity",
               "int": "integral", "sum": "sum", "prod": "product"}  # fmt: skip


def spoken(text: str) -> str:
    """A text whose formulas are signs and words."""
    if "$" not in text and "\\" not in text:
        return text
    return _FORMULA.sub(_of_match, text)


def _of_match(match: re.Match[str]) -> str:
    inside = next(filter(None, match.groups()))
    return _plain(inside) if _MARKS.search(inside) else match[0]


def _plain(formula: str) -> str:
    formula = _TEXT.sub(r" \1 ", formula)
    for _ in range(3):  # fractions and roots inside each other
        formula = _ROOT.sub(lambda root: f" √{_bracketed(root[1])} ", formula)
        formula = _FRACTION.sub(lambda one: f" {_ratio(one[1], one[2])} ", formula)
    formula = _BOUNDS.sub(lambda one: f" {one[1] or one[2]}, {one[3] or one[4]} ", formula)
    formula = _LOWERED.sub(lambda one: f" {one[1] or one[2]} ", formula)
    formula = _COMMAND.sub(_command, _POWER.sub(_raised, formula))
    return " ".join(formula.translate(_LAYOUT).split())


def _ratio(top: str, bottom: str) -> str:
    top, bottom = top.strip(), bottom.strip()
    if re.fullmatch("[1-9]/[2-9]", f"{top}/{bottom}"):
        return f"{top}/{bottom}"
    return f"{top} ÷ {bottom}"


def _bracketed(inside: str) -> str:
    return inside.strip() if inside.strip().isalnum() else f"({inside})"


def _raised(match: re.Match[str]) -> str:
    inside = match[1].strip()
    return f"^{inside}" if re.fullmatch(r"[-+]?\w{1,4}", inside) else f"^({inside})"


def _command(match: re.Match[str]) -> str:
    name = match[1]
    if name is None:
        return match[2] if match[2] in "%$&#_" else " "
    plain = name[0].lower() + name[1:]
    if name in _SIGNS:
        return f" {_SIGNS[name]} "
    return f" {_FULL_NAMES.get(name) or (plain if plain in _NAMES else '')} "
