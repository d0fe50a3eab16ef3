"""Reads a subset of SSML, and the tags in brackets (MARKUP in `machine.extras`).

    <break time="500ms"/>  <break strength="strong"/>  <break/>
    <say-as interpret-as="characters|digits|telephone|date|time|cardinal|ordinal">…</say-as>
    <sub alias="spoken text">written text</sub>
    <p>…</p>  <s>…</s>  <speak>…</speak>

An unknown tag is an error that names it, because a tag must never be spoken. A `<` that begins no
tag is text.

W3C Speech Synthesis Markup Language 1.1, sections 3.1.8 to 3.1.11 and 3.2.3.
"""

import re
from html import unescape
from typing import NamedTuple

from extras.ssml.say_as import KINDS, say_as
from xtts.text import markup
from xtts.text.errors import TextError, excerpt
from xtts.text.markup import PARAGRAPH_SECONDS, PAUSE_TAG, VOICE_TAG, MarkedText, MarkupReader, seconds_of
from xtts.text.normalization.registry import LanguageRules

# The seconds of a break by its strength; SSML leaves them to the synthesizer.
BREAK_SECONDS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.0}
TAGS = ("speak", "p", "s", "break", "say-as", "sub")
# A malformed tag with one of these names is an error, not text.
_SSML_NAMES = (
    *TAGS,
    "audio",
    "desc",
    "emphasis",
    "lang",
    "lexicon",
    "lookup",
    "mark",
    "meta",
    "metadata",
    "paragraph",
    "phoneme",
    "prosody",
    "sentence",
    "token",
    "voice",
    "w",
)
_NAME = r"[A-Za-z][A-Za-z0-9_.:-]{0,40}"
_ATTRIBUTE = re.compile(r"""\s+([A-Za-z][A-Za-z0-9_.:-]{0,40})\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)')""")
_TAG = re.compile(rf"""<(/?)({_NAME})((?:\s+{_NAME}\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*)\s*(/?)>""")
_TAG_START = re.compile(rf"</?\s*({'|'.join(sorted(_SSML_NAMES, key=len, reverse=True))})(?![\w-])", re.I)
_PROLOGUE = re.compile(r"<\?xml[^<>]*\?>|<!--(?:(?!-->)[^<])*-->|<!DOCTYPE[^<>]*>", re.I)
# A tag of SSML in brackets, even without a closing one.
_TAG_IN_BRACKETS = re.compile(
    rf"\[({'|'.join(name for name in _SSML_NAMES if len(name) > 2)})"
    r"(?::[^\s\[\]]{1,40}\]|:|\s+[a-z-]+=)",
    re.I,
)
_TIME = re.compile(r"\+?([0-9]{1,6}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*(ms|s)", re.I)


class OpenTag(NamedTuple):
    """A tag that is not closed yet, and the text since the last pause that precedes it."""

    name: str
    attributes: dict[str, str]
    text_before: str


