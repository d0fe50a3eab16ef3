"""Markup in a text: pauses, and changes of voice and style.

    [pause:500ms]  [pause:1.5s]
    [voice:ben]  [voice:anna:whisper]  [/voice]
    [style:whisper]  [/style]

A voice or a style applies until the next such tag: `[style:...]` keeps the person, `[/style]`
returns to the person's normal style, and `[/voice]` to the voice that the request names. A blank
line separates paragraphs.

An unknown tag is an error that names it, because a tag must never be spoken. A `[` that begins no
tag is text. `extras/ssml` adds SSML.
"""

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from machine import extras
from xtts.text.errors import TextError, excerpt
from xtts.text.normalization.registry import LanguageRules
from xtts.text.reading import speakable

PARAGRAPH_SECONDS = 0.6
MAX_PAUSE_SECONDS = 10.0
# The limit of all pauses in a text together.
MAX_TOTAL_PAUSE_SECONDS = 60.0
# A style follows the last colon of a voice's name.
STYLE_MARK = ":"
VOICE_TAG = re.compile(r"\[\s*(?:(voice|style)\s*:\s*([^\[\]\n]{1,100}?)|/\s*(voice|style))\s*\]", re.I)
PAUSE_TAG = re.compile(r"\[\s*pause\s*:\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(ms|s)\s*\]", re.I)
TAG_EXAMPLES = "[pause:500ms], [voice:NAME] and [style:NAME]"
# A malformed pause; `[name:value]`; and a voice, even without a closing bracket.
MALFORMED_TAG = re.compile(
    r"\[\s*(/?pause\b[^\[\]]*)\]?"
    r"|\[(?:([a-z][a-z-]{1,20}):[^\s\[\]]{1,40}\]|(voice)(?::|\s+[a-z-]+=))",
    re.I,
)
# What only `extras/ssml` can read.
_SSML = re.compile(r"</?\s*(?:(?:speak|break|say-as|sub|prosody)\b[^<>]*>?|[ps]\s*>)", re.I)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*|\u2029\s*")


@dataclass(frozen=True)
class MarkedText:
    """Text between two pauses or changes of voice.

    Attributes:
        before: Seconds of silence before it.
        after: Seconds of silence after the last text; otherwise 0.
        voice: As `voice_after` returns it.
    """

    text: str
    before: float = 0.0
    after: float = 0.0
    voice: str = ""


def voices_named(text: str) -> list[str]:
    """The voices that a text changes to, each once and in order, without "". Does not validate the
    text."""
    voices, voice = dict[str, None](), ""
    for tag in VOICE_TAG.finditer(text) if "[" in text else ():
        voice = voice_after(tag, voice)
        voices[voice] = None
    return [voice for voice in voices if voice]


def voice_after(tag: re.Match[str], voice: str) -> str:
    """The voice after a tag of `VOICE_TAG`: NAME, NAME:STYLE, :STYLE for a style of the request's
    voice, or "" for the request's voice."""
    person = _person_of(voice)
    if tag[3]:
        return "" if tag[3].lower() == "voice" else person
    name = " ".join(tag[2].split())
    return name if tag[1].lower() == "voice" else f"{person}{STYLE_MARK}{name}"


def full_voice_name(name: str, voice: str) -> str:
    """The full name of a voice in a text. A style such as ":whisper" belongs to the request's
    `voice`."""
    return (_person_of(voice) or voice) + name if name.startswith(STYLE_MARK) else name


def _person_of(voice: str) -> str:
    """A voice's name without its style; "" for a style alone, such as ":whisper"."""
    return voice.rpartition(STYLE_MARK)[0] if STYLE_MARK in voice else voice


def marked_texts(text: str, rules: LanguageRules | None) -> list[MarkedText]:
    """Divides a text with markup into marked texts, with their pauses, by the rules of its language.

    Raises TextError for a tag that is unknown, not closed or malformed, and for pauses of more than
    a minute in total.
    """
    if "<" not in text and "[" not in text and not _BLANK_LINE.search(text):
        return [MarkedText(text)]
    if ssml := extras.first("MARKUP"):
        reader: MarkupReader = ssml.Reader(rules)
        return reader.read(text)
    if tag := _SSML.search(text):
        raise TextError(f"The tag {excerpt(tag[0])} needs extras/ssml, which this copy of Sotaque lacks.")
    return MarkupReader(rules).read(text)


