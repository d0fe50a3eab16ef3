"""Markup in a text: pauses, changes of voice and style, and a subset of SSML.

    [pause:500ms]  [pause:1.5s]
    [voice:ben]  [voice:anna:whisper]  [/voice]
    [style:whisper]  [/style]
    <break time="500ms"/>  <break strength="strong"/>  <break/>
    <say-as interpret-as="characters|digits|telephone|date|time|cardinal|ordinal">…</say-as>
    <sub alias="spoken text">written text</sub>
    <p>…</p>  <s>…</s>  <speak>…</speak>

A voice or a style applies until the next such tag: `[style:...]` keeps the person, `[/style]`
returns to the person's normal style, and `[/voice]` to the voice that the request names.

A blank line separates paragraphs, as `<p>` does. An unknown tag is an error that names it, because
a tag must never be spoken. A `<` or a `[` that begins no tag is text.

SSML: W3C Speech Synthesis Markup Language 1.1, sections 3.1.8 to 3.1.11 and 3.2.3.
"""

import re
from dataclasses import dataclass, field, replace
from html import unescape

from xtts.text.cleaning import speakable
from xtts.text.errors import TextError, shown
from xtts.text.normalization.registry import KINDS, LanguageRules, say_as

PARAGRAPH_SECONDS = 0.6
MOST_PAUSE_SECONDS = 10.0
# The limit of all pauses in a text together.
MOST_PAUSES_SECONDS = 60.0
# SSML leaves their durations to the synthesizer.
STRENGTHS = {
    "none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.0,
}  # fmt: skip
TAGS = ("speak", "p", "s", "break", "say-as", "sub")
# A malformed tag with one of these names is an error, not text.
_SSML = (
    *TAGS, "audio", "desc", "emphasis", "lang", "lexicon", "lookup", "mark", "meta", "metadata",
    "paragraph", "phoneme", "prosody", "sentence", "token", "voice", "w",
)  # fmt: skip
_NAME = r"[A-Za-z][A-Za-z0-9_.:-]{0,40}"
_ATTRIBUTE = re.compile(r"""\s+([A-Za-z][A-Za-z0-9_.:-]{0,40})\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)')""")
_TAG = re.compile(rf"""<(/?)({_NAME})((?:\s+{_NAME}\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*)\s*(/?)>""")
_BEGUN = re.compile(rf"</?\s*({'|'.join(sorted(_SSML, key=len, reverse=True))})(?![\w-])", re.I)
_PROLOGUE = re.compile(r"<\?xml[^<>]*\?>|<!--(?:(?!-->)[^<])*-->|<!DOCTYPE[^<>]*>", re.I)
# A style follows the last colon of a voice's name.
STYLE_MARK = ":"
VOICE = re.compile(r"\[\s*(?:(voice|style)\s*:\s*([^\[\]\n]{1,100}?)|/\s*(voice|style))\s*\]", re.I)
PAUSE = re.compile(r"\[\s*pause\s*:\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(ms|s)\s*\]", re.I)
_KNOWN_BRACKETS = "[pause:500ms], [voice:NAME] and [style:NAME]"
# A malformed pause; `[name:value]`; and SSML's names, even without a closing bracket.
_BRACKETS = re.compile(
    r"\[\s*(/?pause\b[^\[\]]*)\]?"
    r"|\[(?:([a-z][a-z-]{1,20}):[^\s\[\]]{1,40}\]"
    rf"|({'|'.join(one for one in _SSML if len(one) > 2)})(?::|\s+[a-z-]+=))",
    re.I,
)
_TIME = re.compile(r"\+?([0-9]{1,6}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*(ms|s)", re.I)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*|\u2029\s*")


@dataclass(frozen=True)
class MarkedText:
    """Text between two pauses or changes of voice. before: seconds of silence before it; after:
    seconds of silence after the last one, else 0; voice: as `voice_after` returns it."""

    text: str
    before: float = 0.0
    after: float = 0.0
    voice: str = ""


def voices_named(text: str) -> list[str]:
    """The voices that a text changes to, each once and in order, without "". Does not validate the
    text."""
    named, voice = dict[str, None](), ""
    for tag in VOICE.finditer(text) if "[" in text else ():
        voice = voice_after(tag, voice)
        named[voice] = None
    return [one for one in named if one]


