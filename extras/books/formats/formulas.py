"""Reads simple formulas of MathML as text: `m = 5`, `x² + y²`, `√2`, `½`.

Others, such as sums and matrices, have no words here: they are left out, and counted.
"""

import re
from dataclasses import dataclass, field

from extras.books.formats.raised import subscript, superscript, with_meaning

_TOKENS = frozenset(("mi", "mn", "mo", "mtext", "ms"))
_ROWS = frozenset(("math", "mrow", "mstyle", "mpadded", "merror"))
_SILENT = frozenset(("annotation", "annotation-xml", "mspace", "mphantom", "maligngroup"))
_MAX_DEPTH, _MAX_ELEMENTS = 40, 400
# Function application and invisible operators.
_INVISIBLE = re.compile("[\u2061-\u2064\u200b]")
_TIGHT_BEFORE = re.compile(r"\s+([),.;:!%\]’°])")
_TIGHT_AFTER = re.compile(r"([(\[])\s+")
_PLAIN_ALTERNATIVE = re.compile(r"[^\\^_{}$<>]{1,200}")


class _Complex(Exception):
    """A formula that cannot be read."""


@dataclass
class _Node:
    tag: str
    text: str = ""
    children: list["_Node"] = field(default_factory=list)


class Formula:
    """A formula while its elements are parsed. alternative: its `alttext`."""

    def __init__(self, alternative: str) -> None:
        self._alternative = " ".join(alternative.split())
        self._root = _Node("math")
        self._open = [self._root]
        self._count = 0

    def start(self, tag: str) -> None:
        """An element begins."""
        self._count += 1
        node = _Node(tag)
        if self._count <= _MAX_ELEMENTS:
            self._open[-1].children.append(node)
            self._open.append(node)

    def end(self, tag: str) -> None:
        """An element ends."""
        tags = [node.tag for node in self._open[1:]]
        if tag in tags:
            del self._open[len(tags) - tags[::-1].index(tag) :]

    def data(self, text: str) -> None:
        """Text inside an element."""
        if self._count <= _MAX_ELEMENTS:
            self._open[-1].text += text

    def spoken(self) -> str:
        """The formula as text; "" if it cannot be read."""
        try:
            if self._count > _MAX_ELEMENTS:
                raise _Complex
            text = _TIGHT_BEFORE.sub(r"\1", " ".join(_row(self._root, 0).split()))
            return with_meaning(_TIGHT_AFTER.sub(r"\1", text))
        except _Complex:
            plain = _PLAIN_ALTERNATIVE.fullmatch(self._alternative)
            return self._alternative if plain else ""


def _row(node: _Node, depth: int) -> str:
    return " ".join(filter(None, (_read(child, depth + 1) for child in node.children)))


def _read(node: _Node, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise _Complex
    if node.tag == "semantics":  # the formula, then other forms of it
        node = _Node("mrow", children=node.children[:1])
    if node.tag in _TOKENS:
        return " ".join(_INVISIBLE.sub("", node.text).split())
    if node.tag in _SILENT:
        return ""
    if node.tag in _ROWS:
        return _row(node, depth)
    return _build(node.tag, [_read(child, depth + 1) for child in node.children])


def _build(tag: str, parts: list[str]) -> str:
    """A power, an index, a fraction or brackets. parts: as text."""
    match tag, parts:
        case "mfenced", _:
            return f"({', '.join(parts)})"
        case "msup", [base, exponent]:
            return base + _power(exponent)
        case "msub", [base, index]:
            return base + _index(index)
        case "msubsup", [base, index, exponent]:
            return base + _index(index) + _power(exponent)
        case "msqrt", [*inside] if inside:
            root = " ".join(inside)
            return f"√{root}" if root.isalnum() else f"√({root})"
        case "mfrac", [top, bottom] if _is_short(top) and _is_short(bottom):
            if top.isdigit() and bottom.isdigit():
                return with_meaning(f"{superscript(top)}/{subscript(bottom)}")
            return f"{top}/{bottom}"
    raise _Complex


def _power(exponent: str) -> str:
    plain = exponent.replace(" ", "")
    if (mark := superscript(plain)) == plain:
        raise _Complex
    return mark


def _index(index: str) -> str:
    mark = subscript(index)
    return mark if mark != index else f" {index}"  # such as "x i"


def _is_short(text: str) -> bool:
    return bool(text) and len(text) <= 6 and " " not in text