class MarkupReader:
    """Reads one text. A subclass adds `patterns`, and reads them in `read_tag`.

    Attributes:
        text: The words since the last pause or change of voice.
        rules: Those of the text's language.
    """

    patterns: ClassVar[tuple[re.Pattern[str], ...]] = (PAUSE_TAG, VOICE_TAG)

    def __init__(self, rules: LanguageRules | None) -> None:
        self.rules = rules
        self.text = ""
        self._texts = list[MarkedText]()
        self._voice = ""
        self._pause = self._total_pause = 0.0
        # The part of `_pause` that comes from paragraphs, which is dropped after the last word.
        self._paragraph_pause = 0.0

    def read(self, text: str) -> list[MarkedText]:
        """The marked texts. Raises TextError as `marked_texts`."""
        tags = [tag for pattern in self.patterns for tag in pattern.finditer(text)]
        position = 0
        for tag in sorted(tags, key=lambda tag: tag.start()):
            if tag.start() < position:  # in an attribute
                continue
            self.add_text(text[position : tag.start()])
            position = tag.end()
            self.read_tag(tag)
        self.add_text(text[position:])
        self._flush()
        if self._texts and (after := self._pause - self._paragraph_pause) > 0:
            self._texts[-1] = replace(self._texts[-1], after=after)
        return self._texts

    def read_tag(self, match: re.Match[str]) -> None:
        """Reads a tag."""
        if match.re is PAUSE_TAG:
            self.add_pause(seconds_of(match[1], match[2]))
        else:
            self.before_break("a change of voice")
            self._flush()
            self._voice = voice_after(match, self._voice)

    def add_text(self, text: str) -> None:
        """Reads text between tags. Raises TextError for a malformed tag."""
        if match := MALFORMED_TAG.search(text):
            if match[1] is not None:
                raise TextError(
                    f"{excerpt(match[0])} is not a valid pause; write [pause:500ms] or [pause:1.5s]."
                )
            raise unknown_tag_error(match[0], match[2] or match[3])
        for number, part in enumerate(self.paragraphs(text)):
            if number:
                self.add_pause(PARAGRAPH_SECONDS, paragraph=True)
            self.text += part

    def paragraphs(self, text: str) -> list[str]:
        """The paragraphs of text between tags."""
        return _BLANK_LINE.split(text)

    def before_break(self, what: str) -> None:
        """Called before a pause or a change of voice; a subclass may raise TextError here."""

    def add_pause(self, seconds: float, *, paragraph: bool = False) -> None:
        """Adds a pause. Paragraphs add none before the first word or after the last."""
        self.before_break("a pause")
        if paragraph and not self.text.strip():
            return
        self._flush()
        self._pause += seconds
        self._paragraph_pause += seconds if paragraph else 0.0
        self._total_pause += seconds
        # Rounded to milliseconds, as shown, so that 600 pauses of 0.1 s are exactly a minute.
        if (total := round(self._total_pause, 3)) > MAX_TOTAL_PAUSE_SECONDS:
            raise TextError(
                f"The pauses of this text add up to {total:g} s; at most "
                f"{MAX_TOTAL_PAUSE_SECONDS:g} s are allowed."
            )

    def _flush(self) -> None:
        if speakable(self.text):
            self._texts.append(MarkedText(self.text, self._pause, voice=self._voice))
            self._pause = 0.0
        if self.text.strip():
            self._paragraph_pause = 0.0
        self.text = ""


def unknown_tag_error(tag: str, name: str) -> TextError:
    """The error for a tag with an unknown name."""
    return TextError(f"The tag {excerpt(tag)} is unknown ({name}); known are {TAG_EXAMPLES}.")


def seconds_of(number: str, unit: str) -> float:
    """The seconds of a pause. Raises TextError if they are too many."""
    seconds = float(number) / (1000 if unit.lower() == "ms" else 1)
    if seconds > MAX_PAUSE_SECONDS:
        raise TextError(f"A pause of {seconds:g} s is too long; at most {MAX_PAUSE_SECONDS:g} s are allowed.")
    return seconds
