"""Reads simple formulas of MathML as text: `m = 5`, `x² + y²`, `√2`, `½`.

Others, such as sums and matrices, have no words here: they are left out, and counted.
"""

import re
from dataclasses import dataclass, field

from extras.books.formats.raised import subscript, superscript, with_meaning

_TOKEN_TAGS = frozenset(("mi", "mn", "mo", "mtext", "ms"))
_ROW_TAGS = frozenset(("math", "mrow", "mstyle", "mpadded", "merror"))
_UNREAD_TAGS = frozenset(("annotation", "annotation-xml", "mspace", "mphantom", "maligngroup"))
_MAX_DEPTH, _MAX_ELEMENTS = 40, 400
# Function application and invisible operators.
_INVISIBLE = re.compile("[\u2061-\u2064\u200b]")
_SPACE_BEFORE_SIGN = re.compile(r"\s+([),.;:!%\]’°])")
_SPACE_AFTER_BRACKET = re.compile(r"([(\[])\s+")
_READABLE_ALTERNATIVE = re.compile(r"[^\\^_{}$<>]{1,200}")


class _UnreadableFormula(Exception):
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
        self._open_nodes = [self._root]
        self._num_elements = 0

    def start(self, tag: str) -> None:
        """Begins an element."""
        self._num_elements += 1
        node = _Node(tag)
        if self._num_elements <= _MAX_ELEMENTS:
            self._open_nodes[-1].children.append(node)
            self._open_nodes.append(node)

    def end(self, tag: str) -> None:
        """Ends an element."""
        tags = [node.tag for node in self._open_nodes[1:]]
        if tag in tags:
            del self._open_nodes[len(tags) - tags[::-1].index(tag) :]

    def add_text(self, text: str) -> None:
        """Adds text of an element."""
        if self._num_elements <= _MAX_ELEMENTS:
            self._open_nodes[-1].text += text

    def as_text(self) -> str:
        """The formula as text; "" if it cannot be read."""
        try:
            if self._num_elements > _MAX_ELEMENTS:
                raise _UnreadableFormula
            text = _SPACE_BEFORE_SIGN.sub(r"\1", " ".join(_read_children(self._root, 0).split()))
            return with_meaning(_SPACE_AFTER_BRACKET.sub(r"\1", text))
        except _UnreadableFormula:
            plain = _READABLE_ALTERNATIVE.fullmatch(self._alternative)
            return self._alternative if plain else ""


def _read_children(node: _Node, depth: int) -> str:
    return " ".join(filter(None, (_read_node(child, depth + 1) for child in node.children)))


def _read_node(node: _Node, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise _UnreadableFormula
    if node.tag == "semantics":  # the formula, then other forms of it
        node = _Node("mrow", children=node.children[:1])
    if node.tag in _TOKEN_TAGS:
        return " ".join(_INVISIBLE.sub("", node.text).split())
    if node.tag in _UNREAD_TAGS:
        return ""
    if node.tag in _ROW_TAGS:
        return _read_children(node, depth)
    return _combine(node.tag, [_read_node(child, depth + 1) for child in node.children])


def _combine(tag: str, parts: list[str]) -> str:
    """The text of a power, an index, a fraction or brackets. parts: the texts of its children."""
    match tag, parts:
        case "mfenced", _:
            return f"({', '.join(parts)})"
        case "msup", [base, exponent]:
            return base + _exponent_signs(exponent)
        case "msub", [base, index]:
            return base + _index_signs(index)
        case "msubsup", [base, index, exponent]:
            return base + _index_signs(index) + _exponent_signs(exponent)
        case "msqrt", [*inside] if inside:
            root = " ".join(inside)
            return f"√{root}" if root.isalnum() else f"√({root})"
        case "mfrac", [top, bottom] if _is_short(top) and _is_short(bottom):
            if top.isdigit() and bottom.isdigit():
                return with_meaning(f"{superscript(top)}/{subscript(bottom)}")
            return f"{top}/{bottom}"
    raise _UnreadableFormula


def _exponent_signs(exponent: str) -> str:
    plain = exponent.replace(" ", "")
    if (mark := superscript(plain)) == plain:
        raise _UnreadableFormula
    return mark


def _index_signs(index: str) -> str:
    mark = subscript(index)
    return mark if mark != index else f" {index}"  # such as "x i"


def _is_short(text: str) -> bool:
    return bool(text) and len(text) <= 6 and " " not in text