def voice_after(tag: re.Match[str], voice: str) -> str:
    """The voice after a tag of `VOICE`: NAME, NAME:STYLE, :STYLE for a style of the request's
    voice, or "" for the request's voice."""
    person = voice.rpartition(STYLE_MARK)[0] if STYLE_MARK in voice else voice
    if tag[3]:
        return "" if tag[3].lower() == "voice" else person
    name = " ".join(tag[2].split())
    return name if tag[1].lower() == "voice" else f"{person}{STYLE_MARK}{name}"


def of_request(named: str, voice: str) -> str:
    """The full name of a voice from a text. voice: the request's voice, to which a style such as
    ":whisper" belongs."""
    if not named.startswith(STYLE_MARK):
        return named
    return (voice.rpartition(STYLE_MARK)[0] or voice) + named


def marked_texts(text: str, language: LanguageRules | None) -> list[MarkedText]:
    """Divides a text with markup into marked texts with words, and their pauses. language: reads
    `say-as`.

    Raises TextError for a tag that is unknown, not closed or malformed, and for pauses of more than
    a minute in total.
    """
    if "<" not in text and "[" not in text and not _BLANK_LINE.search(text):
        return [MarkedText(text)]
    # In an SSML document `&lt;` is an entity; elsewhere an ampersand is a character.
    return _Reader(language, escaped=bool(re.search(r"<speak\b", text, re.I))).read(text)