class Reader(MarkupReader):
    """Reads one text with SSML and tags in brackets.

    Attributes:
        open_tags: The innermost is the last.
        is_document: Whether the text is an SSML document, in which `&lt;` is an entity.
    """

    patterns = (_TAG, *MarkupReader.patterns)

    def __init__(self, rules: LanguageRules | None) -> None:
        super().__init__(rules)
        self.open_tags = list[OpenTag]()
        self.is_document = False

    def read(self, text: str) -> list[MarkedText]:
        self.is_document = bool(re.search(r"<speak\b", text, re.I))
        parts = super().read(_PROLOGUE.sub(" ", text) if self.is_document else text)
        if self.open_tags:
            name = self.open_tags[-1].name
            raise TextError(f"The tag <{name}> is not closed: write </{name}> after its text.")
        for part in parts if self.is_document else ():
            # From `&lt;break/&gt;` or an alias: text that looks like a tag must not be spoken.
            if match := _TAG.search(part.text) or _TAG_START.search(part.text):
                raise TextError(f"The text contains {excerpt(match[0])}, a tag inside words; remove it.")
        return parts

    @property
    def text_tag(self) -> str:
        """The name of the innermost open tag if it may contain text only; otherwise ""."""
        name = self.open_tags[-1].name if self.open_tags else ""
        return name if name in ("say-as", "sub") else ""

    def before_break(self, what: str) -> None:
        if self.text_tag:
            raise TextError(f"<{self.text_tag}> may contain text only, not {what}.")

    def add_text(self, text: str) -> None:
        if start := _TAG_START.search(text):
            raise TextError(
                f"The tag {excerpt(text[start.start() : start.start() + 30])} is malformed; "
                f'write <{start[1].lower()} name="value"> with its quotes and its >.'
            )
        if match := _TAG_IN_BRACKETS.search(text):
            raise markup.unknown_tag_error(match[0], match[1])
        super().add_text(text)

    def paragraphs(self, text: str) -> list[str]:
        parts = [text] if self.text_tag else super().paragraphs(text)
        return list(map(unescape, parts)) if self.is_document else parts

    def read_tag(self, match: re.Match[str]) -> None:
        if match.re is not _TAG:
            super().read_tag(match)
            return
        is_end, name, is_empty = bool(match[1]), match[2].lower(), bool(match[4])
        if name not in TAGS:
            raise TextError(
                f"The tag <{match[1]}{match[2]}> is unknown. Known are "
                f"{', '.join(f'<{tag}>' for tag in TAGS)}, {markup.TAG_EXAMPLES}."
            )
        if not (is_end and name == self.text_tag):
            self.before_break(f"<{name}>")
        attributes = {
            match[1].lower(): match[2] if match[2] is not None else match[3]
            for match in _ATTRIBUTE.finditer(match[3])
        }
        if name == "break":
            if not is_end:  # <break></break> is one break
                self.add_pause(_break_seconds(attributes))
        elif is_end:
            self._close(name)
        elif not is_empty:
            self._open(name, attributes)

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        if name == "say-as" and attributes.get("interpret-as", "").lower() not in KINDS:
            raise TextError(
                f'<say-as interpret-as="{attributes.get("interpret-as", "")[:30]}"> is unknown. '
                f"Known are {', '.join(KINDS)}."
            )
        if name == "sub" and "alias" not in attributes:
            raise TextError('<sub> needs the text to speak: <sub alias="…">.')
        if name == "p":
            self.add_pause(PARAGRAPH_SECONDS, paragraph=True)
        self.open_tags.append(OpenTag(name, attributes, self.text))
        if name in ("say-as", "sub"):
            self.text = ""

    def _close(self, name: str) -> None:
        if not self.open_tags or self.open_tags[-1].name != name:
            raise TextError(f"</{name}> closes a tag that is not open.")
        _, attributes, text_before = self.open_tags.pop()
        if name == "say-as":
            kind, form = attributes["interpret-as"].lower(), attributes.get("format", "")
            self.text = text_before + say_as(kind, self.text.strip(), form, self.rules)
        elif name == "sub":
            alias = attributes["alias"]
            if any(
                pattern.search(alias)
                for pattern in (PAUSE_TAG, VOICE_TAG, markup.MALFORMED_TAG, _TAG_IN_BRACKETS)
            ):
                raise TextError(f"The alias {excerpt(alias)} contains a tag; write words.")
            self.text = text_before + (unescape(alias) if self.is_document else alias)
        elif name == "p":
            self.add_pause(PARAGRAPH_SECONDS, paragraph=True)


def _break_seconds(attributes: dict[str, str]) -> float:
    """The duration of a `<break>` in seconds."""
    if "time" in attributes:
        match = _TIME.fullmatch(attributes["time"].strip())
        if match is None:
            raise TextError(
                f'<break time={excerpt(attributes["time"])}> is not valid: write "500ms" or "1.5s".'
            )
        return seconds_of(match[1], match[2])
    strength = attributes.get("strength", "medium").lower()
    if strength not in BREAK_SECONDS:
        raise TextError(
            f"<break strength={excerpt(strength)}> is unknown; known are {', '.join(BREAK_SECONDS)}."
        )
    return BREAK_SECONDS[strength]
