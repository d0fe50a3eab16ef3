"""Parses XML from untrusted books, and refuses entities.

A DOCTYPE is allowed, because many EPUBs have one, but it must not define anything. Depth and the
number of elements are limited.
"""

from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from extras.books.book import BookError

MAX_ELEMENTS = 1_000_000
MAX_DEPTH = 200


def parse(content: bytes, where: str) -> Element:
    """The root of a document; names are `{namespace}name`.

    Raises BookError for XML that is not well-formed, defines entities, or exceeds the limits.
    """
    reader = _Reader(where)
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.builder.data
    parser.EntityDeclHandler = reader.entity
    parser.ExternalEntityRefHandler = reader.external
    try:
        parser.Parse(content, True)
        return reader.builder.close()
    except (expat.ExpatError, AssertionError, LookupError, ValueError) as error:
        raise BookError(f"{where} is not well-formed XML ({error}).") from error


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where
        self.builder = TreeBuilder()
        self._depth = self._count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._count += 1
        if self._depth > MAX_DEPTH or self._count > MAX_ELEMENTS:
            raise BookError(
                f"{self.where} has more than {MAX_ELEMENTS:,} elements, or more than "
                f"{MAX_DEPTH} levels of nesting. It is refused."
            )
        self.builder.start(
            _qualified_name(name), {_qualified_name(key): value for key, value in attributes.items()}
        )

    def end(self, name: str) -> None:
        self._depth -= 1
        self.builder.end(_qualified_name(name))

    def entity(self, name: str, *_: object) -> None:
        raise BookError(
            f"{self.where} defines the entity {name!r}. Entities could include files of this "
            "machine or endless text. It is refused. Convert the book to a file without a DOCTYPE."
        )

    def external(self, *_: object) -> int:
        raise BookError(f"{self.where} refers to an external file. It is refused.")


def _qualified_name(name: str) -> str:
    return "{" + name if "}" in name else name


def local(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition("}")[2]


def children(element: Element, name: str) -> list[Element]:
    """The children with a local name."""
    return [child for child in element if local(child.tag) == name]


def within(element: Element, name: str) -> list[Element]:
    """The descendants with a local name, in order."""
    return [descendant for descendant in element.iter() if local(descendant.tag) == name]