@dataclass
class _Reader:
    """The state of the parser. open: the open tags, with their attributes and the text before
    them."""

    language: LanguageRules | None
    escaped: bool
    said: list[MarkedText] = field(default_factory=list)
    pause: float = 0.0
    total: float = 0.0
    # The part of `pause` that comes from paragraphs, which is dropped after the last word.
    between: float = 0.0
    text: str = ""
    open: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    voice: str = ""

    @property
    def inside(self) -> str:
        """The innermost open tag, if it may contain text only."""
        return self.open[-1][0] if self.open and self.open[-1][0] in ("say-as", "sub") else ""

    def read(self, text: str) -> list[MarkedText]:
        text = _PROLOGUE.sub(" ", text) if self.escaped else text
        tags = [*_TAG.finditer(text), *PAUSE.finditer(text), *VOICE.finditer(text)]
        place = 0
        for tag in sorted(tags, key=lambda one: one.start()):
            if tag.start() < place:  # in an attribute
                continue
            self._words(text[place : tag.start()])
            place = tag.end()
            if tag.re is _TAG:
                self._tag(tag)
            elif tag.re is PAUSE:
                self._wait(_seconds(tag[1], tag[2]))
            else:
                self._refuse_inside_words("a change of voice")
                self._flush()
                self.voice = voice_after(tag, self.voice)
        self._words(text[place:])
        return self._ended()

    def _ended(self) -> list[MarkedText]:
        if self.open:
            raise TextError(
                f"The tag <{self.open[-1][0]}> is not closed: write "
                f"</{self.open[-1][0]}> after its text."
            )
        self._flush()
        for one in self.said if self.escaped else ():
            # From `&lt;break/&gt;` or an alias: text that looks like a tag must not be spoken.
            if match := _TAG.search(one.text) or _BEGUN.search(one.text):
                raise TextError(
                    f"The text contains {shown(match[0])}, a tag inside words; remove it."
                )
        if self.said and (after := self.pause - self.between) > 0:
            self.said[-1] = replace(self.said[-1], after=after)
        return self.said

    def _words(self, text: str) -> None:
        """Reads text between tags. Raises TextError for a malformed tag."""
        if begun := _BEGUN.search(text):
            raise TextError(
                f"The tag {shown(text[begun.start() : begun.start() + 30])} is malformed; "
                f'write <{begun[1].lower()} name="value"> with its quotes and its >.'
            )
        if match := _BRACKETS.search(text):
            if match[1] is not None:
                raise TextError(
                    f"{shown(match[0])} is not a valid pause; write [pause:500ms] or [pause:1.5s]."
                )
            raise TextError(
                f"The tag {shown(match[0])} is unknown ({match[2] or match[3]}); known "
                f"are {_KNOWN_BRACKETS}."
            )
        for number, part in enumerate([text] if self.inside else _BLANK_LINE.split(text)):
            if number:
                self._wait(PARAGRAPH_SECONDS, paragraph=True)
            self.text += unescape(part) if self.escaped else part

    def _tag(self, tag: re.Match[str]) -> None:
        closing, name, closed = bool(tag[1]), tag[2].lower(), bool(tag[4])
        if name not in TAGS:
            raise TextError(
                f"The tag <{tag[1]}{tag[2]}> is unknown. Known are "
                f"{', '.join(f'<{one}>' for one in TAGS)}, {_KNOWN_BRACKETS}."
            )
        if not (closing and name == self.inside):
            self._refuse_inside_words(f"<{name}>")
        attributes = {
            match[1].lower(): match[2] if match[2] is not None else match[3]
            for match in _ATTRIBUTE.finditer(tag[3])
        }
        if name == "break":
            if not closing:  # <break></break> is one break
                self._wait(_break(attributes))
        elif closing:
            self._close(name)
        elif not closed:
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
            self._wait(PARAGRAPH_SECONDS, paragraph=True)
        self.open.append((name, attributes, self.text))
        if name in ("say-as", "sub"):
            self.text = ""

    def _close(self, name: str) -> None:
        if not self.open or self.open[-1][0] != name:
            raise TextError(f"</{name}> closes a tag that is not open.")
        _, attributes, before = self.open.pop()
        if name == "say-as":
            kind, form = attributes["interpret-as"].lower(), attributes.get("format", "")
            self.text = before + say_as(kind, self.text.strip(), form, self.language)
        elif name == "sub":
            alias = attributes["alias"]
            if any(tag.search(alias) for tag in (PAUSE, VOICE, _BRACKETS)):
                raise TextError(f"The alias {shown(alias)} contains a tag; write words.")
            self.text = before + (unescape(alias) if self.escaped else alias)
        elif name == "p":
            self._wait(PARAGRAPH_SECONDS, paragraph=True)

    def _wait(self, seconds: float, *, paragraph: bool = False) -> None:
        """Adds a pause. Paragraphs add none before the first word or after the last."""
        self._refuse_inside_words("a pause")
        if paragraph and not self.text.strip():
            return
        self._flush()
        self.pause += seconds
        self.between += seconds if paragraph else 0.0
        self.total += seconds
        # Rounded to milliseconds, as shown, so that 600 pauses of 0.1 s are exactly a minute.
        if (total := round(self.total, 3)) > MOST_PAUSES_SECONDS:
            raise TextError(
                f"The pauses of this text add up to {total:g} s; at most "
                f"{MOST_PAUSES_SECONDS:g} s are allowed."
            )

    def _refuse_inside_words(self, what: str) -> None:
        if self.inside:
            raise TextError(f"<{self.inside}> may contain text only, not {what}.")

    def _flush(self) -> None:
        if speakable(self.text):
            self.said.append(MarkedText(self.text, self.pause, voice=self.voice))
            self.pause = 0.0
        if self.text.strip():
            self.between = 0.0
        self.text = ""


def _break(attributes: dict[str, str]) -> float:
    """The duration of a `<break>` in seconds."""
    if "time" in attributes:
        match = _TIME.fullmatch(attributes["time"].strip())
        if match is None:
            raise TextError(
                f'<break time={shown(attributes["time"])}> is not valid: write "500ms" or "1.5s".'
            )
        return _seconds(match[1], match[2])
    strength = attributes.get("strength", "medium").lower()
    if strength not in STRENGTHS:
        raise TextError(
            f"<break strength={shown(strength)}> is unknown; known are {', '.join(STRENGTHS)}."
        )
    return STRENGTHS[strength]


def _seconds(number: str, unit: str) -> float:
    seconds = float(number) / (1000 if unit.lower() == "ms" else 1)
    if seconds > MOST_PAUSE_SECONDS:
        raise TextError(
            f"A pause of {seconds:g} s is too long; at most {MOST_PAUSE_SECONDS:g} s are allowed."
        )
    return seconds
